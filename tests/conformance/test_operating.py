"""The promises to an operator: C18, C22 to C26, C38 and C39."""

import time
from collections import defaultdict
from contextlib import closing
from datetime import timedelta

import pytest

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.conformance.harness import eventually
from tests.conformance.needs import leaving_out, needing, on_databases
from towpath import NewMessage, connect
from towpath.operating import Discarded, Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Discard,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
)

ONE = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}}}
WARRANT = Warrant(actor="suite", reason="the case says so")
PACE = Pace()
NOW = timedelta(0)
NO_OPERATOR = {"local-mapping": "has queues in memory, which no operator looks after"}


def scripted(*actions, key=None, **more):
    return NewMessage(payload={"script": list(actions)} | more, partition_key=key)


def keyed(mode):
    topic = {"transport": "database"} if mode == "ordered" else {}
    return {"topics": {"orders": topic}, "subscriptions": {"ship": {"topic": "orders", "partition_mode": mode}}}


def stats(running, name="ship"):
    return next(row for row in running.transport.operator().stats() if row.subscription == name)


def received(running, count=1):
    return running.transport.consumer("ship").receive(count, NOW)


@needing("cancel_pending")
@pytest.mark.case("C18", "a pending delivery can be discarded")
def test_a_pending_delivery_can_be_discarded(harness):
    with harness.transport(ONE) as running:
        dropped, kept = running.publish("orders", scripted("complete"), scripted("complete"))
        chosen = Selection(subscription="ship", message_id=dropped.id)
        assert running.transport.operator().discard(chosen, WARRANT, PACE) == Discarded(at_once=1, requested=0)
        running.work(1)
        assert [observation["message_id"] for observation in running.observations()] == [kept.id]
        assert (stats(running).completed, stats(running).discarded) == (1, 1)


@needing("expires_leases_itself")
@pytest.mark.case("C22", "a lease that expires on the last attempt is dead-lettered without another run")
def test_a_lease_that_expires_on_the_last_attempt_is_dead_lettered_without_another_run(harness):
    subscription = {"topic": "orders", "handler": "scripted:crash", "max_attempts": 1}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        for makes_dead in (running.work, running.transport.sweep):
            running.publish("orders", scripted("complete"))
            running.lose_a_worker("ship")
            running.advance(harness.lost_lease_seconds)
            makes_dead()
        letters = running.dead_letters("ship")
        assert [(letter.reason, letter.attempts) for letter in letters] == [("MaxAttemptsExceeded", 1)] * 2
        assert running.observations() == []


@needing("counts_completions")
@pytest.mark.case("C23", "completions are counted")
def test_completions_are_counted(harness):
    with harness.transport(ONE) as running:
        running.publish("orders", *(scripted("complete") for _ in range(25)), scripted("fatal"))
        running.work(26)
        running.transport.sweep()  # folds counts together, and loses none
        running.publish("orders", scripted("complete"))
        running.work(27)
        assert (stats(running).completed, stats(running).dead, stats(running).pending) == (26, 1, 0)


@needing("cancel_in_flight")
@pytest.mark.case("C24", "cancel in flight: the handler is told, and the delivery discarded when it stops")
def test_a_handler_in_flight_is_told_of_a_cancel_and_its_delivery_is_discarded(harness):
    topology = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders", "lease_seconds": 5}}}
    with harness.transport(topology) as running, running.attended():
        cancelled, other = running.publish("orders", scripted("until_stopped"), scripted("complete"))
        eventually(lambda: stats(running).completed == 1 and stats(running).leased == 1)
        chosen = Selection(subscription="ship", message_id=cancelled.id)
        done = running.transport.operator().discard(chosen, WARRANT, PACE)
        assert done == Discarded(at_once=0, requested=1)
        eventually(lambda: stats(running).discarded == 1)
        assert (stats(running).leased, stats(running).pending) == (0, 0)
        actions = {observation["message_id"]: observation["action"] for observation in running.observations()}
        assert actions == {cancelled.id: "until_stopped", other.id: "complete"}


