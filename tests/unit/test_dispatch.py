"""One delivery through one handler: every way it can end, and what becomes of the delivery."""

import asyncio
import functools
import json
import logging
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from towpath import Aborted, Complete, Context, DeadLetter, FatalError, Message, NewMessage, Retry, TransientError
from towpath.backoff import BackOff
from towpath.context import AbortSignal
from towpath.dispatch import Control, Dispatcher
from towpath.errors import InvalidPayload, TransportUnavailable
from towpath.handler import inspected
from towpath.message import ABSENT, PublishResult
from towpath.payload import converter
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Decision,
    Delivery,
    Discard,
    Failure,
    Forfeit,
    Release,
    Retrial,
    SubscriptionPolicy,
)

NOW = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)
PUBLISHED = datetime(2026, 1, 31, 8, tzinfo=UTC)
ID = "0190a5d2-0000-7000-8000-000000000000"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
POLICY = SubscriptionPolicy(
    subscription="documents.convert",
    topic="documents.process",
    handler="app:process",
    max_attempts=3,
    backoff=BackOff(base_seconds=10, max_seconds=900),
)


def body(**changes) -> str:
    record = {
        "schema": "towpath/1",
        "id": ID,
        "topic": "documents.process",
        "correlation_id": "c-1",
        "published_at": "2026-01-31T08:00:00.000Z",
        "payload": {"pages": 3},
    }
    return json.dumps({name: value for name, value in (record | changes).items() if value is not Ellipsis})


def delivery(**changes) -> Delivery:
    known = {
        "id": "d-1",
        "subscription": "documents.convert",
        "topic": "documents.process",
        "attempt": 1,
        "message_id": "transport-id",
        "body": body(),
        "lease_token": "t-1",
        "received_at": NOW,
    }
    return Delivery(**(known | changes))


def read(**changes) -> Delivery:
    """The delivery as a decision names it once its body is read: with the message's own ids."""
    return delivery(**({"message_id": ID, "correlation_id": "c-1", "available_at": PUBLISHED} | changes))


def dispatcher(handler: Callable[..., Any], *, publish: Any = None, **policy) -> Dispatcher:
    found = inspected(handler)
    return Dispatcher(
        policy=replace(POLICY, **policy),
        handler=found,
        convert=converter(found.payload_type),
        publish=publish or (lambda topic, messages: []),
        log=logging.getLogger("towpath.handler"),
        clock=lambda: NOW,
        random=lambda: 0.0,
    )


def control(*, reason: Any = None, deadline: datetime | None = None) -> Control:
    signal = AbortSignal()
    if reason is not None:
        signal.set(reason)
    return Control(abort=signal, beat=lambda progress: True, deadline=deadline, run_async=asyncio.run)


def decide(
    handler: Callable[..., Any], given: Delivery | None = None, steer: Control | None = None, **policy
) -> Decision:
    """What one dispatch decided; it must settle exactly once."""
    decisions: list[Decision] = []
    dispatcher(handler, **policy).dispatch(given or delivery(), steer or control(), decisions.append)
    (decision,) = decisions
    return decision


def returning(value: Any) -> Callable[..., Any]:
    return lambda message, context: value


def raising(error: BaseException) -> Callable[..., Any]:
    def process(message, context):
        raise error

    return process


def never(message, context):
    raise AssertionError("the handler must not run")


# --- What a handler returns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("returned", [None, Complete()])
def test_complete_or_nothing_completes(returned):
    assert decide(returning(returned)) == Completion(delivery=read())


def test_retry_comes_again_after_the_back_off():
    assert decide(returning(Retry("not ready"))) == Retrial(
        delivery=read(), delay=timedelta(seconds=5), failure=Failure(type="Retry", message="not ready"), max_attempts=3
    )


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 5), (2, 10)])
def test_the_back_off_follows_the_attempt(attempt, seconds):
    decision = decide(returning(Retry()), delivery(attempt=attempt))
    assert isinstance(decision, Retrial)
    assert decision.delay == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("after", "seconds"), [(0, 0), (7, 7), (1.2, 2), (timedelta(minutes=1), 60), (-5, 0), (1e9, 43_200)]
)
def test_a_handlers_own_delay_wins_within_its_bounds(after, seconds):
    for handler in (returning(Retry(after=after)), raising(TransientError("", after=after))):
        decision = decide(handler)
        assert isinstance(decision, Retrial)
        assert decision.delay == timedelta(seconds=seconds)


