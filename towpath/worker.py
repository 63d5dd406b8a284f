"""The worker: serves subscriptions until it is stopped or has nothing more to do, and sweeps beside it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from towpath import handler as handlers
from towpath import payload
from towpath.dispatch import Dispatcher
from towpath.errors import SubscriptionNotFound
from towpath.observing import Observer, Standing
from towpath.ports import Sweeper, Transport
from towpath.service import Service
from towpath.settlement import SubscriptionPolicy
from towpath.settling import Counts
from towpath.stopping import Stop
from towpath.terms import Allowance, Terms, WorkerOptions

__all__ = ["Counts", "Worker", "WorkerOptions"]

_SWEEP_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.1  # between two looks at whether all have ended
_ANSWER_SECONDS: Final = 5.0  # what a receive that is on its way gets to come back
_SWEEP_GRACE_SECONDS: Final = 10.0  # what a sweep gets to end once the worker has


class Worker:
    """Serves subscriptions of one transport until it is stopped or has nothing more to do.

    Everything that can be wrong before the first claim is found when it is made: ``SubscriptionNotFound``, and
    ``HandlerNotFound`` for a handler that does not load; then nothing is claimed. ``observer`` is told of what is
    settled.
    """

    def __init__(
        self,
        transport: Transport,
        subscriptions: list[str],
        options: WorkerOptions,
        observer: Observer | None = None,
    ) -> None:
        self._transport = transport
        self._options = options
        self._stopping = Stop()
        self._aborting = threading.Event()
        self._log = logging.getLogger("towpath.worker")
        allowance = Allowance(options.max_deliveries)
        terms = Terms(options=options, allowance=allowance, stopping=self._stopping, observer=observer)
        policies = transport.policies()
        dispatchers = {name: self._dispatcher(policies, name) for name in subscriptions}
        self._services = [Service(transport, dispatcher, terms) for dispatcher in dispatchers.values()]

    def run(self) -> Counts:
        """Work until stopped, or until the options say that it is done; then drain. Answers what was done.

        A fault that is no passing one stops the worker and is raised here, after the drain; so is a
        ``KeyboardInterrupt`` of the calling thread. A subscription that was removed ends its own part only, and
        ``SubscriptionNotFound`` is raised when the others have ended.
        """
        sweeping = threading.Thread(target=self._sweep, name="towpath-sweeper", daemon=True)
        sweeping.start()
        started: list[Service] = []
        try:
            for service in self._services:
                threading.Thread(target=service.run, name=service.name, daemon=True).start()
                started.append(service)
            self._await_end(started)
        except BaseException:
            self._stopping.set()
            self._await_end(started)
            raise
        finally:
            self._stopping.set()
            sweeping.join(timeout=_SWEEP_GRACE_SECONDS if not self.abandoned else 0)
        for service in self._services:
            if service.fault is not None:
                raise service.fault
        return self.counts

    @property
    def abandoned(self) -> bool:
        """Whether ``run`` ended although something still runs: a handler that ignores its abort, or a call to a
        transport that does not answer. The process should end now.
        """
        return any(service.gave_up or not service.ended.is_set() for service in self._services)

    def _await_end(self, services: list[Service]) -> None:
        """Wait until all have ended; from a stop on no longer than a drain, an abort and their settles may take.

        Not by joins: one that an interrupt cuts short takes its thread for ended (CPython 3.11).
        """
        stopped_at: float | None = None
        while running := [service for service in services if not service.ended.is_set()]:
            if self._stopping.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if time.monotonic() - stopped_at > self._longest_stop():
                    names = ", ".join(service.name for service in running)
                    self._log.error("given up: what %s wait for does not answer", names)
                    return
            running[0].ended.wait(_LOOK_SECONDS)

    def _longest_stop(self) -> float:
        grace = self._options.abort_grace.total_seconds()
        drain = 0.0 if self._aborting.is_set() else 2 * self._options.drain.total_seconds()
        return drain + 3 * grace + _ANSWER_SECONDS

    def stop(self) -> None:
        """Claim nothing more and drain. For any thread, but not for a signal handler: it takes a lock."""
        self._stopping.set()

    def abort(self) -> None:
        """Stop, and ask running handlers to stop at once."""
        self._aborting.set()
        self._stopping.set()
        for service in self._services:
            service.abort()

    @property
    def counts(self) -> Counts:
        """What was done so far, over all subscriptions."""
        total = Counts()
        for service in self._services:
            total.received += service.counts.received
            for state, count in dict(service.counts.states).items():  # a copy: the settler counts on
                total.states[state] = total.states.get(state, 0) + count
        return total

    def standing(self) -> list[Standing]:
        """How it stands with each subscription now. For any thread."""
        return [service.standing for service in self._services]

    def _dispatcher(self, policies: Mapping[str, SubscriptionPolicy], name: str) -> Dispatcher:
        if name not in policies:
            known = ", ".join(sorted(policies)) or "none"
            raise SubscriptionNotFound(name, f"this transport has {known}")
        policy = policies[name]
        if policy.handler is None:
            raise SubscriptionNotFound(name, "its host is 'external', so it has no handler to run here")
        loaded = handlers.load(policy.handler)
        return Dispatcher(
            policy=policy,
            handler=loaded,
            convert=payload.converter(loaded.payload_type, loaded.path),
            publish=self._transport.publish,
            log=logging.getLogger("towpath.handler"),
        )

    def _sweep(self) -> None:
        if not isinstance(self._transport, Sweeper):
            return
        while True:
            try:
                self._transport.sweep()
            except Exception as error:  # noqa: BLE001 - housekeeping that fails once must not end for good
                self._log.error("the sweep is put off: %s: %s", type(error).__name__, error)
            if self._stopping.wait(_SWEEP_SECONDS):
                return
