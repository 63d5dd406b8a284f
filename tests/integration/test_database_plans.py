"""The plans of the hot statements on PostgreSQL: the index is used, whatever the backlog is."""

import re
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.looks import Look
from local_transport.schema import upgrade
from tests.servers.plans import HOW, assert_none_reads_all_of, entries_read, planned, settle_in_every_way
from tests.servers.topologies import on_database
from towpath import NewMessage, connect

NOW = timedelta(0)
WAITING = 100_000


@pytest.fixture
def crowded(postgres_url):
    """A transport on PostgreSQL with 100,000 waiting deliveries, half of them not due for an hour."""
    database = Database(postgres_url)
    upgrade(database)
    transport = connect(postgres_url)
    transport.apply(
        on_database({"documents": {}}, {"convert": {"topic": "documents"}, "other": {"topic": "documents"}})
    )
    transport.policies()
    convert, other = (transport._reader.last.subscriptions[name].id for name in ("convert", "other"))
    with database.writing() as connection:
        connection.execute(
            sa.text(
                """INSERT INTO towpath_message (id, published_at, topic_id, body)
                   SELECT gen_random_uuid(), clock_timestamp(), 1, '{}' FROM generate_series(1, :n)"""
            ),
            {"n": WAITING},
        )
        connection.execute(
            sa.text(
                """INSERT INTO towpath_delivery (message_ordinal, subscription_id, due_at)
                   SELECT ordinal, CASE WHEN ordinal % 4 = 0 THEN CAST(:other AS int) ELSE CAST(:convert AS int) END,
                          clock_timestamp() + CASE WHEN ordinal % 2 = 0 THEN interval '1 hour' ELSE interval '0' END
                   FROM towpath_message"""
            ),
            {"convert": convert, "other": other},
        )
    with database.reading() as connection:
        connection.execute(sa.text("ANALYZE"))
    yield transport, database
    transport.close()
    database.close()


@pytest.fixture
def explained(crowded):
    """Runs something and gives the plans of the statements that it sent."""
    transport, _ = crowded
    engine, plans = transport._database.engine, []

    @sa.event.listens_for(engine, "before_cursor_execute", retval=True)
    def explain(connection, cursor, statement, parameters, context, executemany):
        if "towpath_delivery" in statement and not statement.startswith("EXPLAIN"):
            cursor.execute(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(row[0] for row in cursor.fetchall()))
        return statement, parameters

    def run(action):
        plans.clear()
        found = action()
        return found, list(plans)

    return run


def assert_uses(plan, index):
    assert index in plan, plan
    assert not re.search(r"Seq Scan on towpath_(delivery|message)( |$)", plan, re.MULTILINE), plan


def test_a_claim_walks_the_index_of_due_deliveries(crowded, explained):
    transport, _ = crowded
    consumer = transport.consumer("convert")
    deliveries, (plan,) = explained(lambda: consumer.receive(50, NOW))
    assert len(deliveries) == 50
    assert_uses(plan, "Index Scan using towpath_delivery_due")
    assert re.search(r"Index Cond: .*subscription_id = .*due_at <= ", plan)  # the time too, and not as a filter
    assert "Sort Key: towpath_delivery.due_at" not in plan


def test_a_look_reads_one_entry_of_each_index_for_each_subscription(crowded, explained):
    transport, database = crowded
    ids = sorted(subscription.id for subscription in transport._reader.last.subscriptions.values())
    with database.writing() as connection:
        connection.execute(
            sa.text(
                """INSERT INTO towpath_lane (subscription_id, lane, due_at)
                   SELECT CAST(:id AS int), n, clock_timestamp() + interval '1 hour' FROM generate_series(1, 20000) n"""
            ),
            {"id": ids[0]},
        )
        connection.execute(sa.text("ANALYZE towpath_lane"))
    seen, (plan,) = explained(lambda: Look(transport._database).take(ids))
    assert sorted(found.due_in < 0 for found in seen.values()) == [False, True]  # all of the other's are for later
    assert_uses(plan, "using towpath_delivery_due")
    assert_uses(plan, "using towpath_lane_due")
    assert "Seq Scan on towpath_lane" not in plan


@pytest.mark.parametrize("how", HOW)
def test_no_statement_reads_a_whole_table_whichever_way_the_server_plans_it(crowded, postgres_url, how):
    """Claims, settles of every kind, publishes, a look and a sweep: for their values or, once prepared, for any."""
    ids = [subscription.id for subscription in crowded[0]._reader.last.subscriptions.values()]
    with planned(postgres_url, how) as (transport, plans):
        settle_in_every_way(transport, "convert", postgres_url, 20)
        new = [NewMessage(payload=i, deduplication_key=f"{how}-{i}") for i in range(100)]
        assert {result.status for result in transport.publish("documents", new)} == {"accepted"}
        Look(transport._database).take(ids)
        transport.sweep()
    assert_none_reads_all_of(plans, "delivery", "message")
    claims = [plan for plan in plans if "CTE due" in plan]
    assert len(claims) == 7
    for claim in claims:
        assert_uses(claim, "Index Scan using towpath_delivery_due")
        value = r"\(?\$\d+" if how == "force_generic_plan" else r"\d+"
        assert re.search(rf"Index Cond: .*subscription_id = {value}.*due_at <= ", claim), claim  # not as a filter
    for index in ("pkey", "ending", "expiring", "dead"):
        assert any(f"towpath_delivery_{index} " in plan for plan in plans), index


def test_a_claim_reads_few_pages_however_many_deliveries_wait(crowded, postgres_url):
    transport, database = crowded
    with database.writing() as connection:  # everything that is due is gone: an idle poll
        connection.execute(sa.text("UPDATE towpath_delivery SET due_at = due_at + interval '1 hour'"))
    with database.reading() as connection:
        connection.execute(sa.text("VACUUM ANALYZE towpath_delivery"))
    transport.close()
    database.close()
    before = entries_read(postgres_url)
    with connect(postgres_url) as idle:
        assert idle.consumer("convert").receive(50, NOW) == []
    assert entries_read(postgres_url) - before < 100


def test_dead_letters_are_listed_by_an_index_of_their_own(crowded, explained):
    transport, _ = crowded
    _, (listing,) = explained(lambda: transport.operator().dead_letters("convert", 50))
    assert_uses(listing, "towpath_delivery_dead")