def test_dead_letter_sets_it_aside_at_the_first_attempt():
    assert decide(returning(DeadLetter("not for us"))) == DeadLettering(delivery=read(), reason="not for us")


@pytest.mark.parametrize("reason", ["", "nul \0 byte" * 2_000])
def test_a_dead_letters_reason_can_be_read_and_kept(reason):
    decision = decide(returning(DeadLetter(reason)))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == (reason.replace("\0", "\ufffd")[:4_000] or "DeadLetter")


def test_of_a_long_reason_for_a_retry_the_beginning_is_kept():
    decision = decide(returning(Retry("x" * 10_000)))
    assert isinstance(decision, Retrial)
    assert decision.failure.message == "x" * 4_000


@pytest.mark.parametrize("handler", [returning(Retry(after=3)), returning(Retry()), raising(ValueError())])
def test_a_retry_tells_how_many_attempts_there_are(handler):
    decision = decide(handler)
    assert isinstance(decision, Retrial)
    assert decision.max_attempts == 3


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        (float("nan"), 0),
        (float("inf"), 43_200),
        (float("-inf"), 0),
        (43_201, 43_200),
        (timedelta(days=-1), 0),
        (True, 1),
    ],
)
def test_a_delay_beyond_its_bounds_is_kept_within_them(after, seconds):
    for handler in (returning(Retry(after=after)), raising(TransientError("", after=after))):
        decision = decide(handler)
        assert isinstance(decision, Retrial)
        assert decision.delay == timedelta(seconds=seconds)


@pytest.mark.parametrize("returned", [True, False, 0, "done", [], int, object()])
def test_anything_else_is_retried_with_an_explanation(returned):
    decision = decide(returning(returned))
    assert isinstance(decision, Retrial)
    assert decision.failure.type == "InvalidOutcome"
    assert f"the handler returned a {type(returned).__name__}" in decision.failure.message
    assert "return Complete(), Retry(), DeadLetter(reason) or None" in decision.failure.message


@pytest.mark.parametrize("outcome", [Complete, Retry, DeadLetter])
def test_an_outcome_without_its_parentheses_is_retried_with_an_explanation(outcome):
    decision = decide(returning(outcome))
    assert isinstance(decision, Retrial)
    assert "returned the class of an outcome and not one of it; return Complete()," in decision.failure.message


@pytest.mark.parametrize("after", ["soon", [], object(), 1j])
def test_a_delay_that_is_none_is_retried_with_an_explanation(after):
    for handler in (returning(Retry("busy", after=after)), raising(TransientError("busy", after=after))):
        decision = decide(handler)
        assert isinstance(decision, Retrial)
        assert decision.delay == timedelta(seconds=5)
        assert f"after is a {type(after).__name__}" in decision.failure.message
        assert "busy" in decision.failure.message


@pytest.mark.parametrize("reason", [None, 7, ValueError("x")])
def test_a_reason_that_is_no_text_becomes_text(reason):
    letter, retrial = decide(returning(DeadLetter(reason))), decide(returning(Retry(reason)))
    assert isinstance(letter, DeadLettering)
    assert letter.reason == str(reason)
    assert isinstance(retrial, Retrial)
    assert retrial.failure.message == str(reason)


# --- What a handler raises -------------------------------------------------------------------------------------


class Unspeakable(Exception):
    """An error whose text cannot be made."""

    def __str__(self):
        raise RuntimeError("no words")


class OwnTransient(TransientError):
    """A subclass that never calls what it inherits."""

    def __init__(self, code):
        self.code = code


def test_a_transient_error_is_retried_with_its_reason():
    decision = decide(raising(TransientError("rate limited")))
    assert isinstance(decision, Retrial)
    assert decision.delay == timedelta(seconds=5)
    assert (decision.failure.type, decision.failure.message) == ("TransientError", "rate limited")


