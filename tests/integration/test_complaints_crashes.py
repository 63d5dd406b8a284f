"""What users of other database queues complain of when a worker dies or stalls, with real processes and real kills.

The numbers after ``#`` are public issues of the projects before them. docs/explanation/what-goes-wrong-elsewhere.md
has the whole list.
"""

import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from local_transport import DatabaseTransport
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from tests.servers.working import observations, worker
from towpath import NewMessage, connect
from towpath.operating import Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import Completion, Settled

PROJECT = Path(__file__).parents[2]
NOW = timedelta(0)
PATIENCE = 300
LEASE_SECONDS, BACKOFF_SECONDS = 60, 10
MODES = {"line": "ordered", "loose": "none", "single": "exclusive"}
KEYS, PER_KEY, HELD = 4, 3, 4  # HELD: the worker's threads for each subscription


def opened(url, modes=MODES, **rules):
    """A transport whose topic ``documents`` has a subscription for each of ``modes``."""
    transport: DatabaseTransport = connect(url)
    written = {"topic": "documents", "handler": "scripted:handle", "lease_seconds": LEASE_SECONDS}
    written |= {"backoff": {"base_seconds": BACKOFF_SECONDS}} | rules
    subscriptions = {name: written | {"partition_mode": mode} for name, mode in modes.items()}
    transport.apply(on_database({"documents": {}}, subscriptions))
    return transport


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def scripted(action, **more):
    return NewMessage(payload={"script": [action]}, **more)


# --- A worker that is killed -------------------------------------------------------------------------------------


# procrastinate#740, #1344, PgQueuer#475, #630, River#1258, Oban#603, #364, #862, graphile-worker#222, #526, #254, #449,
# pg-boss#436, #250, RQ#944, #1571, #2015, #2061: it stays "running" until somebody puts it right by hand, keeps its
# key or its share of a limit, or is in no table at all. geolens#624: it is counted as running for weeks. Huey: its row
# was deleted when it was handed out.
def test_a_killed_worker_leaves_nothing_running_for_ever(database_url, tmp_path):
    total = KEYS * PER_KEY
    with opened(database_url) as transport:

        def counts(state):
            """Of each subscription. Whenever one looks, every delivery is in exactly one state."""
            rows = transport.operator().stats()
            for row in rows:
                assert row.pending + row.leased + row.dead + row.completed + row.discarded == total
            return [getattr(row, state) for row in rows]

        messages = [scripted(f"until:{tmp_path}/go", partition_key=f"{n % KEYS}") for n in range(total)]
        places = {result.id: n for n, result in enumerate(transport.publish("documents", messages))}
        with worker(database_url, tmp_path, "--concurrency", str(HELD)) as doomed:
            eventually(lambda: counts("leased") == [HELD] * 3)
            doomed.kill()
        held = {entry.delivery_id for entry in transport.operator().deliveries(Selection(state="leased"), 100)}
        assert len(held) == 3 * HELD
        advance(database_url, LEASE_SECONDS + 1)
        assert counts("leased") == [0, 0, 0]
        assert [row.in_flight for row in transport.operator().backlog()] == [0, 0, 0]
        advance(database_url, BACKOFF_SECONDS)
        (tmp_path / "go").touch()
        with worker(database_url, tmp_path) as heir:
            eventually(lambda: counts("completed") == [total] * 3)
            heir.send(signal.SIGTERM)
            assert heir.end() == 0, heir.log.read_text()
        assert counts("leased") == [0, 0, 0]
    seen = observations(tmp_path)
    assert len(seen) == 3 * total
    assert {one["delivery_id"] for one in seen if one["attempt"] == 2} == held
    assert {one["attempt"] for one in seen} == {1, 2}
    for key in range(KEYS):
        line = [places[one["message_id"]] for one in seen if one["subscription"] == "line"]
        assert [place for place in line if place % KEYS == key] == list(range(key, total, KEYS))


