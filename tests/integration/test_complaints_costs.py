"""What users of other database queues complain of when there is much: what a claim reads, whatever waits.

The server counts what is read of the tables and indexes; no time is measured. The numbers after ``#`` are
public issues of the projects before them. docs/explanation/what-goes-wrong-elsewhere.md has the whole list.
"""

import itertools
import time
from contextlib import closing
from datetime import timedelta
from functools import partial

import psycopg
import pytest
import sqlalchemy as sa

from local_transport.applied import TopologyReader
from local_transport.claims import Claims
from local_transport.connections import Database
from local_transport.schema import upgrade
from local_transport.settles import Settles
from tests.servers.postgres import fresh_database
from tests.servers.topologies import on_database
from towpath import connect
from towpath.settlement import Completion, Failure, Retrial, Settled

NOW, HOUR = timedelta(0), timedelta(hours=1)
PATIENCE = 240
BATCH = 10
MANY = 50_000
FREE = 100  # one of so many keys is free where most are blocked

# What waits in a subscription: how many deliveries, of how many keys, and whether most of them are not to come now.
SHAPES = {
    "few": {"deliveries": 1_000, "keys": 100, "blocked": False},
    "deep": {"deliveries": MANY, "keys": 10, "blocked": False},
    "wide": {"deliveries": MANY, "keys": MANY, "blocked": True},
}
MODES = {"loose": "none", "single": "exclusive", "line": "ordered"}

MESSAGES = """
INSERT INTO towpath_message (id, published_at, topic_id, body)
SELECT gen_random_uuid(), clock_timestamp(), 1, '{}' FROM generate_series(1, :many)"""
DELIVERIES = """
WITH numbered AS (SELECT n, :blocked AND n % :free > 0 AS blocked FROM generate_series(1, :deliveries) AS n),
     all_of AS (SELECT n, blocked, blocked AND :mode = 'ordered' AS dead FROM numbered)
INSERT INTO towpath_delivery (message_ordinal, subscription_id, lane, ordered, state, due_at, dead_since)
SELECT n, :id, CASE WHEN :mode <> 'none' THEN n % :keys END, :mode = 'ordered',
       CASE WHEN dead THEN 'dead' ELSE 'pending' END,
       CASE WHEN dead THEN null WHEN blocked THEN clock_timestamp() + interval '1 hour' ELSE clock_timestamp() END,
       CASE WHEN dead THEN clock_timestamp() END
FROM all_of"""
LANES = """
INSERT INTO towpath_lane (subscription_id, lane, due_at)
SELECT :id, key, CASE WHEN NOT (:blocked AND key % :free > 0) THEN clock_timestamp()
                      WHEN :mode = 'exclusive' THEN clock_timestamp() + interval '1 hour' END
FROM generate_series(0, :keys - 1) AS key WHERE :mode <> 'none'"""
READ = """
SELECT (SELECT coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read, 0) + coalesce(idx_blks_hit, 0)), 0)
        FROM pg_statio_user_tables WHERE relname NOT IN ({small}))
     + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname NOT IN ({small}))
     + (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname NOT IN ({small}))
""".format(small="'towpath_topology', 'towpath_topic', 'towpath_subscription'")
CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'towpath' AND datname = current_database()"


@pytest.fixture(scope="module")
def crowded(postgres_server):
    """The URL of a database with a subscription for each mode and each shape: 300,000 deliveries."""
    names = {f"{kind}-{shape}": (MODES[kind], SHAPES[shape]) for kind, shape in itertools.product(MODES, SHAPES)}
    subscriptions = {name: {"topic": "documents", "partition_mode": mode} for name, (mode, _) in names.items()}
    with fresh_database(postgres_server) as url:
        with closing(Database(url)) as database:
            upgrade(database)
            with connect(url) as transport:
                transport.apply(on_database({"documents": {}}, subscriptions))
            with database.writing() as connection:
                query = sa.text("SELECT name, id FROM towpath_subscription")
                ids = {row.name: row.id for row in connection.execute(query)}
                connection.execute(sa.text(MESSAGES), {"many": MANY})
                for name, (mode, shape) in names.items():
                    values = {"id": ids[name], "mode": mode, "free": FREE} | shape
                    connection.execute(sa.text(DELIVERIES), values)
                    connection.execute(sa.text(LANES), values)
        with psycopg.connect(url, autocommit=True) as administrator:
            administrator.execute("VACUUM ANALYZE")
            for table in ("delivery", "lane", "message", "history"):  # or its reading would be counted too
                administrator.execute(f"ALTER TABLE towpath_{table} SET (autovacuum_enabled = false)")
        yield url