def test_a_subclass_of_transient_error_may_forget_its_parent():
    decision = decide(raising(OwnTransient(429)))
    assert isinstance(decision, Retrial)
    assert decision.delay == timedelta(seconds=5)


def test_a_fatal_error_sets_it_aside_with_its_message():
    decision = decide(raising(FatalError("no such account")))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "no such account"
    assert decision.failure is not None
    assert decision.failure.type == "FatalError"


def test_a_fatal_error_without_a_message_still_has_a_reason():
    decision = decide(raising(FatalError()))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "FatalError"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        KeyError("k"),
        AssertionError(),
        TimeoutError("late"),
        RecursionError("deep"),
        MemoryError(),
        StopIteration(1),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ExceptionGroup("many", [ValueError("a"), TypeError("b")]),
        TransportUnavailable("busy"),
        InvalidPayload(["x"]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_other_exception_is_retried_and_kept_with_type_message_and_traceback(error):
    decision = decide(raising(error))
    assert isinstance(decision, Retrial)
    assert decision.failure.type == type(error).__name__
    assert decision.failure.message == str(error)
    assert "in process" in decision.failure.traceback
    assert type(error).__name__ in decision.failure.traceback


@pytest.mark.parametrize(
    ("error", "intended"),
    [(TransientError("busy"), True), (FatalError("gone"), True), (OwnTransient(1), True), (ValueError("bad"), False)],
    ids=lambda value: type(value).__name__,
)
def test_what_a_handler_raises_on_purpose_is_told_apart_from_what_breaks(error, intended):
    failure = decide(raising(error)).failure
    assert failure.intended is intended


def test_a_traceback_is_python_s_own_lines():
    error = ValueError("bad")
    failure = decide(raising(error)).failure
    assert failure.traceback == "".join(traceback.format_exception(error))


def test_a_nested_error_class_is_named_in_full():
    class Outer:
        class Inner(Exception):
            """An inner error."""

    decision = decide(raising(Outer.Inner("x")))
    assert isinstance(decision, Retrial)
    assert decision.failure.type.endswith("Outer.Inner")


def test_the_traceback_tells_causes_too():
    def process(message, context):
        try:
            1 / 0  # noqa: B018
        except ZeroDivisionError as error:
            raise ValueError("wrapped") from error

    decision = decide(process)
    assert isinstance(decision, Retrial)
    assert "ZeroDivisionError" in decision.failure.traceback


def test_an_error_that_cannot_say_what_it_is_is_retried_like_any_other():
    decision = decide(raising(Unspeakable()))
    assert isinstance(decision, Retrial)
    assert decision.failure.type == "Unspeakable"


def test_a_fatal_error_that_cannot_say_what_it_is_is_set_aside():
    class Fatal(Unspeakable, FatalError):
        """Fatal, and without words."""

    decision = decide(raising(Fatal()))
    assert isinstance(decision, DeadLettering)


@pytest.mark.parametrize("text", ["nul \0 byte", "lone \ud800 surrogate"])
def test_what_no_transport_can_store_is_replaced_in_errors_and_reasons(text):
    failed, letter = decide(raising(ValueError(text))), decide(returning(DeadLetter(text)))
    assert isinstance(failed, Retrial)
    assert isinstance(letter, DeadLettering)
    for kept in (failed.failure.message, failed.failure.traceback, letter.reason):
        assert "\0" not in kept
        assert "\ufffd" in kept
        kept.encode()


# --- The last attempt ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handler", "error"),
    [
        (returning(Retry("still not")), "Retry"),
        (returning(Retry("still not", after=0)), "Retry"),
        (raising(TransientError("still not")), "TransientError"),
        (raising(ValueError("still not")), "ValueError"),
    ],
)
def test_a_retry_at_the_last_attempt_is_set_aside_with_the_last_error(handler, error):
    assert isinstance(decide(handler, delivery(attempt=2)), Retrial)
    decision = decide(handler, delivery(attempt=3))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "MaxAttemptsExceeded"
    assert decision.failure is not None
    assert (decision.failure.type, decision.failure.message) == (error, "still not")


