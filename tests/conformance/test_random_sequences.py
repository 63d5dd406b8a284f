"""C42: random sequences of what publishers, workers and operators may do, against a plain model, for each mode.

``TOWPATH_MODEL_EXAMPLES`` says how many sequences there are for each mode and transport (default 8; try 300 after a
change to claims or settles), ``TOWPATH_MODEL_STEPS`` how long they are. A sequence that fails is shown as it is; with
``TOWPATH_MODEL_SHRINK=1`` a shorter one is looked for, which takes minutes.
"""

import os
from contextlib import closing
from datetime import timedelta

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from local_transport.connections import Database
from local_transport.tables import metadata
from tests.conformance import model
from tests.conformance.needs import needing
from towpath import NewMessage
from towpath.message import utc_now
from towpath.operating import Pace, Selection, Warrant
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
)

EXAMPLES = int(os.environ.get("TOWPATH_MODEL_EXAMPLES", "8"))
STEPS = int(os.environ.get("TOWPATH_MODEL_STEPS", "40"))
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


class Sequence(RuleBasedStateMachine):
    """One sequence. After each step the operator's lists and counts must be the model's."""

    def __init__(self, running, consumers, operator, mode):
        super().__init__()
        self.running, self.consumers, self.operator = running, consumers, operator
        self.model = model.Model(mode=mode)
        self.handed = []
        self.sound = True
        empty(running.url)

    # --- Publishers

    @initialize(keys=st.lists(st.sampled_from("ab"), min_size=2, max_size=4))
    def begin(self, keys):
        self.publish(keys, 0, None, in_own_transaction=False)

    @rule(
        keys=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=3),
        delay=st.sampled_from([0, 0, 0, 1, 2]),
        life=st.sampled_from([None, None, None, 1, 3]),
        in_own_transaction=st.booleans(),
    )
    def publish(self, keys, delay, life, in_own_transaction):
        times = {
            "deliver_after": utc_now() + after(delay) if delay else None,
            "expires_at": utc_now() + after(life) if life else None,
        }
        new = [NewMessage(payload={}, partition_key=key, **times) for key in keys]
        if in_own_transaction:
            with closing(Database(self.running.url)) as database, database.engine.begin() as connection:
                results = self.running.transport.publish("orders", new, connection=connection)
        else:
            results = self.running.transport.publish("orders", new)
        assert [result.status for result in results] == ["accepted"] * len(keys)
        ids = [result.id for result in results]
        listed = self.listed()
        found = [entry for entry in listed if entry.message_id in ids]
        assert [entry.message_id for entry in found] == ids, "not in the order of publishing"
        until = None if life is None else self.model.tick + life
        self.model.published(found, self.model.tick + delay, until)
        self.look(listed)

    # --- Workers

    @rule(worker=st.sampled_from([0, 1]))
    def receive_all(self, worker):
        self.receive(100, worker)

    @rule(limit=st.sampled_from([1, 1, 2, 10]), worker=st.sampled_from([0, 1]))
    def receive(self, limit, worker):
        self.sound = False
        came = self.consumers[worker].receive(limit, NOW)
        self.handed += came
        listed = self.listed()
        self.model.received(limit, came, {entry.delivery_id: entry.state for entry in listed})
        if not came:  # it has looked at every key
            (backlog,) = self.operator.backlog()
            assert backlog.claimable == 0
        self.look(listed)
        held = {entry.partition_key for entry in self.operator.partitions("ship", 100, state="in_flight")}
        assert held == {d.key for d in self.model.live() if d.key is not None}

    @precondition(lambda self: self.model.live())
    @rule(
        how=st.sampled_from([*SETTLES]),
        worker=st.sampled_from([0, 1]),
        picks=st.lists(st.integers(0, 5), min_size=1, max_size=2),
        delay=st.sampled_from([0, 1, 2]),
    )
    def settle_held(self, how, worker, picks, delay):
        """By those who hold it."""
        live = {(d.id, d.lease) for d in self.model.live()}
        current = [one for one in self.handed if (one.id, one.lease_token) in live]
        self.settle(how, worker, [current[pick % len(current)] for pick in picks], delay)

    @precondition(lambda self: self.handed)
    @rule(
        how=st.sampled_from([*SETTLES]),
        worker=st.sampled_from([0, 1]),
        picks=st.lists(st.integers(0, 9), min_size=1, max_size=3),
        delay=st.sampled_from([0, 1, 2]),
    )
    def settle_any(self, how, worker, picks, delay):
        """By those who hold it, or held it some time ago, or settled it already."""
        self.settle(how, worker, [self.handed[-1 - pick % len(self.handed)] for pick in picks], delay)

    def settle(self, how, worker, held, delay):
        self.sound = False
        decisions = [SETTLES[how](one, delay) for one in held]
        answers = getattr(self.consumers[worker], how)(decisions)
        asked = set()
        for one, answer in zip(held, answers, strict=True):
            lease = (one.id, one.lease_token)
            if lease in asked:  # twice in a batch is settled once
                assert answer in (LeaseLost(), CancelRequested())
            else:
                self.model.settled(how, one, delay, answer)
            asked.add(lease)
        self.look()

    # --- Time

    @rule(ticks=st.sampled_from([1, 1, 1, 2, 3]))
    def let_time_pass(self, ticks):
        self.sound = False
        self.running.advance(ticks * model.TICK_SECONDS)
        self.model.tick += ticks
        self.look()

    @rule()
    def sweep(self):
        self.sound = False
        self.running.transport.sweep()
        self.model.swept()
        self.look()

    # --- Operators

    @precondition(lambda self: self.model.kept())
    @rule(picks=st.lists(st.integers(0, 9), min_size=1, max_size=2))
    def discard_some(self, picks):
        """Those that wait are gone, those that are held are cancelled."""
        self.sound = False
        chosen = self.chosen(self.model.kept(), picks)
        selection = Selection(delivery_ids=tuple(d.id for d in chosen))
        self.model.discarded(chosen, self.operator.discard(selection, WARRANT, PACE))
        self.look()

    @precondition(lambda self: self.model.count("dead"))
    @rule(picks=st.lists(st.integers(0, 9), min_size=1, max_size=2))
    def replay_some(self, picks):
        self.sound = False
        chosen = self.chosen([d for d in self.model.all if d.state == "dead"], picks)
        selection = Selection(delivery_ids=tuple(d.id for d in chosen))
        self.model.replayed(chosen, self.operator.replay(selection, WARRANT, PACE))
        self.look()

    @precondition(lambda self: self.model.kept())
    @rule(state=st.sampled_from(["pending", "leased", "dead"]), replays=st.booleans())
    def act_on_a_state(self, state, replays):
        self.sound = False
        selection = Selection(subscription="ship", state=state)
        if replays and state == "dead":
            dead = [d for d in self.model.all if d.state == "dead"]
            self.model.replayed(dead, self.operator.replay(selection, WARRANT, PACE))
        else:
            chosen = [d for d in self.model.kept() if shown(d, self.model.tick) == state]
            self.model.discarded(chosen, self.operator.discard(selection, WARRANT, PACE))
        self.look()

    @staticmethod
    def chosen(some, picks):
        return list({some[pick % len(some)].id: some[pick % len(some)] for pick in picks}.values())

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
            live = [d for d in self.model.live() if not d.cancelled]
            current = [one for one in self.handed for d in live if (one.id, one.lease_token) == (d.id, d.lease)]
            if current:
                self.settle("complete", 0, current, 0)
            elif self.model.count("dead"):
                self.act_on_a_state("dead", replays=True)
            else:
                self.let_time_pass(1)
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


def empty(url):
    """Leave the topology, and nothing else: cheaper than a new database for each example."""
    with closing(Database(url)) as database, database.writing() as connection:
        for table in metadata.sorted_tables:
            if table.name not in KEPT_ROWS:
                connection.execute(sa.delete(table))


@needing("ordered", "expires_leases_itself", "cancel_in_flight")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C42", "random sequences of publish, claim, settle, expire, cancel, replay, discard follow a model")
def test_random_sequences_follow_a_plain_model(harness, mode):
    bounded = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        derandomize=True,
        deadline=None,
        database=None,
        phases=PHASES,
        suppress_health_check=list(HealthCheck),
    )
    with harness.transport(topology(mode)) as running:
        consumers = [running.transport.consumer("ship") for _ in range(2)]
        operator = running.transport.operator()  # its statements, and the consumers', are made once
        run_state_machine_as_test(lambda: Sequence(running, consumers, operator, mode), settings=bounded)
