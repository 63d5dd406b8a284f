"""Settling under a lease: every change is fenced, aligned with its batch, and kept."""

import logging
import os
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.applied import TopologyReader
from local_transport.connections import Database
from local_transport.consumer import DatabaseConsumer, Means
from local_transport.settles import Settles
from local_transport.tables import delivery, delivery_detail, history, tally
from local_transport.wakeups import Wakeups
from tests.servers.clock import advance
from towpath import NewMessage
from towpath.context import Progress
from towpath.errors import TransportUnavailable
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Discard,
    Failed,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
)

NOW = timedelta(0)
FAILURE = Failure(type="ValueError", message="not a number", traceback="Traceback (most recent call last) ...")

SETTLES = {
    "complete": lambda held: Completion(delivery=held),
    "retry": lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE),
    "dead_letter": lambda held: DeadLettering(delivery=held, reason="bad"),
    "discard": lambda held: Discard(delivery=held, reason="Expired"),
    "release": lambda held: Release(delivery=held),
    "extend": lambda held: Extension(delivery=held),
}
STATES = {
    "complete": "completed",
    "retry": "pending",
    "dead_letter": "dead",
    "discard": "discarded",
    "release": "pending",
    "extend": "leased",
}


@pytest.fixture
def consumer(transport):
    return transport.consumer("convert")


def received(transport, consumer, count=1):
    transport.publish("documents", [NewMessage(payload=i) for i in range(count)])
    return consumer.receive(count, NOW)


def settled(consumer, how, *held):
    return getattr(consumer, how)([SETTLES[how](one) for one in held])


def rows(url, table):
    database = Database(url)
    with database.reading() as connection:
        found = connection.execute(sa.select(table)).mappings().all()
    database.close()
    return found


@pytest.mark.parametrize("how", SETTLES)
def test_a_held_delivery_can_be_settled_once_and_answers_are_in_order(transport, consumer, how):
    held = received(transport, consumer, 3)
    never = replace(held[0], id="999999-1")
    expected = [Settled(state=STATES[how]), LeaseLost(), Settled(state=STATES[how])]
    assert settled(consumer, how, held[2], never, held[0]) == expected
    if how != "extend":
        assert settled(consumer, how, held[0], held[1]) == [LeaseLost(), Settled(state=STATES[how])]


class LosesTheAnswer(Database):
    """A database whose connection is lost right after each settle was committed."""

    @contextmanager
    def changing(self):
        with super().changing() as connection:
            yield connection
        raise TransportUnavailable("the connection was lost")


@pytest.mark.parametrize("how", [how for how in SETTLES if how != "extend"])
def test_a_settle_whose_answer_was_lost_can_be_asked_for_again_and_is_made_once(transport, consumer, database_url, how):
    (held,) = received(transport, consumer)
    losing = LosesTheAnswer(database_url)
    reader, log = TopologyReader(), logging.getLogger("test")
    wakeups = Wakeups(losing, log, os.urandom)
    means = Means(database=losing, reader=reader, settles=Settles(losing), wakeups=wakeups, log=log)
    (answer,) = settled(DatabaseConsumer(means, "convert"), how, held)
    wakeups.close()
    losing.close()
    assert isinstance(answer, Failed)
    before = [rows(database_url, table) for table in (delivery, delivery_detail, history, tally)]
    assert settled(consumer, how, held) == [LeaseLost()]  # it is no longer held
    assert [rows(database_url, table) for table in (delivery, delivery_detail, history, tally)] == before
    stats = transport.operator().stats()[1]
    assert {"completed": stats.completed, "discarded": stats.discarded, "dead": stats.dead}.get(STATES[how], 1) == 1


@pytest.mark.parametrize("how", SETTLES)
def test_a_stale_lease_changes_nothing_and_the_current_one_can(transport, consumer, database_url, how):
    (stale,) = received(transport, consumer)
    advance(database_url, 100)
    (current,) = consumer.receive(1, NOW)
    before = rows(database_url, delivery)
    assert settled(consumer, how, stale) == [LeaseLost()]
    assert (rows(database_url, delivery), rows(database_url, delivery_detail)) == (before, [])
    assert settled(consumer, how, current) == [Settled(state=STATES[how])]


@pytest.mark.parametrize("how", SETTLES)
def test_a_lease_whose_time_is_over_still_settles_while_nobody_else_has_claimed(transport, consumer, database_url, how):
    (held,) = received(transport, consumer)
    advance(database_url, 1_000)
    assert settled(consumer, how, held) == [Settled(state=STATES[how])]


@pytest.mark.parametrize("how", SETTLES)
def test_a_lease_that_ended_as_a_dead_letter_is_lost(transport, consumer, database_url, how):
    received(transport, consumer)
    for _ in range(2):
        advance(database_url, 100)
        (held,) = consumer.receive(1, NOW)
    advance(database_url, 100)
    assert transport.sweep() == 1
    assert settled(consumer, how, held) == [LeaseLost()]