def test_the_last_attempt_can_still_complete():
    assert decide(returning(None), delivery(attempt=3)) == Completion(delivery=read(attempt=3))


def test_a_wrong_return_value_at_the_last_attempt_is_set_aside():
    decision = decide(returning(7), delivery(attempt=3))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "MaxAttemptsExceeded"


def test_with_one_attempt_the_first_failure_is_the_last():
    assert isinstance(decide(returning(Retry()), max_attempts=1), DeadLettering)


# --- The receive guard -----------------------------------------------------------------------------------------


def test_a_delivery_one_receive_beyond_its_attempts_runs_once_more():
    assert isinstance(decide(returning(None), delivery(attempt=4)), Completion)
    assert isinstance(decide(returning(Retry()), delivery(attempt=4)), DeadLettering)


@pytest.mark.parametrize("attempt", [5, 6, 1_000])
def test_a_delivery_two_receives_beyond_its_attempts_is_set_aside_unrun(attempt):
    decision = decide(never, delivery(attempt=attempt, body="anything"), accept_foreign=False)
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "MaxAttemptsExceeded"
    assert decision.failure == Failure(type="ReceiveGuard", message=f"received {attempt} times, never settled")


# --- Bodies ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (body(id="x"), "InvalidEnvelope"),
        (body(published_at=...), "InvalidEnvelope"),
        (body(payload="HERE").replace('"HERE"', "[" * 5_000 + "]" * 5_000), "InvalidEnvelope"),
        (body(attributes={"n": 10**400}), "InvalidEnvelope"),
        (body(schema="towpath/2"), "UnsupportedSchema"),
    ],
    ids=["id", "time", "depth", "number", "schema"],
)
def test_a_body_that_cannot_be_read_is_set_aside_before_the_handler(text, reason):
    decision = decide(never, delivery(body=text))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == reason
    assert decision.failure is not None
    assert decision.failure.type == reason


def test_a_foreign_body_is_handled_where_it_is_accepted_and_set_aside_where_not():
    seen = []
    foreign = delivery(body='{"a": 1}', attributes={"kind": "pdf"})
    assert isinstance(decide(lambda message, context: seen.append(message), foreign), Completion)
    (message,) = seen
    assert (message.payload, message.attributes) == ({"a": 1}, {"kind": "pdf"})
    assert (message.id, message.correlation_id, message.topic) == ("transport-id", "transport-id", "documents.process")
    decision = decide(never, foreign, accept_foreign=False)
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "InvalidEnvelope"


@pytest.mark.parametrize("expires", ["2026-01-31T08:15:00Z", "2026-01-31T08:14:59.999Z", "1970-01-01T00:00:00Z"])
def test_an_expired_message_is_discarded_unrun(expires):
    expired = delivery(body=body(expires_at=expires))
    assert decide(never, expired) == Discard(delivery=read(body=expired.body), reason="Expired")


def test_a_message_that_has_not_expired_yet_is_handled():
    assert isinstance(decide(returning(None), delivery(body=body(expires_at="2026-01-31T08:15:00.001Z"))), Completion)


@pytest.mark.parametrize("minutes", [-10, 10])
def test_expiry_goes_by_the_transports_clock_where_that_is_known(minutes):
    """The delivery was received at 08:15 by the database's clock; the worker's is ten minutes off."""
    steer = replace(control(), received_ago=2)
    clock = NOW + timedelta(minutes=minutes)
    for expires, runs in (("2026-01-31T08:15:02.001Z", True), ("2026-01-31T08:15:02Z", False)):
        given = delivery(body=body(expires_at=expires))
        decision = replace(dispatcher(returning(None)), clock=lambda: clock).decide(given, steer)
        assert isinstance(decision, Completion if runs else Discard)


# --- Payload types ---------------------------------------------------------------------------------------------


class Model(BaseModel):
    pages: int


@dataclass(frozen=True)
class Record:
    pages: int


class Shape(TypedDict):
    pages: int


