"""C41: a database that goes away in the middle of work, in real time, with leases of 5 s and real processes."""

import contextlib
import signal
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from itertools import pairwise

import psycopg
import pytest

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.conformance.harness import FUNCTION, DatabaseHarness
from tests.conftest import left_out
from tests.servers.postgres import PostgresUnavailable, fresh_database, own_cluster
from tests.servers.working import observations, workers
from towpath import NewMessage

LEASE_SECONDS = 5
SPARE_SECONDS = 2  # from a claim to the start of its handler, on a busy machine
BUSY_SECONDS = 10  # how long a SQLite connection waits for another one's transaction
PATIENCE = 120
SUBSCRIPTION = {
    "topic": "orders",
    "lease_seconds": LEASE_SECONDS,
    "max_attempts": 100,
    "backoff": {"base_seconds": 0.5, "max_seconds": 1},
}
TOPOLOGY = {"topics": {"orders": {}}, "subscriptions": {"ship": SUBSCRIPTION}}


@pytest.fixture(params=["sqlite", "postgresql"])
def harness(request, tmp_path, monkeypatch):
    """Databases only, and a PostgreSQL that may be restarted. ``outages`` are what a case does to it."""
    monkeypatch.syspath_prepend(FUNCTION)
    if request.param == "sqlite":
        url = request.getfixturevalue("sqlite_tables_url")
        made = DatabaseHarness(name="sqlite", url=url, folder=tmp_path, environment=monkeypatch)
        yield made, [lambda: lock(url)]
        return
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(own_cluster())
        except PostgresUnavailable as error:
            left_out("PostgreSQL", str(error))
        url = stack.enter_context(fresh_database(cluster.url))
        upgraded(url)
        made = DatabaseHarness(name="postgresql", url=url, folder=tmp_path, environment=monkeypatch)
        outages = [
            lambda: drop_connections(url),
            lambda: restart(cluster, signal.SIGQUIT),
            lambda: drop_connections(url),
            lambda: restart(cluster, signal.SIGINT),
        ]
        yield made, outages


def upgraded(url):
    with contextlib.closing(Database(url)) as database:
        upgrade(database)


def lock(url):
    """Somebody else writes for longer than anybody waits."""
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as holder:
        holder.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        holder.execute("BEGIN IMMEDIATE")
        time.sleep(BUSY_SECONDS + 1.5)


def drop_connections(url):
    drop = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND pid <> pg_backend_pid()"""
    for _ in range(5):
        with psycopg.connect(url, autocommit=True) as administrator:
            administrator.execute(drop)
        time.sleep(0.1)


def restart(cluster, how):
    """SIGQUIT is like a crash: everything open is lost, and recovered from the log."""
    cluster.stop(how)
    time.sleep(0.5)
    cluster.start()


class Publisher(threading.Thread):
    """Publishes one message after another, each again with its id until it is taken."""

    def __init__(self, transport):
        super().__init__()
        self._transport = transport
        self.enough = threading.Event()
        self.failures = Counter()
        self.taken = {}

    def run(self):
        while not self.enough.is_set():
            message = NewMessage(payload={"script": ["sleep:0.02"]})
            while True:
                (result,) = self._transport.publish("orders", [message])
                if result.error is None:
                    break
                self.failures[result.error.code] += 1
                message = NewMessage(payload=message.payload, id=result.id)
            self.taken[result.id] = (result.status, message.id is not None)
            time.sleep(0.02)


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.case("C41", "an outage in publish, claim or settle is told truly; nothing is lost or done out of turn")
def test_an_outage_loses_nothing_and_everything_goes_on_after_it(harness):
    made, outages = harness
    with made.transport(TOPOLOGY) as running:
        publisher = Publisher(running.transport)
        with workers(made.url, made.folder, 2, "--concurrency", "4"):
            publisher.start()
            try:
                for outage in outages:
                    before = len(observations(made.folder))
                    eventually(lambda before=before: len(observations(made.folder)) > before + 20)
                    outage()
            finally:
                publisher.enough.set()
                publisher.join(PATIENCE)
            count = len(publisher.taken)
            eventually(lambda: completed(running.transport) >= count)
        (row,) = running.transport.operator().stats()
    assert (row.completed, row.pending, row.leased, row.dead) == (count, 0, 0, 0)
    assert set(publisher.failures) <= {"TransportUnavailable"}
    assert all(status == "accepted" or again for status, again in publisher.taken.values())
    starts = defaultdict(list)
    for observation in observations(made.folder):
        starts[observation["message_id"]].append(observation["started"])
    assert set(starts) == set(publisher.taken), "none is lost, none comes from nowhere"
    for times in starts.values():
        assert all(later - earlier >= LEASE_SECONDS - SPARE_SECONDS for earlier, later in pairwise(sorted(times))), (
            "one ran beside itself, under a live lease"
        )


def completed(transport):
    (row,) = transport.operator().stats()
    return row.completed
