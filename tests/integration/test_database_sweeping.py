"""Housekeeping on a database: what is over ends, what was kept for long enough goes, and no claim waits for it."""

import logging
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.dialects.columns import Later
from local_transport.pacing import Pacer
from local_transport.retention import Finished
from local_transport.sweeping import Sweep
from local_transport.tables import deduplication, delivery, history, message, unwanted
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import Completion, DeadLettering, Discard

NOW = timedelta(0)
DAY = 86_400
WARRANT = Warrant(actor="ada", reason="not wanted")
TOPICS = {"documents": {"retention_days": 10}, "letters": {"retention_days": 2}}
SUBSCRIPTIONS = {
    "convert": {"topic": "documents", "lease_seconds": 60, "max_attempts": 3, "dead_letter_retention_days": 5},
    "archive": {"topic": "documents", "filter": {"kind": ["pdf"]}},
    "read": {"topic": "letters"},
}


@pytest.fixture
def kept(database_url):
    with connect(database_url) as transport:
        transport.apply(on_database(TOPICS, SUBSCRIPTIONS))
        yield transport


def published(transport, count=1, topic="documents", **more):
    return transport.publish(topic, [NewMessage(payload=i, **more) for i in range(count)])


def completed(transport, count=1, topic="documents", subscription="convert", **more):
    published(transport, count, topic, **more)
    consumer = transport.consumer(subscription)
    consumer.complete([Completion(delivery=held) for held in consumer.receive(count, NOW)])


def counts(url, *tables):
    with closing(Database(url)) as database, database.reading() as connection:
        return [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]


def stats(transport, subscription="convert"):
    row = next(row for row in transport.operator().stats() if row.subscription == subscription)
    return row.pending, row.leased, row.dead, row.discarded


# --- What is over ------------------------------------------------------------------------------------------------


def test_a_cancelled_delivery_whose_holder_says_nothing_is_discarded_when_its_lease_ends(kept, database_url):
    published(kept)
    (held,) = kept.consumer("convert").receive(1, NOW)
    kept.operator().discard(Selection(delivery_ids=(held.id,)), WARRANT, Pace())
    assert kept.sweep() == 0
    advance(database_url, 61)
    assert kept.sweep() == 1
    assert stats(kept) == (0, 0, 0, 1)
    with closing(Database(database_url)) as database, database.reading() as connection:
        assert connection.execute(sa.select(history.c.outcome, history.c.reason)).all() == [("discarded", "not wanted")]


def test_an_expired_message_is_discarded_unless_a_worker_has_it_or_it_is_dead(kept, database_url):
    published(kept, 4, expires_at=datetime.now(UTC) + timedelta(seconds=3_600))
    published(kept, 1)
    consumer = kept.consumer("convert")
    first, second = consumer.receive(2, NOW)
    consumer.dead_letter([DeadLettering(delivery=first, reason="bad")])
    advance(database_url, 3_500)
    (third,) = [held for held in consumer.receive(1, NOW) if held.id != second.id]
    advance(database_url, 30)
    assert kept.sweep() == 0
    with closing(Database(database_url)) as database, database.writing() as connection:  # it is late, no lease ended
        connection.execute(sa.update(delivery).values(expires_at=Later(delivery.c.expires_at, sa.literal(-100.0))))
    assert kept.sweep() == 2
    assert stats(kept) == (1, 1, 1, 2)
    assert consumer.complete([Completion(delivery=third)])[0].state == "completed"


# --- What was kept for long enough -------------------------------------------------------------------------------


def test_history_goes_after_its_topics_retention_and_the_message_with_it(kept, database_url):
    completed(kept, 3)
    completed(kept, 2, "letters", "read")
    advance(database_url, 1.9 * DAY)
    assert kept.sweep() == 0
    advance(database_url, 0.2 * DAY)
    assert kept.sweep() == 2
    assert counts(database_url, history, message) == [3, 3]
    advance(database_url, 8 * DAY)
    assert kept.sweep() == 3
    assert counts(database_url, history, message) == [0, 0]