@pytest.mark.parametrize(
    ("payload_type", "made"), [(Model, Model(pages=3)), (Record, Record(pages=3)), (Shape, {"pages": 3})]
)
def test_a_typed_handler_gets_its_type(payload_type, made):
    seen = []

    def process(message, context):
        seen.append(message.payload)

    process.__annotations__["message"] = Message[payload_type]
    assert isinstance(decide(process), Completion)
    assert seen == [made]
    assert type(seen[0]) is type(made)


@pytest.mark.parametrize("payload_type", [Model, Record, Shape])
@pytest.mark.parametrize("payload", [{"pages": "many"}, {}, [], None, ...])
def test_a_payload_that_does_not_fit_is_set_aside_at_once_with_its_errors(payload_type, payload):
    def process(message, context):
        raise AssertionError("the handler must not run")

    process.__annotations__["message"] = Message[payload_type]
    decision = decide(process, delivery(body=body(payload=payload)))
    assert isinstance(decision, DeadLettering)
    assert decision.reason == "InvalidPayload"
    assert decision.failure is not None
    assert decision.failure.type == "InvalidPayload"
    assert decision.failure.message


def test_the_errors_of_a_payload_are_bounded():
    def process(message: Message[dict[str, list[int]]], context):
        """Never runs."""

    decision = decide(process, delivery(body=body(payload={"n" * 60: ["secret"] * 10_000})))
    assert isinstance(decision, DeadLettering)
    assert decision.failure is not None
    assert "secret" not in decision.failure.message
    assert len(decision.failure.message) <= 4_000
    assert "and 9,980 more" in decision.failure.message


def test_all_errors_of_a_payload_are_told():
    class Two(BaseModel):
        a: int
        b: int

    def process(message, context):
        """Never runs."""

    process.__annotations__["message"] = Message[Two]
    decision = decide(process, delivery(body=body(payload={"a": "x"})))
    assert isinstance(decision, DeadLettering)
    assert decision.failure is not None
    assert "a: " in decision.failure.message
    assert "b: Field required" in decision.failure.message


def test_an_error_in_the_code_of_a_payload_type_is_retried_like_one_of_the_handler():
    @dataclass
    class Careless:
        pages: int

        def __post_init__(self):
            raise LookupError("no database")

    def process(message, context):
        """Never runs."""

    process.__annotations__["message"] = Message[Careless]
    decision = decide(process)
    assert isinstance(decision, Retrial)
    assert (decision.failure.type, decision.failure.message) == ("LookupError", "no database")
    assert isinstance(decide(process, delivery(attempt=3)), DeadLettering)


def test_plain_json_reaches_the_handler_as_it_stands():
    seen = []
    decide(lambda message, context: seen.append(message.payload), delivery(body=body(payload=[1, None])))
    decide(lambda message, context: seen.append(message.payload), delivery(body=body(payload=...)))
    assert seen == [[1, None], ABSENT]


# --- async -----------------------------------------------------------------------------------------------------


def test_a_coroutine_function_is_awaited_to_its_end():
    steps = []

    async def process(message, context):
        steps.append("began")
        await asyncio.sleep(0)
        steps.append("ended")
        return Retry("later")

    decision = decide(process)
    assert steps == ["began", "ended"]
    assert isinstance(decision, Retrial)
    assert decision.failure.message == "later"


def test_an_error_of_a_coroutine_is_an_error_of_the_handler():
    async def process(message, context):
        await asyncio.sleep(0)
        raise FatalError("gone")

    assert isinstance(decide(process), DeadLettering)


def test_a_plain_function_that_returns_a_coroutine_is_awaited_too():
    steps = []

    async def inner(message, context):
        await asyncio.sleep(0)
        steps.append("ended")

    def logged(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)

        return wrapper

    assert isinstance(decide(logged(inner)), Completion)
    assert isinstance(decide(lambda message, context, more=1: inner(message, context)), Completion)
    assert steps == ["ended", "ended"]


class Compiled:
    """What a compiler makes of ``async def``: awaitable, and no coroutine of Python's own."""

    def __init__(self, outcome):
        self.outcome = outcome

    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return self.outcome


