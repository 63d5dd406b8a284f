"""An operator and the sweep on partition keys: places are kept, blocked keys go on, held keys stay held."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from local_transport.connections import Database
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.operating import Discarded, Pace, Selection, Warrant
from towpath.settlement import CancelAcknowledgement, Completion, DeadLettering, Failure, Retrial, Settled

NOW = timedelta(0)
WARRANT = Warrant(actor="ada", reason="looked at")
PACE = Pace()
FAILURE = Failure(type="ValueError", message="no")


@pytest.fixture
def opened(database_url):
    common = {"topic": "documents", "lease_seconds": 60, "max_attempts": 3, "backoff": {"base_seconds": 10}}
    subscriptions = {
        "line": common | {"partition_mode": "ordered"},
        "single": common | {"partition_mode": "exclusive"},
    }
    with connect(database_url) as transport:
        transport.apply(on_database({"documents": {}}, subscriptions))
        yield transport


def published(transport, *keys, **more):
    messages = [NewMessage(payload=i, partition_key=key, **more) for i, key in enumerate(keys)]
    return [result.id for result in transport.publish("documents", messages)]


def received(transport, subscription="line", count=10):
    return transport.consumer(subscription).receive(count, NOW)


def messages(deliveries):
    return [delivery.message_id for delivery in deliveries]


def dead(transport, subscription, *deliveries):
    letters = [DeadLettering(delivery=one, reason="bad", failure=FAILURE) for one in deliveries]
    transport.consumer(subscription).dead_letter(letters)


def one(delivery):
    return Selection(delivery_ids=(delivery.id,))


def of_key(key, subscription="line"):
    return Selection(subscription=subscription, partition_key=key)


# --- Ordered keys ------------------------------------------------------------------------------------------------


def test_a_dead_head_blocks_its_key_until_it_is_replayed_in_its_place(opened):
    first, second, other = published(opened, "a", "a", "b")
    head, of_b = received(opened)
    assert messages([head, of_b]) == [first, other]
    dead(opened, "line", head)
    assert received(opened) == []
    assert opened.operator().replay(one(head), WARRANT, PACE) == 1
    (again,) = received(opened)
    assert (again.message_id, again.attempt, again.is_replay) == (first, 1, True)
    opened.consumer("line").complete([Completion(delivery=again)])
    assert messages(received(opened)) == [second]


def test_a_dead_head_blocks_its_key_until_it_is_discarded(opened):
    _, second = published(opened, "a", "a")
    (head,) = received(opened)
    dead(opened, "line", head)
    assert received(opened) == []
    assert opened.operator().discard(one(head), WARRANT, PACE) == Discarded(at_once=1, requested=0)
    assert messages(received(opened)) == [second]


def test_a_dead_head_that_is_too_old_lets_its_key_go_on_when_the_sweep_removes_it(opened, database_url):
    _, second = published(opened, "a", "a")
    (head,) = received(opened)
    dead(opened, "line", head)
    assert received(opened) == []
    advance(database_url, 15 * 86_400)
    assert opened.sweep() >= 1
    assert messages(received(opened)) == [second]


def test_a_head_that_expired_lets_its_key_go_on(opened, database_url):
    soon = datetime.now(UTC) + timedelta(seconds=100)
    published(opened, "a", expires_at=soon)
    (second,) = published(opened, "a")
    (head,) = received(opened)
    opened.consumer("line").retry([Retrial(delivery=head, delay=timedelta(hours=1), failure=FAILURE)])
    assert received(opened) == []
    advance(database_url, 101)
    assert opened.sweep() == 2  # of both subscriptions
    assert messages(received(opened)) == [second]


def test_an_edited_head_takes_a_new_place_at_the_end_of_its_key(opened):
    _, second = published(opened, "a", "a")
    (head,) = received(opened)
    dead(opened, "line", head)
    new_id = opened.operator().replay_edited(head.id, {"n": 1}, WARRANT)
    (following,) = received(opened)
    assert following.message_id == second
    opened.consumer("line").complete([Completion(delivery=following)])
    assert messages(received(opened)) == [new_id]


def test_a_whole_key_is_discarded_and_others_go_on(opened):
    published(opened, "a", "a", "b", "a")
    (head, of_b) = received(opened)
    done = opened.operator().discard(of_key("a"), WARRANT, PACE)
    assert done == Discarded(at_once=2, requested=1)
    consumer = opened.consumer("line")
    assert consumer.acknowledge_cancel([CancelAcknowledgement(delivery=head)]) == [Settled(state="discarded")]
    assert consumer.complete([Completion(delivery=of_b)]) == [Settled(state="completed")]
    assert received(opened) == []
    (fresh,) = published(opened, "a")
    assert messages(received(opened)) == [fresh]


# --- Keys in flight ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subscription", ["line", "single"])
def test_the_key_of_a_cancelled_delivery_stays_held_until_its_holder_acknowledges(opened, subscription):
    _, second = published(opened, "a", "a")
    (held,) = received(opened, subscription)
    assert opened.operator().discard(one(held), WARRANT, PACE) == Discarded(at_once=0, requested=1)
    assert received(opened, subscription) == []
    opened.consumer(subscription).acknowledge_cancel([CancelAcknowledgement(delivery=held)])
    assert messages(received(opened, subscription)) == [second]


@pytest.mark.parametrize("how", ["claim", "sweep"])
@pytest.mark.parametrize("subscription", ["line", "single"])
def test_the_key_of_a_cancelled_delivery_is_free_when_the_lease_of_its_dead_holder_ends(
    opened, database_url, subscription, how
):
    _, second = published(opened, "a", "a")
    (held,) = received(opened, subscription)
    opened.operator().discard(one(held), WARRANT, PACE)
    advance(database_url, 30)
    assert received(opened, subscription) == []
    advance(database_url, 31)
    if how == "sweep":
        assert opened.sweep() == 1
    (following,) = received(opened, subscription)
    assert following.message_id == second
    opened.consumer(subscription).complete([Completion(delivery=following)])
    assert received(opened, subscription) == []
    stats = next(row for row in opened.operator().stats() if row.subscription == subscription)
    assert (stats.pending, stats.leased, stats.discarded) == (0, 0, 1)


def test_a_dead_letter_of_an_exclusive_key_blocks_nothing_and_is_replayed_beside_the_others(opened):
    first, second = published(opened, "a", "a")
    (held,) = received(opened, "single")
    dead(opened, "single", held)
    (other,) = received(opened, "single")
    assert other.message_id == second
    opened.operator().replay(one(held), WARRANT, PACE)
    assert received(opened, "single") == []  # one of a key at a time
    opened.consumer("single").complete([Completion(delivery=other)])
    assert messages(received(opened, "single")) == [first]


# --- Lists -------------------------------------------------------------------------------------------------------


def test_partitions_say_which_keys_are_idle_in_flight_or_blocked_and_why(opened, database_url):
    published(opened, "idle", "busy", "dead", "retried", "busy", "dead")
    by_key = dict(zip(["idle", "busy", "dead", "retried"], received(opened), strict=True))
    consumer = opened.consumer("line")
    consumer.retry([Retrial(delivery=by_key["retried"], delay=timedelta(hours=1), failure=FAILURE)])
    consumer.retry([Retrial(delivery=by_key["idle"], delay=NOW, failure=FAILURE)])
    dead(opened, "line", by_key["dead"])
    page = opened.operator().partitions("line", 10)
    found = {entry.partition_key: entry for entry in page}
    assert {key: (entry.state, entry.waiting) for key, entry in found.items()} == {
        "idle": ("idle", 1),
        "busy": ("in_flight", 2),
        "dead": ("blocked", 2),
        "retried": ("blocked", 1),
    }
    assert found["dead"].head == by_key["dead"].id
    assert found["dead"].reason == "a dead letter is at its head: bad"
    assert found["dead"].since is not None
    assert found["retried"].reason.startswith("its next delivery is tried again after ValueError until ")
    assert found["busy"].reason.startswith("attempt 1, leased until ")
    assert found["idle"].reason == "its next delivery waits for a worker"
    blocked = opened.operator().partitions("line", 10, state="blocked")
    assert {entry.partition_key for entry in blocked} == {"dead", "retried"}
    opened.operator().discard(one(by_key["busy"]), WARRANT, PACE)
    (busy,) = opened.operator().partitions("line", 10, state="in_flight")
    assert busy.reason.endswith("cancelled: its worker is to let go of it")


def test_partitions_are_listed_page_by_page_and_none_is_left_out(opened):
    keys = [f"k{number}" for number in range(7)]
    published(opened, *keys, *keys)
    for state in (None, "idle"):
        seen, cursor = [], None
        while True:
            page = opened.operator().partitions("single", 3, cursor, state)
            seen += [entry.partition_key for entry in page]
            assert len(page) <= 3
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(seen) == keys


def test_keys_that_were_published_in_an_open_transaction_are_listed_once_that_has_ended(opened, database_url):
    with closing(Database(database_url)) as database, database.engine.begin() as connection:
        opened.publish("documents", [NewMessage(payload=1, partition_key="k")], connection=connection)
    (entry,) = opened.operator().partitions("line", 10)
    assert (entry.partition_key, entry.state, entry.waiting) == ("k", "idle", 1)


def test_a_list_says_what_each_delivery_waits_for(opened):
    published(opened, "a", "a", "b", "b", "c", None)
    head_a, head_b, _, loose = received(opened, "line", 4)
    consumer = opened.consumer("line")
    consumer.retry([Retrial(delivery=head_a, delay=timedelta(hours=1), failure=FAILURE)])
    dead(opened, "line", head_b)
    consumer.retry([Retrial(delivery=loose, delay=NOW, failure=FAILURE)])
    published(opened, "c")
    waits = {}
    for entry in opened.operator().deliveries(Selection(subscription="line"), 20):
        waits.setdefault(entry.partition_key, []).append((entry.state, entry.waits_for))
    assert waits == {
        "a": [("pending", "time"), ("pending", "key_order")],
        "b": [("dead", None), ("pending", "key_blocked")],
        "c": [("leased", None), ("pending", "key_in_flight")],
        None: [("pending", "worker")],
    }
    opened.operator().pause("line", WARRANT)
    assert {e.waits_for for e in opened.operator().deliveries(Selection(state="pending", subscription="line"), 20)} == {
        "resume"
    }


def test_a_selected_key_is_found_in_every_partition_mode(opened, database_url):
    plain = {"plain": {"topic": "documents"}}
    modes = {
        name: {"topic": "documents", "partition_mode": m} for name, m in (("line", "ordered"), ("single", "exclusive"))
    }
    opened.apply(on_database({"documents": {}}, modes | plain))
    published(opened, "a", "b", 'quo"te', "a")
    opened.publish("documents", [NewMessage(payload={"partition_key": "a"}, partition_key="c")])
    opened.publish("documents", [NewMessage(payload='"partition_key":"a"')])
    for subscription in ("line", "single", "plain", None):
        for key, count in (("a", 2), ('quo"te', 1), ("c", 1), ("nobody", 0)):
            found = opened.operator().deliveries(Selection(subscription=subscription, partition_key=key), 10)
            assert len(found) == count * (3 if subscription is None else 1)
            assert {entry.partition_key for entry in found} <= {key}


def test_the_backlog_counts_one_for_each_free_key_and_what_is_in_flight(opened, database_url):
    published(opened, "a", "a", "b", "b", "c", None, None)
    (held, *_) = received(opened, "line", 1)
    figures = {row.subscription: (row.claimable, row.in_flight) for row in opened.operator().backlog()}
    assert figures == {"line": (4, 1), "single": (5, 0)}  # b, c and two without a key
    dead(opened, "line", held)
    received(opened, "line", 10)
    figures = {row.subscription: (row.claimable, row.in_flight) for row in opened.operator().backlog()}
    assert figures["line"] == (0, 4)
    with closing(Database(database_url)) as database, database.engine.begin() as connection:
        opened.publish("documents", [NewMessage(payload=1, partition_key="new")], connection=connection)
    assert {row.subscription: row.claimable for row in opened.operator().backlog()} == {"line": 1, "single": 6}


def test_the_backlog_counts_to_a_thousand_and_says_so(opened, database_url):
    published(opened, *[f"k{number}" for number in range(1_100)])
    line = opened.operator().backlog()[0]
    assert (line.claimable, line.claimable_capped, line.in_flight, line.in_flight_capped) == (1_000, True, 0, False)
    for _ in range(2):
        received(opened, "single", 1_000)
    single = opened.operator().backlog()[1]
    assert (single.claimable, single.in_flight, single.in_flight_capped) == (0, 1_000, True)
    opened.operator().pause("line", WARRANT)
    assert opened.operator().backlog()[0].claimable == 0
