"""The promises of leases: C07 to C09, by what a consumer answers to whoever holds one, or held it once."""

import time
from datetime import timedelta

import pytest

from tests.conformance.harness import PATIENCE
from tests.conformance.needs import on_databases, outside_functions
from towpath import NewMessage
from towpath.operating import Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Discard,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
)

LEASE_SECONDS = 600  # no case here takes so long
LOST_SECONDS = LEASE_SECONDS + 3  # with the back-off
WARRANT = Warrant(actor="suite", reason="the case says so")
FAILURE = Failure(type="ValueError", message="no")
NOW = timedelta(0)
MODES = ["none", "exclusive", "ordered"]
SETTLES = {
    "complete": (lambda held: Completion(delivery=held), "completed"),
    "retry": (lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE), "pending"),
    "dead_letter": (lambda held: DeadLettering(delivery=held, reason="bad", failure=FAILURE), "dead"),
    "discard": (lambda held: Discard(delivery=held, reason="Expired"), "discarded"),
    "release": (lambda held: Release(delivery=held), "pending"),
}
LATE = {how: make for how, (make, _) in SETTLES.items()} | {
    "extend": lambda held: Extension(delivery=held),
    "acknowledge_cancel": lambda held: CancelAcknowledgement(delivery=held),
}

HELD_BY_FUNCTIONS = outside_functions("holds leases in functions, which the suite cannot act for")
HANDED_ON = "lets an old receipt handle of a standard queue act until its message is deleted"


def topology(mode="none"):
    topic = {"transport": "database"} if mode == "ordered" else {}
    rules = {"topic": "orders", "lease_seconds": LEASE_SECONDS, "partition_mode": mode}
    return {"topics": {"orders": topic}, "subscriptions": {"ship": rules}}


def publish(running, key=None):
    running.publish("orders", NewMessage(payload={}, partition_key=key))


def received(running, within=0):
    """What comes, where it has to be waited for at most so many seconds; on SQS a look may miss it."""
    deadline = time.monotonic() + within
    consumer = running.transport.consumer("ship")
    while True:
        found = consumer.receive(10, timedelta(seconds=min(within, 1)))
        if found or time.monotonic() >= deadline:
            return found


def answer(running, how, held):
    (given,) = getattr(running.transport.consumer("ship"), how)([LATE[how](held)])
    return given


def standing(running):
    """Everything that a settle may change."""
    operator = running.transport.operator()
    (row,) = operator.stats()
    kept = operator.deliveries(Selection(subscription="ship"), 10)
    return row.completed, row.discarded, [(e.state, e.attempt, e.due_at, e.lease_expires_at, e.error) for e in kept]


# --- Stale leases ------------------------------------------------------------------------------------------------


@on_databases(HANDED_ON)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C07", "a stale lease cannot complete, retry, dead-letter, release; the current one can")
def test_only_the_current_lease_of_a_delivery_can_settle_it(harness, mode):
    with harness.transport(topology(mode)) as running:
        for how, (_, state) in SETTLES.items():
            publish(running, key=how)
            (stale,) = received(running)
            running.advance(LOST_SECONDS)
            (current,) = received(running)
            assert (current.id, current.attempt) == (stale.id, 2)
            before = standing(running)
            assert [answer(running, late, stale) for late in LATE] == [LeaseLost()] * len(LATE)
            assert standing(running) == before, "a stale lease changed something"
            assert answer(running, how, current) == Settled(state=state)
            after = standing(running)
            assert [answer(running, late, current) for late in LATE] == [LeaseLost()] * len(LATE), f"after {how}"
            assert standing(running) == after, f"a lease that is over by its {how} changed something"
            running.operator.discard(Selection(subscription="ship"), WARRANT, Pace())


@HELD_BY_FUNCTIONS
@pytest.mark.case("C07", "the lease of a delivery that is completed cannot retry, dead-letter, release")
def test_the_lease_of_a_completed_delivery_can_do_nothing_more(harness):
    """A complete that comes late cannot be told from one in time on SQS, and does as little."""
    with harness.transport(topology()) as running:
        publish(running)
        (held,) = received(running, within=PATIENCE)
        assert answer(running, "complete", held) == Settled(state="completed")
        assert [answer(running, how, held) for how in ("retry", "dead_letter", "release")] == [LeaseLost()] * 3
        assert running.dead_letters("ship") == []
        assert received(running) == []


# --- Extending ---------------------------------------------------------------------------------------------------


@on_databases("is shown this by C37, in real time")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C08", "an extended lease stays hidden past its first end")
def test_an_extended_lease_stays_hidden_past_its_first_end(harness, mode):
    with harness.transport(topology(mode)) as running:
        publish(running, key="a")
        (held,) = received(running)
        for _ in range(3):
            running.advance(LEASE_SECONDS - 1)
            assert answer(running, "extend", held) == Settled(state="leased")
            running.advance(2)
            assert received(running) == []
        running.advance(LOST_SECONDS)
        (again,) = received(running)
        assert (again.id, again.attempt) == (held.id, 2)


@HELD_BY_FUNCTIONS
@pytest.mark.case("C09", "extending a lost lease says lost: the delivery is settled")
def test_extending_the_lease_of_a_settled_delivery_says_lost(harness):
    with harness.transport(topology()) as running:
        publish(running)
        (held,) = received(running, within=PATIENCE)
        assert answer(running, "complete", held) == Settled(state="completed")
        assert answer(running, "extend", held) == LeaseLost()
        assert received(running) == []


@on_databases(HANDED_ON)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C09", "extending a lost lease says lost: another holds the delivery, or it is discarded")
def test_extending_a_lease_that_was_taken_away_says_lost(harness, mode):
    with harness.transport(topology(mode)) as running:

        def discard():
            running.operator.discard(Selection(subscription="ship"), WARRANT, Pace())

        for takes_away in (lambda: received(running), discard):
            publish(running, key="a")
            (held,) = received(running)
            running.advance(LOST_SECONDS)
            takes_away()
            before = standing(running)
            assert answer(running, "extend", held) == LeaseLost()
            assert standing(running) == before
            discard()
            running.advance(LOST_SECONDS)
            running.transport.sweep()
