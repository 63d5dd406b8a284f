"""The worker: serves subscriptions until it is stopped or has nothing more to do, and sweeps beside it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from towpath.errors import TransportUnavailable
from towpath.observing import Observer, Standing, State
from towpath.outages import Outages
from towpath.places import Places
from towpath.ports import Sweeper, Transport
from towpath.roster import Roster
from towpath.service import OWN_FAULTS, Service
from towpath.settling import Counts
from towpath.stopping import Stop
from towpath.terms import Allowance, ClaimsLeft, Terms, WorkerOptions

__all__ = ["Counts", "State", "Worker", "WorkerOptions"]

_SWEEP_SECONDS: Final = 60.0
_TOPOLOGY_SECONDS: Final = 2.0  # between two looks at the topology
_LOOK_SECONDS: Final = 0.1  # between two looks at whether all have ended
_ANSWER_SECONDS: Final = 5.0  # what a receive that is on its way gets to come back
_SWEEP_GRACE_SECONDS: Final = 10.0  # what a sweep gets to end once the worker has


class Worker:
    """Serves subscriptions of one transport until it is stopped or has nothing more to do.

    ``subscriptions`` are names, or ``*`` for every one that has a handler which a worker may run. One whose handler
    does not load, or that the transport cannot serve, does not keep the others from running; it is tried again when
    the topology changes. When none can be served the first fault is raised: ``SubscriptionNotFound``, ``Unsupported``,
    ``HandlerNotFound``; then nothing is claimed.

    Every 2 s there is a look at the topology, where the transport keeps one that changes: with ``*`` subscriptions that
    were added are served, and those that were removed are not. A changed policy holds from the next claim on.
    """

    def __init__(
        self,
        transport: Transport,
        subscriptions: list[str],
        options: WorkerOptions,
        *,
        allowance: ClaimsLeft | None = None,
        observer: Observer | None = None,
    ) -> None:
        """``allowance`` is what several workers share of ``max_deliveries``; each has its own without it.
        ``observer`` is told of what is settled.
        """
        self._transport = transport
        self._options = options
        self._stopping = Stop()
        self._aborting = threading.Event()
        self._was_told = False
        self._log = logging.getLogger("towpath.worker")
        terms = Terms(
            options=options,
            allowance=allowance if allowance is not None else Allowance(options.max_deliveries),
            places=Places(options.max_in_flight),
            outages=Outages(self._log, time.monotonic),
            stopping=self._stopping,
            observer=observer,
        )
        self._roster = Roster(transport, subscriptions, terms, log=self._log)

    def run(self) -> Counts:
        """Work until stopped, or until the options say that it is done; then drain. Answers what was done.

        A fault that is no passing one stops the worker and is raised here, after the drain; so is a
        ``KeyboardInterrupt`` of the calling thread. What ends the part of one subscription only, as when it is removed
        or its queue is refused, is raised when there is no other one; so is ``TransportUnavailable`` when the transport
        never answered until the worker was done.
        """
        beside = [
            threading.Thread(target=self._sweep, name="towpath-sweeper", daemon=True),
            threading.Thread(target=self._follow_topology, name="towpath-topology", daemon=True),
        ]
        try:
            for thread in beside:
                thread.start()
            self._roster.start()
            self._await_end()
        except BaseException:
            self._stopping.set()
            self._await_end()
            raise
        finally:
            self._stopping.set()
            for thread in beside:
                thread.join(timeout=_SWEEP_GRACE_SECONDS if not self.abandoned else 0)
        self._raise_fault()
        return self.counts

    @property
    def states(self) -> dict[str, State]:
        """How each subscription stands, by name.

        ``running``; ``paused`` by an operator or the topology; ``handler_not_found``; ``unsupported``, when the
        transport cannot serve it; ``error`` while the transport does not answer.
        """
        return self._roster.states

    @property
    def abandoned(self) -> bool:
        """Whether ``run`` ended although something still runs: a handler that ignores its abort, or a call to a
        transport that does not answer. The process should end now.
        """
        return any(service.gave_up or not service.ended.is_set() for service in self._roster.services)

    def _raise_fault(self) -> None:
        for service in self._roster.services:
            if service.fault is not None and not isinstance(service.fault, OWN_FAULTS):
                raise service.fault
        if self._roster.is_idle and not self._was_told:
            raise self._roster.faults()[0]

    def _await_end(self) -> None:
        """Wait until all have ended; from a stop on no longer than a drain, an abort and their settles may take.

        Not by joins: one that an interrupt cuts short takes its thread for ended (CPython 3.11).
        """
        limit = self._options.max_duration
        ends_at = None if limit is None else time.monotonic() + limit.total_seconds()
        stopped_at: float | None = None
        while any(at_work := self._roster.running()):
            running, _ = at_work
            if ends_at is not None and time.monotonic() >= ends_at:
                self._stopping.set()
            if self._stopping.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if not running:  # nobody waits for a handler that is being imported
                    return
                if time.monotonic() - stopped_at > self._longest_stop():
                    self._log.error("given up: what %s wait for does not answer", _names(running))
                    return
            (running[0].ended if running else self._aborting).wait(_LOOK_SECONDS)

    def _longest_stop(self) -> float:
        grace = self._options.abort_grace.total_seconds()
        drain = 0.0 if self._aborting.is_set() else 2 * self._options.drain.total_seconds()
        return drain + 3 * grace + _ANSWER_SECONDS

    def stop(self) -> None:
        """Claim nothing more and drain. For any thread, but not for a signal handler: it takes a lock."""
        self._was_told = True
        self._stopping.set()

    def abort(self) -> None:
        """Stop, and ask running handlers to stop at once."""
        self._aborting.set()
        self.stop()
        for service in self._roster.services:
            service.abort()

    @property
    def counts(self) -> Counts:
        """What was done so far, over all subscriptions."""
        return self._roster.counts

    def standing(self) -> list[Standing]:
        """How it stands with each subscription now. For any thread."""
        return self._roster.standing

    def _follow_topology(self) -> None:
        self._repeat(_TOPOLOGY_SECONDS, self._roster.look, "the look at the topology is put off", logging.DEBUG)

    def _sweep(self) -> None:
        if isinstance(self._transport, Sweeper):
            self._repeat(_SWEEP_SECONDS, self._transport.sweep, "the sweep is put off", logging.ERROR, at_once=True)

    def _repeat(
        self, seconds: float, call: Callable[[], object], failed: str, level: int, *, at_once: bool = False
    ) -> None:
        """Make ``call`` every so many seconds until the worker stops.

        That the transport did not answer once is told by those who receive.
        """
        was_out = False
        while at_once or not self._stopping.wait(seconds):
            at_once = False
            try:
                call()
                was_out = False
            except Exception as error:  # noqa: BLE001 - what fails once must not end for good
                is_out = isinstance(error, TransportUnavailable)
                told = logging.DEBUG if is_out and not was_out else level
                was_out = is_out
                self._log.log(told, "%s: %s: %s", failed, type(error).__name__, error)


def _names(services: list[Service]) -> str:
    return ", ".join(service.name for service in services)
