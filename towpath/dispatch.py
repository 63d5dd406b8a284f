"""Run a handler for one delivery and decide, by the retry rules, what becomes of the delivery."""

from __future__ import annotations

import inspect
import random as system_random
import traceback
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from logging import Logger, LoggerAdapter
from typing import Any, Final, Protocol, assert_never

from towpath import limits
from towpath.backoff import Random, clamp
from towpath.canonical import read_canonical
from towpath.context import AbortSignal, Beat, Context, Publish
from towpath.errors import (
    Aborted,
    FatalError,
    InvalidEnvelope,
    InvalidPayload,
    TransientError,
    UnsupportedSchema,
)
from towpath.frozen import Record
from towpath.handler import Handler
from towpath.message import Clock, Message, NewMessage, PublishResult, utc_now
from towpath.outcome import Complete, DeadLetter, Outcome, Retry
from towpath.patterns import Pattern
from towpath.payload import Convert
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

_UNSTORABLE: Final = Pattern("[\0\ud800-\udfff]")  # PostgreSQL's text has no NUL, UTF-8 has no lone surrogate


class RunAsync(Protocol):
    """Runs a coroutine to its end on an event loop of the calling thread, as ``asyncio.Runner.run`` does."""

    def __call__(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """The coroutine's result, or what it raised."""


class Control(metaclass=Record):
    """How one running delivery is steered from outside: told to stop, kept alive, bounded in time.

    ``received_ago`` is how many seconds ago the delivery was received, by a clock that nobody sets. With it the
    delivery's own ``received_at`` says what time it is: on a database that is the database's clock, whatever the
    worker's says.
    """

    abort: AbortSignal
    beat: Beat
    deadline: datetime | None
    run_async: RunAsync
    received_ago: float | None = None


class Dispatcher(metaclass=Record):
    """Handles the deliveries of one subscription. Holds no state, so any number of threads may share one."""

    policy: SubscriptionPolicy
    handler: Handler
    convert: Convert
    publish: Publish
    log: Logger
    clock: Clock = utc_now
    random: Random = system_random.random

    def dispatch(self, delivery: Delivery, control: Control, settle: Callable[[Decision], None]) -> None:
        """Run the handler for ``delivery`` and hand the decision to ``settle``, exactly once.

        A ``KeyboardInterrupt``, which is a person's, releases the delivery and passes through. All else that a handler
        raises is a failed attempt, ``SystemExit`` too: one message that ends each process that takes it, and keeps its
        attempts, would never become a dead letter.
        """
        try:
            decision = self.decide(delivery, control)
        except BaseException:
            settle(Release(delivery=delivery))
            raise
        settle(decision)

    def decide(self, delivery: Delivery, control: Control) -> Decision:
        """Read the body, run the handler, and say what becomes of the delivery. Nothing is settled here."""
        if delivery.attempt >= self.policy.max_attempts + limits.RECEIVE_GUARD_EXTRA:
            failure = Failure(type="ReceiveGuard", message=f"received {delivery.attempt} times, never settled")
            return DeadLettering(delivery=delivery, reason="MaxAttemptsExceeded", failure=failure)
        try:
            message = read_canonical(delivery.body) or self._read(delivery)
        except (InvalidEnvelope, UnsupportedSchema) as error:
            return _unreadable(delivery, error)
        delivery.is_of(message)
        if message.expires_at is not None and message.expires_at <= self._now(delivery, control):
            return Discard(delivery=delivery, reason="Expired")
        return self._run(delivery, message, control)

    def _read(self, delivery: Delivery) -> Message[Any]:
        """What is not written as Towpath writes it. A function that never gets that need not wait for this import."""
        from towpath.envelope import decode

        return decode(delivery.body, delivery, accept_foreign=self.policy.accept_foreign)

    def _now(self, delivery: Delivery, control: Control) -> datetime:
        if control.received_ago is None:
            return self.clock()
        return delivery.received_at + timedelta(seconds=control.received_ago)

    def _run(self, delivery: Delivery, message: Message[Any], control: Control) -> Decision:
        try:
            decision = self._handled(delivery, message, control)
        except Aborted as aborted:
            return self._aborted(delivery, aborted, control)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - the one place where a handler's errors become outcomes
            decision = self._raised(delivery, error)
        return self._unless_stopping(decision, control)

    def _handled(self, delivery: Delivery, message: Message[Any], control: Control) -> Decision:
        """What the user's code decides, or raises: the handler's, and before it that of its payload type."""
        try:
            payload = self.convert(message.payload)
        except InvalidPayload as error:
            return _unreadable(delivery, error)
        typed = message if payload is message.payload else replace(message, payload=payload)
        returned = self.handler.function(typed, self._context(delivery, typed, control))
        if returned is not None and inspect.isawaitable(
            returned
        ):  # a plain function may return one too: one that wraps a coroutine function
            returned = _awaited(returned, control)
        return self._returned(delivery, returned)

    def _context(self, delivery: Delivery, message: Message[Any], control: Control) -> Context:
        return Context(
            subscription=delivery.subscription,
            delivery_id=delivery.id,
            attempt=delivery.attempt,
            max_attempts=self.policy.max_attempts,
            is_replay=delivery.is_replay,
            correlation_id=message.correlation_id,
            deadline=control.deadline,
            checkpoint=delivery.checkpoint,
            log=_BoundLog(self.log, delivery),
            _abort=control.abort,
            _beat=control.beat,
            _publish=_caused_by(message, self.publish),
            _clock=self.clock,
        )

    def _aborted(self, delivery: Delivery, aborted: Aborted, control: Control) -> Decision:
        match control.abort.reason:
            case None:  # nothing asked the handler to stop: it raised this by itself
                return self._retry(delivery, None, _failure(aborted))
            case "shutdown":
                return Release(delivery=delivery)
            case "max_processing":
                limit = f"ran longer than max_processing_seconds = {self.policy.max_processing_seconds:g}"
                return self._retry(delivery, None, Failure(type="MaxProcessingExceeded", message=limit))
            case "cancelled":
                return CancelAcknowledgement(delivery=delivery)
            case "lease_lost":
                return Forfeit(delivery=delivery)
            case _:
                assert_never(control.abort.reason)

    def _unless_stopping(self, decision: Decision, control: Control) -> Decision:
        """On shutdown only a success stands: a handler cut short may fail for no reason of its own."""
        if control.abort.reason == "shutdown" and not isinstance(decision, Completion):
            return Release(delivery=decision.delivery)
        return decision

    def _raised(self, delivery: Delivery, error: BaseException) -> Decision:
        failure = _failure(error)
        if isinstance(error, FatalError):
            return DeadLettering(delivery=delivery, reason=failure.message or "FatalError", failure=failure)
        after = error.after if isinstance(error, TransientError) else None
        return self._retry(delivery, after, failure)

    def _returned(self, delivery: Delivery, returned: Outcome | object | None) -> Decision:
        match returned:
            case None | Complete():
                return Completion(delivery=delivery)
            case Retry(reason=reason, after=after):
                return self._retry(delivery, after, Failure(type="Retry", message=_told(reason)))
            case DeadLetter(reason=reason):
                return DeadLettering(delivery=delivery, reason=_told(reason) or "DeadLetter")
            case _:
                what = f"a {type(returned).__name__}"
                if any(returned is outcome for outcome in (Complete, Retry, DeadLetter)):
                    what = "the class of an outcome and not one of it"
                problem = f"the handler returned {what}; return Complete(), Retry(), DeadLetter(reason) or None"
                return self._retry(delivery, None, Failure(type="InvalidOutcome", message=problem))

    def _retry(self, delivery: Delivery, after: object, failure: Failure) -> Decision:
        if delivery.attempt >= self.policy.max_attempts:
            return DeadLettering(delivery=delivery, reason="MaxAttemptsExceeded", failure=failure)
        most = self.policy.max_attempts
        if isinstance(after, timedelta | int | float):
            return Retrial(delivery=delivery, delay=clamp(after), failure=failure, max_attempts=most)
        if after is not None:
            problem = f"{failure.message} (after is a {type(after).__name__}; seconds or a timedelta are allowed)"
            failure = replace(failure, message=problem.strip())
        delay = self.policy.backoff.delay(delivery.attempt, self.random)
        return Retrial(delivery=delivery, delay=delay, failure=failure, max_attempts=most)


def _unreadable(delivery: Delivery, error: InvalidEnvelope | UnsupportedSchema | InvalidPayload) -> DeadLettering:
    """A body that no attempt can ever read; the error's text names fields, never their values."""
    name = type(error).__name__
    return DeadLettering(delivery=delivery, reason=name, failure=Failure(type=name, message=_told(error)))


def _failure(error: BaseException) -> Failure:
    return Failure(
        type=type(error).__qualname__,
        message=_told(error),
        traceback=_storable(_traceback(error))[-limits.TRACEBACK_LENGTH :],
        intended=isinstance(error, FatalError | TransientError),
    )


def _traceback(error: BaseException) -> str:
    """The traceback as Python shows it; an error whose own code fails at that still has its place told."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - an error's attributes and texts are the user's code
        return "".join(traceback.format_tb(error.__traceback__))


def _told(value: object) -> str:
    """The beginning of what a person is to read, which may be of any length."""
    return _storable(value)[: limits.ERROR_LENGTH]


def _storable(value: object) -> str:
    """``value`` as text that every transport can keep."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is must not become another error
        text = f"a {type(value).__name__} that cannot be written as text"
    return _UNSTORABLE.sub("\ufffd", text)


def _awaited(awaitable: Awaitable[Any], control: Control) -> Any:
    """What the coroutine returns. One that is cancelled from within has failed like any other.

    A task group wraps an abort that one of its tasks raised: here it comes out again.
    """
    from asyncio import CancelledError

    try:
        return control.run_async(_abortable(awaitable, control.abort))
    except CancelledError as error:
        raise TransientError("the handler's coroutine was cancelled from within") from error
    except BaseExceptionGroup as group:
        aborted, others = group.split(Aborted)
        if aborted is None or not isinstance(others, ExceptionGroup | None):
            raise
        raise _first(aborted) from group


async def _abortable(awaitable: Awaitable[Any], abort: AbortSignal) -> Any:
    """What ``awaitable`` returns; cancelled where it waits when it is asked to stop, and that is an ``Aborted`` then.

    What compilers make of ``async def`` is awaitable, and no coroutine to Python's own event loop: this is one.
    """
    import asyncio

    loop, own = asyncio.get_running_loop(), asyncio.current_task()

    def cancel() -> None:
        with suppress(RuntimeError):  # it has ended meanwhile, and its loop is closed
            loop.call_soon_threadsafe(own.cancel if own is not None else int)

    abort.then(cancel)
    try:
        return await awaitable
    except asyncio.CancelledError:
        if abort.reason is not None:
            raise Aborted(abort.reason) from None
        raise


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class _BoundLog(LoggerAdapter[Logger]):
    """A logger that adds the ids to what the handler itself gives as ``extra``, which LoggerAdapter would drop.

    They are put together when something is logged: most handlers log nothing.
    """

    extra = None
    merge_extra = False  # LoggerAdapter's, as ``extra``: its own ``__init__`` takes longer than all else of a context

    def __init__(self, log: Logger, delivery: Delivery) -> None:
        self.logger = log
        self._delivery = delivery

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        kwargs["extra"] = {**kwargs.get("extra", {}), **self._delivery.ids()}
        return msg, kwargs


def _caused_by(message: Message[Any], publish: Publish) -> Publish:
    """``publish`` for use inside the handling of ``message``: carries its correlation and trace on."""

    def published(topic: str, messages: Sequence[NewMessage]) -> list[PublishResult]:
        caused = [
            replace(
                new,
                causation_id=message.id if new.causation_id is None else new.causation_id,
                correlation_id=message.correlation_id if new.correlation_id is None else new.correlation_id,
                traceparent=message.traceparent if new.traceparent is None else new.traceparent,
            )
            for new in messages
        ]
        return publish(topic, caused)

    return published
