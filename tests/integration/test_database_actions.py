"""What an operator changes on a database: replay, discard, cancel, purge, pause, each with its entry in the audit."""

import json
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.acting import Actions
from local_transport.connections import Database
from local_transport.pacing import Pacer
from local_transport.tables import delivery_detail, history, message
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.context import Progress
from towpath.errors import DeliveryNotFound, InvalidEdit, InvalidSelection, SubscriptionNotFound
from towpath.operating import Discarded, Order, Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Failure,
    LeaseLost,
    Settled,
)

NOW = timedelta(0)
WARRANT = Warrant(actor="ada", reason="the parser is fixed")
PACE = Pace()
DEAD = Selection(subscription="convert", state="dead")
ALL = Selection(subscription="convert")


@pytest.fixture
def operator(transport):
    return transport.operator()


def published(transport, count=1, **more):
    return [r.id for r in transport.publish("documents", [NewMessage(payload=i, **more) for i in range(count)])]


def received(transport, count=1):
    return transport.consumer("convert").receive(count, NOW)


def dead(transport, count=1, reason="bad"):
    """Publish and dead-letter so many; answers the deliveries."""
    published(transport, count)
    held = received(transport, count)
    failure = Failure(type="ValueError", message="no number", traceback="Traceback ...")
    transport.consumer("convert").dead_letter(
        [DeadLettering(delivery=one, reason=reason, failure=failure) for one in held]
    )
    return held


def one(delivery):
    return Selection(delivery_ids=(delivery.id,))


def rows(url, query):
    with closing(Database(url)) as database, database.reading() as connection:
        return [tuple(row) for row in connection.execute(query)]


def counts(transport):
    stats = next(row for row in transport.operator().stats() if row.subscription == "convert")
    return stats.pending, stats.leased, stats.dead, stats.completed, stats.discarded


# --- Replay ------------------------------------------------------------------------------------------------------


def test_a_replayed_dead_letter_comes_again_at_attempt_1_with_its_message_id_and_checkpoint(transport, operator):
    (message_id,) = published(transport)
    (held,) = received(transport)
    consumer = transport.consumer("convert")
    consumer.extend([Extension(delivery=held, progress=Progress(checkpoint={"page": 3}))])
    consumer.dead_letter([DeadLettering(delivery=held, reason="bad")])
    assert operator.replay(one(held), WARRANT, PACE) == 1
    assert counts(transport) == (1, 0, 0, 0, 0)
    (again,) = received(transport)
    assert (again.id, again.message_id, again.attempt, again.is_replay) == (held.id, message_id, 1, True)
    assert again.checkpoint == {"page": 3}


def test_a_replay_keeps_the_last_error_and_forgets_why_it_was_dead(transport, operator, database_url):
    (held,) = dead(transport)
    operator.replay(one(held), WARRANT, PACE)
    assert rows(database_url, sa.select(delivery_detail.c.reason, delivery_detail.c.error_type)) == [
        (None, "ValueError")
    ]
    (entry,) = operator.deliveries(ALL, 10)
    assert (entry.state, entry.attempt, entry.is_replay, entry.reason) == ("pending", 0, True, "")
    assert entry.error.startswith("ValueError: no number")


def test_a_replay_uses_all_attempts_again(transport, operator, database_url):
    (held,) = dead(transport)
    operator.replay(one(held), WARRANT, PACE)
    for attempt in (1, 2, 3):
        (again,) = received(transport)
        assert again.attempt == attempt
        advance(database_url, 200)
    assert received(transport) == []
    assert counts(transport)[2] == 1


def test_a_replay_of_many_is_made_in_batches_with_an_entry_in_the_audit_for_each(transport, operator):
    dead(transport, 5, reason="bad")
    dead(transport, 2, reason="worse")
    told = []
    chosen = Selection(subscription="convert", reason="bad")
    assert operator.replay(chosen, WARRANT, Pace(batch=2, changed=told.append)) == 5
    assert counts(transport) == (5, 0, 2, 0, 0)
    assert told == [2, 2, 1]
    entries = operator.audit(10)
    assert [len(entry.details["deliveries"]) for entry in entries] == [1, 2, 2]
    assert {(e.actor, e.action, e.reason) for e in entries} == {("ada", "replay", "the parser is fixed")}
    assert {e.subject for e in entries[1:]} == {"convert"}
    assert entries[0].subject == entries[0].details["deliveries"][0]
    assert entries[1].details["selection"] == {"subscription": "convert", "state": "dead", "reason": "bad"}