def test_one_sweep_removes_what_is_overdue_of_every_subscription_and_topic(kept, database_url):
    for topic, subscription in (("documents", "convert"), ("letters", "read")):
        completed(kept, 3, topic, subscription)
    kept.apply(on_database(TOPICS, {}))
    for topic in TOPICS:
        published(kept, 2, topic)
    assert counts(database_url, history, unwanted, message) == [6, 4, 10]
    advance(database_url, 11 * DAY)
    assert kept.sweep() == 10
    assert counts(database_url, history, unwanted, message) == [0, 0, 0]


def test_a_batch_over_several_subscriptions_is_bounded_too(kept, database_url):
    for topic, subscription, count in (("documents", "convert", 3), *[("letters", "read", 1_000)] * 2):
        completed(kept, count, topic, subscription)
    advance(database_url, 11 * DAY)
    with closing(Database(database_url)) as database, database.writing() as connection:
        first = Finished(database.dialect).batch(connection)
        assert (first.count, first.is_full) == (2_000, True)
        second = Finished(database.dialect).batch(connection)
        assert (second.count, second.is_full) == (3, False)


def test_a_message_stays_as_long_as_any_delivery_of_it_is_open_or_dead(kept, database_url):
    completed(kept, attributes={"kind": "pdf"})
    completed(kept, attributes={"kind": "pdf"})
    archive = kept.consumer("archive")
    held, _ = archive.receive(2, NOW)
    archive.dead_letter([DeadLettering(delivery=held, reason="bad")])
    advance(database_url, 11 * DAY)
    assert kept.sweep() == 2
    assert counts(database_url, history, message, delivery) == [0, 2, 2]
    archive.complete([Completion(delivery=again) for again in archive.receive(2, NOW)])
    kept.operator().purge("archive", WARRANT, Pace())
    assert kept.sweep() == 0
    assert counts(database_url, history, message, delivery) == [2, 2, 0]
    advance(database_url, 11 * DAY)
    assert kept.sweep() == 2
    assert counts(database_url, history, message, delivery) == [0, 0, 0]


def test_a_message_that_nobody_wanted_goes_after_its_topics_retention(kept, database_url):
    kept.apply(on_database(TOPICS, {"archive": SUBSCRIPTIONS["archive"], "read": SUBSCRIPTIONS["read"]}))
    published(kept, 3)
    assert counts(database_url, unwanted, message) == [3, 3]
    advance(database_url, 9.9 * DAY)
    assert kept.sweep() == 0
    advance(database_url, 0.2 * DAY)
    assert kept.sweep() == 3
    assert counts(database_url, unwanted, message) == [0, 0]


def test_dead_letters_go_after_a_retention_of_their_own_with_an_entry_in_the_audit(kept, database_url, caplog):
    published(kept, 3)
    consumer = kept.consumer("convert")
    held = consumer.receive(2, NOW)
    consumer.dead_letter([DeadLettering(delivery=one, reason="bad") for one in held])
    advance(database_url, 4.9 * DAY)
    assert kept.sweep() == 0
    advance(database_url, 0.2 * DAY)
    caplog.set_level(logging.WARNING)
    assert kept.sweep() == 2
    assert stats(kept) == (1, 0, 0, 2)
    (entry,) = kept.operator().audit(10)
    assert (entry.actor, entry.action, entry.subject) == ("towpath", "retention", "convert")
    assert entry.reason == "dead letters are kept for 5 days"
    assert sorted(entry.details["deliveries"]) == sorted(one.id for one in held)
    assert sorted(record.delivery_id for record in caplog.records) == sorted(one.id for one in held)


def test_what_removed_subscriptions_and_topics_left_behind_goes_too(kept, database_url):
    completed(kept, 2, "letters", "read")
    published(kept, 1, "letters")
    held = kept.consumer("read").receive(1, NOW)
    kept.consumer("read").discard([Discard(delivery=one, reason="Expired") for one in held])
    kept.apply(on_database({"documents": TOPICS["documents"]}, {"convert": SUBSCRIPTIONS["convert"]}))
    advance(database_url, 3 * DAY)
    assert kept.sweep() == 3
    assert counts(database_url, history, message) == [0, 0]


