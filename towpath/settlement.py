"""What may become of a delivery, and the port through which a transport makes it so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from logging import Logger
from typing import Any, Literal, Protocol, TypeVar, assert_never

from towpath.backoff import BackOff
from towpath.frozen import Record
from towpath.message import AttributeValue, JsonValue, Message

PartitionMode = Literal["none", "exclusive", "ordered"]
SubscriptionStatus = Literal["active", "paused", "disabled"]


class SubscriptionPolicy(metaclass=Record):
    """The rules that a subscription's deliveries are handled by, as the manifest resolved them."""

    subscription: str
    topic: str
    handler: str | None
    partition_mode: PartitionMode = "none"
    status: SubscriptionStatus = "active"
    max_attempts: int = 5
    backoff: BackOff = field(default_factory=BackOff)
    lease_seconds: int = 60
    heartbeat: Literal["auto", "manual"] = "auto"
    max_processing_seconds: float | None = None
    accept_foreign: bool = True


class Delivery(metaclass=Record, frozen=False):  # not frozen: making one is quicker, and there are as many as messages
    """One message on its way to one subscription, held under a lease by whoever received it. Nobody changes it, but
    whoever reads its body.

    ``body`` is the wire form. ``message_id`` is the transport's own id of the message until the body is read, and the
    message's from then on, when ``correlation_id`` and ``partition_key`` are known too: ``is_of`` sets them.
    ``attributes`` are the transport's message attributes (they matter for foreign messages only). ``lease_token``
    proves the lease. ``attempt`` counts this one, from 1. ``available_at`` is when its message was published, or was
    to come if that is later; ``None`` until the body is read.
    """

    id: str
    subscription: str
    topic: str
    attempt: int
    is_replay: bool = False
    message_id: str
    body: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    lease_token: str
    received_at: datetime
    checkpoint: JsonValue = None
    correlation_id: str | None = None
    available_at: datetime | None = None
    partition_key: str | None = None

    def is_of(self, message: Message[Any]) -> None:
        """Take over what the body says of its message."""
        published, later = message.published_at, message.deliver_after
        self.message_id, self.correlation_id = message.id, message.correlation_id
        self.available_at = published if later is None or later < published else later
        self.partition_key = message.partition_key

    def ids(self) -> dict[str, object]:
        """What a log line tells of it."""
        return {
            "subscription": self.subscription,
            "delivery_id": self.id,
            "message_id": self.message_id,
            "correlation_id": self.correlation_id,
            "attempt": self.attempt,
        }


class Failure(metaclass=Record):
    """What went wrong in an attempt: kept as the delivery's last error.

    ``intended`` says that the handler raised it on purpose, so that its traceback tells a person nothing.
    """

    type: str
    message: str
    traceback: str = ""
    intended: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


# --- What becomes of a delivery: decided here, done by a Settler ------------------------------------------------


class Completion(metaclass=Record):
    """It is done and never comes again."""

    delivery: Delivery


class Retrial(metaclass=Record):
    """It comes again after ``delay``, with the next attempt. ``max_attempts`` is for those who read the log."""

    delivery: Delivery
    delay: timedelta
    failure: Failure
    max_attempts: int | None = field(default=None, compare=False)


class DeadLettering(metaclass=Record):
    """It is set aside for a person, with ``reason`` and the last error."""

    delivery: Delivery
    reason: str
    failure: Failure | None = None


class Discard(metaclass=Record):
    """It is dropped for good, with ``reason`` (``Expired``)."""

    delivery: Delivery
    reason: str


class Release(metaclass=Record):
    """It was not handled to an end: it is given back at once, without its attempt where the transport can."""

    delivery: Delivery


class Forfeit(metaclass=Record):
    """The lease is lost, so there is nothing to settle: another worker may hold the delivery by now."""

    delivery: Delivery


class CancelAcknowledgement(metaclass=Record):
    """It was cancelled by an operator while it was held, and is worked on no more: now it is discarded."""

    delivery: Delivery


Decision = Completion | Retrial | DeadLettering | Discard | Release | Forfeit | CancelAcknowledgement


class Settled(metaclass=Record):
    """The change was made, durably; ``state`` is the delivery's new state."""

    state: Literal["completed", "pending", "leased", "dead", "discarded"]


class LeaseLost(metaclass=Record):
    """The lease was no longer this worker's, so nothing was changed."""


class CancelRequested(metaclass=Record):
    """An operator cancelled the delivery while this worker held it, so nothing was changed.

    Until the holder acknowledges it, or its lease ends, the delivery is discarded by nobody and its key stays held.
    """


class Failed(metaclass=Record):
    """The transport could not say that it was done; the delivery comes again when its lease ends."""

    error: str


