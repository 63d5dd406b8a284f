"""The leases that one worker holds: renewed while handlers run, and never believed longer than they last."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from towpath import limits
from towpath.context import AbortSignal, Progress
from towpath.errors import AbortReason
from towpath.ports import Consumer, Extension
from towpath.settlement import (
    CancelRequested,
    Decision,
    Delivery,
    LeaseLost,
    Settled,
    SettleResult,
    SubscriptionPolicy,
)

Monotonic = Callable[[], float]

_CHECK_SECONDS: Final = 0.25  # how late the timer may notice that a lease or a time limit is over
_RETRY_SECONDS: Final = 1.0  # how soon a renewal that failed for a passing reason is tried again
_PATIENCE_SECONDS: Final = 1.0  # how long a settle waits for a renewal that is on its way


@dataclass(slots=True, kw_only=True, eq=False)
class HeldLease:
    """One delivery in this worker's hands, since ``held_since``. Times are monotonic seconds; ``ends_at`` moves with
    each renewal.

    ``stops_at`` is there while its handler runs under a time limit, ``starts_by`` where it was claimed ahead of the
    handlers: one that has not ``started`` by then is given back. ``decided`` says that it waits to be settled,
    ``settling`` that this is being done, ``lost`` that the lease was reported lost. ``decision`` is what is to be
    settled, after ``milliseconds`` of handling, which began ``waited`` seconds after the claim.
    """

    delivery: Delivery
    held_since: float
    ends_at: float
    renew_at: float
    starts_by: float = math.inf
    started: bool = False
    stops_at: float | None = None
    decided: bool = False
    settling: bool = False
    lost: bool = False
    decision: Decision | None = None
    milliseconds: float = 0.0
    waited: float = 0.0
    abort: AbortSignal = field(default_factory=AbortSignal)


class LeaseKeeper:
    """Renews the leases of one consumer's deliveries in one call, every third of a lease or 30 s.

    Two threads: one renews, the other only watches the clock, so that a renewal that hangs cannot hide that a lease
    must be over. A lease reported lost, or over by the clock plus 5 s of grace, aborts its handler with
    ``lease_lost``; one that runs past ``max_processing_seconds`` is aborted and no longer renewed. A delivery that
    waits to be settled is renewed too, until it is. One that an operator cancelled aborts its handler with
    ``cancelled`` and is renewed no more.

    The length of a lease is the consumer's, at the time of the claim or the renewal: an ``apply`` may change it.
    """

    def __init__(
        self,
        consumer: Consumer,
        monotonic: Monotonic,
        log: logging.Logger,
        give_back: Callable[[HeldLease], None] = lambda _: None,
    ):
        """``give_back`` releases what was claimed ahead of the handlers and waits for one too long."""
        self._give_back = give_back
        self._consumer = consumer
        self._monotonic = monotonic
        self._log = log
        name = consumer.policy.subscription
        self._held: dict[HeldLease, None] = {}  # an ordered set
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, name=f"{name}-lease-timer", daemon=True),
            threading.Thread(target=self._renew, name=f"{name}-lease-keeper", daemon=True),
        ]

    def start(self) -> None:
        """Begin to renew and to watch."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Stop renewing and watching; leases still held run out by themselves."""
        self._closed.set()
        for thread in self._threads:
            if thread.ident is not None:  # else it was never started
                thread.join(timeout=_CHECK_SECONDS * 4)

    def hold(self, deliveries: Iterable[Delivery], starts_by: float = math.inf) -> list[HeldLease]:
        """Take deliveries into care, their leases counted from now; give back what has not started by ``starts_by``."""
        now, policy = self._monotonic(), self._consumer.policy
        renew_at, ends_at = now + _interval(policy), now + policy.lease_seconds
        held = [
            HeldLease(delivery=one, held_since=now, ends_at=ends_at, renew_at=renew_at, starts_by=starts_by)
            for one in deliveries
        ]
        with self._lock:
            self._held.update(dict.fromkeys(held))
        return held

    def begin(self, held: HeldLease) -> bool:
        """The handler starts now: its time limit counts from here. ``False`` when the delivery was given back.

        So it is now when it waits too long and nobody had a look yet, as after a stop of the whole process: its lease
        may be over, and another worker may have handled it.
        """
        now, limit = self._monotonic(), self._consumer.policy.max_processing_seconds
        if now > held.starts_by and self._decide_unstarted(held):
            self._give_back(held)
        held.stops_at = None if limit is None else now + limit
        with self._lock:
            held.started = not held.decided
        return held.started

    def decide(self, held: HeldLease) -> bool:
        """Say that what becomes of the delivery is decided: it is aborted no more.

        ``False`` when that was said before: a delivery is settled once, even when its handler ends after it was
        given up.
        """
        with self._lock:
            first, held.decided = not held.decided, True
        return first

    def settle_begins(self, leases: Iterable[HeldLease]) -> None:
        """Renew these no more, and let a renewal that is on its way be answered first, for a second at most.

        On SQS both set the visibility time-out: a renewal that comes in last would put a retry's delay off.
        """
        for held in leases:
            held.settling = True
        if self._renewing.acquire(timeout=_PATIENCE_SECONDS):
            self._renewing.release()

    def settle_failed(self, held: HeldLease) -> bool:
        """The settle could not be made: renew again. Answers whether the lease still holds, for another try."""
        held.settling = False
        return self._monotonic() < held.ends_at and not held.lost

    def drop(self, leases: Iterable[HeldLease]) -> None:
        """They are settled, or no longer this worker's."""
        with self._lock:
            for held in leases:
                self._held.pop(held, None)

    def abort_all(self, reason: AbortReason) -> None:
        """Ask every running handler to stop."""
        for held in self.held():
            held.abort.set(reason)

    def beat(self, held: HeldLease, progress: Progress) -> bool:
        """A handler's own heartbeat: renew now and keep its progress; ``False`` when it must stop, or has ended."""
        if held.decided:  # a thread that the handler left behind
            return False
        self._extend([held], progress)
        return held.abort.reason is None

    @property
    def busy(self) -> bool:
        """Whether any delivery is still in this worker's hands."""
        return bool(self._held)

    def held(self) -> list[HeldLease]:
        """The deliveries in this worker's hands now."""
        with self._lock:
            return list(self._held)

    def abort_overdue(self) -> None:
        """Abort every handler whose lease must be over by now, or that ran into its time limit. The timer's work."""
        now = self._monotonic()
        for held in self.held():
            if held.decided:
                continue
            if now > held.ends_at + limits.LEASE_GRACE_SECONDS:
                held.abort.set("lease_lost")
            if held.stops_at is not None and now > held.stops_at:
                held.abort.set("max_processing")

    def give_back_late(self) -> None:
        """Give back what was claimed ahead and has waited too long: another worker may be free. The timer's work."""
        now = self._monotonic()
        for held in self.held():
            if now > held.starts_by and not held.started and self._decide_unstarted(held):
                self._give_back(held)

    def _decide_unstarted(self, held: HeldLease) -> bool:
        with self._lock:
            first = not (held.started or held.decided)
            held.decided = held.decided or first
        return first

    def renew_due(self) -> None:
        """Renew in one call every lease whose time for it has come. The renewing thread's work."""
        with self._renewing:
            now = self._monotonic()
            by_itself = self._consumer.policy.heartbeat == "auto"
            due = [h for h in self.held() if h.renew_at <= now and (h.decided or by_itself) and _is_renewed(h)]
            if due:
                self._extend(due, None)

    def _watch(self) -> None:
        while not self._closed.wait(_CHECK_SECONDS):
            self.abort_overdue()
            self.give_back_late()

    def _renew(self) -> None:
        while not self._closed.wait(_CHECK_SECONDS):
            self.renew_due()

    def _extend(self, leases: Sequence[HeldLease], progress: Progress | None) -> None:
        policy = self._consumer.policy
        asked_at = self._monotonic()  # before the call: the lease cannot end earlier than this plus its length
        extensions = [Extension(delivery=held.delivery, progress=progress) for held in leases]
        for held, result in zip(leases, self._answers(extensions), strict=True):
            match result:
                case Settled():
                    held.ends_at = asked_at + policy.lease_seconds
                    held.renew_at = asked_at + _interval(policy)
                case LeaseLost():
                    held.lost = True
                    self._stop(held, "lease_lost")
                case CancelRequested():
                    self._stop(held, "cancelled")
                case _:
                    held.renew_at = self._monotonic() + _RETRY_SECONDS

    def _answers(self, extensions: Sequence[Extension]) -> Iterable[SettleResult | None]:
        try:
            return self._consumer.extend(extensions)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other leases depend on this thread
            self._log.warning("leases could not be renewed, trying again: %s: %s", type(error).__name__, error)
            return [None] * len(extensions)

    def _stop(self, held: HeldLease, reason: AbortReason) -> None:
        held.renew_at = math.inf
        if not held.decided:  # else it was settled while the renewal was on its way
            held.abort.set(reason)


def _interval(policy: SubscriptionPolicy) -> float:
    return min(policy.lease_seconds / 3, limits.HEARTBEAT_SECONDS)


def _is_renewed(held: HeldLease) -> bool:
    """A handler that lost its lease or ran too long is not kept alive; one that has decided is, until it is settled."""
    return not held.settling and (held.decided or held.abort.reason in (None, "shutdown"))