def test_a_replay_ends_after_the_most_that_it_may_change(transport, operator):
    dead(transport, 5)
    assert operator.replay(DEAD, WARRANT, Pace(batch=2, most=3)) == 3
    assert counts(transport)[:3] == (3, 0, 2)


def test_a_replay_keeps_to_its_rate(transport):
    dead(transport, 7)
    time, pauses = [100.0], []

    def sleep(seconds):
        pauses.append(seconds)
        time[0] += seconds

    pacer = Pacer(monotonic=lambda: time[0], sleep=sleep)
    actions = Actions(transport._database, transport._reader, lambda ids: None, pacer)
    order = Order(action="replay", selection=DEAD, warrant=WARRANT, pace=Pace(batch=100, rate=2))
    assert actions.replay(order) == 7
    assert pauses == [1.0, 1.0, 1.0]


def test_an_action_that_is_done_waits_for_nothing_more(transport):
    held = dead(transport, 3)
    pauses = []
    actions = Actions(transport._database, transport._reader, lambda ids: None, Pacer(sleep=pauses.append))
    pace = Pace(rate=0.01, most=1)
    assert actions.replay(Order(action="replay", selection=DEAD, warrant=WARRANT, pace=pace)) == 1
    assert actions.discard(Order(action="discard", selection=one(held[1]), warrant=WARRANT, pace=pace)).at_once == 1
    assert pauses == []


def test_whoever_asked_may_end_an_action_while_it_waits(transport, operator):
    class Ended(Exception):
        pass

    def end(_):
        raise Ended

    dead(transport, 3)
    with pytest.raises(Ended):
        operator.replay(DEAD, WARRANT, Pace(rate=0.01, pause=end))
    assert counts(transport)[:3] == (1, 0, 2)


def test_what_dies_again_while_a_replay_goes_on_is_not_replayed_twice(transport, operator):
    held = dead(transport, 3)

    def die_again(_):
        again = received(transport, 10)
        transport.consumer("convert").dead_letter([DeadLettering(delivery=d, reason="again") for d in again])

    assert operator.replay(DEAD, WARRANT, Pace(batch=1, changed=die_again)) == 3
    assert counts(transport)[2] == len(held)


def test_only_dead_letters_are_replayed(transport, operator):
    published(transport, 2)
    (held,) = received(transport)
    assert operator.replay(ALL, WARRANT, PACE) == 0
    assert operator.replay(one(held), WARRANT, PACE) == 0
    with pytest.raises(InvalidSelection, match="only dead letters can be replayed"):
        operator.replay(Selection(state="pending"), WARRANT, PACE)
    assert operator.audit(10).entries == ()


