"""The records of one invocation under way: run lane by lane, settled, and given back where there is no time."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from aws_transport.settlement import SqsSettler
from lambda_runtime.invocation import Invocation
from lambda_runtime.records import Lane, Slot
from lambda_runtime.threads import EventLoops, Threads
from towpath.context import Progress
from towpath.dispatch import Control, Dispatcher
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Decision,
    Discard,
    Failed,
    Forfeit,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SettleResult,
    log_settled,
)

_DONE = frozenset({"completed", "discarded", "dead"})  # Lambda deletes these; all else it must leave in the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Equipment:
    """What every invocation works with."""

    dispatcher: Dispatcher
    settler: SqsSettler
    threads: Threads
    loops: EventLoops
    log: logging.Logger


class Batch:
    """Runs the lanes of one invocation.

    A record counts as done only when it is settled so; every other is reported to Lambda as failed, whatever happened.
    """

    def __init__(self, equipment: Equipment, invocation: Invocation, lanes: Iterable[Lane]) -> None:
        self._dispatcher = equipment.dispatcher
        self._settler = equipment.settler
        self._threads = equipment.threads
        self._log = equipment.log
        self._invocation = invocation
        self._waiting = deque(lanes)
        self._done: set[int] = set()
        self._control = Control(
            abort=invocation.abort, beat=_go_on, deadline=invocation.deadline, run_async=equipment.loops.run
        )

    def run(self) -> set[int]:
        """Run all lanes to their ends; answer the positions of the records that are done."""
        self._threads.share(self._waiting, self._run_lane)
        return self._done

    def _run_lane(self, lane: Lane) -> None:
        for i, slot in enumerate(lane):
            if not self._invocation.may_start():
                self._give_back([*lane[i:], *self._never_started()], "there is no time left to start them")
                return
            if not self._handle(slot):
                self._give_back(lane[i + 1 :], "one before them in their group is not done")
                return

    def _handle(self, slot: Slot) -> bool:
        """Handle one delivery and settle it; answer whether it is done.

        Whatever else is raised, which is a defect, stops here: passed on it would fail the whole invocation, and Lambda
        would run every record again that is done.
        """
        started = time.perf_counter()
        answers: list[bool] = []

        def settle(decision: Decision) -> None:
            result = self._settled(decision)
            answers.append(isinstance(result, Settled) and result.state in _DONE)
            if not isinstance(decision, Completion) or self._log.isEnabledFor(logging.DEBUG):
                log_settled(self._log, decision, result, 1000 * (time.perf_counter() - started))

        try:
            self._dispatcher.dispatch(slot.delivery, self._control, settle)
        except KeyboardInterrupt:  # a person at a keyboard, never Lambda
            raise
        except BaseException as error:  # noqa: BLE001 - one record must never take its neighbours with it
            extra = {"subscription": slot.delivery.subscription, "delivery_id": slot.delivery.id}
            self._log.error("the delivery comes again: %s: %s", type(error).__name__, error, extra=extra)
        if answers == [True]:
            self._done.add(slot.position)
            return True
        return False

    def _settled(self, decision: Decision) -> SettleResult:
        """What came of settling. Whatever breaks there has failed, so that it is logged beside the handler's own error,
        and does not hide that.
        """
        try:
            return settle_on_lambda(decision, self._settler)
        except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
            return _broken(error)

    def _never_started(self) -> list[Slot]:
        slots: list[Slot] = []
        while self._waiting:
            try:
                slots.extend(self._waiting.popleft())
            except IndexError:  # another thread was quicker
                break
        return slots

    def _give_back(self, slots: Sequence[Slot], reason: str) -> None:
        """Make deliveries that were not started visible at once. Where that fails they are reported all the same, and
        come again when their visibility time-out ends.
        """
        if not slots:
            return
        results = self._released(slots)
        extra = {
            "subscription": self._dispatcher.policy.subscription,
            "delivery_ids": [slot.delivery.id for slot in slots],
            "errors": sorted({result.error for result in results if isinstance(result, Failed)}),
        }
        self._log.warning("deliveries go back unstarted: %s", reason, extra=extra)

    def _released(self, slots: Sequence[Slot]) -> list[SettleResult]:
        """What came of releasing. Whatever breaks there has failed: passed on it would fail the whole invocation."""
        try:
            return self._settler.release([Release(delivery=slot.delivery) for slot in slots])
        except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
            return [_broken(error)] * len(slots)


def settle_on_lambda(decision: Decision, settler: SqsSettler) -> SettleResult:
    """Make ``decision`` true as far as Lambda does not: Lambda itself deletes each record not reported as failed."""
    match decision:
        case Completion():
            return Settled(state="completed")
        case Discard():
            return Settled(state="discarded")
        case Retrial():
            return settler.retry([decision])[0]
        case DeadLettering():
            return settler.copy_to_dead_letter_queue([decision])[0]
        case Release():
            return settler.release([decision])[0]
        case Forfeit() | CancelAcknowledgement():  # nothing on SQS asks for the latter
            return LeaseLost()
        case _:
            assert_never(decision)


def _broken(error: Exception) -> Failed:
    return Failed(error=f"{type(error).__name__}: {error}")


def _go_on(progress: Progress) -> bool:  # noqa: ARG001 - the port names it
    """A heartbeat: nothing is renewed, since the queue's visibility time-out outlasts the function."""
    return True
