"""Settling what handlers decided: in batches, on a thread of its own, again when the transport did not answer."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, assert_never

from towpath.leases import HeldLease, LeaseKeeper
from towpath.observing import Ended, Observer
from towpath.ports import Consumer
from towpath.settlement import (
    CancelAcknowledgement,
    CancelRequested,
    Decision,
    Failed,
    LeaseLost,
    Release,
    Settled,
    SettleResult,
    log_settled,
    settle,
)
from towpath.terms import Terms

_BATCH: Final = 500  # also the most that waits to be settled: then handlers wait
_AGAIN_SECONDS: Final = 0.5  # between two tries of a settle that the transport could not make
_LOOK_SECONDS: Final = 0.05  # between two looks at whether threads have ended


Faulty = Callable[[Exception], None]


@dataclass(slots=True)
class Counts:
    """What was done, by what became of each delivery: ``completed``, ``retried``, ``released``, ``dead``,
    ``discarded``, ``lease_lost``, or ``failed`` where the transport could not say. Exact when the worker has ended, a
    hint before.
    """

    received: int = 0
    states: dict[str, int] = field(default_factory=dict)

    def add(self, decision: Decision, result: SettleResult) -> None:
        """Count an answer."""
        state = _counted(decision, result)
        self.states[state] = self.states.get(state, 0) + 1

    def include(self, other: Counts) -> None:
        """Add what ``other`` has counted so far."""
        self.received += other.received
        for state, count in dict(other.states).items():  # a copy: its settler counts on
            self.states[state] = self.states.get(state, 0) + count


def _counted(decision: Decision, result: SettleResult) -> str:
    match result:
        case Settled(state="pending"):
            return "released" if isinstance(decision, Release) else "retried"
        case Settled(state=state):
            return state
        case LeaseLost() | CancelRequested():
            return "lease_lost"
        case Failed():
            return "failed"
        case _:
            assert_never(result)


class _Broken(Failed):
    """A settle that raised, which is a bug: the same call would raise again."""


class Settling:
    """Settles one consumer's decisions. What the transport could not do is tried again while the lease holds, and that
    a delivery was cancelled is acknowledged, whatever was decided.

    Deliveries stay with the lease keeper until they are settled, so nobody else is given them meanwhile. Once
    ``aborting`` is set nothing is tried again. ``faulty`` is told what no settle is to blame for: a log that breaks.
    """

    def __init__(
        self,
        consumer: Consumer,
        keeper: LeaseKeeper,
        aborting: threading.Event,
        faulty: Faulty,
        terms: Terms,
    ) -> None:
        self.counts = Counts()
        self._consumer = consumer
        self._keeper = keeper
        self._aborting = aborting
        self._faulty = faulty
        self._observer = terms.observer
        self._outages = terms.outages
        self._log = logging.getLogger("towpath.delivery")
        self._room = threading.Event()
        self._decided: queue.SimpleQueue[HeldLease | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._settle_all, daemon=True)

    def start(self, name: str) -> None:
        """Begin to settle, for the subscription ``name``."""
        self._thread.name = f"{name}-settler"
        self._thread.start()

    def put(self, held: HeldLease, decision: Decision, milliseconds: float) -> None:
        """Have ``decision`` settled, made after so long; ``held`` is its delivery's lease."""
        held.decision, held.milliseconds = decision, milliseconds
        self._decided.put(held)

    def await_room(self) -> None:
        """Wait while too many decisions wait to be settled."""
        while self._decided.qsize() >= _BATCH:
            self._room.clear()
            if self._decided.qsize() >= _BATCH:  # else it was made room before, which the next wait would miss
                self._room.wait()

    def end(self, limit: timedelta, grace: timedelta) -> None:
        """Settle what was put, for ``limit`` at most; then give up trying again, and wait for ``grace`` more."""
        self._decided.put(None)
        if joined([self._thread], limit.total_seconds(), self._aborting.is_set):
            return
        self._aborting.set()
        if not joined([self._thread], grace.total_seconds()):
            self._log.error("outcomes could not be settled; their deliveries come again when their leases end")

    def _settle_all(self) -> None:
        """Settle until ``None`` was taken and nothing is left to try again."""
        again: list[HeldLease] = []
        ended = False
        while again or not ended:
            if again:
                self._aborting.wait(_AGAIN_SECONDS)
            batch, found_end = ([], True) if ended else self._take(_BATCH - len(again), wait=not again)
            ended = found_end
            self._room.set()
            again = self._settle(again + batch)

    def _take(self, most: int, *, wait: bool) -> tuple[list[HeldLease], bool]:
        """What is decided by now, and whether that was the end; waits for a first one if told to."""
        batch: list[HeldLease] = []
        while len(batch) < most:
            try:
                held = self._decided.get(block=wait and not batch)
            except queue.Empty:
                break
            if held is None:
                return batch, True
            batch.append(held)
        return batch, False

    def _settle(self, batch: list[HeldLease]) -> list[HeldLease]:
        """Settle a batch; answers what the transport could not do and is to be tried again, its lease still held."""
        if not batch:
            return []
        self._keeper.settle_begins(batch)
        decisions = [held.decision for held in batch if held.decision is not None]  # all have one
        again: list[HeldLease] = []
        error = ""
        cancelled: list[HeldLease] = []
        settled: list[tuple[HeldLease, Decision, SettleResult]] = []
        for held, decision, result in zip(batch, decisions, self._results(decisions), strict=True):
            if isinstance(result, Settled):
                settled.append((held, decision, result))
            elif isinstance(result, Failed) and not isinstance(result, _Broken) and self._may_try_again(held):
                again.append(held)
                error = result.error
            elif isinstance(result, CancelRequested) and not isinstance(decision, CancelAcknowledgement):
                held.decision = CancelAcknowledgement(delivery=decision.delivery)
                cancelled.append(held)
            else:
                settled.append((held, decision, result))
        self._settled(settled)
        if again:
            self._outages.failed(self._thread.name, "settle outcomes yet", error, every=_AGAIN_SECONDS)
        elif settled:
            self._outages.answered(self._thread.name)
        return again + self._settle(cancelled)

    def _may_try_again(self, held: HeldLease) -> bool:
        return self._keeper.settle_failed(held) and not self._aborting.is_set()

    def _results(self, decisions: list[Decision]) -> list[SettleResult]:
        try:
            return settle(decisions, self._consumer)
        except Exception as error:  # noqa: BLE001 - a bug in a transport must not end the settler: leases run out
            return [_Broken(error=f"{type(error).__name__}: {error}")] * len(decisions)

    def _settled(self, settled: Sequence[tuple[HeldLease, Decision, SettleResult]]) -> None:
        for _, decision, result in settled:
            self.counts.add(decision, result)
        self._keeper.drop(held for held, _, _ in settled)
        if self._observer is not None and settled:
            self._tell(self._observer, settled)
        for held, decision, result in settled:
            try:
                log_settled(self._log, decision, result, held.milliseconds)
            except Exception as error:  # noqa: BLE001 - a log that fails must not end the settler
                self._faulty(error)

    def _tell(self, observer: Observer, settled: Sequence[tuple[HeldLease, Decision, SettleResult]]) -> None:
        policy = self._consumer.policy
        try:
            ended = [_ended(held, decision, result) for held, decision, result in settled]
            observer.settled(policy.subscription, policy.topic, ended)
        except Exception as error:  # noqa: BLE001 - counting that fails must not end the settler
            self._log.error("what was settled is not counted: %s: %s", type(error).__name__, error)


def _ended(held: HeldLease, decision: Decision, result: SettleResult) -> Ended:
    ending = _counted(decision, result)
    if not held.started:
        return Ended(ending=ending)
    delivery, age = held.delivery, None
    if delivery.available_at is not None and delivery.attempt == 1 and not delivery.is_replay:
        came = (delivery.received_at - delivery.available_at).total_seconds()  # clocks of two machines may be apart
        age = max(came + held.waited, 0.0)
    return Ended(ending=ending, duration=held.milliseconds / 1000, age=age)


def joined(threads: list[threading.Thread], seconds: float, cut_short: Callable[[], bool] = bool) -> bool:
    """Wait until all have ended, at most so long; answers whether they have."""
    until = time.monotonic() + seconds
    for thread in threads:
        while thread.is_alive() and not cut_short() and (left := until - time.monotonic()) > 0:
            thread.join(timeout=min(left, _LOOK_SECONDS))
    return not any(thread.is_alive() for thread in threads)
