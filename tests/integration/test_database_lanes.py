"""Partition keys: one delivery of a key at a time, exclusive or in order, whatever becomes of it."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import delivery, lane, touched_lane
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
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

NOW = timedelta(0)
FAILURE = Failure(type="ValueError", message="not a number")
WARRANT = Warrant(actor="ada", reason="the parser is fixed")
RULES = {"lease_seconds": 60, "max_attempts": 3, "backoff": {"base_seconds": 10}}
MODES = ("exclusive", "ordered")
SETTLES = {
    "complete": (lambda held: Completion(delivery=held), "completed"),
    "retry": (lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE), "pending"),
    "dead_letter": (lambda held: DeadLettering(delivery=held, reason="bad"), "dead"),
    "discard": (lambda held: Discard(delivery=held, reason="Expired"), "discarded"),
    "release": (lambda held: Release(delivery=held), "pending"),
    "extend": (lambda held: Extension(delivery=held), "leased"),
}


class Keyed:
    """A topic with one partitioned subscription, and short words for what the tests do with it."""

    def __init__(self, url, mode):
        self.url, self.mode = url, mode
        self.transport = connect(url)
        self.transport.apply(on_database({"documents": {}}, {"convert": self.rules(mode)}))
        self.consumer = self.transport.consumer("convert")
        self.ids = {}

    def rules(self, mode, **more):
        return {"topic": "documents", "partition_mode": mode} | RULES | more

    def publish(self, *keys, connection=None, **more):
        """A message for each key, named by it and its number: a1, a2, ...; without a key ``-``."""
        messages, names = [], []
        for key in keys:
            names.append(f"{key}{sum(name.startswith(key) for name in (*self.ids.values(), *names)) + 1}")
            messages.append(NewMessage(payload=names[-1], partition_key=None if key == "-" else key, **more))
        results = self.transport.publish("documents", messages, connection=connection)
        self.ids |= {result.id: name for result, name in zip(results, names, strict=True)}

    def receive(self, limit=100):
        return self.consumer.receive(limit, NOW)

    def names(self, deliveries):
        return [self.ids[held.message_id] for held in deliveries]

    def received(self, limit=100):
        return self.names(self.receive(limit))

    def settle(self, how, *held):
        return getattr(self.consumer, how)([SETTLES[how][0](one) for one in held])

    def retry(self, held, seconds):
        self.consumer.retry([Retrial(delivery=held, delay=timedelta(seconds=seconds), failure=FAILURE)])

    def advance(self, seconds):
        advance(self.url, seconds)

    def rows(self, table):
        with closing(Database(self.url)) as database, database.reading() as connection:
            return connection.execute(sa.select(table)).mappings().all()

    def change(self, statement):
        with closing(Database(self.url)) as database, database.writing() as connection:
            connection.execute(statement)

    def dead(self):
        return [self.ids[letter.message_id] for letter in self.transport.operator().dead_letters("convert", 100)]


@pytest.fixture
def keyed_in(database_url):
    """Makes the topology in one mode or another."""
    made = []

    def make(mode):
        made.append(Keyed(database_url, mode))
        return made[-1]

    yield make
    for keyed in made:
        keyed.transport.close()


@pytest.fixture(params=MODES)
def keyed(request, keyed_in):
    """The topology in each mode."""
    return keyed_in(request.param)


@pytest.fixture
def exclusive(keyed_in):
    """The topology in mode exclusive."""
    return keyed_in("exclusive")


@pytest.fixture
def ordered(keyed_in):
    """The topology in mode ordered."""
    return keyed_in("ordered")


# --- What a claim hands out --------------------------------------------------------------------------------------


def test_one_delivery_of_a_key_is_handed_out_at_a_time_in_the_order_of_publishing(keyed):
    keyed.publish("a", "b", "a", "c", "a")
    first = keyed.receive()
    assert keyed.names(first) == ["a1", "b1", "c1"]
    assert keyed.received() == []
    keyed.settle("complete", *first[:2])
    second = keyed.receive()
    assert keyed.names(second) == ["a2"]
    keyed.settle("complete", *second)
    assert keyed.received() == ["a3"]


def test_deliveries_without_a_key_run_beside_the_keys_and_beside_each_other(keyed):
    keyed.publish("-", "a", "-", "a", "-")
    assert sorted(keyed.received()) == ["-1", "-2", "-3", "a1"]


@pytest.mark.parametrize("limit", [1, 3])
def test_neither_keys_nor_what_has_no_key_starves(keyed, limit):
    keyed.publish(*(f"{chr(ord('a') + i)}" for i in range(12)), *("-" * 12))
    kinds = []
    for _ in range(12 // limit):
        kinds += [name[0] == "-" for name in keyed.received(limit)]
    assert len(kinds) == 12
    assert 4 <= sum(kinds) <= 8


def test_a_key_with_many_deliveries_does_not_hold_up_the_others(keyed):
    keyed.publish(*("a" * 20), "b", "c")
    seen = []
    while held := keyed.receive(2):
        seen += keyed.names(held)
        keyed.settle("complete", *held)
    assert seen.index("b1") < 4
    assert seen.index("c1") < 4
    assert [name for name in seen if name[0] == "a"] == [f"a{i + 1}" for i in range(20)]


def test_subscriptions_with_keys_have_lanes_of_their_own(keyed):
    rules = keyed.rules(keyed.mode)
    subscriptions = {"convert": rules, "archive": rules, "count": {"topic": "documents"}}
    keyed.transport.apply(on_database({"documents": {}}, subscriptions))
    keyed.publish("a", "a")
    archive, count = (keyed.transport.consumer(name) for name in ("archive", "count"))
    held = archive.receive(10, NOW)
    assert keyed.names(held) == keyed.received() == ["a1"]
    archive.complete([Completion(delivery=one) for one in held])
    assert keyed.names(archive.receive(10, NOW)) == ["a2"]
    assert keyed.received() == []
    assert keyed.names(count.receive(10, NOW)) == ["a1", "a2"]


def test_a_paused_subscription_hands_out_no_key_and_a_new_policy_is_followed(keyed):
    keyed.publish("a", "b")
    operator = keyed.transport.operator()
    operator.pause("convert", WARRANT)
    assert keyed.received() == []
    operator.resume("convert", WARRANT)
    keyed.transport.apply(on_database({"documents": {}}, {"convert": keyed.rules(keyed.mode, lease_seconds=5)}))
    assert len(keyed.receive()) == 2
    keyed.advance(5 + 11)
    assert {held.attempt for held in keyed.receive()} == {2}


# --- What becomes of a delivery, and of its key ------------------------------------------------------------------


def test_the_end_of_a_lease_frees_an_exclusive_key_and_its_back_off_does_not_hold_it(exclusive):
    exclusive.publish("a", "a")
    exclusive.receive()
    exclusive.advance(30)
    assert exclusive.received() == []
    exclusive.advance(31)  # the lease is over, the back-off of 5 to 10 s is not
    (second,) = exclusive.receive()
    assert exclusive.names([second]) == ["a2"]
    exclusive.advance(20)
    assert exclusive.received() == []
    exclusive.settle("complete", second)
    (first,) = exclusive.receive()
    assert (exclusive.names([first]), first.attempt) == (["a1"], 2)


def test_an_ordered_key_waits_for_the_back_off_of_its_head_when_a_lease_ends(ordered):
    ordered.publish("a", "a")
    ordered.receive()
    ordered.advance(61)
    assert ordered.received() == []
    ordered.advance(10)
    (first,) = ordered.receive()
    assert (ordered.names([first]), first.attempt) == (["a1"], 2)


def test_a_retry_lets_an_exclusive_key_go_on_meanwhile(exclusive):
    exclusive.publish("a", "a")
    (first,) = exclusive.receive()
    exclusive.retry(first, 30)
    (second,) = exclusive.receive()
    assert exclusive.names([second]) == ["a2"]
    exclusive.settle("complete", second)
    assert exclusive.received() == []
    exclusive.advance(31)
    assert exclusive.received() == ["a1"]


def test_an_exclusive_key_whose_deliveries_all_wait_is_looked_at_when_the_first_is_due(exclusive):
    exclusive.publish("a", "a", "a")
    for seconds in (300, 100, 200):
        (held,) = exclusive.receive()
        exclusive.retry(held, seconds)
    assert exclusive.received() == []
    (row,) = exclusive.rows(lane)
    assert timedelta(seconds=80) < row["due_at"] - datetime.now(UTC) < timedelta(seconds=120)
    exclusive.advance(101)
    (second,) = exclusive.receive()
    assert exclusive.names([second]) == ["a2"]


def test_a_retry_holds_an_ordered_key_until_its_delay_is_over(ordered):
    ordered.publish("a", "a", "b")
    first, _ = ordered.receive()
    ordered.retry(first, 30)
    assert ordered.received() == []
    ordered.advance(31)
    (again,) = ordered.receive()
    assert (ordered.names([again]), again.attempt) == (["a1"], 2)
    ordered.settle("complete", again)
    assert ordered.received() == ["a2"]


def test_a_dead_letter_does_not_hold_an_exclusive_key(exclusive):
    exclusive.publish("a", "a")
    exclusive.settle("dead_letter", *exclusive.receive())
    assert exclusive.received() == ["a2"]


def test_a_dead_letter_blocks_an_ordered_key_until_it_is_replayed_in_its_place(ordered):
    ordered.publish("a", "a", "b")
    first, other = ordered.receive()
    ordered.settle("dead_letter", first)
    ordered.settle("complete", other)
    ordered.publish("a")
    assert ordered.received() == []
    ordered.transport.operator().replay(Selection(state="dead"), WARRANT, Pace())
    (again,) = ordered.receive()
    assert (ordered.names([again]), again.attempt, again.is_replay) == (["a1"], 1, True)
    ordered.settle("complete", again)
    assert ordered.received() == ["a2"]


def test_a_dead_letter_blocks_an_ordered_key_until_it_is_discarded(ordered):
    ordered.publish("a", "a")
    ordered.settle("dead_letter", *ordered.receive())
    ordered.transport.operator().discard(Selection(state="dead"), WARRANT, Pace())
    assert ordered.received() == ["a2"]


def test_a_replayed_dead_letter_of_an_exclusive_key_that_is_idle_comes_again(exclusive):
    exclusive.publish("a")
    exclusive.settle("dead_letter", *exclusive.receive())
    assert exclusive.rows(lane) == []
    exclusive.transport.operator().replay(Selection(state="dead"), WARRANT, Pace())
    assert exclusive.received() == ["a1"]


def test_used_up_attempts_end_as_a_dead_letter_behind_which_an_exclusive_key_goes_on(exclusive):
    exclusive.publish("a")
    for _ in range(3):
        assert exclusive.received() == ["a1"]
        exclusive.advance(100)
    exclusive.publish("a")
    assert exclusive.received() == ["a2"]
    assert exclusive.dead() == ["a1"]


def test_used_up_attempts_block_an_ordered_key(ordered):
    ordered.publish("a", "a")
    for _ in range(3):
        assert ordered.received() == ["a1"]
        ordered.advance(100)
    assert ordered.received() == []
    assert ordered.dead() == ["a1"]
    assert [row["due_at"] for row in ordered.rows(lane)] == [None]


def test_the_sweeper_may_be_the_one_that_ends_the_last_attempt(keyed):
    keyed.publish("a")
    for _ in range(3):
        assert keyed.received() == ["a1"]
        keyed.advance(100)
    keyed.transport.sweep()
    assert keyed.dead() == ["a1"]
    keyed.publish("a")
    assert keyed.received() == ([] if keyed.mode == "ordered" else ["a2"])


def test_a_released_delivery_is_its_keys_next_with_its_attempt_given_back(keyed):
    keyed.publish("a")
    keyed.settle("release", *keyed.receive())
    (again,) = keyed.receive()
    assert (keyed.names([again]), again.attempt) == (["a1"], 1)


def test_an_extended_lease_holds_its_key_past_its_first_end(keyed):
    keyed.publish("a", "a")
    (held,) = keyed.receive()
    for _ in range(3):
        keyed.advance(40)
        assert keyed.settle("extend", held) == [Settled(state="leased")]
        assert keyed.received() == []
    keyed.settle("complete", held)
    assert keyed.received() == ["a2"]


def test_a_delivery_that_is_put_off_does_not_hold_an_exclusive_key(exclusive):
    exclusive.publish("a", deliver_after=datetime.now(UTC) + timedelta(hours=1))
    exclusive.publish("a")
    (second,) = exclusive.receive()
    assert exclusive.names([second]) == ["a2"]
    exclusive.settle("complete", second)
    assert exclusive.received() == []
    exclusive.advance(3_700)
    assert exclusive.received() == ["a1"]


def test_a_head_that_is_put_off_holds_its_ordered_key(ordered):
    ordered.publish("a", deliver_after=datetime.now(UTC) + timedelta(hours=1))
    ordered.publish("a")
    assert ordered.received() == []
    ordered.advance(3_700)
    assert ordered.received() == ["a1"]


def test_a_head_that_is_put_off_can_be_discarded_and_the_next_comes(ordered):
    ordered.publish("a", deliver_after=datetime.now(UTC) + timedelta(hours=1))
    ordered.publish("a")
    assert ordered.received() == []
    (head,) = [found for found, name in ordered.ids.items() if name == "a1"]
    ordered.transport.operator().discard(Selection(message_id=head), WARRANT, Pace())
    assert ordered.received() == ["a2"]


def test_what_is_past_its_expiry_is_discarded_and_the_key_goes_on(keyed):
    keyed.publish("a", expires_at=datetime.now(UTC) + timedelta(seconds=60))
    keyed.publish("a")
    keyed.advance(61)
    assert keyed.received() == ["a2"]
    assert keyed.transport.operator().stats()[0].discarded == 1


def test_a_cancelled_holder_frees_its_key_by_acknowledging(keyed):
    keyed.publish("a", "a")
    (held,) = keyed.receive()
    keyed.transport.operator().discard(Selection(subscription="convert", state="leased"), WARRANT, Pace())
    assert keyed.received() == []
    assert keyed.consumer.acknowledge_cancel([CancelAcknowledgement(delivery=held)]) == [Settled(state="discarded")]
    assert keyed.received() == ["a2"]


def test_a_cancelled_delivery_whose_holder_is_gone_is_discarded_when_its_lease_ends(keyed):
    keyed.publish("a", "a")
    keyed.receive()
    keyed.transport.operator().discard(Selection(subscription="convert", state="leased"), WARRANT, Pace())
    keyed.advance(30)
    assert keyed.received() == []
    keyed.advance(31)
    (second,) = keyed.receive()
    assert keyed.names([second]) == ["a2"]
    keyed.settle("complete", second)
    assert keyed.received() == []
    assert keyed.transport.operator().stats()[0].discarded == 1


# --- Fences: one key for each way to settle, all in one topology -------------------------------------------------


def by_key(keyed, deliveries):
    return {keyed.names([held])[0][:-1]: held for held in deliveries}


@pytest.mark.parametrize("how", SETTLES)
def test_a_batch_of_keyed_and_other_deliveries_is_settled_and_answered_in_order(keyed, how):
    keyed.publish("a", "-", "b")
    held = by_key(keyed, keyed.receive())
    never = replace(held["-"], id="999999-1")
    state = Settled(state=SETTLES[how][1])
    assert keyed.settle(how, held["a"], never, held["-"], held["b"]) == [state, LeaseLost(), state, state]
    if how != "extend":
        assert keyed.settle(how, held["a"], held["-"]) == [LeaseLost(), LeaseLost()]


def test_a_lease_is_lost_when_another_delivery_of_its_key_was_handed_out(exclusive):
    exclusive.publish(*SETTLES, *SETTLES)
    stale = by_key(exclusive, exclusive.receive())
    exclusive.advance(61)
    current = by_key(exclusive, exclusive.receive())
    assert {held.id for held in stale.values()}.isdisjoint(held.id for held in current.values())
    before = exclusive.rows(delivery), exclusive.rows(lane)
    for how in SETTLES:
        assert exclusive.settle(how, stale[how]) == [LeaseLost()], how
    assert (exclusive.rows(delivery), exclusive.rows(lane)) == before
    for how, (_, state) in SETTLES.items():
        assert exclusive.settle(how, current[how]) == [Settled(state=state)], how


def test_of_two_leases_of_a_key_that_are_over_one_is_renewed(exclusive):
    """One process may have both, when it could not renew for long; nobody has taken either, since both back off."""
    long_back_off = {"lease_seconds": 5, "backoff": {"base_seconds": 900, "max_seconds": 900}}
    exclusive.transport.apply(on_database({"documents": {}}, {"convert": exclusive.rules("exclusive") | long_back_off}))
    exclusive.publish("a", "a", "-")
    (first, loose) = sorted(exclusive.receive(), key=lambda held: held.lease_token, reverse=True)
    exclusive.advance(6)
    (second,) = exclusive.receive()
    exclusive.advance(6)
    assert exclusive.received() == []
    leased = Settled(state="leased")
    assert exclusive.settle("extend", first, second, loose) == [leased, LeaseLost(), leased]
    assert exclusive.settle("extend", second, first) == [LeaseLost(), leased]
    assert exclusive.settle("complete", first, second) == [Settled(state="completed"), LeaseLost()]


def test_a_stale_lease_of_a_keyed_delivery_changes_nothing_and_the_current_one_can(keyed):
    keyed.publish(*SETTLES)
    stale = by_key(keyed, keyed.receive())
    keyed.advance(100)
    current = by_key(keyed, keyed.receive())
    before = keyed.rows(delivery), keyed.rows(lane)
    for how in SETTLES:
        assert keyed.settle(how, stale[how]) == [LeaseLost()], how
    assert (keyed.rows(delivery), keyed.rows(lane)) == before
    for how, (_, state) in SETTLES.items():
        assert keyed.settle(how, stale[how], current[how]) == [LeaseLost(), Settled(state=state)], how


@pytest.mark.parametrize("looked", ["unseen", "seen by a claim"])
def test_a_lease_whose_time_is_over_still_settles_while_nobody_has_its_key(keyed, looked):
    keyed.publish(*SETTLES)
    held = by_key(keyed, keyed.receive())
    keyed.advance(61)
    if looked == "seen by a claim":
        assert keyed.received() == []  # they back off
    for how, (_, state) in SETTLES.items():
        assert keyed.settle(how, held[how]) == [Settled(state=state)], how
    keyed.advance(30)
    assert "extend1" not in keyed.received()


def test_proofs_of_keyed_deliveries_that_were_never_given_out_are_lost_leases(keyed):
    keyed.publish("a", "-")
    held = by_key(keyed, keyed.receive())
    token, _, number = held["a"].lease_token.partition(".")
    forged = [token, f"{token}.", f"{token}.{int(number) + 1}", f"{token}.{'9' * 30}", f"{token}.x", f".{number}"]
    given = [replace(held["a"], lease_token=text) for text in forged]
    given += [replace(held["-"], lease_token=f"{held['-'].lease_token}.{number}")]
    for how in SETTLES:
        assert keyed.settle(how, *given) == [LeaseLost()] * 7, how


# --- Lanes come and go -------------------------------------------------------------------------------------------


def test_a_lane_goes_with_its_last_delivery(keyed):
    keyed.publish("a", "b", "a")
    while held := keyed.receive():
        keyed.settle("complete", *held)
    assert (keyed.rows(lane), keyed.rows(touched_lane)) == ([], [])


def test_a_new_delivery_does_not_wait_for_those_of_its_key_that_back_off(exclusive):
    exclusive.publish("a")
    (held,) = exclusive.receive()
    exclusive.retry(held, 3_600)
    assert exclusive.received() == []
    exclusive.publish("a")
    assert exclusive.received() == ["a2"]


def test_a_claim_puts_a_lane_in_order_that_was_left_behind(keyed):
    keyed.publish("a", "b")
    keyed.change(sa.delete(delivery))
    assert keyed.received() == []
    assert keyed.rows(lane) == []


def test_a_claim_of_one_goes_on_past_lanes_whose_deliveries_wait(ordered):
    """Their leases are over, so the lanes are due, and longer so than the others; but the deliveries back off."""
    ordered.publish("a", "b")
    assert len(ordered.receive()) == 2
    ordered.advance(62)
    ordered.publish("c")
    assert ordered.received(limit=1) == ["c1"]
    assert ordered.received(limit=1) == []


def test_a_claim_that_got_some_goes_on_past_lanes_whose_deliveries_wait(ordered):
    """Else it got less than it asked for, and whoever waits for more would take that for all there is."""
    ordered.publish("a")
    assert len(ordered.receive()) == 1
    ordered.advance(62)
    ordered.publish("b", "c")
    assert sorted(ordered.received(limit=2)) == ["b1", "c1"]


def test_another_mode_begins_without_lanes(keyed):
    keyed.publish("a")
    keyed.change(sa.delete(delivery))
    other = MODES[keyed.mode == "exclusive"]
    keyed.transport.apply(on_database({"documents": {}}, {"convert": keyed.rules(other)}))
    assert (keyed.rows(lane), keyed.rows(touched_lane)) == ([], [])
    keyed.publish("a", "a")
    assert keyed.received() == ["a2"]
    assert {row["ordered"] for row in keyed.rows(delivery)} == {other == "ordered"}


# --- Publishing in somebody's transaction ------------------------------------------------------------------------


def test_what_was_published_in_a_transaction_comes_when_it_is_committed_and_in_its_place(keyed):
    keyed.publish("a")
    with closing(Database(keyed.url)) as database, database.engine.connect() as connection:
        with connection.begin():
            keyed.publish("a", "b", "a", connection=connection)
        first = keyed.receive()
        assert sorted(keyed.names(first)) == ["a1", "b1"]
        keyed.settle("complete", *first)
        second = keyed.receive()
        assert keyed.names(second) == ["a2"]
        keyed.settle("complete", *second)
        assert keyed.received() == ["a3"]


def test_a_transaction_that_is_rolled_back_leaves_nothing(keyed):
    with closing(Database(keyed.url)) as database, database.engine.connect() as connection:
        transaction = connection.begin()
        keyed.publish("a", "b", connection=connection)
        transaction.rollback()
    assert (keyed.rows(lane), keyed.rows(touched_lane), keyed.rows(delivery)) == ([], [], [])