# Oban#328: a crash during the last attempt throws it away. Dramatiq#213, celery#1628, #3053, #10462: one that kills its
# worker comes for ever, or is lost.
def test_a_message_that_kills_its_worker_ends_as_a_dead_letter_that_can_be_replayed(sqlite_tables_url, tmp_path):
    with opened(sqlite_tables_url, {"loose": "none"}, max_attempts=2) as transport:
        transport.publish("documents", [scripted("kill_until_replayed")])
        for _ in range(2):
            with worker(sqlite_tables_url, tmp_path, "--once", "--concurrency", "1") as victim:
                assert victim.end() == -signal.SIGKILL, victim.log.read_text()
            advance(sqlite_tables_url, LEASE_SECONDS + BACKOFF_SECONDS + 1)
        (behind,) = transport.publish("documents", [scripted("complete")])
        with worker(sqlite_tables_url, tmp_path, "--once") as survivor:
            assert survivor.end() == 0, survivor.log.read_text()
        (letter,) = transport.operator().dead_letters("loose", 10)
        assert (letter.reason, letter.attempts) == ("MaxAttemptsExceeded", 2)
        repaired = Warrant(actor="ada", reason="more memory")
        assert transport.operator().replay(Selection(subscription="loose", state="dead"), repaired, Pace()) == 1
        with worker(sqlite_tables_url, tmp_path, "--once") as survivor:
            assert survivor.end() == 0, survivor.log.read_text()
        (row,) = transport.operator().stats()
    assert (row.completed, row.dead, row.pending, row.leased) == (2, 0, 0, 0)
    assert [one["message_id"] for one in observations(tmp_path)] == [behind.id, letter.message_id]


SWEEPER = """
import sys, time
import sqlalchemy as sa
from towpath import connect
with connect(sys.argv[1]) as transport:
    @sa.event.listens_for(transport._database.engine, "commit")
    def stall(connection):
        print("sweeping", flush=True)
        time.sleep(600)
    transport.sweep()
"""


# River#1258: 5,133 jobs were "running", the oldest for 91 days, as the elected leader that was to rescue them was gone.
def test_a_sweeper_that_is_killed_leaves_its_work_to_any_other(database_url):
    with opened(database_url, {"loose": "none"}, max_attempts=1) as transport:
        transport.publish("documents", [NewMessage(payload=1)])
        assert len(transport.consumer("loose").receive(1, NOW)) == 1
        advance(database_url, LEASE_SECONDS + 1)
        command = [sys.executable, "-c", SWEEPER, database_url]
        sweeper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
        assert sweeper.stdout.readline() == "sweeping\n"
        sweeper.kill()
        sweeper.communicate()
        eventually(transport.sweep)
        assert [letter.reason for letter in transport.operator().dead_letters("loose", 10)] == ["MaxAttemptsExceeded"]


# --- A worker that stalls ----------------------------------------------------------------------------------------


# Dramatiq#692: a library holds the interpreter, so no heartbeat comes, and both runs count. procrastinate, PgQueuer,
# pgmq and others let a late worker finish somebody else's attempt; Oban#424, #862: a name that was used again hid that.
def test_a_worker_that_stalled_cannot_finish_what_another_has_finished(postgres_tables_url, tmp_path):
    with opened(postgres_tables_url) as transport:
        transport.publish("documents", [scripted(f"until:{tmp_path}/go", partition_key="k")])

        def stats():
            return transport.operator().stats()

        with worker(postgres_tables_url, tmp_path, "--concurrency", "1") as stalled:
            eventually(lambda: [row.leased for row in stats()] == [1, 1, 1])
            stalled.send(signal.SIGSTOP)
            advance(postgres_tables_url, LEASE_SECONDS + BACKOFF_SECONDS + 1)
            for name in MODES:
                consumer = transport.consumer(name)
                (held,) = consumer.receive(1, NOW)
                assert held.attempt == 2
                assert consumer.complete([Completion(delivery=held)]) == [Settled(state="completed")]
            (tmp_path / "go").touch()
            stalled.send(signal.SIGCONT)
            eventually(lambda: len(observations(tmp_path)) == 3)
            stalled.send(signal.SIGTERM)
            assert stalled.end() == 0
        assert [(row.completed, row.pending, row.leased, row.dead) for row in stats()] == [(1, 0, 0, 0)] * 3
        assert "3 received: 3 lost to another worker" in stalled.log.read_text()


# River#773, #682, #347, PgQueuer#430, #674: one limit for all says how long anything may run, and what takes longer is
# handed out again while it runs; a heartbeat that is slower than that limit does the same.
@pytest.mark.parametrize("mode", MODES.values())
def test_a_handler_may_take_much_longer_than_its_lease(database_url, mode):
    with opened(database_url, {"convert": mode}) as transport:
        transport.publish("documents", [NewMessage(payload=1, partition_key="k")])
        consumer, other = transport.consumer("convert"), transport.consumer("convert")
        (held,) = consumer.receive(1, NOW)
        for _ in range(6):  # as the worker does after each third of the lease
            advance(database_url, LEASE_SECONDS - 1)
            assert other.receive(1, NOW) == []
            assert consumer.extend([Extension(delivery=held)]) == [Settled(state="leased")]
        assert consumer.complete([Completion(delivery=held)]) == [Settled(state="completed")]
        (row,) = transport.operator().stats()
        assert (row.completed, row.pending, row.leased) == (1, 0, 0)
