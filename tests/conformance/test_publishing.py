"""The promises of publishing: C19, C20, C31 and C32."""

import os
import signal
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from tests.conformance.needs import needing, on_databases
from towpath import NewMessage

ONE = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}}}
TWO_TOPICS = {
    "topics": {"orders": {}, "returns": {}},
    "subscriptions": {"ship": {"topic": "orders"}, "restock": {"topic": "returns"}},
}
ID = "01890000-0000-7000-8000-000000000001"
MINUTE = timedelta(minutes=1)
no_ledger = on_databases("shows it in tests/unit/test_aws_ledger.py, on DynamoDB, which this LocalStack lacks")


def published(running, topic, *messages):
    return running.transport.publish(topic, list(messages))


def keyed(number, key="batch-1", **more):
    return NewMessage(payload={"number": number}, deduplication_key=key, **{"deduplication_ttl": MINUTE} | more)


def numbers(running, subscription=None):
    return [observation["payload"]["number"] for observation in running.observations(subscription)]


@needing("detects_duplicate_id")
@pytest.mark.case("C19", "same id and envelope (keys in another order): duplicate")
def test_the_same_id_and_envelope_is_a_duplicate(harness):
    with harness.transport(ONE) as running:
        first = NewMessage(id=ID, payload={"number": 1, "also": [2]}, attributes={"x": "1", "y": "2"})
        again = NewMessage(id=ID, payload={"also": [2], "number": 1}, attributes={"y": "2", "x": "1"})
        running.publish("orders", first)
        for _ in range(2):
            (result,) = published(running, "orders", again)
            assert (result.status, result.id) == ("duplicate", ID)
            running.work(1)
        assert numbers(running) == [1]


@needing("detects_duplicate_id")
@pytest.mark.case("C20", "same id and other envelope: conflict")
def test_the_same_id_with_another_envelope_is_a_conflict(harness):
    with harness.transport(ONE) as running:
        running.publish("orders", NewMessage(id=ID, payload={"number": 1}))
        others = [
            NewMessage(id=ID, payload={"number": 2}),
            NewMessage(id=ID, payload={"number": 1}, attributes={"x": "1"}),
            NewMessage(id=ID, payload={"number": 1}, partition_key="k"),
        ]
        for result in published(running, "orders", *others):
            assert (result.status, result.error.code, result.error.retryable) == (
                "rejected",
                "MessageIdConflict",
                False,
            )
        running.work(1)
        assert numbers(running) == [1]


@no_ledger
@pytest.mark.case("C31", "deduplication: sliding and fixed windows, other topic, expiry")
def test_a_deduplication_key_counts_for_its_topic_until_its_window_ends(harness):
    with harness.transport(TWO_TOPICS) as running:
        (first,) = running.publish("orders", keyed(1))
        running.publish("returns", keyed(2))
        for _ in range(3):  # a repeat in a sliding window renews it
            running.advance(40)
            (repeat,) = published(running, "orders", keyed(3))
            assert (repeat.status, repeat.id) == ("duplicate", first.id)
        running.advance(40)
        (repeat,) = published(running, "orders", keyed(4, deduplication_window="fixed"))
        assert repeat.status == "duplicate"
        running.advance(21)  # a repeat that says fixed does not
        (later,) = running.publish("orders", keyed(5, deduplication_window="fixed"))
        assert later.id != first.id
        running.work(3)
        assert sorted(numbers(running, "ship")) == [1, 5]
        assert numbers(running, "restock") == [2]