FAILURE = Failure(type="ValueError", message="no")
SETTLES = {
    "complete": lambda held: Completion(delivery=held),
    "retry": lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE),
    "dead_letter": lambda held: DeadLettering(delivery=held, reason="bad"),
    "discard": lambda held: Discard(delivery=held, reason="Expired"),
    "release": lambda held: Release(delivery=held),
    "extend": lambda held: Extension(delivery=held),
}


@needing("cancel_in_flight", "ordered")
@pytest.mark.parametrize("mode", ["none", "exclusive", "ordered"])
@pytest.mark.case("C25", "cancel in flight: every settle is fenced, acknowledge frees the key")
def test_every_settle_of_a_cancelled_delivery_is_fenced_and_acknowledging_frees_the_key(harness, mode):
    with harness.transport(keyed(mode)) as running:
        first, second = running.publish("orders", scripted("complete", key="a"), scripted("complete", key="a"))
        (held,) = received(running)
        assert held.message_id == first.id
        running.transport.operator().discard(Selection(delivery_ids=(held.id,)), WARRANT, PACE)
        consumer = running.transport.consumer("ship")
        for how, make in SETTLES.items():
            assert getattr(consumer, how)([make(held)]) == [CancelRequested()], how
        expected = [second.id] if mode == "none" else []
        others = received(running, 5)
        assert [one.message_id for one in others] == expected
        acknowledgement = CancelAcknowledgement(delivery=held)
        assert consumer.acknowledge_cancel([acknowledgement]) == [Settled(state="discarded")]
        assert consumer.acknowledge_cancel([acknowledgement]) == [LeaseLost()]
        (following,) = others or received(running, 5)
        assert following.message_id == second.id
        assert (stats(running).discarded, stats(running).leased) == (1, 1)


@needing("cancel_in_flight", "ordered")
@pytest.mark.parametrize("mode", ["none", "exclusive", "ordered"])
@pytest.mark.case("C26", "cancel in flight: a dead holder's is discarded at expiry")
def test_a_cancelled_delivery_of_a_dead_holder_is_discarded_when_its_lease_ends(harness, mode):
    topology = keyed(mode)
    topology["subscriptions"]["ship"]["handler"] = "scripted:crash"
    with harness.transport(topology) as running:
        (cancelled,) = running.publish("orders", scripted("complete", key="a"))
        running.lose_a_worker("ship")
        (following,) = running.publish("orders", scripted("complete", "complete", key="b"))
        chosen = Selection(subscription="ship", message_id=cancelled.id)
        assert running.transport.operator().discard(chosen, WARRANT, PACE) == Discarded(at_once=0, requested=1)
        running.advance(harness.lost_lease_seconds)
        assert running.transport.sweep() == 1
        assert (stats(running).discarded, stats(running).pending) == (1, 1)
        (held,) = received(running)
        assert held.message_id == following.id


@needing("pause_at_once")
@pytest.mark.case(
    "C38", "pause stops claims (at once by capability) and keeps fan-out; resume continues; disabled gets nothing"
)
def test_a_pause_stops_claims_at_once_and_keeps_fan_out_and_a_resume_continues(harness):
    subscriptions = {
        "ship": {"topic": "orders"},
        "bill": {"topic": "orders"},
        "off": {"topic": "orders", "status": "disabled"},
    }
    with harness.transport({"topics": {"orders": {}}, "subscriptions": subscriptions}) as running, running.attended():
        operator = running.transport.operator()
        running.publish("orders", scripted("complete"))
        eventually(lambda: stats(running).completed == stats(running, "bill").completed == 1)
        with connect(running.url) as other:
            consumer = other.consumer("ship")
            assert consumer.receive(1, NOW) == []  # so it knows the policy by now
            assert operator.pause("ship", WARRANT)
            running.publish("orders", *(scripted("complete") for _ in range(3)))
            assert consumer.receive(3, NOW) == []
        eventually(lambda: stats(running, "bill").completed == 4)
        time.sleep(0.2)  # a worker that went on would have them by now
        assert (stats(running).pending, stats(running).completed, stats(running).status) == (3, 1, "paused")
        assert operator.resume("ship", WARRANT)
        eventually(lambda: stats(running).completed == 4)
        assert stats(running).status == "active"
        assert (stats(running, "off").pending, stats(running, "off").completed) == (0, 0)


