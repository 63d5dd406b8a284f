"""C42: random sequences of what publishers, workers and operators may do, against a plain model, for each mode.

``TOWPATH_MODEL_EXAMPLES`` says how many sequences there are for each mode and transport (default 8; try 300 after a
change to claims or settles), ``TOWPATH_MODEL_LENGTH`` how long they are. A sequence that fails is shown as it is; with
``TOWPATH_MODEL_SHRINK=1`` a shorter one is looked for, which takes minutes.
"""

import os
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from local_transport.connections import Database
from local_transport.tables import metadata
from tests.conformance import model
from tests.conformance.needs import needing
from towpath import NewMessage
from towpath.message import utc_now
from towpath.operating import Pace, Selection, Warrant
from towpath.ports import Extension, Operator
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Discard,
    Failure,
    Release,
    Retrial,
)

EXAMPLES = int(os.environ.get("TOWPATH_MODEL_EXAMPLES", "8"))
LENGTH = int(os.environ.get("TOWPATH_MODEL_LENGTH", "40"))
PHASES = (Phase.generate, *([Phase.shrink] if os.environ.get("TOWPATH_MODEL_SHRINK") else []))
MODES = ("none", "exclusive", "ordered")

WARRANT = Warrant(actor="suite", reason="the case says so")
PACE = Pace()
NOW = timedelta(0)
HALF = model.TICK_SECONDS / 2
FAILURE = Failure(type="ValueError", message="no")
SHIP = Selection(subscription="ship")
KEPT_ROWS = ("towpath_topology", "towpath_topic", "towpath_subscription")  # between examples

SETTLES = {
    "complete": lambda held, _: Completion(delivery=held),
    "retry": lambda held, delay: Retrial(delivery=held, delay=after(delay), failure=FAILURE),
    "dead_letter": lambda held, _: DeadLettering(delivery=held, reason="bad", failure=FAILURE),
    "discard": lambda held, _: Discard(delivery=held, reason="Expired"),
    "release": lambda held, _: Release(delivery=held),
    "extend": lambda held, _: Extension(delivery=held),
    "acknowledge_cancel": lambda held, _: CancelAcknowledgement(delivery=held),
}
MOST_KEPT = 10  # then nothing more is published until something ends

HOW = st.sampled_from([*SETTLES, "dead_letter", "extend"])
WORKER, DELAY = st.sampled_from([0, 1]), st.sampled_from([0, 1, 2])
PICKS = st.lists(st.integers(0, 5), min_size=1, max_size=2)
STEPS = {
    "receive": {"limit": st.sampled_from([100, 100, 2, 1]), "worker": WORKER},
    "let_time_pass": {"ticks": st.sampled_from([2, 1, 3]), "sweeps": st.booleans()},
    "publish": {
        "keys": st.lists(st.sampled_from(["a", "a", "b", None]), min_size=1, max_size=3),
        "delay": st.sampled_from([0, 0, 0, 0, 1]),
        "life": st.sampled_from([None, None, None, None, 2]),
        "in_own_transaction": st.booleans(),
    },
    "settle_live": {"how": HOW, "worker": WORKER, "picks": PICKS, "delay": DELAY},
    "settle_late": {"how": HOW, "worker": WORKER, "picks": PICKS, "delay": DELAY},
    "settle_any": {"how": HOW, "worker": WORKER, "picks": PICKS, "delay": DELAY},
    "cancel_some": {"picks": PICKS},
    "acknowledge": {"worker": WORKER, "picks": PICKS},
    "discard_some": {"picks": PICKS},
    "replay_some": {"picks": PICKS},
}


def after(ticks):
    """A time that is past after so many ticks, and not before; 0 is at once."""
    return timedelta(seconds=ticks * model.TICK_SECONDS - HALF) if ticks else NOW


def topology(mode):
    rules = {
        "topic": "orders",
        "partition_mode": mode,
        "lease_seconds": model.LEASE_SECONDS,
        "max_attempts": model.MAX_ATTEMPTS,
        "backoff": {"base_seconds": model.BACKOFF_SECONDS, "max_seconds": model.BACKOFF_SECONDS},
    }
    return {"topics": {"orders": {"transport": "database"}}, "subscriptions": {"ship": rules}}


@dataclass(frozen=True, kw_only=True)
class Parties:
    """Who takes part in every sequence: their statements are made once."""

    running: Any
    database: Database  # for a publisher's own transactions
    consumers: list[Any]
    operator: Operator