def test_whatever_can_be_awaited_is_awaited():
    assert decide(returning(Compiled(DeadLetter("later")))) == DeadLettering(delivery=read(), reason="later")


def test_a_coroutine_that_cancels_itself_has_failed():
    async def process(message, context):
        raise asyncio.CancelledError

    async def awaits_cancelled(message, context):
        task = asyncio.ensure_future(asyncio.sleep(60))
        task.cancel()
        await task

    for handler in (process, awaits_cancelled):
        decision = decide(handler)
        assert isinstance(decision, Retrial)
        assert "cancelled" in decision.failure.message


def test_an_abort_inside_a_task_group_is_an_abort():
    steer = control(reason="lease_lost")

    async def process(message, context):
        async def part():
            context.check()

        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(part())

    assert decide(process, steer=steer) == Forfeit(delivery=read())


def test_an_abort_beside_other_errors_of_a_task_group_is_an_abort():
    steer = control(reason="shutdown")

    async def process(message, context):
        async def fail():
            raise ValueError("also")

        async def part():
            context.check()

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(part())

    assert decide(process, steer=steer) == Release(delivery=read())


def test_of_several_aborts_of_a_task_group_the_first_one_is_told():
    async def process(message, context):
        inner = BaseExceptionGroup("inner", [Aborted("shutdown"), Aborted("lease_lost")])
        raise BaseExceptionGroup("outer", [inner, Aborted("cancelled")])

    decision = decide(process)
    assert isinstance(decision, Retrial)
    assert decision.failure.message == "the handler was asked to stop: shutdown"


@pytest.mark.parametrize("others", [[], [GeneratorExit()]])
def test_a_group_without_an_abort_is_a_failed_attempt(others):
    async def process(message, context):
        raise BaseExceptionGroup("both", [ValueError("a"), *others])

    decision = decide(process)
    assert isinstance(decision, Retrial)
    assert decision.failure.type in ("ExceptionGroup", "BaseExceptionGroup")
    assert "ValueError: a" in decision.failure.traceback


def test_a_group_that_holds_what_is_no_exception_is_a_failed_attempt():
    async def process(message, context):
        raise BaseExceptionGroup("both", [Aborted("shutdown"), GeneratorExit()])

    decision = decide(process)
    assert isinstance(decision, Retrial)
    assert decision.failure.type == "BaseExceptionGroup"


# --- Aborting --------------------------------------------------------------------------------------------------


def checks(message: Message, context: Context) -> None:
    context.check()


def test_a_handler_aborted_by_shutdown_is_released():
    assert decide(checks, steer=control(reason="shutdown")) == Release(delivery=read())


def test_a_handler_that_lost_its_lease_settles_nothing():
    assert decide(checks, steer=control(reason="lease_lost")) == Forfeit(delivery=read())


def test_a_handler_that_stops_since_it_was_cancelled_acknowledges_that():
    assert decide(checks, steer=control(reason="cancelled")) == CancelAcknowledgement(delivery=read())


def test_a_handler_that_ran_too_long_is_retried_with_the_limit():
    decision = decide(checks, steer=control(reason="max_processing"), max_processing_seconds=90.0)
    assert isinstance(decision, Retrial)
    assert decision.failure == Failure(
        type="MaxProcessingExceeded", message="ran longer than max_processing_seconds = 90"
    )
    last = decide(checks, delivery(attempt=3), control(reason="max_processing"), max_processing_seconds=90.0)
    assert isinstance(last, DeadLettering)


@pytest.mark.parametrize("reason", ["shutdown", "lease_lost", "max_processing"])
def test_a_handler_that_raises_aborted_of_its_own_is_retried(reason):
    decision = decide(raising(Aborted(reason)))
    assert isinstance(decision, Retrial)
    assert decision.failure.type == "Aborted"
    assert isinstance(decide(raising(Aborted(reason)), delivery(attempt=3)), DeadLettering)


def test_the_reason_of_the_abort_stands_and_not_what_the_handler_raises():
    assert decide(raising(Aborted("shutdown")), steer=control(reason="lease_lost")) == Forfeit(delivery=read())