SettleResult = Settled | LeaseLost | CancelRequested | Failed


class Settler(Protocol):
    """Makes decisions true. Every method answers in the order of its argument and raises nothing but bugs.

    A change is fenced: made only while the delivery's lease is still held, else ``LeaseLost`` and no change; and, but
    for an acknowledgement, only while nobody cancelled the delivery, else ``CancelRequested`` and no change.
    """

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """End these deliveries: they never come again."""

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Hide each for its delay, then hand it out with the next attempt; its failure is kept."""

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Set these aside with their reasons and failures."""

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        """Drop these for good."""

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """Give these back at once, with the attempt refunded where the transport can."""

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        """Discard these, which an operator cancelled while they were held; any other is ``LeaseLost``."""


_DecisionT = TypeVar("_DecisionT", Completion, Retrial, DeadLettering, Discard, Release, CancelAcknowledgement)


def settle(decisions: Sequence[Decision], settler: Settler) -> list[SettleResult]:
    """Have all ``decisions`` made true, one call for each kind; the answers are in the order of ``decisions``."""
    positions: dict[type[Decision], list[int]] = {}
    for position, decision in enumerate(decisions):
        positions.setdefault(type(decision), []).append(position)
    answers: list[SettleResult] = [LeaseLost()] * len(decisions)  # what stands for a Forfeit

    def batch(kind: type[_DecisionT], call: Callable[[Sequence[_DecisionT]], list[SettleResult]]) -> None:
        chosen = [decision for decision in decisions if isinstance(decision, kind)] if kind in positions else []
        if chosen:
            for position, answer in zip(positions[kind], call(chosen), strict=True):
                answers[position] = answer

    batch(Completion, settler.complete)
    batch(Retrial, settler.retry)
    batch(DeadLettering, settler.dead_letter)
    batch(Discard, settler.discard)
    batch(Release, settler.release)
    batch(CancelAcknowledgement, settler.acknowledge_cancel)
    return answers


def log_settled(log: Logger, decision: Decision, result: SettleResult, milliseconds: float) -> None:
    """One structured line for a delivery and what became of it: ids, numbers and errors, never a payload.

    A retry is a warning and a dead letter an error; what went as it should is information.
    """
    level = _level(decision, result)
    if not log.isEnabledFor(level):
        return
    facts = _why(decision) | decision.delivery.ids() | {"duration_ms": round(milliseconds, 1)}
    if decision.delivery.partition_key is not None:
        facts["partition_key"] = decision.delivery.partition_key
    match result:
        case Settled(state=state):
            log.log(level, "delivery %s%s", state, _when(decision), extra=facts | {"state": state})
        case LeaseLost():
            log.log(level, "lease lost; the delivery goes to another worker", extra=facts | {"state": "lease_lost"})
        case CancelRequested():
            log.log(level, "cancelled by an operator while it was held", extra=facts | {"state": "cancel_requested"})
        case Failed(error=error):
            log.log(level, "could not settle; the delivery comes again: %s", error, extra=facts | {"state": "failed"})
        case _:
            assert_never(result)


def _level(decision: Decision, result: SettleResult) -> int:
    if not isinstance(result, Settled):
        return logging.ERROR if isinstance(result, Failed) else logging.WARNING
    if isinstance(decision, DeadLettering):
        return logging.ERROR
    return logging.WARNING if isinstance(decision, Retrial) else logging.INFO


def _when(decision: Decision) -> str:
    """For a retry, when it comes again and how many attempts it has."""
    if not isinstance(decision, Retrial):
        return ""
    seconds = decision.delay.total_seconds()
    pause = f"in {seconds:,g} s" if seconds else "at once"
    most = "" if decision.max_attempts is None else f" of {decision.max_attempts}"
    return f": comes again {pause}, attempt {decision.delivery.attempt}{most}"


def _why(decision: Decision) -> dict[str, object]:
    match decision:
        case DeadLettering(reason=reason, failure=failure):
            return {"reason": reason} | _failed(failure)
        case Retrial(failure=failure, delay=delay):
            return {"reason": str(failure), "retry_after_seconds": delay.total_seconds()} | _failed(failure)
        case Discard(reason=reason):
            return {"reason": reason}
        case CancelAcknowledgement():
            return {"reason": "Cancelled"}
        case Completion() | Release() | Forfeit():
            return {}
        case _:
            assert_never(decision)


def _failed(failure: Failure | None) -> dict[str, object]:
    if failure is None:
        return {}
    facts: dict[str, object] = {"error": str(failure)}
    if failure.traceback:
        facts["traceback"] = failure.traceback
    return facts | ({"intended": True} if failure.intended else {})
