"""What users of other database queues complain of: growth, connections, deduplication, shutdown, clocks.

The numbers after ``#`` are public issues of the projects before them. docs/explanation/what-goes-wrong-elsewhere.md
has the whole list.
"""

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from types import ModuleType

import psycopg
import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import metadata
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.errors import Aborted
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import Completion, Settled
from towpath.worker import Worker, WorkerOptions

NOW = timedelta(0)
PATIENCE = 240.0
NUMBERS = itertools.count()
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'towpath' AND datname = current_database()"


@pytest.fixture
def serving(monkeypatch):
    """Applies a topology whose one handler is the given function, at a URL, and answers the transport."""
    opened = []

    def serve(url, handler, **rules):
        module = ModuleType(f"handlers_of_complaints_{next(NUMBERS)}")
        module.handle = handler
        monkeypatch.setitem(sys.modules, module.__name__, module)
        transport = connect(url)
        opened.append(transport)
        written = {"topic": "documents", "handler": f"{module.__name__}:handle", "backoff": {"base_seconds": 0}} | rules
        transport.apply(on_database({"documents": {}}, {"convert": written}))
        return transport

    yield serve
    for transport in opened:
        transport.close()


def untouched(message, context):
    """The handler of a subscription from which the test claims by itself."""


# --- Growth ------------------------------------------------------------------------------------------------------


# procrastinate#1454, #65, #344: a worker takes minutes to start beside 13 million finished rows. Oban#612, #775, #79:
# finished rows burden the table that is claimed from.
def test_a_worker_starts_and_claims_without_a_look_at_what_is_finished(serving, postgres_tables_url):
    serving(postgres_tables_url, untouched).publish("documents", [NewMessage(payload=1)])
    with psycopg.connect(postgres_tables_url) as somebody:
        somebody.execute("SET lock_timeout = '60s'")
        somebody.execute("LOCK TABLE towpath_history, towpath_unwanted, towpath_worker, towpath_audit")
        with connect(postgres_tables_url) as starting:
            assert len(starting.consumer("convert").receive(1, NOW)) == 1


# The same: a check by the database of every row that is finished, against those who finished it.
def test_nothing_that_grows_refers_to_another_table():
    referring = {table.name for table in metadata.sorted_tables if table.foreign_keys}
    assert referring == {"towpath_subscription"}


# --- Connections -------------------------------------------------------------------------------------------------


# Oban's guide to scaling, Oban#364: a connection for each handler or acknowledgement starves the application's pool.
def test_many_handlers_need_few_connections(serving, postgres_tables_url):
    handlers = 40
    together, go = threading.Barrier(handlers + 1, timeout=PATIENCE), threading.Event()

    def handle(message, context):
        together.wait()
        go.wait(PATIENCE)

    transport = serving(postgres_tables_url, handle)
    transport.publish("documents", [NewMessage(payload=n) for n in range(handlers)])
    worker = Worker(transport, ["convert"], WorkerOptions(concurrency=handlers, once=True))
    with ThreadPoolExecutor(1) as pool, psycopg.connect(postgres_tables_url, autocommit=True) as watcher:
        running = pool.submit(worker.run)
        together.wait()
        connections = watcher.execute(CONNECTED).fetchone()[0]
        go.set()
        assert running.result(PATIENCE).states == {"completed": handlers}
    assert connections <= 5


# --- Deduplication -----------------------------------------------------------------------------------------------


# DBOS-ts#1351: a message with a deduplication key could have no partition key.
@pytest.mark.parametrize("mode", ["exclusive", "ordered"])
def test_a_message_may_have_a_deduplication_key_and_a_partition_key(serving, database_url, mode):
    transport = serving(database_url, untouched, partition_mode=mode)

    def published(payload, key, deduplication_key):
        new = NewMessage(payload=payload, partition_key=key, deduplication_key=deduplication_key)
        return transport.publish("documents", [new])[0]

    first = published(1, "a", "once")
    assert [published(n, key, "once").id for n, key in enumerate(("a", "b"), start=2)] == [first.id, first.id]
    second = published(4, "a", "twice")
    consumer = transport.consumer("convert")
    for expected in (first, second):
        (held,) = consumer.receive(10, NOW)
        assert held.message_id == expected.id
        assert consumer.complete([Completion(delivery=held)]) == [Settled(state="completed")]
    assert consumer.receive(10, NOW) == []


# --- Shutdown ----------------------------------------------------------------------------------------------------


# procrastinate#1185, #1598, #1585: during a graceful shutdown neither an abort nor a heartbeat reaches a handler.
def test_a_cancel_reaches_a_handler_while_its_worker_shuts_down(serving, database_url):
    started, cancelled, seen = threading.Event(), threading.Event(), []

    def handle(message, context):
        started.set()
        cancelled.wait(PATIENCE)
        seen.append(context.heartbeat(percent=50))
        try:
            context.check()
        except Aborted:
            seen.append(context.abort_reason)
            raise

    transport = serving(database_url, handle)
    transport.publish("documents", [NewMessage(payload=1)])
    worker = Worker(transport, ["convert"], WorkerOptions(concurrency=1, drain=timedelta(seconds=PATIENCE)))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(worker.run)
        assert started.wait(PATIENCE)
        worker.stop()
        warrant = Warrant(actor="ada", reason="not wanted any more")
        assert transport.operator().discard(Selection(subscription="convert"), warrant, Pace()).requested == 1
        cancelled.set()
        assert running.result(PATIENCE).states == {"discarded": 1}
    assert seen == [False, "cancelled"]


# --- Clocks ------------------------------------------------------------------------------------------------------


# que#409: the time of a transaction is that of its beginning, so what is published late in it looks late already.
def test_what_is_published_late_in_a_transaction_is_due_from_that_moment_on(serving, postgres_tables_url):
    transport = serving(postgres_tables_url, untouched)
    with closing(Database(postgres_tables_url)) as database, database.engine.connect() as connection:
        began = connection.scalar(sa.text("SELECT now()"))
        connection.execute(sa.text("SELECT pg_sleep(0.2)"))
        transport.publish("documents", [NewMessage(payload=1)], connection=connection)
        due = connection.scalar(sa.text("SELECT due_at FROM towpath_delivery"))
        assert connection.scalar(sa.text("SELECT now()")) == began
        connection.commit()
    assert due - began >= timedelta(seconds=0.2)


# entropy#91, flux#430: times without a zone are read in that of the server, of the session or of the machine.
@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
def test_the_time_zone_of_a_server_moves_nothing(serving, postgres_tables_url, zone):
    name = sa.make_url(postgres_tables_url).database
    with psycopg.connect(postgres_tables_url, autocommit=True) as administrator:
        administrator.execute(f"ALTER DATABASE \"{name}\" SET timezone = '{zone}'")
    transport = serving(postgres_tables_url, untouched)
    now = datetime.now(UTC)
    later = NewMessage(payload="later", deliver_after=now + timedelta(minutes=10))
    transport.publish("documents", [later, NewMessage(payload="now", deliver_after=now - timedelta(minutes=10))])
    (held,) = transport.consumer("convert").receive(10, NOW)
    assert '"payload":"now"' in held.body
    (waiting,) = transport.operator().deliveries(Selection(state="pending"), 10)
    assert abs(waiting.due_at - later.deliver_after) < timedelta(seconds=1)
    assert abs(waiting.published_at - now) < timedelta(minutes=5)