@pytest.mark.parametrize("returned", [None, Complete()])
def test_on_shutdown_a_complete_still_completes(returned):
    assert decide(returning(returned), steer=control(reason="shutdown")) == Completion(delivery=read())


@pytest.mark.parametrize(
    "handler",
    [
        returning(Retry("cut short")),
        returning(DeadLetter("cut short")),
        returning(7),
        raising(ValueError("cut short")),
        raising(FatalError("cut short")),
        raising(TransientError("cut short")),
    ],
)
def test_on_shutdown_anything_else_is_released(handler):
    assert decide(handler, steer=control(reason="shutdown")) == Release(delivery=read())
    assert decide(handler, delivery(attempt=3), control(reason="shutdown")) == Release(delivery=read(attempt=3))


def test_on_shutdown_an_error_of_the_payload_types_code_is_released():
    @dataclass
    class Careless:
        def __post_init__(self):
            raise LookupError

    def process(message, context):
        """Never runs."""

    process.__annotations__["message"] = Message[Careless]
    assert decide(process, delivery(body=body(payload={})), control(reason="shutdown")) == Release(
        delivery=read(body=body(payload={}))
    )


@pytest.mark.parametrize("reason", ["lease_lost", "max_processing", "cancelled"])
def test_an_outcome_that_comes_in_spite_of_an_abort_is_settled_and_left_to_the_fence(reason):
    assert isinstance(decide(returning(None), steer=control(reason=reason)), Completion)
    assert isinstance(decide(returning(Retry()), steer=control(reason=reason)), Retrial)


# --- What is no Exception --------------------------------------------------------------------------------------


def test_a_keyboard_interrupt_releases_the_delivery_and_passes_through():
    decisions: list[Decision] = []
    interrupt = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt) as caught:
        dispatcher(raising(interrupt)).dispatch(delivery(), control(), decisions.append)
    assert caught.value is interrupt
    assert decisions == [Release(delivery=read())]


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), asyncio.CancelledError()], ids=repr)
def test_an_exit_is_a_failed_attempt_so_that_it_ends_as_a_dead_letter(error):
    """Released with its attempt it would end one process after the other, for ever."""
    first = decide(raising(error))
    assert isinstance(first, Retrial)
    assert first.failure.type == type(error).__qualname__
    last = decide(raising(error), delivery(attempt=3))
    assert isinstance(last, DeadLettering)
    assert last.reason == "MaxAttemptsExceeded"


class Recursive(Exception):
    def __getattr__(self, name):
        return getattr(self.wrapped, name)  # never set: asks itself for ever


@pytest.mark.parametrize(
    "error",
    [Recursive("wrapped"), SyntaxError("m", ("f", 1, "x", "text"))],
    ids=["its attributes recurse", "its place is no number"],
)
def test_an_error_that_cannot_be_shown_is_retried_like_any_other(error):
    decision = decide(raising(error))
    assert isinstance(decision, Retrial)
    assert decision.failure.type == type(error).__qualname__
    assert decision.failure.traceback == "".join(traceback.format_tb(error.__traceback__))
    assert "raise error" in decision.failure.traceback


def test_of_a_long_error_the_beginning_is_kept_and_of_its_traceback_the_end():
    decision = decide(raising(ValueError("x" * 10_000_000)))
    assert decision.failure.message == "x" * 4_000
    assert len(decision.failure.traceback) == 20_000


def test_an_error_of_settling_is_not_settled_again():
    attempts = []

    def settle(decision):
        attempts.append(decision)
        raise RuntimeError("settler broke")

    with pytest.raises(RuntimeError, match="settler broke"):
        dispatcher(returning(None)).dispatch(delivery(), control(), settle)
    assert attempts == [Completion(delivery=read())]


# --- What the handler is given ---------------------------------------------------------------------------------


def test_the_handler_sees_the_message_and_where_it_stands():
    seen = []
    given_delivery = delivery(attempt=2, is_replay=True, checkpoint={"page": 2})
    deadline = NOW + timedelta(seconds=90)
    decide(lambda m, c: seen.append((m, c)), given_delivery, control(deadline=deadline))
    ((message, context),) = seen
    assert (message.id, message.payload, message.topic) == (ID, {"pages": 3}, "documents.process")
    assert (context.subscription, context.delivery_id, context.attempt) == ("documents.convert", "d-1", 2)
    assert (context.max_attempts, context.is_replay, context.correlation_id) == (3, True, "c-1")
    assert (context.checkpoint, context.deadline) == ({"page": 2}, deadline)
    assert context.remaining() == timedelta(seconds=90)