class Sequence(RuleBasedStateMachine):
    """One sequence. After each step the operator's lists and counts must be the model's."""

    def __init__(self, parties, mode):
        super().__init__()
        self.parties, self.operator = parties, parties.operator
        self.model = model.Model(mode=mode)
        self.handed = []
        self.sound = True
        empty(parties.database)

    @initialize(keys=st.lists(st.sampled_from("ab"), min_size=2, max_size=4))
    def begin(self, keys):
        self.publish(keys, 0, None, in_own_transaction=False)

    @rule(data=st.data())
    def step(self, data):
        """One rule for all: hypothesis leaves rules out of many sequences, which then come to nothing."""
        name = data.draw(st.sampled_from(self.possible()), label="step")
        drawn = {argument: data.draw(values, label=argument) for argument, values in STEPS[name].items()}
        getattr(self, name)(**drawn)

    def possible(self):
        """What makes sense now, each as often as it is to be likely."""
        kept, live, late = self.model.kept(), self.model.live(), self.late()
        return [
            *["receive"] * 4,
            *["let_time_pass"] * 3,
            *["publish"] * (2 if len(kept) < MOST_KEPT else 0),
            *["settle_live"] * (4 if live else 0),
            *["settle_late"] * (4 if late else 0),
            *["settle_any"] * (1 if self.handed else 0),
            *["cancel_some"] * (1 if live else 0),
            *["acknowledge"] * (2 if self.cancelled() else 0),
            *["discard_some"] * (1 if kept else 0),
            *["replay_some"] * (2 if self.model.count("dead") else 0),
        ]

    # --- Publishers

    def publish(self, keys, delay, life, in_own_transaction):
        self.sound = False
        times = {
            "deliver_after": utc_now() + after(delay) if delay else None,
            "expires_at": utc_now() + after(life) if life else None,
        }
        new = [NewMessage(payload={}, partition_key=key, **times) for key in keys]
        if in_own_transaction:
            with self.parties.database.engine.begin() as connection:
                results = self.parties.running.transport.publish("orders", new, connection=connection)
        else:
            results = self.parties.running.transport.publish("orders", new)
        assert [result.status for result in results] == ["accepted"] * len(keys)
        ids = [result.id for result in results]
        listed = self.listed()
        found = [entry for entry in listed if entry.message_id in ids]
        assert [entry.message_id for entry in found] == ids, "not in the order of publishing"
        until = None if life is None else self.model.tick + life
        self.model.published(found, self.model.tick + delay, until)
        self.look(listed)

    # --- Workers

    def receive(self, limit, worker):
        self.sound = False
        came = self.parties.consumers[worker].receive(limit, NOW)
        self.handed += came
        listed = self.listed()
        self.model.received(limit, came, {entry.delivery_id: entry.state for entry in listed})
        self.look(listed)
        if not came:  # it has looked at every key
            (backlog,) = self.operator.backlog()
            assert backlog.claimable == 0
        in_flight = {entry.partition_key for entry in self.operator.partitions("ship", 100, state="in_flight")}
        assert in_flight == {d.key for d in self.model.live() if d.key is not None}

    def settle_live(self, how, worker, picks, delay):
        """By those who hold it."""
        self.settle(how, worker, self.chosen(self.leases(lambda d: d.is_live(self.model.tick)), picks), delay)

    def acknowledge(self, worker, picks):
        self.settle("acknowledge_cancel", worker, self.chosen(self.cancelled(), picks), 0)

    def cancelled(self):
        return self.leases(lambda d: d.is_live(self.model.tick) and d.cancelled)

    def settle_late(self, how, worker, picks, delay):
        """By those whose lease is over, or another's by now; beside some that are held, perhaps."""
        live = self.leases(lambda d: d.is_live(self.model.tick))
        self.settle(how, worker, self.chosen(self.late(), picks) + live[:delay], delay)

    def settle_any(self, how, worker, picks, delay):
        """By whoever it may be: most have settled theirs."""
        self.settle(how, worker, self.chosen(self.handed[::-1], picks), delay)

    def late(self):
        """Leases that are not live, of deliveries that are leased, to others or still to them."""
        leased = {d.id for d in self.model.all if d.state == "leased"}
        return [one for one in self.leases(lambda d: not d.is_live(self.model.tick)) if one.id in leased]

    def leases(self, which):
        """The leases that were handed out, latest first, of deliveries that are held by them, or not, as asked."""
        found = [(one, self.model.by_lease(one.id, one.lease_token)) for one in reversed(self.handed)]
        return [one for one, d in found if which(d)]

    def settle(self, how, worker, held, delay):
        self.sound = False
        decisions = [SETTLES[how](one, delay) for one in held]
        answers = getattr(self.parties.consumers[worker], how)(decisions)
        for one, answer in zip(held, answers, strict=True):
            self.model.settled(how, one, delay, answer)
        self.look()

    # --- Time

    def let_time_pass(self, ticks, sweeps):
        self.sound = False
        self.parties.running.advance(ticks * model.TICK_SECONDS)
        self.model.tick += ticks
        if sweeps:
            self.look()
            self.parties.running.transport.sweep()
            self.model.swept()
        self.look()

    # --- Operators

    def discard_some(self, picks):
        """Those that wait are gone, those that are held are cancelled."""
        self.discard(self.chosen(self.model.kept(), picks))

    def cancel_some(self, picks):
        self.discard(self.chosen(self.model.live(), picks))

    def replay_some(self, picks):
        self.replay(self.chosen([d for d in self.model.all if d.state == "dead"], picks))

    def discard(self, chosen):
        self.sound = False
        selection = Selection(delivery_ids=tuple(d.id for d in chosen))
        self.model.discarded(chosen, self.operator.discard(selection, WARRANT, PACE))
        self.look()

    def replay(self, chosen):
        self.sound = False
        selection = Selection(delivery_ids=tuple(d.id for d in chosen))
        self.model.replayed(chosen, self.operator.replay(selection, WARRANT, PACE))
        self.look()

    @staticmethod
    def chosen(some, picks):
        return [some[place] for place in dict.fromkeys(pick % len(some) for pick in picks)]

    # --- What must hold after every step

    def listed(self):
        return list(self.operator.deliveries(SHIP, 500))

    def look(self, listed=None):
        """Compare every delivery and every count with the model."""
        tick, kept, live = self.model.tick, self.model.kept(), self.model.live()
        assert [told(entry) for entry in listed or self.listed()] == [
            (d.id, shown(d, tick), d.attempt, d.is_replay, d.cancelled, self.model.waits_for(d)) for d in kept
        ]
        (stats,) = self.operator.stats()
        dead = self.model.count("dead")
        assert (stats.pending, stats.leased, stats.dead) == (len(kept) - len(live) - dead, len(live), dead)
        counts = (self.model.count("completed"), self.model.count("discarded"))
        assert (stats.completed, stats.discarded) == counts
        (backlog,) = self.operator.backlog()
        assert backlog.in_flight == len(live)
        assert self.model.claimable() <= backlog.claimable <= self.model.claimable(free_keys=True)
        self.sound = True

    def teardown(self):
        """Whatever was done, nothing is stuck: all that is left comes, and comes to an end."""
        if not self.sound:  # it failed already
            return
        for _ in range(3 * len(self.model.all) + 5):
            if not self.model.kept():
                break
            self.receive(100, 0)
            held = self.leases(lambda d: d.is_live(self.model.tick) and not d.cancelled)
            dead = [d for d in self.model.all if d.state == "dead"]
            if held:
                self.settle("complete", 0, held, 0)
            elif dead:
                self.replay(dead)
            else:
                self.let_time_pass(1, sweeps=False)
        assert not self.model.kept(), "something never came to its end"


def shown(d, tick):
    """A lease whose time is over counts as pending."""
    return "pending" if d.state == "leased" and not d.is_live(tick) else d.state


def told(entry):
    return (
        entry.delivery_id,
        entry.state,
        entry.attempt,
        entry.is_replay,
        entry.cancel_requested,
        entry.waits_for,
    )


def empty(database):
    """Leave the topology, and nothing else: cheaper than a new database for each example."""
    with database.writing() as connection:
        for table in metadata.sorted_tables:
            if table.name not in KEPT_ROWS:
                connection.execute(sa.delete(table))


@needing("ordered", "expires_leases_itself", "cancel_in_flight")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C42", "random sequences of publish, claim, settle, expire, cancel, replay, discard follow a model")
def test_random_sequences_follow_a_plain_model(harness, mode):
    bounded = settings(
        max_examples=EXAMPLES,
        stateful_step_count=LENGTH,
        derandomize=True,
        deadline=None,
        database=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    with harness.transport(topology(mode)) as running, closing(Database(running.url)) as database:
        consumers = [running.transport.consumer("ship") for _ in range(2)]
        parties = Parties(running=running, database=database, consumers=consumers, operator=running.operator)
        run_state_machine_as_test(lambda: Sequence(parties, mode), settings=bounded)