def read_by(url, action):
    """How much ``action`` reads of all but the applied topology: pages, index entries, and rows of scans, added up.

    It must close its connections."""
    with psycopg.connect(url, autocommit=True) as watcher:
        before = watcher.execute(READ).fetchone()[0]
        action()
        deadline = time.monotonic() + PATIENCE
        while watcher.execute(CONNECTED).fetchone()[0]:  # the server adds up when a connection ends
            assert time.monotonic() < deadline
            time.sleep(0.05)
        watcher.execute("SELECT pg_stat_clear_snapshot()")
        return int(watcher.execute(READ).fetchone()[0] - before)


def handle_some(url, name):
    """Claim a batch from ``name`` and complete it."""
    with connect(url) as transport:
        consumer = transport.consumer(name)
        held = consumer.receive(BATCH, NOW)
        assert len(held) == BATCH
        done = consumer.complete([Completion(delivery=one) for one in held])
        assert done == [Settled(state="completed")] * BATCH


# pg-boss#849: 7.9 s for a fetch at 200 keys of 1,000 rows each. graphile-worker#240, #274, #558: slow with many named
# queues, or with many that are stuck. PgQueuer#667, #668, #389: 11,000 buffers for a dequeue beside the backlog of
# others. River#785: slow with much that is scheduled. procrastinate#393, #1242, #1225: slow again after each feature,
# so each mode is looked at. DBOS-ts#1302: others starve behind a large backlog.
@pytest.mark.parametrize("kind", MODES)
@pytest.mark.parametrize("shape", ["deep", "wide"])
def test_a_claim_reads_as_little_of_a_large_backlog_as_of_a_small_one(crowded, kind, shape):
    """An index of a large table has a level or two more; each look-up reads a page of each."""
    names = [f"{kind}-{one}" for one in ("few", shape)]
    small, large = (read_by(crowded, partial(handle_some, crowded, name)) for name in names)
    assert large <= 2 * small, f"{large} instead of {small}"
    assert large <= 120 * BATCH


# Solid Queue#630: looking for work among blocked keys drives the processor to 100 %.
@pytest.mark.parametrize("kind", ["single", "line"])
def test_an_idle_look_at_50_000_keys_that_are_blocked_reads_next_to_nothing(crowded, kind):
    name = f"{kind}-wide"
    failure = Failure(type="E", message="m")
    with connect(crowded) as transport:
        consumer = transport.consumer(name)
        while held := consumer.receive(1_000, NOW):
            consumer.retry([Retrial(delivery=one, delay=HOUR, failure=failure) for one in held])
    with psycopg.connect(crowded, autocommit=True) as administrator:
        administrator.execute("VACUUM towpath_lane")

    def poll():
        with connect(crowded) as transport:
            assert transport.consumer(name).receive(BATCH, NOW) == []

    assert read_by(crowded, poll) < 50


# River#59, PgQue#61, and what "the horizon" is to every queue in PostgreSQL: while a report or a dump holds a snapshot
# open, nothing that died since can be removed, and each look for the next row walks over all of it.
def test_somebody_elses_open_snapshot_does_not_make_claims_read_more(crowded):
    with closing(Database(crowded)) as database, psycopg.connect(crowded) as report:
        report.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT count(*) FROM towpath_topic")
        with database.reading() as connection:
            applied = TopologyReader().current(connection).subscriptions["loose-deep"]
        ticks = itertools.chain([0.0, 1.0], itertools.repeat(2.0))  # no time for a second walk from the beginning
        claims = Claims(database, applied, lambda: 0.5, ticks.__next__)
        settles = Settles(database)

        def handle(rounds):
            for _ in range(rounds):
                held = claims.claim(50).deliveries
                assert len(held) == 50
                assert settles.complete(applied.id, held) == [Settled(state="completed")] * 50
            database.close()

        handle(2)
        early = read_by(crowded, lambda: handle(5))
        handle(60)
        late = read_by(crowded, lambda: handle(5))
    assert late <= 1.5 * early
