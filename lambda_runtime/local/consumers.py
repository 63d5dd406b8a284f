"""A mapping's source that is a transport's consumer: what a function says of a message is settled there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final, TypeVar

from aws_transport.settlement import SqsAttribute
from lambda_runtime.local.queue import Received, Sent
from towpath.ports import Consumer
from towpath.settlement import (
    Completion,
    DeadLettering,
    Delivery,
    LeaseLost,
    Release,
    Retrial,
    SettleResult,
)

_REPLAYED: Final = {"towpath-replay": SqsAttribute(data_type="Number", value="1")}
_DecisionT = TypeVar("_DecisionT", Completion, DeadLettering, Release, Retrial)


class ConsumerSource:
    """What a consumer hands out, as a queue's messages. A lease takes the place of the visibility time-out.

    It also settles for the function (``lambda_runtime.settles.FunctionSettler``): retries, dead letters and releases go
    to the consumer when the function makes them, completions when the mapping deletes.
    """

    def __init__(self, consumer: Consumer, is_gone: Callable[[], bool] = lambda: False) -> None:
        """Once ``is_gone`` says that the function's process would be no more, nothing that it asks for is done."""
        self._consumer = consumer
        self._is_gone = is_gone
        self._held: dict[str, Delivery] = {}
        self._lock = threading.Lock()

    def receive(self, limit: int) -> list[Received]:
        """At most ``limit`` deliveries, each leased."""
        deliveries = self._consumer.receive(limit, timedelta(0))
        with self._lock:
            self._held |= {delivery.lease_token: delivery for delivery in deliveries}
        return [_received(delivery) for delivery in deliveries]

    def delete(self, receipt: str) -> SettleResult:
        """Complete what the function has not settled otherwise."""
        with self._lock:
            delivery = self._held.get(receipt)
        return LeaseLost() if delivery is None else self.complete([Completion(delivery=delivery)])[0]

    def client(self) -> None:
        """There is nothing to make ready."""

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """Complete deliveries."""
        return self._settled(completions, self._consumer.complete)

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Hide deliveries for their delays."""
        return self._settled(retrials, self._consumer.retry)

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """Give deliveries back."""
        return self._settled(releases, self._consumer.release)

    def copy_to_dead_letter_queue(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Set deliveries aside."""
        return self._settled(letters, self._consumer.dead_letter)

    def _settled(
        self, decisions: Sequence[_DecisionT], settle: Callable[[Sequence[_DecisionT]], list[SettleResult]]
    ) -> list[SettleResult]:
        if self._is_gone():
            return [LeaseLost()] * len(decisions)
        with self._lock:
            held = [self._held.pop(decision.delivery.lease_token, None) for decision in decisions]
        own = [
            replace(decision, delivery=_known(delivery, decision.delivery))
            for decision, delivery in zip(decisions, held, strict=True)
            if delivery is not None
        ]
        answers = iter(settle(own) if own else [])
        return [LeaseLost() if delivery is None else next(answers) for delivery in held]


def _known(delivery: Delivery, read: Delivery) -> Delivery:
    """The consumer's own delivery, with what the function has read of its body."""
    return replace(delivery, message_id=read.message_id, correlation_id=read.correlation_id)


def _received(delivery: Delivery) -> Received:
    at = delivery.received_at.timestamp()
    sent = Sent(id=delivery.id, body=delivery.body, attributes=_REPLAYED if delivery.is_replay else {})
    return Received(
        sent=sent, receipt=delivery.lease_token, receives=delivery.attempt, sent_at=at, first_received_at=at
    )
