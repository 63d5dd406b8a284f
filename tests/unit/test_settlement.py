"""Having decisions made true, and telling what became of each delivery."""

import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.backoff import BackOff
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failed,
    Failure,
    Forfeit,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SubscriptionPolicy,
    log_settled,
    settle,
)

NOW = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)
FAILURE = Failure(type="ValueError", message="bad", traceback="Traceback ...")
STATES = {
    "complete": "completed",
    "retry": "pending",
    "dead_letter": "dead",
    "discard": "discarded",
    "release": "pending",
    "acknowledge": "discarded",
}


def delivery(number: int = 1) -> Delivery:
    return Delivery(
        id=f"d-{number}",
        subscription="documents.convert",
        topic="documents.process",
        attempt=2,
        message_id=f"m-{number}",
        body='{"secret": 1}',
        lease_token=f"t-{number}",
        received_at=NOW,
    )


class Recorder:
    """A settler that records its calls and answers each decision with a result that names it."""

    def __init__(self):
        self.calls = []

    def _answer(self, name, decisions):
        self.calls.append((name, [d.delivery.id for d in decisions]))
        return [Failed(error=f"{name} {d.delivery.id}") for d in decisions]

    def complete(self, completions):
        return self._answer("complete", completions)

    def retry(self, retrials):
        return self._answer("retry", retrials)

    def dead_letter(self, letters):
        return self._answer("dead_letter", letters)

    def discard(self, discards):
        return self._answer("discard", discards)

    def release(self, releases):
        return self._answer("release", releases)

    def acknowledge_cancel(self, acknowledgements):
        return self._answer("acknowledge", acknowledgements)


MAKERS = {
    "complete": lambda d: Completion(delivery=d),
    "retry": lambda d: Retrial(delivery=d, delay=timedelta(seconds=1), failure=FAILURE),
    "dead_letter": lambda d: DeadLettering(delivery=d, reason="r"),
    "discard": lambda d: Discard(delivery=d, reason="Expired"),
    "release": lambda d: Release(delivery=d),
    "acknowledge": lambda d: CancelAcknowledgement(delivery=d),
    "forfeit": lambda d: Forfeit(delivery=d),
}


# --- Settling --------------------------------------------------------------------------------------------------


def test_nothing_to_settle_calls_nothing():
    settler = Recorder()
    assert settle([], settler) == []
    assert settler.calls == []


def test_decisions_of_one_kind_go_in_one_call():
    settler = Recorder()
    settle([MAKERS["complete"](delivery(i)) for i in range(3)], settler)
    assert settler.calls == [("complete", ["d-0", "d-1", "d-2"])]


def test_a_forfeit_is_lost_without_a_call():
    settler = Recorder()
    assert settle([Forfeit(delivery=delivery())], settler) == [LeaseLost()]
    assert settler.calls == []


@given(st.lists(st.sampled_from(sorted(MAKERS)), max_size=12))
def test_every_answer_stands_at_its_decisions_place(kinds):
    settler = Recorder()
    answers = settle([MAKERS[kind](delivery(i)) for i, kind in enumerate(kinds)], settler)
    assert answers == [
        LeaseLost() if kind == "forfeit" else Failed(error=f"{kind} d-{i}") for i, kind in enumerate(kinds)
    ]
    assert len(settler.calls) == len({kind for kind in kinds if kind != "forfeit"})


def test_an_answer_that_leaves_one_out_is_a_fault_and_not_taken_for_another():
    class Short(Recorder):
        def complete(self, completions):
            return super().complete(completions)[:-1]

    with pytest.raises(ValueError, match="shorter"):
        settle([MAKERS["complete"](delivery(i)) for i in range(2)], Short())


# --- What holds unless it is said -------------------------------------------------------------------------------


def test_a_policy_has_the_documented_defaults():
    assert SubscriptionPolicy(subscription="s", topic="t", handler=None) == SubscriptionPolicy(
        subscription="s",
        topic="t",
        handler=None,
        partition_mode="none",
        status="active",
        max_attempts=5,
        backoff=BackOff(base_seconds=10, max_seconds=900),
        lease_seconds=60,
        heartbeat="auto",
        max_processing_seconds=None,
        accept_foreign=True,
    )


def test_a_delivery_is_no_replay_and_has_nothing_saved():
    assert (delivery().is_replay, delivery().checkpoint, delivery().correlation_id) == (False, None, None)


def test_what_is_for_the_log_only_makes_no_other_decision():
    assert not FAILURE.intended
    assert replace(FAILURE, intended=True) == FAILURE
    assert replace(MAKERS["retry"](delivery()), max_attempts=7) == MAKERS["retry"](delivery())


# --- Telling ---------------------------------------------------------------------------------------------------


def told(caplog, decision, result):
    caplog.set_level(logging.DEBUG)
    log_settled(logging.getLogger("test"), decision, result, 12.345)
    (record,) = caplog.records
    return record


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "forfeit"])
def test_one_line_tells_the_ids_the_attempt_the_state_and_the_time(caplog, kind):
    record = told(caplog, MAKERS[kind](delivery()), Settled(state=STATES[kind]))
    assert record.levelname == {"retry": "WARNING", "dead_letter": "ERROR"}.get(kind, "INFO")
    waits = ": comes again in 1 s, attempt 2" if kind == "retry" else ""
    assert record.getMessage() == f"delivery {STATES[kind]}{waits}"
    assert (record.subscription, record.delivery_id, record.message_id) == ("documents.convert", "d-1", "m-1")
    assert (record.attempt, record.duration_ms, record.state) == (2, 12.3, STATES[kind])


