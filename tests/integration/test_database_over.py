"""Deliveries that are over can be looked at, counted as a rate, and purged when they were kept for long enough."""

from datetime import timedelta

import pytest

from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.errors import InvalidSelection
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import Completion, DeadLettering, Discard

NOW = timedelta(0)
DAY = 86_400
WARRANT = Warrant(actor="ada", reason="tidy")
SUBSCRIPTIONS = {"read": {"topic": "letters", "dead_letter_retention_days": 3}, "file": {"topic": "letters"}}


@pytest.fixture
def kept(database_url):
    """Of ``read`` five are completed, two discarded and one dead; of ``file`` all eight wait."""
    with connect(database_url) as transport:
        topics = {"letters": {"retention_days": 2}, "unread": {"retention_days": 1}}
        transport.apply(on_database(topics, SUBSCRIPTIONS))
        transport.publish("letters", [NewMessage(payload=i, partition_key=f"k{i}") for i in range(8)])
        transport.publish("unread", [NewMessage(deduplication_key="once", deduplication_ttl=timedelta(hours=1))])
        consumer = transport.consumer("read")
        held = consumer.receive(8, NOW)
        for one in held[:5]:
            consumer.complete([Completion(delivery=one)])
        consumer.discard([Discard(delivery=one, reason="not ours") for one in held[5:7]])
        consumer.dead_letter([DeadLettering(delivery=held[7], reason="no use")])
        yield transport


def listed(transport, limit=100, **conditions):
    """All of a list, page by page."""
    found, cursor = [], None
    while True:
        page = transport.operator().deliveries(Selection(**conditions), limit, cursor)
        found += page
        cursor = page.cursor
        if cursor is None:
            return found


def test_what_is_over_is_listed_by_pages_the_last_first(kept):
    at_once = listed(kept, state="completed")
    assert len(at_once) == 5
    assert [one.finished_at for one in at_once] == sorted((one.finished_at for one in at_once), reverse=True)
    assert listed(kept, limit=2, state="completed") == at_once
    assert {(one.state, one.subscription, one.attempt) for one in at_once} == {("completed", "read", 1)}
    assert [one.reason for one in listed(kept, state="discarded")] == ["not ours"] * 2


def test_what_is_over_is_chosen_by_subscription_id_message_key_reason_and_age(kept):
    one = listed(kept, state="completed")[1]
    for condition in (
        {"delivery_ids": (one.delivery_id,)},
        {"message_id": one.message_id},
        {"partition_key": one.partition_key},
    ):
        assert listed(kept, state="completed", **condition) == [one]
    assert listed(kept, state="completed", subscription="file") == []
    assert len(listed(kept, state="discarded", reason="not ours")) == 2
    assert listed(kept, state="discarded", reason="other") == []
    assert listed(kept, state="completed", older_than=timedelta(hours=1)) == []
    assert len(listed(kept, state="completed", newer_than=timedelta(hours=1))) == 5


def test_without_a_state_only_what_is_open_or_dead_is_listed(kept):
    assert sorted(one.state for one in listed(kept)) == ["dead"] + ["pending"] * 8


@pytest.mark.parametrize("cursor", ["x", "1-1", "2026-01-01~1-1", "2026-01-01T00:00:00+00:00~x"])
def test_a_cursor_of_another_list_is_refused(kept, cursor):
    with pytest.raises(InvalidSelection, match="is no cursor of this list"):
        kept.operator().deliveries(Selection(state="completed"), 1, cursor)


def test_what_is_over_has_no_error_and_cannot_be_changed(kept):
    operator = kept.operator()
    with pytest.raises(InvalidSelection, match="no error is kept"):
        operator.deliveries(Selection(state="completed", error_type="ValueError"), 1)
    with pytest.raises(InvalidSelection, match="are over"):
        operator.discard(Selection(state="completed"), WARRANT, Pace())
    with pytest.raises(InvalidSelection, match="only dead letters can be replayed"):
        operator.replay(Selection(state="discarded"), WARRANT, Pace())


def test_stats_have_rates_of_the_last_minutes_and_the_age_of_the_oldest_dead_letter(kept, database_url):
    row = next(row for row in kept.operator().stats() if row.subscription == "read")
    assert (row.completed_per_minute, row.dead_per_minute) == (1.0, 0.2)
    assert row.oldest_dead < timedelta(minutes=5)
    advance(database_url, 3_600)
    row = next(row for row in kept.operator().stats() if row.subscription == "read")
    assert (row.completed_per_minute, row.dead_per_minute) == (0.0, 0.0)
    assert timedelta(hours=1) <= row.oldest_dead < timedelta(hours=2)


def test_retention_now_removes_what_was_kept_for_long_enough_and_says_how_much(kept, database_url):
    purging = kept.purging()
    assert set(purging.overdue().values()) == {0}
    advance(database_url, 2 * DAY + 60)
    due = {"dead_letters": 0, "history": 7, "unwanted_messages": 1, "deduplication_keys": 1}
    assert purging.overdue() == due
    told = []
    assert purging.run(WARRANT, lambda name, count: told.append((name, count))) == due
    assert dict(told) == {name: count for name, count in due.items() if count}
    assert set(purging.overdue().values()) == {0}
    assert listed(kept, state="completed") == []
    (entry,) = kept.operator().audit(10)
    assert (entry.actor, entry.action, entry.details) == ("ada", "purge retention", {"removed": due})
    advance(database_url, DAY)
    assert purging.run(WARRANT, lambda *_: None)["dead_letters"] == 1


def test_a_purge_that_is_cut_off_has_its_entry_in_the_audit_trail(kept, database_url):
    advance(database_url, 2 * DAY + 60)

    def cut_off(name, count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept.purging().run(WARRANT, cut_off)
    (entry,) = kept.operator().audit(10)
    assert entry.details["removed"]["history"] == 7
    assert entry.details["removed"]["unwanted_messages"] == 0


def test_the_audit_trail_is_read_about_one_delivery_or_subscription(kept):
    operator = kept.operator()
    first, second, third = (one.delivery_id for one in listed(kept, subscription="file")[:3])
    operator.discard(Selection(delivery_ids=(first,)), WARRANT, Pace())
    operator.discard(Selection(subscription="file"), WARRANT, Pace(most=2))
    operator.pause("file", WARRANT)
    assert [entry.action for entry in operator.audit(10, about="file")] == ["pause", "discard"]
    (about,) = operator.audit(10, about=first)
    assert about.subject == first
    (about,) = operator.audit(10, about=second)
    assert about.details["deliveries"] == [second, third]
    assert list(operator.audit(10, about=third[:1])) == []
