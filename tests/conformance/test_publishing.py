"""The promises of publishing: C19, C20, C31 and C32."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.conformance.harness import PATIENCE
from tests.conformance.needs import ONE_PROCESS, leaving_out, needing, on_databases
from tests.servers.aws_relay import aws_relay
from tests.servers.real_aws import RealAws
from towpath import NewMessage

ONE = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}}}
TWO_TOPICS = {
    "topics": {"orders": {"deduplication": True}, "returns": {"deduplication": True}},
    "subscriptions": {"ship": {"topic": "orders"}, "restock": {"topic": "returns"}},
}
ID = "01890000-0000-7000-8000-000000000001"
MINUTE = timedelta(minutes=1)
NO_LEDGER = {"local-mapping": "has no publisher of AWS's, and so no ledger"}
SAME_PUBLISHER = {"aws-lambda": "publishes as aws-worker does"}
KEYED = {"topics": {"orders": {"deduplication": True}}, "subscriptions": {"ship": {"topic": "orders"}}}


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


@leaving_out(NO_LEDGER)
@pytest.mark.case("C31", "deduplication: sliding and fixed windows, other topic, expiry")
def test_a_deduplication_key_counts_for_its_topic_until_its_window_ends(harness):
    with harness.transport(TWO_TOPICS) as running:
        (first,) = running.publish("orders", keyed(1))
        running.publish("returns", keyed(2))
        for _ in range(3):  # a repeat in a sliding window renews it
            running.age_keys(40)
            (repeat,) = published(running, "orders", keyed(3))
            assert (repeat.status, repeat.id) == ("duplicate", first.id)
        running.age_keys(40)
        (repeat,) = published(running, "orders", keyed(4, deduplication_window="fixed"))
        assert repeat.status == "duplicate"
        running.age_keys(21)  # a repeat that says fixed does not
        (later,) = running.publish("orders", keyed(5, deduplication_window="fixed"))
        assert later.id != first.id
        running.work(3)
        assert sorted(numbers(running, "ship")) == [1, 5]
        assert numbers(running, "restock") == [2]


@leaving_out(NO_LEDGER | ONE_PROCESS | SAME_PUBLISHER)
@pytest.mark.case("C31", "deduplication: of publishers of a key in several processes at once one wins")
def test_of_publishers_of_a_key_in_several_processes_one_wins(harness, tmp_path):
    """Each tries again as long as another one has the key in its hands."""
    with harness.transport(KEYED) as running:
        given = publishing(running, tmp_path)
        won = [result for results in given for result in results if result["status"] == "accepted"]
        assert sorted(result["key"] for result in won) == KEYS
        winners = {result["key"]: result["id"] for result in won}
        told = [result for results in given for result in results]
        assert len(told) == PUBLISHERS * len(KEYS)
        assert {(r["key"], r["id"]) for r in told} == set(winners.items()), "every repeat is told who won"
        assert {r["status"] for r in told} == {"accepted", "duplicate"}
        assert {r["code"] for r in told} <= {None, "DeduplicationPending"}, "while another one had it in its hands"
        running.work(len(KEYS))
        assert sorted(o["message_id"] for o in running.observations()) == sorted(winners.values())


PUBLISHERS, KEYS = 4, [f"batch-{number}" for number in range(10, 30)]
PUBLISHER = """
import json, pathlib, sys, time
from towpath import NewMessage, connect
url, manifest, bindings, meeting, count, *keys = sys.argv[1:]
on_aws = {"bindings": bindings} if bindings else {}
with connect(url, *([manifest] if manifest else []), **on_aws) as transport:
    (pathlib.Path(meeting) / str(time.monotonic_ns())).touch()
    while len(list(pathlib.Path(meeting).iterdir())) < int(count):
        time.sleep(0.01)
    for key in keys:
        code = None
        while True:
            new = NewMessage(payload={}, deduplication_key=key)
            (result,) = transport.publish("orders", [new])
            if result.error is None:
                break
            if not result.error.retryable:
                sys.exit(str(result.error))
            code = result.error.code
            time.sleep(0.02)
        print(json.dumps({"key": key, "id": result.id, "status": result.status, "code": code}))
"""


def publishing(running, folder):
    """What publishers of the same keys, that begin together, were answered."""
    files = running.command_options[1::2] or ["", ""]
    meeting = folder / "meeting"
    meeting.mkdir()
    command = [sys.executable, "-c", PUBLISHER, running.url, *files, str(meeting), str(PUBLISHERS), *KEYS]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PUBLISHERS)]
    answers = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PUBLISHERS
    return [[json.loads(line) for line in answer.splitlines()] for answer in answers]


@pytest.mark.parametrize("harness", ["aws-worker"], indirect=True)
@pytest.mark.case("C31", "deduplication: a publisher that dies holds its key for two minutes, and no longer")
def test_a_publisher_that_dies_between_reserving_and_confirming_holds_its_key_for_two_minutes(harness, tmp_path):
    """Once with the message on its way to SNS, which gets none of it, and once with the answer on its way back."""
    if isinstance(harness.aws, RealAws):
        pytest.skip("aws-worker cannot hold up the real one")
    with aws_relay(harness.aws.endpoint) as relay, harness.transport(KEYED) as running:
        for key, weather in (("batch-1", "hanging"), ("batch-2", "holding answers")):
            relay.turn(weather)
            with dying_publisher(running, relay.url, key):
                relay.await_caught()
                assert code(running, key) == "DeduplicationPending", "the other one may still publish"
            assert code(running, key) == "DeduplicationPending", "nobody knows whether it did"
            relay.turn("fair")
            running.age_keys(119)
            assert code(running, key) == "DeduplicationPending"
            running.age_keys(60)
            assert code(running, key) is None
            assert code(running, key) == "duplicate"
        running.work(3)
        assert sorted(numbers(running)) == [1, 2, 2], "what had reached SNS came too, and the first one had not"


def code(running, key):
    """What publishing with this key is answered: an error's code, ``duplicate``, or nothing."""
    (result,) = published(running, "orders", keyed(2, key))
    return result.error.code if result.error else {"accepted": None}.get(result.status, result.status)


DYING_PUBLISHER = """
import sys
from towpath import NewMessage, connect
url, manifest, bindings, key = sys.argv[1:]
connect(url, manifest, bindings=bindings).publish("orders", [NewMessage(payload={"number": 1}, deduplication_key=key)])
"""


@contextmanager
def dying_publisher(running, sns, key):
    """A process that publishes by way of that endpoint of SNS, and is killed when the block ends."""
    files = running.command_options[1::2]
    command = [sys.executable, "-c", DYING_PUBLISHER, running.url, *files, key]
    process = subprocess.Popen(command, env=os.environ | {"AWS_ENDPOINT_URL_SNS": sns})
    try:
        yield
    finally:
        process.kill()
        process.wait()


@on_databases("reserves a key for two minutes, which has a case of its own")
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
