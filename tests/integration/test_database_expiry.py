"""Delays and expiry go by the database's clock: it does not matter that a worker's own is ten minutes off."""

import sys
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest
import sqlalchemy as sa

from local_transport.tables import history
from tests.servers.clock import advance, transport_with_clock
from tests.servers.topologies import on_database
from towpath import NewMessage
from towpath.operating import Pace, Selection, Warrant
from towpath.settlement import DeadLettering
from towpath.worker import Worker, WorkerOptions

NOW = timedelta(0)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MODES = {"loose": "none", "line": "ordered", "single": "exclusive"}


@pytest.fixture(params=[-600, 600], ids=["worker ahead", "worker behind"])
def shift(request):
    """By how many seconds the database's clock is ahead of this machine's."""
    return timedelta(seconds=request.param)


@pytest.fixture
def seen(monkeypatch):
    """The payloads that handlers saw, by subscription."""
    found = []
    module = ModuleType("expiry_handlers")
    module.handle = lambda message, context: found.append((context.subscription, message.payload))
    monkeypatch.setitem(sys.modules, "expiry_handlers", module)
    return found


@pytest.fixture
def transport(database_url, shift, seen):
    with transport_with_clock(database_url, shift.total_seconds()) as opened:
        subscriptions = {
            name: {"topic": "documents", "partition_mode": mode, "handler": "expiry_handlers:handle"}
            for name, mode in MODES.items()
        }
        opened.apply(on_database({"documents": {}}, subscriptions))
        yield opened


def work(transport):
    return Worker(transport, list(MODES), WorkerOptions(concurrency=2, once=True)).run().states


def by_subscription(seen):
    found = {}
    for subscription, payload in seen:
        found.setdefault(subscription, set()).add(payload)
    return found


def test_a_message_expires_by_the_databases_clock(transport, shift, seen):
    database_now = datetime.now(UTC) + shift
    messages = [
        NewMessage(payload="fresh", partition_key="k", expires_at=database_now + MINUTE),
        NewMessage(payload="expired", partition_key="k", expires_at=database_now - MINUTE),
        NewMessage(payload="last", partition_key="k"),
        NewMessage(payload="without a key", expires_at=database_now - MINUTE),
    ]
    transport.publish("documents", messages)
    assert work(transport) == {"completed": 6}
    for name in MODES:
        assert [payload for subscription, payload in seen if subscription == name] == ["fresh", "last"]
    for row in transport.operator().stats():
        assert (row.pending, row.leased, row.completed, row.discarded) == (0, 0, 2, 2)
    with transport._database.reading() as connection:
        discarded = sa.select(history.c.reason, history.c.attempt).where(history.c.outcome == "discarded")
        assert {tuple(row) for row in connection.execute(discarded)} == {("Expired", 0)}


def test_a_delay_goes_by_the_databases_clock_and_an_ordered_key_waits_for_it(transport, database_url, shift, seen):
    database_now = datetime.now(UTC) + shift
    transport.publish(
        "documents",
        [
            NewMessage(payload="later", partition_key="k", deliver_after=database_now + HOUR),
            NewMessage(payload="past", partition_key="k", deliver_after=database_now - MINUTE),
            NewMessage(payload="now", partition_key="k"),
            NewMessage(payload="without a key", deliver_after=database_now + HOUR),
        ],
    )
    work(transport)
    assert by_subscription(seen) == {"loose": {"past", "now"}, "single": {"past", "now"}}
    advance(database_url, 3_000)
    assert work(transport) == {}
    advance(database_url, 700)
    work(transport)
    assert by_subscription(seen) == dict.fromkeys(MODES, frozenset({"later", "past", "now", "without a key"}))
    keyed = [payload for subscription, payload in seen if subscription == "line" and payload != "without a key"]
    assert keyed == ["later", "past", "now"]


def test_a_lease_lasts_by_the_databases_clock(transport, shift):
    transport.publish("documents", [NewMessage(payload=1)])
    assert len(transport.consumer("loose").receive(1, NOW)) == 1
    assert transport.consumer("loose").receive(1, NOW) == []
    assert transport.sweep() == 0


def test_an_expired_dead_letter_that_is_replayed_is_discarded(transport, shift):
    """What to do about an ``expires_at`` that is past is to publish the message again, or to edit it."""
    soon = datetime.now(UTC) + shift + timedelta(seconds=2)
    transport.publish("documents", [NewMessage(payload=1, expires_at=soon)])
    consumer = transport.consumer("loose")
    consumer.dead_letter([DeadLettering(delivery=held, reason="bad") for held in consumer.receive(1, NOW)])
    with transport._database.writing() as connection:
        past = sa.text("UPDATE towpath_delivery SET expires_at = dead_since WHERE dead_since IS NOT NULL")
        connection.execute(past)
    selection = Selection(subscription="loose", state="dead")
    assert transport.operator().replay(selection, Warrant(actor="ada", reason="why"), Pace()) == 1
    assert consumer.receive(1, NOW) == []
    (loose,) = [row for row in transport.operator().stats() if row.subscription == "loose"]
    assert (loose.pending, loose.dead, loose.discarded) == (0, 0, 1)