@pytest.mark.parametrize("how", SETTLES)
def test_a_cancelled_delivery_is_fenced_from_its_holder_who_is_told_why(transport, consumer, database_url, how):
    (held,) = received(transport, consumer)
    database = Database(database_url)
    with database.writing() as connection:
        connection.execute(sa.update(delivery).values(cancel_requested=True))
    database.close()
    assert settled(consumer, how, held) == [CancelRequested()]
    assert settled(consumer, how, replace(held, lease_token="2")) == [LeaseLost()]


def test_only_the_holder_of_a_cancelled_delivery_can_acknowledge_that(transport, consumer, database_url):
    held, other = received(transport, consumer, 2)
    database = Database(database_url)
    with database.writing() as connection:
        wanted = delivery.c.message_ordinal == int(held.id.partition("-")[0])
        connection.execute(sa.update(delivery).where(wanted).values(cancel_requested=True))
    database.close()
    proofs = [replace(held, lease_token="7"), other, held, held]
    answers = consumer.acknowledge_cancel([CancelAcknowledgement(delivery=proof) for proof in proofs])
    assert answers == [LeaseLost(), LeaseLost(), Settled(state="discarded"), LeaseLost()]
    stats = transport.operator().stats()[1]
    assert (stats.leased, stats.discarded) == (1, 1)


@pytest.mark.parametrize("how", SETTLES)
def test_another_subscriptions_consumer_cannot_settle(transport, consumer, how):
    (held,) = received(transport, consumer)
    assert settled(transport.consumer("archive"), how, held) == [LeaseLost()]


@pytest.mark.parametrize("how", SETTLES)
def test_proofs_that_were_never_given_out_are_lost_leases(transport, consumer, how):
    (held,) = received(transport, consumer)
    forged = [replace(held, lease_token=token) for token in ("", "nonsense", "99999999999999", "-1", "²")]
    forged += [replace(held, id=forged_id) for forged_id in ("", "x", "9" * 40 + "-1")]
    assert settled(consumer, how, *forged) == [LeaseLost()] * 8


@pytest.mark.parametrize("how", [how for how in SETTLES if how != "extend"])
def test_the_same_delivery_twice_in_a_batch_is_settled_once(transport, consumer, how):
    (held,) = received(transport, consumer)
    assert settled(consumer, how, held, held) == [Settled(state=STATES[how]), LeaseLost()]


@pytest.mark.parametrize("how", SETTLES)
@pytest.mark.parametrize("order", ["stale first", "current first"])
def test_a_stale_and_the_current_lease_of_one_delivery_in_a_batch_are_told_apart(
    transport, consumer, database_url, how, order
):
    (stale,) = received(transport, consumer)
    advance(database_url, 100)
    (current,) = consumer.receive(1, NOW)
    expected = [LeaseLost(), Settled(state=STATES[how])]
    if order == "stale first":
        assert settled(consumer, how, stale, current) == expected
    else:
        assert settled(consumer, how, current, stale) == expected[::-1]
    assert len(rows(database_url, delivery_detail)) == (how in ("retry", "dead_letter"))


def test_nothing_to_settle_is_nothing_to_do(consumer):
    assert [getattr(consumer, how)([]) for how in SETTLES] == [[]] * len(SETTLES)


# --- What each does ----------------------------------------------------------------------------------------------


def test_a_completed_delivery_leaves_the_table_with_its_details_and_is_counted(transport, consumer, database_url):
    first, second = received(transport, consumer, 2)
    consumer.extend([Extension(delivery=first, progress=Progress(percent=50))])
    settled(consumer, "complete", first, second)
    assert (rows(database_url, delivery), rows(database_url, delivery_detail)) == ([], [])
    assert [(row["outcome"], row["attempt"]) for row in rows(database_url, history)] == [("completed", 1)] * 2
    advance(database_url, 10_000)
    assert consumer.receive(10, NOW) == []
    assert transport.operator().stats()[1].completed == 2


def test_a_retry_hides_for_its_delay_and_keeps_the_failure(transport, consumer, database_url):
    (held,) = received(transport, consumer)
    consumer.retry([Retrial(delivery=held, delay=timedelta(seconds=30), failure=FAILURE)])
    advance(database_url, 29)
    assert consumer.receive(1, NOW) == []
    (detail,) = rows(database_url, delivery_detail)
    assert (detail["error_type"], detail["error_message"], detail["failed_attempt"]) == (
        "ValueError",
        "not a number",
        1,
    )
    advance(database_url, 2)
    (again,) = consumer.receive(1, NOW)
    assert again.attempt == 2


def test_delays_of_a_batch_are_each_its_own(transport, consumer, database_url):
    first, second = received(transport, consumer, 2)
    delays = [Retrial(delivery=d, delay=timedelta(seconds=s), failure=FAILURE) for d, s in ((first, 50), (second, 10))]
    consumer.retry(delays)
    advance(database_url, 20)
    assert [d.id for d in consumer.receive(10, NOW)] == [second.id]


