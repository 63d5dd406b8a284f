"""The worker: receives deliveries, runs handlers on threads, keeps leases, settles in batches, drains on request."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from towpath import handler as handlers
from towpath import payload
from towpath.context import Progress
from towpath.dispatch import Control, Dispatcher
from towpath.errors import SubscriptionNotFound, TransportUnavailable
from towpath.leases import HeldLease, LeaseKeeper
from towpath.message import utc_now
from towpath.ports import Sweeper, Transport
from towpath.settlement import (
    Decision,
    Delivery,
    Failed,
    Release,
    SettleResult,
    SubscriptionPolicy,
    log_settled,
    settle,
)

_RECEIVE_WAIT: Final = timedelta(seconds=2)  # also the longest that an idle worker takes to notice a stop
_SHORT_POLL: Final = timedelta(seconds=1)  # SQS answers a poll without a wait from some of its servers only
_ERROR_PAUSE_SECONDS: Final = (0.5, 30.0)  # first and longest pause after a transport that does not answer
_ABORT_GRACE_SECONDS: Final = 5.0  # what a handler gets to notice that it was aborted
_SETTLE_BATCH: Final = 500
_SWEEP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. ``concurrency`` counts threads for each subscription.

    ``once`` ends the worker when nothing is due; ``max_deliveries`` after so many claims; ``idle_exit`` after so
    long without one. ``drain`` is what running handlers get after a stop before they are aborted.
    """

    concurrency: int = 8
    drain: timedelta = timedelta(seconds=30)
    once: bool = False
    max_deliveries: int | None = None
    idle_exit: timedelta | None = None


@dataclass(slots=True)
class Counts:
    """What a worker did, by the state each delivery went to. Read it when the worker has ended, or as a hint."""

    received: int = 0
    states: dict[str, int] = field(default_factory=dict)

    def add(self, result: SettleResult) -> None:
        """Count one answer."""
        state = getattr(result, "state", "failed" if isinstance(result, Failed) else "lease_lost")
        self.states[state] = self.states.get(state, 0) + 1


class Worker:
    """Serves subscriptions of one transport until it is stopped or has nothing more to do.

    Everything that can be wrong before the first claim is found when it is made: ``SubscriptionNotFound``, and
    ``HandlerNotFound`` for a handler that does not load; then nothing is claimed.
    """

    def __init__(self, transport: Transport, subscriptions: list[str], options: WorkerOptions) -> None:
        self._transport = transport
        self._options = options
        self._stopping = threading.Event()
        self._log = logging.getLogger("towpath.worker")
        policies = transport.policies()
        dispatchers = {name: self._dispatcher(policies, name) for name in subscriptions}
        self._services = [
            _Service(transport, dispatcher, options, self._stopping) for dispatcher in dispatchers.values()
        ]

    def run(self) -> Counts:
        """Work until stopped, or until the options say that it is done; then drain. Answers what was done.

        What ends a handler thread without being an ``Exception`` (``SystemExit``), and a fault that is no passing one,
        stops the worker and is raised here, after the drain.
        """
        sweeping = threading.Thread(target=self._sweep, name="towpath-sweeper", daemon=True)
        sweeping.start()
        threads = [threading.Thread(target=service.run, name=service.name) for service in self._services]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._stopping.set()
        sweeping.join()
        for service in self._services:
            if service.fault is not None:
                raise service.fault
        return self.counts

    def stop(self) -> None:
        """Claim nothing more and drain. Safe from a signal handler and from any thread."""
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
            for state, count in service.counts.states.items():
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
            except TransportUnavailable as error:
                self._log.warning("the sweep is put off: %s", error)
            if self._stopping.wait(_SWEEP_SECONDS):
                return


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decided:
    decision: Decision
    milliseconds: float