def test_of_rival_replays_each_dead_letter_is_replayed_by_one(transport, database_url):
    dead(transport, 60)
    replayed, barrier = [], threading.Barrier(3)

    def replay():
        with connect(database_url) as rival:
            barrier.wait()
            replayed.append(rival.operator().replay(DEAD, WARRANT, Pace(batch=7)))

    threads = [threading.Thread(target=replay) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(replayed) == 60
    audited = [d for entry in transport.operator().audit(100) for d in entry.details["deliveries"]]
    assert len(audited) == len(set(audited)) == 60


def test_a_waiting_worker_is_woken_by_a_replay_and_by_a_resume(transport, operator):
    (held,) = dead(transport)
    found = []
    for act in (lambda: operator.replay(one(held), WARRANT, PACE), lambda: operator.resume("convert", WARRANT)):
        consumer = transport.consumer("convert")
        receive = threading.Thread(target=lambda: found.extend(consumer.receive(1, timedelta(seconds=60))))  # noqa: B023
        receive.start()
        receive.join(0.3)
        assert receive.is_alive()
        act()
        receive.join(30)
        assert not receive.is_alive()
        published(transport)
        operator.pause("convert", WARRANT)
    assert [again.is_replay for again in found] == [True, False]


# --- Replay of an edited message ---------------------------------------------------------------------------------


def test_an_edited_dead_letter_is_replayed_as_a_new_message_for_its_subscription_alone(
    transport, operator, database_url
):
    attributes = {"kind": "pdf", "pages": 3}
    (old,) = transport.publish(
        "documents", [NewMessage(payload={"n": "x"}, attributes=attributes, partition_key="k", correlation_id="c-1")]
    )
    (held,) = received(transport)
    transport.consumer("convert").dead_letter([DeadLettering(delivery=held, reason="bad")])
    new_id = operator.replay_edited(held.id, {"n": 1}, WARRANT)
    (again,) = received(transport, 10)
    body = json.loads(again.body)
    assert (again.message_id, again.attempt, body["payload"]) == (new_id, 1, {"n": 1})
    assert (body["causation_id"], body["correlation_id"], body["partition_key"]) == (old.id, "c-1", "k")
    assert body["attributes"] == attributes
    assert counts(transport) == (0, 1, 0, 0, 1)
    assert [archived.message_id for archived in transport.consumer("archive").receive(10, NOW)] == [old.id]
    assert rows(database_url, sa.select(history.c.outcome, history.c.reason)) == [("discarded", WARRANT.reason)]
    (entry,) = operator.audit(10)
    assert (entry.action, entry.subject) == ("replay edited", held.id)
    assert entry.details == {"message": old.id, "new_message": new_id}


def test_an_edit_reaches_its_subscription_whatever_the_filter_and_the_topic_say_by_now(transport, operator):
    published(transport, attributes={"kind": "pdf"})
    (held,) = transport.consumer("archive").receive(1, NOW)
    transport.consumer("archive").dead_letter([DeadLettering(delivery=held, reason="bad")])
    subscriptions = {"convert": {"topic": "documents"}, "archive": {"topic": "documents", "filter": {"kind": ["x"]}}}
    transport.apply(on_database({"documents": {"status": "disabled"}}, subscriptions))
    new_id = operator.replay_edited(held.id, 2, WARRANT)
    assert [again.message_id for again in transport.consumer("archive").receive(10, NOW)] == [new_id]


@pytest.mark.parametrize(("payload", "code"), [(float("nan"), "InvalidPayload"), ("x" * 300_000, "PayloadTooLarge")])
def test_an_edit_that_breaks_the_contract_leaves_the_dead_letter_as_it_is(transport, operator, payload, code):
    (held,) = dead(transport)
    with pytest.raises(InvalidEdit, match=code) as refused:
        operator.replay_edited(held.id, payload, WARRANT)
    assert refused.value.code == code
    assert counts(transport) == (0, 0, 1, 0, 0)
    assert operator.audit(10).entries == ()


def test_only_a_dead_letter_can_be_edited(transport, operator):
    published(transport)
    (held,) = received(transport)
    for delivery_id in (held.id, "999-1"):
        with pytest.raises(DeliveryNotFound, match="no dead letter"):
            operator.replay_edited(delivery_id, 1, WARRANT)


@pytest.mark.parametrize(("passed", "kept"), [(0, True), (120, False)])
def test_an_edit_has_the_time_to_expire_that_is_still_ahead(transport, operator, database_url, passed, kept):
    published(transport, expires_at=datetime.now(UTC) + timedelta(seconds=60 if not passed else 3_600))
    (held,) = received(transport)
    transport.consumer("convert").dead_letter([DeadLettering(delivery=held, reason="bad")])


# --- Discard -----------------------------------------------------------------------------------------------------


def test_a_pending_delivery_is_discarded_at_once(transport, operator, database_url):
    published(transport, 2)
    first, _ = operator.deliveries(ALL, 10)
    assert operator.discard(Selection(delivery_ids=(first.delivery_id,)), WARRANT, PACE) == Discarded(
        at_once=1, requested=0
    )
    assert counts(transport) == (1, 0, 0, 0, 1)
    assert [again.id for again in received(transport, 10)] != [first.delivery_id]
    found = sa.select(history.c.outcome, history.c.reason, history.c.attempt)
    assert rows(database_url, found) == [("discarded", "the parser is fixed", 0)]


def test_a_discard_of_many_takes_what_waits_what_is_dead_and_asks_for_what_is_in_flight(transport, operator):
    dead(transport, 3)
    published(transport, 5)
    held = received(transport, 2)
    assert operator.discard(ALL, WARRANT, Pace(batch=3)) == Discarded(at_once=6, requested=2)
    assert counts(transport) == (0, 2, 0, 0, 6)
    assert operator.discard(ALL, WARRANT, PACE) == Discarded(at_once=0, requested=0)
    consumer = transport.consumer("convert")
    acknowledged = consumer.acknowledge_cancel([CancelAcknowledgement(delivery=one) for one in held])
    assert acknowledged == [Settled(state="discarded")] * 2
    assert counts(transport) == (0, 0, 0, 0, 8)
    requested = [d for entry in operator.audit(10) for d in entry.details.get("requested", [])]
    assert sorted(requested) == sorted(d.id for d in held)


def test_what_is_published_while_a_discard_goes_on_stays(transport, operator):
    published(transport, 3)
    assert operator.discard(ALL, WARRANT, Pace(batch=1, changed=lambda _: published(transport))).at_once == 3
    assert counts(transport) == (3, 0, 0, 0, 3)


def test_what_a_worker_gives_back_while_a_discard_goes_on_is_discarded_too(transport, operator):
    published(transport, 2)
    (held,) = received(transport)
    consumer = transport.consumer("convert")

    def give_back(_):
        consumer.acknowledge_cancel([CancelAcknowledgement(delivery=held)])

    assert operator.discard(ALL, WARRANT, Pace(batch=1, changed=give_back)) == Discarded(at_once=1, requested=1)
    assert counts(transport) == (0, 0, 0, 0, 2)


def test_a_delivery_whose_holder_is_dead_is_discarded_at_once(transport, operator, database_url):
    published(transport)
    (held,) = received(transport)
    advance(database_url, 61)
    assert operator.discard(one(held), WARRANT, PACE) == Discarded(at_once=1, requested=0)
    assert transport.consumer("convert").complete([Completion(delivery=held)]) == [LeaseLost()]


def test_a_purge_drops_the_dead_letters_alone(transport, operator):
    dead(transport, 3)
    published(transport, 2)
    received(transport)
    assert operator.purge("convert", WARRANT, Pace(batch=2)) == 3
    assert counts(transport) == (1, 1, 0, 0, 3)
    assert {entry.action for entry in operator.audit(10)} == {"purge"}


# --- Cancel in flight --------------------------------------------------------------------------------------------


def test_a_cancelled_delivery_is_reported_by_the_next_renewal_and_gone_when_acknowledged(
    transport, operator, database_url
):
    published(transport)
    (held,) = received(transport)
    consumer = transport.consumer("convert")
    assert operator.discard(one(held), WARRANT, PACE) == Discarded(at_once=0, requested=1)
    (entry,) = operator.deliveries(ALL, 10)
    assert (entry.state, entry.cancel_requested, entry.reason) == ("leased", True, "the parser is fixed")
    assert consumer.extend([Extension(delivery=held)]) == [CancelRequested()]
    assert consumer.complete([Completion(delivery=held)]) == [CancelRequested()]
    assert counts(transport) == (0, 1, 0, 0, 0)
    acknowledgement = CancelAcknowledgement(delivery=held)
    assert consumer.acknowledge_cancel([acknowledgement]) == [Settled(state="discarded")]
    assert consumer.acknowledge_cancel([acknowledgement]) == [LeaseLost()]
    assert counts(transport) == (0, 0, 0, 0, 1)
    assert rows(database_url, sa.select(history.c.outcome, history.c.reason)) == [("discarded", "the parser is fixed")]
    assert rows(database_url, sa.select(delivery_detail.c.reason)) == []


# --- Pause -------------------------------------------------------------------------------------------------------


def test_a_pause_stops_claims_at_once_and_a_resume_lets_them_go_on(transport, operator):
    published(transport, 2)
    (held,) = received(transport)
    assert operator.pause("convert", WARRANT)
    assert not operator.pause("convert", WARRANT)
    assert received(transport) == []
    published(transport)
    statuses = {row.subscription: (row.status, row.pending) for row in operator.stats()}
    assert statuses == {"archive": ("active", 0), "convert": ("paused", 2)}
    assert transport.consumer("convert").complete([Completion(delivery=held)]) == [Settled(state="completed")]
    assert operator.resume("convert", WARRANT)
    assert not operator.resume("convert", WARRANT)
    assert len(received(transport, 10)) == 2
    assert [(entry.action, entry.subject) for entry in operator.audit(10)] == [
        ("resume", "convert"),
        ("pause", "convert"),
    ]


def test_a_pause_is_the_operators_own_and_outlives_an_apply(transport, operator):
    operator.pause("convert", WARRANT)
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "max_attempts": 7}}))
    published(transport)
    assert received(transport) == []
    operator.resume("convert", WARRANT)
    assert len(received(transport)) == 1