@leaving_out(NO_OPERATOR)
@pytest.mark.case("C39", "replay and discard many, by filter, with rate and audit")
def test_many_are_replayed_and_discarded_by_filter_with_rate_and_audit(harness, tmp_path, monkeypatch):
    """Beside handlers that work: they have what was replayed at once, and die or are done with it again."""
    monkeypatch.setenv("TOWPATH_AUDIT_DATABASE", audit_database(tmp_path))  # SQS keeps no audit trail
    with harness.transport(ONE) as running, running.attended():
        bad = running.publish("orders", *(scripted("fatal_until_replayed") for _ in range(6)))
        worse = running.publish("orders", *(scripted("dead_letter") for _ in range(4)))
        eventually(lambda: len(running.dead_letters("ship")) == 10)
        operator = running.operator
        chosen = Selection(subscription="ship", state="dead", reason="scripted fatal failure")
        began_at = time.monotonic()
        assert operator.replay(chosen, WARRANT, Pace(batch=2, rate=20)) == 6
        assert time.monotonic() - began_at >= 0.2  # six at twenty a second
        eventually(lambda: len(running.observations()) == 16)
        chosen = Selection(subscription="ship", state="dead", reason="scripted dead letter")
        assert operator.replay(chosen, WARRANT, Pace(most=1)) == 1
        eventually(lambda: len(running.observations()) == 17 and len(running.dead_letters("ship")) == 4)
        assert operator.discard(chosen, WARRANT, PACE) == Discarded(at_once=4, requested=0)
        assert running.dead_letters("ship") == []
        assert_ran(running, {result.id for result in bad}, [(1, False), (1, True)])
        again = {o["message_id"] for o in running.observations() if o["is_replay"]} & {r.id for r in worse}
        assert len(again) == 1, "of those that were left, and dead again"
        assert_audited(operator.audit(20), {"discard": 4, "replay": 7})


def audit_database(folder):
    url = f"sqlite:///{folder / 'audit.db'}"
    with closing(Database(url)) as database:
        upgrade(database)
    return url


def assert_ran(running, message_ids, attempts):
    """Each of these messages had these attempts, of which some were of a replay."""
    seen = defaultdict(list)
    for observation in running.observations():
        seen[observation["message_id"]].append((observation["attempt"], observation["is_replay"]))
    assert {message_id: seen[message_id] for message_id in message_ids} == dict.fromkeys(message_ids, attempts)


def assert_audited(entries, deliveries):
    """Who, why, and what was done to how many deliveries, the latest first, and to none twice in one go."""
    assert {(entry.actor, entry.reason) for entry in entries} == {("suite", "the case says so")}
    assert [entry.action for entry in entries] == sorted(entry.action for entry in entries), "the latest first"
    assert all(len(entry.details["deliveries"]) <= 2 for entry in entries[-3:]), "two at a time"
    changed = defaultdict(list)
    for entry in entries:
        changed[entry.action] += entry.details["deliveries"]
    assert {action: len(ids) for action, ids in changed.items()} == deliveries
    assert all(len(ids) == len(set(ids)) for ids in changed.values())


@on_databases("shows what waits to nobody but its consumers")
@pytest.mark.case("C39", "what was replayed can be listed while it waits")
def test_what_was_replayed_waits_as_if_it_had_never_run(harness):
    with harness.transport(ONE) as running:
        bad = running.publish("orders", *(scripted("fatal", "complete") for _ in range(6)))
        running.publish("orders", scripted("complete"))
        running.work(7)
        assert running.operator.replay(Selection(subscription="ship"), WARRANT, Pace(batch=4)) == 6
        waiting = running.operator.deliveries(Selection(subscription="ship", state="pending"), 10)
        assert {entry.message_id for entry in waiting} == {result.id for result in bad}
        assert {(entry.attempt, entry.is_replay) for entry in waiting} == {(0, True)}