class _Service:
    """One subscription's part of a worker: a receiving loop, handler threads, a lease keeper and a settler."""

    def __init__(
        self, transport: Transport, dispatcher: Dispatcher, options: WorkerOptions, stopping: threading.Event
    ) -> None:
        self.name = dispatcher.policy.subscription
        self.counts = Counts()
        self.fault: BaseException | None = None
        self._dispatcher = dispatcher
        self._options = options
        self._stopping = stopping
        self._log = logging.getLogger("towpath.delivery")
        self._consumer = transport.consumer(self.name)
        self._keeper = LeaseKeeper(self._consumer, dispatcher.policy, time.monotonic, self._log)
        once_wait = timedelta(0) if "exact_backlog" in transport.capabilities else _SHORT_POLL
        self._wait = once_wait if options.once else _RECEIVE_WAIT
        self._free = threading.Semaphore(options.concurrency)
        self._waiting: queue.SimpleQueue[HeldLease | None] = queue.SimpleQueue()
        self._decided: queue.SimpleQueue[_Decided | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Receive until stopped or done, then drain."""
        self._keeper.start()
        settler = threading.Thread(target=self._settle_all, name=f"{self.name}-settler", daemon=True)
        settler.start()
        threads = [
            threading.Thread(target=self._handle_all, name=f"{self.name}-handler-{i}", daemon=True)
            for i in range(self._options.concurrency)
        ]
        for thread in threads:
            thread.start()
        with self._stopping_on_fault():
            self._receive_all()
        self._drain(threads)
        self._decided.put(None)
        settler.join()
        self._keeper.close()
        self._consumer.close()

    def abort(self) -> None:
        """Ask the running handlers to stop."""
        self._keeper.abort_all("shutdown")

    @contextmanager
    def _stopping_on_fault(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - kept, and raised by Worker.run after the drain
            self.fault = error
            self._stopping.set()

    # Receiving

    def _receive_all(self) -> None:
        idle_since = time.monotonic()
        pause = _ERROR_PAUSE_SECONDS[0]
        while not self._stopping.is_set():
            free = self._take_free()
            if free == 0:
                continue
            try:
                deliveries = self._consumer.receive(free, self._wait)
            except TransportUnavailable as error:
                self._give_back(free)
                self._log.error("cannot receive, trying again in %.1f s: %s", pause, error)
                self._stopping.wait(pause)
                pause = min(pause * 2, _ERROR_PAUSE_SECONDS[1])
                continue
            pause = _ERROR_PAUSE_SECONDS[0]
            self._give_back(free - len(deliveries))
            self._start(deliveries)
            if deliveries:
                idle_since = time.monotonic()
            if self._done(deliveries, idle_since):
                return

    def _take_free(self) -> int:
        """Wait for a free handler thread; answer how many are free, all of them now taken for the next receive."""
        if not self._free.acquire(timeout=0.2):
            return 0
        free = 1
        while free < self._limit() and self._free.acquire(blocking=False):
            free += 1
        return free

    def _limit(self) -> int:
        wanted = self._options.max_deliveries
        return self._options.concurrency if wanted is None else wanted - self.counts.received

    def _give_back(self, count: int) -> None:
        if count > 0:
            self._free.release(count)

    def _start(self, deliveries: list[Delivery]) -> None:
        self.counts.received += len(deliveries)
        for delivery in deliveries:
            self._waiting.put(self._keeper.hold(delivery))

    def _done(self, deliveries: list[Delivery], idle_since: float) -> bool:
        options = self._options
        if options.max_deliveries is not None and self.counts.received >= options.max_deliveries:
            return True
        if deliveries or self._keeper.busy:
            return False
        idle = time.monotonic() - idle_since
        return options.once or (options.idle_exit is not None and idle >= options.idle_exit.total_seconds())

    # Handling

    def _handle_all(self) -> None:
        with _AsyncLoop() as loop:
            while (held := self._waiting.get()) is not None:
                with self._stopping_on_fault():
                    self._handle(held, loop)
                self._free.release()

    def _handle(self, held: HeldLease, loop: _AsyncLoop) -> None:
        started = time.monotonic()

        def settle_later(decision: Decision) -> None:
            self._decided.put(_Decided(decision=decision, milliseconds=(time.monotonic() - started) * 1000))

        def beat(progress: Progress) -> bool:
            return self._keeper.beat(held, progress)

        if held.abort.reason is not None or self._stopping.is_set():  # it waited until the worker was told to stop
            settle_later(Release(delivery=held.delivery))
            return
        self._keeper.started(held)
        limit = self._dispatcher.policy.max_processing_seconds
        deadline = None if limit is None else utc_now() + timedelta(seconds=limit)
        control = Control(abort=held.abort, beat=beat, deadline=deadline, run_async=loop.run)
        self._dispatcher.dispatch(held.delivery, control, settle_later)

    # Settling

    def _settle_all(self) -> None:
        while (first := self._decided.get()) is not None:
            batch, ended = [first], False
            while len(batch) < _SETTLE_BATCH:
                try:
                    following = self._decided.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    ended = True
                    break
                batch.append(following)
            self._settle(batch)
            if ended:
                return

    def _settle(self, batch: list[_Decided]) -> None:
        for decided, result in zip(batch, self._results(batch), strict=True):
            self._keeper.drop(decided.decision.delivery)
            self.counts.add(result)
            log_settled(self._log, decided.decision, result, decided.milliseconds)

    def _results(self, batch: list[_Decided]) -> list[SettleResult]:
        try:
            return settle([decided.decision for decided in batch], self._consumer)
        except Exception as error:  # noqa: BLE001 - a bug in a transport must not end the settler: leases run out
            return [Failed(error=f"{type(error).__name__}: {error}")] * len(batch)

    # Draining

    def _drain(self, threads: list[threading.Thread]) -> None:
        """Let running handlers end within ``drain`` seconds, then abort them, then give back what still runs."""
        for _ in threads:
            self._waiting.put(None)
        if not _joined(threads, self._options.drain.total_seconds()):
            self._log.warning("handlers still run after %s; they are aborted", self._options.drain)
            self.abort()
            if not _joined(threads, _ABORT_GRACE_SECONDS):
                self._give_up()

    def _give_up(self) -> None:
        for held in self._keeper.held():
            self._log.error("a handler ignores its abort; its delivery is released: %s", held.delivery.id)
            self._decided.put(_Decided(decision=Release(delivery=held.delivery), milliseconds=0.0))


def _joined(threads: list[threading.Thread], seconds: float) -> bool:
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(timeout=max(0.0, until - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)


class _AsyncLoop:
    """An event loop of one handler thread, made when a first coroutine comes."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def __enter__(self) -> _AsyncLoop:
        return self

    def __exit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.close()

    def run(self, coroutine: Coroutine[Any, Any, Any], /) -> Any:
        """Run ``coroutine`` to its end."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)
