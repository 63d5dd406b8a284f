"""Recording: a line of JSON for each event in a file of the process's own, and a transport that records its consumers.

A line is one write to a file opened for appending, so what was recorded survives the SIGKILL of its process.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from towpath.message import NewMessage, PublishResult
from towpath.operating import Operator
from towpath.ports import Capability, Consumer, Extension, Transport
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failed,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SettleResult,
    SubscriptionPolicy,
)

CLOSE_ENOUGH = 0.0005  # seconds between two looks at one clock, while another is looked at
TRIES = 200


class Recorder:
    """Appends to one file. Thread-safe: calls are numbered, and each line is one write."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._numbers = itertools.count()

    def note(self, what: str, **facts: Any) -> float:
        """Record an event of this moment; answers the moment."""
        at = time.monotonic()
        os.write(self._file, json.dumps({"what": what, "at": at, **facts}).encode() + b"\n")
        return at

    def ask(self, of: str, **facts: Any) -> int:
        """Record that something is about to be asked for; answers the call's number, for ``answer``."""
        number = next(self._numbers)
        self.note("asked", call=number, of=of, **facts)
        return number

    def answer(self, number: int, **facts: Any) -> None:
        """Record what the answer was."""
        self.note("answered", call=number, **facts)


def wall_clock_ahead() -> float:
    """By how many seconds the wall clock is ahead of the monotonic one, as exactly as can be told here."""
    best, ahead = float("inf"), 0.0
    for _ in range(TRIES):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        if after - before < best:
            best, ahead = after - before, wall - (before + after) / 2
        if best < CLOSE_ENOUGH:
            break
    return ahead


def token_of(delivery: Delivery) -> int:
    """The number of the lease: it counts the claims of its delivery."""
    return int(delivery.lease_token.partition(".")[0])


class ObservedConsumer:
    """A consumer whose every claim, settle and renewal is recorded. A handler finds its token as its checkpoint."""

    def __init__(self, consumer: Consumer, recorder: Recorder, subscription: str) -> None:
        self._consumer = consumer
        self._recorder = recorder
        self._subscription = subscription
        self.stop_receiving = consumer.stop_receiving
        self.close = consumer.close

    @property
    def policy(self) -> SubscriptionPolicy:
        return self._consumer.policy

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        deliveries = self._consumer.receive(limit, wait)
        if deliveries:
            ahead = wall_clock_ahead()
            facts = [_claimed(delivery, ahead) for delivery in deliveries]
            self._recorder.note("claimed", subscription=self._subscription, deliveries=facts)
        return [replace(delivery, checkpoint=token_of(delivery)) for delivery in deliveries]

    def extend(self, extensions: Sequence[Extension]) -> list[SettleResult]:
        return self._settle("extend", extensions, self._consumer.extend)

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        return self._settle("complete", completions, self._consumer.complete)

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        return self._settle("retry", retrials, self._consumer.retry)

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        return self._settle("dead_letter", letters, self._consumer.dead_letter)

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        return self._settle("discard", discards, self._consumer.discard)

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        return self._settle("release", releases, self._consumer.release)

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        return self._settle("acknowledge_cancel", acknowledgements, self._consumer.acknowledge_cancel)

    def _settle(
        self, kind: str, asked: Sequence[Any], call: Callable[[Sequence[Any]], list[SettleResult]]
    ) -> list[SettleResult]:
        held = [(one.delivery.id, token_of(one.delivery)) for one in asked]
        number = self._recorder.ask("settle", kind=kind, held=held)
        results = call(asked)
        self._recorder.answer(number, answers=[_word(result) for result in results])
        return results


def _claimed(delivery: Delivery, ahead: float) -> list[Any]:
    database_time = delivery.received_at.timestamp()
    facts = [delivery.id, delivery.message_id, token_of(delivery), delivery.attempt, delivery.is_replay]
    return [*facts, database_time, database_time - ahead]


def _word(result: SettleResult) -> str:
    match result:
        case Settled(state=state):
            return state
        case LeaseLost():
            return "lost"
        case CancelRequested():
            return "cancelled"
        case Failed():
            return "failed"


class ObservedTransport:
    """A database transport whose consumers are observed; it sweeps as that does."""

    def __init__(self, transport: Transport, recorder: Recorder) -> None:
        self._transport = transport
        self._recorder = recorder

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self._transport.capabilities

    def policies(self) -> Mapping[str, SubscriptionPolicy]:
        return self._transport.policies()

    def consumer(self, subscription: str) -> ObservedConsumer:
        return ObservedConsumer(self._transport.consumer(subscription), self._recorder, subscription)

    def operator(self) -> Operator:
        return self._transport.operator()

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        return self._transport.publish(topic, messages, connection=connection)

    def sweep(self) -> int:
        return self._transport.sweep()

    def close(self) -> None:
        self._transport.close()
