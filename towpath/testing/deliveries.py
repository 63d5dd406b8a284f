"""One message through one handler, by the dispatch that every transport uses, without a transport."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal, assert_never, get_args

from towpath import limits, payload
from towpath.context import AbortSignal, Progress, Publish
from towpath.dispatch import Control, Dispatcher
from towpath.envelope import Prepared, Sources, is_topic_name, prepare
from towpath.errors import AbortReason
from towpath.handler import Handler, inspected, load
from towpath.loops import AsyncLoop
from towpath.message import ABSENT, JsonValue, NewMessage, PublishError, PublishResult, is_message_id, utc_now
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Decision,
    Delivery,
    Discard,
    Failure,
    Forfeit,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SubscriptionPolicy,
    log_settled,
)
from towpath.validation import require_messages

DeliveredState = Literal["completed", "retried", "dead", "discarded", "released", "lease_lost"]

_LOCAL: Final = SubscriptionPolicy(subscription="local", topic="local", handler=None)
_LONGEST: Final = math.nextafter(1, 0)  # as a draw, it gives the longest of a back-off's delays
_COPY_CODE: Final = 70  # of a process that the handler forked and returned in, as a worker ends it
_STATES: Final[dict[type[Decision], DeliveredState]] = {
    Completion: "completed",
    Retrial: "retried",
    DeadLettering: "dead",
    Discard: "discarded",
    CancelAcknowledgement: "discarded",
    Release: "released",
    Forfeit: "lease_lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A message that the handler published, with what it carries on of the one in hand, and the answer it got."""

    topic: str
    message: NewMessage = field(repr=False)
    result: PublishResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What became of a delivery, in the words of the worker's counts. Its ``repr`` shows no payload.

    ``reason`` is why it is dead or discarded, or what made it a retry. ``delay`` is there for a retry alone: the
    handler's own ``after``, or the longest that the back-off may draw. ``failure`` has type, message and traceback of
    what went wrong. ``heartbeats`` are those whose progress was kept, and ``checkpoint`` is what the next attempt is
    given of it, where the transport keeps progress.
    """

    state: DeliveredState
    reason: str = ""
    delay: timedelta | None = None
    failure: Failure | None = None
    heartbeats: tuple[Progress, ...] = field(default=(), repr=False)
    checkpoint: JsonValue = field(default=None, repr=False)
    published: tuple[Published, ...] = ()


def deliver(  # noqa: PLR0913 - each is a fact of the delivery that a test states by its name
    process: Callable[..., Any] | str,
    message: NewMessage | JsonValue = ABSENT,
    *,
    policy: SubscriptionPolicy = _LOCAL,
    attempt: int = 1,
    max_attempts: int | None = None,
    is_replay: bool = False,
    checkpoint: JsonValue = None,
    abort: AbortReason | None = None,
    abort_after: int = 0,
    publish: Publish | None = None,
) -> Delivered:
    """Run ``process``, a handler or its import path, for one message, and answer what becomes of the delivery.

    ``message`` is a payload as JSON, or a ``NewMessage`` with key, attributes and the rest. It is written and read as
    on its way through a transport; the handler runs to its end in this thread, a coroutine on an event loop. A
    subscription's rules are its ``policy``, as ``manifest.subscriptions[name].policy(name)`` has it; ``max_attempts``
    takes the place of that policy's. ``checkpoint`` is what an earlier attempt saved.

    ``abort`` asks the handler to stop, as its worker would: before it begins, or by the heartbeat that comes after
    ``abort_after`` others. Nothing of an abort comes by itself: leases and time limits do not end here.

    What the handler publishes is checked against the contract and answered ``accepted``, or goes to ``publish``.

    A copy of this process that the handler forked and returned in is ended: it would run the other tests again.

    Raises ``HandlerNotFound``; ``ValueError`` for a message that breaks the contract and for what cannot be, such as an
    attempt 0; and ``KeyboardInterrupt`` where the handler does, of all that it may raise.
    """
    rules = policy if max_attempts is None else replace(policy, max_attempts=max_attempts)
    fault = _fault(rules, attempt, abort, abort_after)
    if fault is not None:
        raise ValueError(fault)
    handler = load(process) if isinstance(process, str) else inspected(process)
    delivery = replace(_delivery(message, rules), attempt=attempt, is_replay=is_replay, checkpoint=checkpoint)
    trial = _Trial(rules, abort, abort_after, publish or _accepted)
    if not _loop_runs():
        return trial.run(handler, delivery)
    with ThreadPoolExecutor(1) as pool:  # as a worker's, a handler's thread has an event loop of its own
        return pool.submit(trial.run, handler, delivery).result()


def _fault(policy: SubscriptionPolicy, attempt: int, abort: AbortReason | None, abort_after: int) -> str | None:
    if attempt < 1 or policy.max_attempts < 1:
        return f"attempts are counted from 1: attempt {attempt} of {policy.max_attempts} cannot be"
    if abort_after < 0 or (abort is None and abort_after):
        return f"abort_after={abort_after} says how many heartbeats come before an abort; say which abort"
    if abort is not None and abort not in get_args(AbortReason):
        return f"{abort!r} is no abort; there are {', '.join(get_args(AbortReason))}"
    if abort == "max_processing" and policy.max_processing_seconds is None:
        return "nothing is aborted for max_processing where the policy has no max_processing_seconds"
    return None


def _delivery(given: NewMessage | JsonValue, policy: SubscriptionPolicy) -> Delivery:
    """``given`` on its way to the subscription. Raises ``ValueError`` when it breaks the contract."""
    new = given if isinstance(given, NewMessage) else NewMessage(payload=given)
    prepared = _prepared(policy.topic, new)
    if isinstance(prepared, PublishError):
        raise ValueError(f"{prepared.code}: {prepared.message}")  # noqa: TRY004 - of a right type
    return Delivery(
        id="local-1",
        subscription=policy.subscription,
        topic=policy.topic,
        attempt=1,
        message_id=prepared.message.id,
        body=prepared.body,
        lease_token="1",  # noqa: S106 - a lease's, that keeps no secret
        received_at=utc_now(),
    )


def _prepared(topic: str, new: NewMessage) -> Prepared | PublishError:
    return prepare(topic, new, limits.MAX_MESSAGE_BYTES, Sources(clock=utc_now, random_bytes=os.urandom))


class _Trial:
    """One run of a handler, and what is noted of it."""

    def __init__(
        self, policy: SubscriptionPolicy, abort: AbortReason | None, abort_after: int, publish: Publish
    ) -> None:
        self._policy = policy
        self._abort = abort
        self._abort_after = abort_after
        self._publish = publish
        self._signal = AbortSignal()
        self._heartbeats: list[Progress] = []
        self._published: list[Published] = []
        if abort is not None and abort_after == 0:
            self._signal.set(abort)

    def run(self, handler: Handler, delivery: Delivery) -> Delivered:
        """Have the delivery handled, and log the line that a worker logs."""
        began, process = time.monotonic(), os.getpid()
        dispatcher = Dispatcher(
            policy=self._policy,
            handler=handler,
            convert=payload.converter(handler.payload_type, handler.path),
            publish=self._noted,
            log=logging.getLogger("towpath.handler"),
            random=lambda: _LONGEST,
        )
        with AsyncLoop() as loop:
            control = Control(abort=self._signal, beat=self._beat, deadline=self._deadline(), run_async=loop.run)
            decision = self._settled(dispatcher.decide(delivery, control))
        if os.getpid() != process:
            os._exit(_COPY_CODE)
        result = LeaseLost() if isinstance(decision, Forfeit) else Settled(state=_stored(_STATES[type(decision)]))
        log = logging.getLogger("towpath.delivery")
        log_settled(log, decision, result, (time.monotonic() - began) * 1000)
        return self._told(decision)

    def _deadline(self) -> datetime | None:
        limit = self._policy.max_processing_seconds
        return None if limit is None else utc_now() + timedelta(seconds=limit)

    def _beat(self, progress: Progress) -> bool:
        """Keep the progress, unless nobody would: a lease that is lost, and a cancelled delivery's, renews nothing."""
        if self._abort is not None and len(self._heartbeats) >= self._abort_after:
            self._signal.set(self._abort)
        if self._signal.reason in (None, "shutdown"):
            self._heartbeats.append(progress)
        return self._signal.reason is None

    def _noted(self, topic: str, messages: Sequence[NewMessage]) -> list[PublishResult]:
        results = self._publish(topic, messages)
        for message, result in zip(messages, results, strict=True):
            self._published.append(Published(topic=topic, message=message, result=result))
        return results

    def _settled(self, decision: Decision) -> Decision:
        """What stands of the decision: no settle is made for who lost the lease, and of what an operator cancelled only
        the end is acknowledged.
        """
        if self._signal.reason == "lease_lost":
            return Forfeit(delivery=decision.delivery)
        if self._signal.reason == "cancelled":
            return CancelAcknowledgement(delivery=decision.delivery)
        return decision

    def _told(self, decision: Decision) -> Delivered:
        kept = [beat.checkpoint for beat in self._heartbeats if beat.checkpoint is not ABSENT]
        told = Delivered(
            state=_STATES[type(decision)],
            heartbeats=tuple(self._heartbeats),
            checkpoint=kept[-1] if kept else decision.delivery.checkpoint,
            published=tuple(self._published),
        )
        match decision:
            case Retrial(delay=delay, failure=failure):
                return replace(told, reason=str(failure), delay=delay, failure=failure)
            case DeadLettering(reason=reason, failure=failure):
                return replace(told, reason=reason, failure=failure)
            case Discard(reason=reason):
                return replace(told, reason=reason)
            case CancelAcknowledgement():
                return replace(told, reason="Cancelled")
            case Completion() | Release() | Forfeit():
                return told
            case _:
                assert_never(decision)


def _stored(state: DeliveredState) -> Literal["completed", "pending", "dead", "discarded"]:
    match state:
        case "completed" | "dead" | "discarded":
            return state
        case "retried" | "released" | "lease_lost":
            return "pending"
        case _:
            assert_never(state)


def _accepted(topic: str, messages: Sequence[NewMessage]) -> list[PublishResult]:
    """Answer as a transport does whose every topic exists and takes deduplication keys and delays."""
    require_messages(messages)
    return [_answer(topic, new) for new in messages]


def _answer(topic: str, new: NewMessage) -> PublishResult:
    prepared: Prepared | PublishError
    if is_topic_name(topic):
        prepared = _prepared(topic, new)
    else:
        problem = f"{topic!r} is no topic's name: lower-case words joined by '.', '-' or '_'"
        prepared = PublishError(code="TopicNotFound", message=problem)
    if isinstance(prepared, PublishError):
        return PublishResult(id=new.id if is_message_id(new.id) else None, status="rejected", error=prepared)
    return PublishResult(id=prepared.message.id, status="accepted")


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
