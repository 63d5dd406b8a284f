"""The worker: serves subscriptions until it is stopped or has nothing more to do, and sweeps beside it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Final

from towpath import handler as handlers
from towpath import payload
from towpath.dispatch import Dispatcher
from towpath.errors import SubscriptionNotFound
from towpath.ports import Sweeper, Transport
from towpath.service import Allowance, Counts, Service, Terms, WorkerOptions
from towpath.settlement import SubscriptionPolicy

__all__ = ["Counts", "Worker", "WorkerOptions"]

_SWEEP_SECONDS: Final = 60.0
_SWEEP_GRACE_SECONDS: Final = 10.0  # what a sweep gets to end once the worker has


class Worker:
    """Serves subscriptions of one transport until it is stopped or has nothing more to do.

    Everything that can be wrong before the first claim is found when it is made: ``SubscriptionNotFound``, and
    ``HandlerNotFound`` for a handler that does not load; then nothing is claimed.
    """

    def __init__(self, transport: Transport, subscriptions: list[str], options: WorkerOptions) -> None:
        self._transport = transport
        self._stopping = threading.Event()
        self._log = logging.getLogger("towpath.worker")
        terms = Terms(options=options, allowance=Allowance(options.max_deliveries), stopping=self._stopping)
        policies = transport.policies()
        dispatchers = {name: self._dispatcher(policies, name) for name in subscriptions}
        self._services = [Service(transport, dispatcher, terms) for dispatcher in dispatchers.values()]

    def run(self) -> Counts:
        """Work until stopped, or until the options say that it is done; then drain. Answers what was done.

        What ends a handler thread without being an ``Exception`` (``SystemExit``), and a fault that is no passing one,
        stops the worker and is raised here, after the drain. So does a ``KeyboardInterrupt`` of the calling thread.
        """
        sweeping = threading.Thread(target=self._sweep, name="towpath-sweeper", daemon=True)
        sweeping.start()
        started: list[Service] = []
        try:
            for service in self._services:
                threading.Thread(target=service.run, name=service.name).start()
                started.append(service)
            for service in started:
                service.ended.wait()
        finally:  # no joins: one that an interrupt cuts short takes its thread for ended (CPython 3.11)
            self._stopping.set()
            for service in started:
                service.ended.wait()
            sweeping.join(timeout=_SWEEP_GRACE_SECONDS)
        for service in self._services:
            if service.fault is not None:
                raise service.fault
        return self.counts

    def stop(self) -> None:
        """Claim nothing more and drain. For any thread, but not for a signal handler: it takes a lock."""
        self._stopping.set()

    def abort(self) -> None:
        """Stop, and ask running handlers to stop at once."""
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