def test_a_resume_does_not_undo_what_the_topology_says(transport, operator):
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "status": "paused"}}))
    published(transport)
    assert not operator.resume("convert", WARRANT)
    assert received(transport) == []


# --- What every action keeps to ----------------------------------------------------------------------------------


def test_names_and_conditions_that_are_not_known_change_nothing(transport, operator):
    dead(transport)
    for act in (
        lambda: operator.pause("nobody", WARRANT),
        lambda: operator.resume("nobody", WARRANT),
        lambda: operator.purge("nobody", WARRANT, PACE),
        lambda: operator.replay(Selection(subscription="nobody"), WARRANT, PACE),
        lambda: operator.discard(Selection(subscription="nobody"), WARRANT, PACE),
    ):
        with pytest.raises(SubscriptionNotFound, match="'nobody'"):
            act()
    for text in ("", "1", "1-", "x-1", "1-x", "-1-1", "99999999999999999999-1", "1-9999999999"):
        with pytest.raises(InvalidSelection, match="no delivery's id"):
            operator.discard(Selection(delivery_ids=(text,)), WARRANT, PACE)
    with pytest.raises(InvalidSelection, match="not a UUID"):
        operator.replay(Selection(message_id="x"), WARRANT, PACE)
    assert counts(transport) == (0, 0, 1, 0, 0)


