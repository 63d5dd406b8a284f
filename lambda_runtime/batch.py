"""The records of one invocation under way: run lane by lane, settled, and given back where there is no time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from lambda_runtime import settles
from lambda_runtime.equipment import Equipment
from lambda_runtime.figures import ending
from lambda_runtime.guard import Guard, report
from lambda_runtime.invocation import Invocation
from lambda_runtime.records import Lane, Slot
from lambda_runtime.roster import Roster, Running
from towpath.context import AbortSignal, Progress
from towpath.dispatch import Control
from towpath.settlement import Completion, Decision, log_settled


class Batch:
    """Runs the lanes of one invocation.

    A record counts as done only when it is settled so; every other is reported to Lambda as failed, whatever happened.
    """

    def __init__(self, equipment: Equipment, invocation: Invocation, lanes: Sequence[Lane]) -> None:
        self._equipment = equipment
        self._waiting = deque(lanes)
        self._roster = Roster([slot for lane in lanes for slot in lane])
        self._invocation = invocation
        abort = AbortSignal()
        self._guard = Guard(equipment, invocation, self._roster, abort)
        self._control = Control(abort=abort, beat=_go_on, deadline=invocation.deadline, run_async=equipment.loops.run)
        self._limit = equipment.dispatcher.policy.max_processing_seconds
        self._log = equipment.log
        self._shows_all = self._log.isEnabledFor(logging.DEBUG)

    def run(self) -> set[int]:
        """Run all lanes to their ends; answer the positions of the records that are done."""
        watch = self._equipment.watch if self._guard.is_needed else None
        if watch is not None:
            watch.begin(self._guard)
        try:
            self._equipment.threads.share(self._waiting, self._run_lane)
        finally:
            if watch is not None:
                watch.end(self._guard)
        self._guard.finish()
        report(self._equipment, self._invocation, self._roster)
        return self._roster.done

    def _run_lane(self, lane: Lane) -> None:
        for i, slot in enumerate(lane):
            now = self._equipment.seconds()
            if now >= self._invocation.guard_at:
                self._guard.close()
                return
            if not self._handle(slot, now):
                rest = self._roster.take_back(lane[i + 1 :])
                self._guard.release(rest, "one before them in their group is not done")
                return

    def _handle(self, slot: Slot, started: float) -> bool:
        """Handle one delivery and settle it; answer whether it is done.

        Whatever else is raised, which is a defect, stops here: passed on it would fail the whole invocation, and Lambda
        would run every record again that is done.
        """
        control = self._control if self._limit is None else self._limited(self._limit)
        if not self._roster.start(Running(slot=slot, since=started, abort=control.abort)):
            return False
        is_done = False

        def settle(decision: Decision) -> None:
            nonlocal is_done
            is_completed = type(decision) is Completion  # Lambda deletes it
            result = settles.COMPLETED if is_completed else settles.settled(decision, self._equipment.settler)
            is_done = is_completed or settles.is_done(result)
            milliseconds = 1000 * (self._equipment.seconds() - started)
            self._roster.endings.append("completed" if is_completed else ending(decision, result))
            self._roster.durations_ms.append(milliseconds)
            if self._shows_all or not is_completed:
                log_settled(self._log, decision, result, milliseconds)

        try:
            self._equipment.dispatcher.dispatch(slot.delivery, control, settle)
        except KeyboardInterrupt:  # a person at a keyboard, never Lambda
            raise
        except BaseException as error:  # noqa: BLE001 - one record must never take its neighbours with it
            extra = {"subscription": slot.delivery.subscription, "delivery_id": slot.delivery.id}
            self._log.error("the delivery comes again: %s: %s", type(error).__name__, error, extra=extra)
        if self._roster.end(slot, is_done=is_done) and is_done:
            self._guard.delete([slot])
        return is_done

    def _limited(self, limit: float) -> Control:
        """Of a handler that is aborted on its own after ``limit`` seconds."""
        ends = self._equipment.dispatcher.clock() + timedelta(seconds=limit)
        deadline = ends if self._control.deadline is None else min(ends, self._control.deadline)
        return replace(self._control, abort=AbortSignal(), deadline=deadline)


def _go_on(progress: Progress) -> bool:  # noqa: ARG001 - the port names it
    """A heartbeat: nothing is renewed, since the queue's visibility time-out outlasts the function."""
    return True