def test_deduplication_keys_go_when_their_windows_are_over(kept, database_url):
    for seconds in (60, 600):
        published(kept, 1, deduplication_key=f"k-{seconds}", deduplication_ttl=timedelta(seconds=seconds))
    advance(database_url, 61)
    assert kept.sweep() == 1
    assert counts(database_url, deduplication) == [1]


# --- How it is done ----------------------------------------------------------------------------------------------


@pytest.fixture
def large(kept, database_url):
    """10,000 deliveries that were completed eleven days ago, 2,000 expired ones, and some that wait."""
    kept.policies()
    convert = kept._reader.last.subscriptions["convert"].id
    published(kept, 1)
    with closing(Database(database_url)) as database, database.writing() as connection:
        copied = sa.select(message.c.published_at, message.c.topic_id, message.c.body).limit(1).subquery()
        numbers = sa.select(sa.literal(1).label("n")).cte("numbers", recursive=True)
        numbers = numbers.union_all(sa.select(numbers.c.n + 1).where(numbers.c.n < 12_000))
        text = sa.func.substr("000000000000" + sa.cast(numbers.c.n, sa.Text()), -12)
        made = "01890000-0000-7000-8000-" + (
            text if database.dialect.makes_own_schema else sa.func.lpad(sa.cast(numbers.c.n, sa.Text()), 12, "0")
        )
        ids = sa.cast(made, message.c.id.type)
        connection.execute(
            message.insert().from_select(
                ["id", "published_at", "topic_id", "body"],
                sa.select(ids, copied.c.published_at, copied.c.topic_id, copied.c.body).select_from(
                    numbers.join(copied, sa.true())
                ),
            )
        )
        old = Later(message.c.published_at, sa.literal(-11.0 * DAY))
        of_old = message.c.ordinal.between(2, 10_001)
        connection.execute(
            history.insert().from_select(
                ["message_ordinal", "subscription_id", "finished_at", "attempt", "outcome"],
                sa.select(message.c.ordinal, convert, old, 1, sa.literal("completed")).where(of_old),
            )
        )
        connection.execute(
            delivery.insert().from_select(
                ["message_ordinal", "subscription_id", "due_at", "expires_at"],
                sa.select(message.c.ordinal, convert, message.c.published_at, old).where(
                    ~of_old, message.c.ordinal > 1
                ),
            )
        )
    return kept


def test_a_large_sweep_is_done_in_batches_and_holds_up_no_claim(large, database_url):
    published(large, 30)
    sweeping = threading.Thread(target=large.sweep)
    waits = []
    with connect(database_url) as other:
        consumer = other.consumer("archive")
        published(large, 30, attributes={"kind": "pdf"})
        sweeping.start()
        while sweeping.is_alive():
            began_at = time.monotonic()
            consumer.complete([Completion(delivery=held) for held in consumer.receive(1, NOW)])
            waits.append(time.monotonic() - began_at)
    sweeping.join()
    assert counts(database_url, history, deduplication)[0] <= 2_031
    assert max(waits) < 9, "the lock time-out is 10 s"
    assert len(waits) >= 3
    assert stats(large)[3] == 2_000


def test_a_sweep_pauses_after_each_full_batch(large, database_url):
    pauses = []
    with closing(Database(database_url)) as database:
        log = logging.getLogger("test")
        sweep = Sweep(database, lambda ids: None, log, Pacer(sleep=pauses.append))
        assert sweep.run() == 12_000
    assert 8 <= len(pauses) <= 12  # 500 deliveries or 2,000 rows at a time
    assert all(0 <= pause <= 0.1 for pause in pauses)


def test_what_a_claim_or_a_publisher_holds_just_now_is_left_for_the_next_sweep(large, database_url):
    with closing(Database(database_url)) as database:
        held = 0 if database.dialect.makes_own_schema else 5  # where only one writes at a time, nobody else holds any
        with database.engine.begin() as connection:
            first = sa.select(delivery.c.message_ordinal).where(delivery.c.expires_at.is_not(None)).limit(held)
            connection.execute(first.with_for_update()).all()
            assert large.sweep() == 12_000 - held
    assert large.sweep() == held