@pytest.mark.parametrize("blank", ["actor", "reason"])
def test_an_action_needs_an_actor_and_a_reason(blank):
    with pytest.raises(ValueError, match=blank):
        Warrant(**({"actor": "ada", "reason": "why"} | {blank: " "}))


def test_what_is_done_and_its_entry_in_the_audit_are_there_together_or_not_at_all(transport, operator, database_url):
    dead(transport)
    published(transport)
    with closing(Database(database_url)) as database, database.writing() as connection:
        connection.execute(sa.text("ALTER TABLE towpath_audit RENAME TO towpath_audit_away"))
    for act in (
        lambda: operator.replay(DEAD, WARRANT, PACE),
        lambda: operator.discard(ALL, WARRANT, PACE),
        lambda: operator.pause("convert", WARRANT),
        lambda: operator.replay_edited(operator.dead_letters("convert", 1)[0].delivery_id, 1, WARRANT),
    ):
        with pytest.raises(Exception, match="towpath_audit"):
            act()
    with closing(Database(database_url)) as database, database.writing() as connection:
        connection.execute(sa.text("ALTER TABLE towpath_audit_away RENAME TO towpath_audit"))
    assert counts(transport) == (1, 0, 1, 0, 0)
    assert rows(database_url, sa.select(sa.func.count()).select_from(message)) == [(2,)]
    assert operator.audit(10).entries == ()


def test_the_audit_is_listed_newest_first_page_by_page(operator):
    for number in range(5):
        (operator.resume if number % 2 else operator.pause)("convert", Warrant(actor="ada", reason=f"r{number}"))
    seen, cursor = [], None
    while True:
        page = operator.audit(2, cursor)
        seen += [entry.reason for entry in page]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == ["r4", "r3", "r2", "r1", "r0"]
    for wrong in ("nonsense", "9" * 5_000):
        with pytest.raises(InvalidSelection, match="no cursor"):
            operator.audit(2, wrong)