def test_the_handlers_log_carries_the_ids_and_keeps_the_handlers_own_fields(caplog):
    caplog.set_level(logging.INFO, "towpath.handler")
    decide(lambda message, context: context.log.info("page %d", 2, extra={"page": 2}))
    (record,) = caplog.records
    assert record.getMessage() == "page 2"
    assert (record.subscription, record.delivery_id, record.message_id) == ("documents.convert", "d-1", ID)
    assert (record.correlation_id, record.attempt, record.page) == ("c-1", 1, 2)


def test_the_ids_in_the_handlers_log_are_the_deliverys(caplog):
    caplog.set_level(logging.INFO, "towpath.handler")
    decide(lambda message, context: context.log.warning("x", extra={"attempt": 99, "delivery_id": "another"}))
    (record,) = caplog.records
    assert (record.attempt, record.delivery_id) == (1, "d-1")


def publishes(*messages: NewMessage) -> list[NewMessage]:
    """What reaches the transport when a handler publishes ``messages``."""
    reached: list[tuple[str, list[NewMessage]]] = []
    results = [PublishResult(id=ID, status="accepted")] * len(messages)

    def publish(topic, published):
        reached.append((topic, list(published)))
        return results

    answers = []

    def process(message, context):
        answers.append(context.publish("documents.done", *messages))

    decide(process, delivery(body=body(traceparent=TRACE)), publish=publish)
    ((topic, published),) = reached
    assert topic == "documents.done"
    assert answers == [results]
    return published


def test_publishing_from_a_handler_carries_causation_correlation_and_trace_on():
    first, second = publishes(NewMessage(payload=1), NewMessage(payload=2, partition_key="k"))
    assert first == NewMessage(payload=1, causation_id=ID, correlation_id="c-1", traceparent=TRACE)
    assert second == NewMessage(payload=2, partition_key="k", causation_id=ID, correlation_id="c-1", traceparent=TRACE)


def test_what_a_handler_says_itself_is_kept():
    own = NewMessage(causation_id="0190a5d2-0000-7000-8000-000000000009", correlation_id="own", traceparent="own")
    assert publishes(own) == [own]


def test_what_a_handler_says_wrongly_is_left_for_the_transport_to_refuse():
    (published,) = publishes(NewMessage(causation_id="", correlation_id="", traceparent=""))
    assert (published.causation_id, published.correlation_id, published.traceparent) == ("", "", "")


def test_without_a_trace_none_is_carried_on():
    published = []
    decide(
        lambda message, context: context.publish("documents.done", NewMessage()) and None,
        publish=lambda topic, messages: published.extend(messages) or [],
    )
    assert published == [NewMessage(causation_id=ID, correlation_id="c-1")]


def test_publishing_nothing_reaches_the_transport_as_nothing():
    assert publishes() == []


def test_an_error_of_publishing_is_an_error_of_the_handler():
    def publish(topic, messages):
        raise TransportUnavailable("no answer")

    decision = decide(lambda m, c: c.publish("t", NewMessage()) and None, publish=publish)
    assert isinstance(decision, Retrial)
    assert decision.failure.type == "TransportUnavailable"


def test_many_threads_may_share_a_dispatcher():
    line = threading.Barrier(8)
    decisions: list[Decision] = []

    def process(message, context):
        line.wait(timeout=10)
        return Retry(context.delivery_id)

    shared = dispatcher(process)
    threads = [
        threading.Thread(target=shared.dispatch, args=[delivery(id=f"d-{i}"), control(), decisions.append])
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert sorted(d.delivery.id for d in decisions) == [f"d-{i}" for i in range(8)]
    assert all(isinstance(d, Retrial) and d.failure.message == d.delivery.id for d in decisions)
