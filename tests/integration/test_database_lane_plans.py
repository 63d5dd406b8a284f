"""The plans of all that claims, settles and publishes keys, on PostgreSQL with 10,000 keys, most of them blocked."""

from contextlib import closing
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.looks import Look
from local_transport.schema import upgrade
from tests.servers.plans import HOW, assert_none_reads_all_of, entries_read, planned, settle_in_every_way
from tests.servers.postgres import fresh_database
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.settlement import Completion

NOW = timedelta(0)
DELIVERIES, KEYS, FREE = 100_000, 10_000, 1_000

FILL = """
INSERT INTO towpath_message (id, published_at, topic_id, body)
SELECT gen_random_uuid(), clock_timestamp(), 1, '{}' FROM generate_series(1, :deliveries);

INSERT INTO towpath_delivery (message_ordinal, subscription_id, lane, ordered, state, due_at, dead_since)
SELECT ordinal, 1, hashtextextended((ordinal % :keys)::text, 0), :mode = 'ordered',
       CASE WHEN dead THEN 'dead' ELSE 'pending' END,
       CASE WHEN dead THEN null WHEN ordinal % :keys < :free THEN clock_timestamp()
            ELSE clock_timestamp() + interval '1 hour' END,
       CASE WHEN dead THEN clock_timestamp() END
FROM (SELECT ordinal, ordinal <= :keys AND ordinal % :keys >= :free AS dead FROM towpath_message) AS numbered;

INSERT INTO towpath_lane (subscription_id, lane, due_at)
SELECT 1, hashtextextended(key::text, 0),
       CASE WHEN key < :free THEN clock_timestamp()
            WHEN :mode = 'exclusive' THEN clock_timestamp() + interval '1 hour' END
FROM generate_series(0, :keys - 1) AS key;
"""


@pytest.fixture(scope="module", params=["exclusive", "ordered"])
def crowded(request, postgres_server):
    """The URL of a database where 9 of 10 keys wait: for an hour, or behind a dead letter."""
    with fresh_database(postgres_server) as url:
        with closing(Database(url)) as database:
            upgrade(database)
            rules = {"partition_mode": request.param}
            subscriptions = {"convert": {"topic": "documents"} | rules, "drained": {"topic": "few"} | rules}
            with connect(url) as transport:
                transport.apply(on_database({"documents": {}, "few": {}}, subscriptions))
            numbers = {"deliveries": DELIVERIES, "keys": KEYS, "free": FREE, "mode": request.param}
            with database.writing() as connection:
                for statement in FILL.strip().split(";\n"):
                    connection.execute(sa.text(statement.rstrip(";\n")), numbers)
            with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                connection.execute(sa.text("VACUUM ANALYZE"))
        yield url


@pytest.mark.parametrize("how", HOW)
def test_no_statement_about_keys_reads_all_deliveries_or_lanes(crowded, how):
    """Whether planned for these values or, as a prepared statement may be, for any."""
    with planned(crowded, how) as (transport, plans):
        settle_in_every_way(transport, "convert", crowded, 20)
        new = [NewMessage(payload=i, partition_key=f"{how}-{i % 60}") for i in range(100)]
        for topic in ("documents", "few", "few"):  # the last time to lanes that are there
            transport.publish(topic, new)
        with transport._database.engine.connect() as connection, connection.begin():
            transport.publish("few", new, connection=connection)
        drained = transport.consumer("drained")
        while held := drained.receive(100, NOW):  # until its lanes are gone
            drained.complete([Completion(delivery=one) for one in held])
        Look(transport._database).take([1, 2])
        transport.sweep()
    assert_all_are_there(plans)
    assert_none_reads_all_of(plans, "delivery", "lane", "message")


def assert_all_are_there(plans):
    """The plans of a claim, settles, publishes, of lanes that are set right and lanes that were touched, of a look
    and of a sweep.
    """
    for part in (
        "Index Scan using towpath_lane_due",
        "CTE of_held_lanes",
        "Delete on towpath_lane",
        "Insert on towpath_lane",
        "Delete on towpath_touched_lane",
        "Insert on towpath_delivery",
        "Insert on towpath_delivery_detail",
        "Function Scan on unnest waiting",
        "towpath_delivery_ending",
    ):
        assert any(part in plan for plan in plans), part


def test_an_idle_look_reads_a_handful_of_entries_however_many_keys_are_blocked(crowded):
    with closing(Database(crowded)) as database:
        with database.writing() as connection:  # nothing is due any more
            connection.execute(sa.text("UPDATE towpath_lane SET due_at = due_at + interval '2 hours'"))
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE towpath_lane"))
    before = entries_read(crowded)
    with connect(crowded) as transport:
        assert transport.consumer("convert").receive(50, NOW) == []
    assert entries_read(crowded) - before < 50
