"""Sees to it that one invocation ends in time, with nothing lost that was done and nothing left running."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from lambda_runtime import settles
from lambda_runtime.equipment import Equipment
from lambda_runtime.figures import figures
from lambda_runtime.invocation import Invocation
from lambda_runtime.records import Slot
from lambda_runtime.roster import Roster, Running
from towpath.context import AbortSignal
from towpath.settlement import Failure, Retrial, SettleResult

_EXIT_CODE: Final = 70  # a fault of the software, by sysexits.h
_HIDING_SHARE: Final = 0.8  # of the last moment, for hiding what is given up and whatever else is still under way


class Guard:
    """Guards the time of one invocation (a ``Watched``).

    When its guard time comes, what has not started goes back and what runs is told to stop; what is done is deleted
    there and then, because Lambda deletes only after an answer, and a function that is killed gives none. At the last
    moment the process ends if a handler still runs: frozen with the environment, it would run on in the next
    invocation, beside whoever has its message by then.
    """

    def __init__(self, equipment: Equipment, invocation: Invocation, roster: Roster, abort: AbortSignal) -> None:
        self._equipment = equipment
        self._invocation = invocation
        self._roster = roster
        self._abort = abort
        self._limit = equipment.dispatcher.policy.max_processing_seconds
        self._steps: list[tuple[float, Callable[[], None]]] = [
            (invocation.last_at, self._give_up),
            (invocation.guard_at, self.close),
            (invocation.ready_at, self._make_ready),
        ]
        self._closing = threading.Lock()
        self._at_work: list[threading.Thread] = []

    @property
    def is_needed(self) -> bool:
        """Whether there is any time to guard."""
        return self._limit is not None or self._invocation.last_at < math.inf

    def due_at(self) -> float:
        """When something is due next."""
        return min([self._steps[-1][0] if self._steps else math.inf, *self._limits()])

    def act(self, now: float) -> None:
        """Have done what is due, by threads of its own: what talks to SQS must not hold up what comes after."""
        for running in self._roster.running():
            if self._limit is not None and running.since + self._limit <= now:
                running.abort.set("max_processing")
        while self._steps and self._steps[-1][0] <= now:
            _, step = self._steps.pop()
            thread = _begun(step)
            if thread is None:
                step()  # which may hold up what comes after; left out, there would be no guard at all
            else:
                self._at_work.append(thread)

    def close(self) -> None:
        """Start nothing more, stop what runs, delete what is done, give back the rest. A second call waits for the
        first, and does nothing.
        """
        with self._closing:
            if self._roster.is_closed:
                return
            self._abort.set("shutdown")
            closed = self._roster.close()
            for running in closed.running:
                running.abort.set("shutdown")
            self.delete(closed.done)
            self.release(closed.unstarted, "there is no time left to start them")

    def finish(self) -> None:
        """Wait for what the guard is doing, until the last moment at most: what it does not come to, Lambda does."""
        for thread in self._at_work:
            thread.join(max(self._invocation.last_at - self._equipment.seconds(), 0))

    def delete(self, slots: Sequence[Slot]) -> None:
        """Delete what is done. Where that fails Lambda still deletes it, if it gets its answer."""
        if slots:
            problems = settles.errors(settles.deleted(slots, self._equipment.settler))
            if problems:
                self._warn("deliveries that are done could not be deleted ahead of the answer", slots, problems)

    def release(self, slots: Iterable[Slot], reason: str) -> None:
        """Make deliveries that were not started visible at once. Where that fails they are reported all the same, and
        come again when their visibility time-out ends.
        """
        chosen = list(slots)
        if chosen:
            results = settles.released(chosen, self._equipment.settler)
            self._warn(f"deliveries go back unstarted: {reason}", chosen, settles.errors(results))

    def _limits(self) -> list[float]:
        if self._limit is None:
            return []
        return [r.since + self._limit for r in self._roster.running() if r.abort.reason is None]

    def _make_ready(self) -> None:
        """Have the client at hand: to load and make one takes too much of a small function's last seconds."""
        try:
            self._equipment.settler.client()
        except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
            self._equipment.log.warning("there is no client for SQS: %s: %s", type(error).__name__, error)

    def _give_up(self) -> None:
        running = self._roster.running()
        if not running:
            return  # the last one has ended by now, and the answer is on its way
        slots = [one.slot for one in running]
        message = "handlers ignore their abort, and time is over: the process ends, and their deliveries come again"
        self._equipment.log.error(message, extra=self._facts(slots, []))
        hiding = _begun(lambda: self._hide(running))
        end = time.monotonic() + _HIDING_SHARE * self._invocation.last_moment_seconds
        for thread in (hiding, *self._at_work):
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(end - time.monotonic(), 0))
        report(self._equipment, self._invocation, self._roster)
        sys.stdout.flush()
        sys.stderr.flush()
        self._equipment.end_process(_EXIT_CODE)

    def _hide(self, given_up: Sequence[Running]) -> list[SettleResult]:
        """Have what is given up come again after its back-off and not sooner than this process has ended."""
        dispatcher = self._equipment.dispatcher
        policy = dispatcher.policy
        failure = Failure(type="MaxProcessingExceeded", message="ran into the function's end")
        retrials = [
            Retrial(
                delivery=one.slot.delivery,
                delay=max(policy.backoff.delay(one.slot.delivery.attempt, dispatcher.random), timedelta(seconds=2)),
                failure=failure,
            )
            for one in given_up
        ]
        return settles.hidden(retrials, self._equipment.settler)

    def _warn(self, message: str, slots: Sequence[Slot], problems: Sequence[str]) -> None:
        self._equipment.log.warning(message, extra=self._facts(slots, problems))

    def _facts(self, slots: Sequence[Slot], problems: Sequence[str]) -> dict[str, Any]:
        return {
            "subscription": self._equipment.dispatcher.policy.subscription,
            "delivery_ids": [slot.delivery.id for slot in slots],
            "errors": list(problems),
        }


def _begun(step: Callable[[], object]) -> threading.Thread | None:
    """A thread that takes ``step``; ``None`` where the process can have no more threads."""
    thread = threading.Thread(target=step, name="towpath-guard", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


def report(equipment: Equipment, invocation: Invocation, roster: Roster) -> None:
    """Have the figures of one invocation told, as they stand; of one without records there are none."""
    if equipment.report is not None and invocation.records:
        told = figures(invocation.records, roster.endings, roster.durations_ms, invocation.oldest_age_ms)
        try:
            equipment.report(told)
        except Exception as error:  # noqa: BLE001 - a line of metrics must not cost a batch
            equipment.log.warning("the metrics are lost: %s: %s", type(error).__name__, error)