def test_a_dead_letter_keeps_reason_error_attempts_and_message(transport, consumer):
    first, second = received(transport, consumer, 2)
    consumer.dead_letter([DeadLettering(delivery=second, reason="no use", failure=FAILURE)])
    consumer.dead_letter([DeadLettering(delivery=first, reason="bad")])
    letters = transport.operator().dead_letters("convert", 10)
    assert [(le.delivery_id, le.reason) for le in letters] == [(second.id, "no use"), (first.id, "bad")]
    assert (letters[0].message_id, letters[0].body, letters[0].attempts) == (second.message_id, second.body, 1)
    assert letters[0].error == f"ValueError: not a number\n{FAILURE.traceback}"
    assert letters[1].error == ""
    assert transport.operator().dead_letters("convert", 1).entries == letters[:1]


def test_a_dead_letter_without_a_failure_keeps_the_last_error(transport, consumer):
    (held,) = received(transport, consumer)
    settled(consumer, "retry", held)
    (again,) = consumer.receive(1, NOW)
    settled(consumer, "dead_letter", again)
    (letter,) = transport.operator().dead_letters("convert", 10)
    assert (letter.reason, letter.error.partition("\n")[0]) == ("bad", "ValueError: not a number")


def test_a_discarded_delivery_is_over_and_counted_apart(transport, consumer, database_url):
    (held,) = received(transport, consumer)
    settled(consumer, "discard", held)
    assert [(row["outcome"], row["reason"]) for row in rows(database_url, history)] == [("discarded", "Expired")]
    stats = transport.operator().stats()[1]
    assert (stats.completed, stats.discarded, stats.pending, stats.leased) == (0, 1, 0, 0)


def test_a_released_delivery_is_due_at_once_with_its_attempt_given_back(transport, consumer):
    (held,) = received(transport, consumer)
    settled(consumer, "release", held)
    (again,) = consumer.receive(1, NOW)
    assert (again.id, again.attempt) == (held.id, 1)
    assert again.lease_token != held.lease_token
    assert settled(consumer, "complete", held) == [LeaseLost()]


def test_an_extended_lease_stays_hidden_past_its_first_end(transport, consumer, database_url):
    (held,) = received(transport, consumer)
    for _ in range(3):
        advance(database_url, 50)
        assert settled(consumer, "extend", held) == [Settled(state="leased")]
        assert consumer.receive(1, NOW) == []
    advance(database_url, 71)
    assert consumer.receive(1, NOW)[0].attempt == 2


def test_an_extended_last_lease_still_ends_as_a_dead_letter_and_only_at_its_new_end(transport, consumer, database_url):
    received(transport, consumer)
    for _ in range(2):
        advance(database_url, 100)
        (held,) = consumer.receive(1, NOW)
    advance(database_url, 50)
    settled(consumer, "extend", held)
    advance(database_url, 50)
    assert transport.sweep() == 0
    advance(database_url, 11)
    assert transport.sweep() == 1


def test_a_checkpoint_is_given_back_to_the_next_attempt(transport, consumer, database_url):
    held = received(transport, consumer, 3)
    saved = [{"page": 7, "text": "ü\0"}, None, None]
    reports = [Progress(percent=10, checkpoint=saved[0]), Progress(checkpoint=None), Progress(note="only a note")]
    consumer.extend([Extension(delivery=d, progress=p) for d, p in zip(held, reports, strict=True)])
    advance(database_url, 100)
    assert [d.checkpoint for d in consumer.receive(3, NOW)] == saved


def test_progress_that_is_left_out_stays_as_it_was(transport, consumer, database_url):
    (held,) = received(transport, consumer)
    consumer.extend([Extension(delivery=held, progress=Progress(percent=10, note="begun", checkpoint=[1]))])
    consumer.extend([Extension(delivery=held, progress=Progress(percent=20))])
    consumer.extend([Extension(delivery=held)])
    (detail,) = rows(database_url, delivery_detail)
    assert (detail["percent"], detail["note"], detail["checkpoint"]) == (20, "begun", "[1]")


def test_a_failure_does_not_touch_the_progress(transport, consumer, database_url):
    (held,) = received(transport, consumer)
    consumer.extend([Extension(delivery=held, progress=Progress(checkpoint="here"))])
    settled(consumer, "retry", held)
    assert consumer.receive(1, NOW)[0].checkpoint == "here"


def test_texts_that_a_database_cannot_keep_are_kept_as_far_as_possible(transport, consumer):
    (held,) = received(transport, consumer)
    failure = Failure(type="E" * 300, message="nul \0, half \ud800, " + "m" * 10_000, traceback="t" * 50_000 + "end")
    consumer.dead_letter([DeadLettering(delivery=held, reason="r" * 10_000 + "\0", failure=failure)])
    (letter,) = transport.operator().dead_letters("convert", 1)
    sentence, _, traceback = letter.error.partition("\n")
    assert sentence.startswith("E" * 200 + ": nul \N{REPLACEMENT CHARACTER}, half ?, mmm")
    assert (len(sentence), len(traceback), len(letter.reason)) == (200 + 2 + 4_000, 16_000, 4_000)
    assert traceback.endswith("end")