@pytest.mark.parametrize(
    ("decision", "facts"),
    [
        (Completion(delivery=delivery()), {}),
        (Release(delivery=delivery()), {}),
        (Discard(delivery=delivery(), reason="Expired"), {"reason": "Expired"}),
        (DeadLettering(delivery=delivery(), reason="no"), {"reason": "no"}),
        (
            DeadLettering(delivery=delivery(), reason="no", failure=FAILURE),
            {"reason": "no", "error": "ValueError: bad", "traceback": "Traceback ..."},
        ),
        (
            Retrial(delivery=delivery(), delay=timedelta(0), failure=Failure(type="Retry", message="")),
            {"reason": "Retry", "error": "Retry"},
        ),
    ],
)
def test_the_line_says_why(caplog, decision, facts):
    record = told(caplog, decision, Settled(state="pending"))
    assert {name: getattr(record, name) for name in ("reason", "error", "traceback") if hasattr(record, name)} == facts


@pytest.mark.parametrize(
    ("seconds", "most", "told_then"),
    [
        (2, 3, "delivery pending: comes again in 2 s, attempt 2 of 3"),
        (0, 3, "delivery pending: comes again at once, attempt 2 of 3"),
        (1_800, None, "delivery pending: comes again in 1,800 s, attempt 2"),
        (43_200, 5, "delivery pending: comes again in 43,200 s, attempt 2 of 5"),
    ],
)
def test_a_retry_tells_when_it_comes_again_and_how_many_attempts_it_has(caplog, seconds, most, told_then):
    delay = timedelta(seconds=seconds)
    retrial = Retrial(delivery=delivery(), delay=delay, failure=FAILURE, max_attempts=most)
    record = told(caplog, retrial, Settled(state="pending"))
    assert (record.getMessage(), record.retry_after_seconds) == (told_then, seconds)


def test_a_failure_that_was_raised_on_purpose_is_marked(caplog):
    failure = Failure(type="FatalError", message="bad", traceback="Traceback ...", intended=True)
    assert told(
        caplog, DeadLettering(delivery=delivery(), reason="bad", failure=failure), Settled(state="dead")
    ).intended


def test_a_lost_lease_is_a_warning(caplog):
    record = told(caplog, Completion(delivery=delivery()), LeaseLost())
    assert (record.levelname, record.state) == ("WARNING", "lease_lost")
    assert (record.getMessage(), record.delivery_id) == ("lease lost; the delivery goes to another worker", "d-1")


def test_a_cancelled_delivery_is_told_with_the_reason(caplog):
    refused = told(caplog, Completion(delivery=delivery()), CancelRequested())
    assert (refused.levelname, refused.state) == ("WARNING", "cancel_requested")
    caplog.clear()
    record = told(caplog, CancelAcknowledgement(delivery=delivery()), Settled(state="discarded"))
    assert (record.levelname, record.state, record.reason) == ("INFO", "discarded", "Cancelled")


def test_a_settle_that_failed_is_an_error_with_its_cause(caplog):
    record = told(caplog, Completion(delivery=delivery()), Failed(error="no answer"))
    assert (record.levelname, record.state) == ("ERROR", "failed")
    assert (record.getMessage(), record.delivery_id) == (
        "could not settle; the delivery comes again: no answer",
        "d-1",
    )


def test_a_forfeit_is_told_without_a_reason(caplog):
    record = told(caplog, Forfeit(delivery=delivery()), LeaseLost())
    assert (record.state, hasattr(record, "reason")) == ("lease_lost", False)


@pytest.mark.parametrize("result", [Settled(state="completed"), LeaseLost(), Failed(error="x")])
def test_no_line_ever_shows_a_body(caplog, result):
    record = told(caplog, MAKERS["retry"](delivery()), result)
    assert "secret" not in str(vars(record))


def test_a_failure_is_told_by_type_and_message():
    assert str(Failure(type="KeyError", message="'k'")) == "KeyError: 'k'"
    assert str(Failure(type="AssertionError", message="")) == "AssertionError"


def test_an_outcome_line_names_the_message_as_its_publisher_knows_it(caplog):
    """On SQS the transport's id of a message is another one than the publisher's."""
    held = Delivery(
        id="sqs-1",
        subscription="ship",
        topic="orders",
        attempt=1,
        message_id="0190a5d2-0000-7000-8000-000000000000",
        correlation_id="c-1",
        body="secret",
        lease_token="t",
        received_at=datetime(2026, 1, 31, tzinfo=UTC),
    )
    with caplog.at_level(logging.INFO):
        log_settled(logging.getLogger("towpath.delivery"), Completion(delivery=held), Settled(state="completed"), 1.0)
    (record,) = caplog.records
    assert (record.delivery_id, record.message_id, record.correlation_id) == ("sqs-1", held.message_id, "c-1")
    assert "secret" not in str(vars(record))