@no_ledger
@pytest.mark.case("C31", "deduplication: a reservation pending, a crash between reserve and confirm")
def test_a_reservation_that_is_pending_is_waited_for_and_ends_with_its_publisher(harness):
    """A publisher whose transaction is open has reserved the key; how it ends says who was first."""
    with harness.transport(ONE) as running:
        with open_publisher(running.url, "batch-1") as publisher:
            results = []
            rival = threading.Thread(target=lambda: results.extend(published(running, "orders", keyed(2))))
            rival.start()
            rival.join(1)
            assert results == [], "only the end of the other's transaction says who was first"
            publisher.stdin.write("commit\n")
            publisher.stdin.flush()
            rival.join(60)
            (result,) = results
            assert (result.status, result.id) == ("duplicate", publisher.stdout.readline().strip())
        with open_publisher(running.url, "batch-2") as publisher:
            os.kill(publisher.pid, signal.SIGKILL)
            publisher.wait()
            (result,) = published(running, "orders", keyed(3, key="batch-2"))
            assert result.status == "accepted"
        running.work(2)
        assert sorted(numbers(running)) == [1, 3]


OPEN_PUBLISHER = """
import sys
from local_transport.connections import Database
from towpath import NewMessage, connect
url, key = sys.argv[1:]
with connect(url) as transport, Database(url).engine.connect() as connection:
    new = NewMessage(payload={"number": 1}, deduplication_key=key)
    (result,) = transport.publish("orders", [new], connection=connection)
    print("reserved", flush=True)
    sys.stdin.readline()
    connection.commit()
    print(result.id, flush=True)
"""


def open_publisher(url, key):
    """A process that has published in a transaction of its own, and commits when it is told to."""
    command = [sys.executable, "-c", OPEN_PUBLISHER, url, key]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "reserved\n"
    return process


@pytest.mark.case("C32", "publish of a batch: one bad message rejects only itself")
def test_one_bad_message_rejects_only_itself(harness):
    with harness.transport(ONE) as running:
        batch = [NewMessage(payload={"number": number}) for number in range(12)]
        batch[3] = NewMessage(payload={"number": float("nan")})
        batch[7] = NewMessage(payload={"number": "x" * 300_000})
        results = published(running, "orders", *batch)
        assert [r.error.code if r.error else r.status for r in results] == [
            {3: "InvalidPayload", 7: "PayloadTooLarge"}.get(number, "accepted") for number in range(12)
        ]
        running.work(10)
        assert set(numbers(running)) == set(range(12)) - {3, 7}


@needing("ordered")
@pytest.mark.case("C32", "publish of a batch: order kept per key")
def test_a_batch_keeps_the_order_of_each_key(harness):
    subscription = {"topic": "orders", "partition_mode": "ordered"}
    topology = {"topics": {"orders": {"transport": "database"}}, "subscriptions": {"ship": subscription}}
    with harness.transport(topology) as running:
        batches = [[(key, n) for n in range(start, start + 10) for key in "abc"] for start in (0, 10)]
        for batch in batches:
            running.publish(
                "orders", *(NewMessage(payload={"number": n, "key": key}, partition_key=key) for key, n in batch)
            )
        running.work(60)
        seen = [observation["payload"] for observation in running.observations()]
        for key in "abc":
            assert [payload["number"] for payload in seen if payload["key"] == key] == list(range(20))


@on_databases("publishes each entry for itself")
@pytest.mark.case("C32", "publish of a batch: nothing is half visible after an error")
def test_nothing_of_a_call_is_visible_when_its_process_dies_before_the_commit(harness):
    with harness.transport(ONE) as running:
        program = """
import os, sys
from sqlalchemy import event
from towpath import NewMessage, connect
transport = connect(sys.argv[1])
event.listen(transport._database.engine, "commit", lambda connection: os.kill(os.getpid(), 9))
transport.publish("orders", [NewMessage(payload={"number": n}) for n in range(2_500)])
"""
        for _ in range(2):
            done = subprocess.run([sys.executable, "-c", program, running.url], capture_output=True, check=False)
            assert done.returncode == -signal.SIGKILL
        assert [row.pending for row in running.transport.operator().stats()] == [0]
        running.publish("orders", NewMessage(payload={"number": 7}))
        running.work(1)
        assert numbers(running) == [7]
