"""One subscription's part of a worker: receives, runs handlers on threads, keeps leases, settles in batches, drains."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from towpath.context import Progress
from towpath.dispatch import Control, Dispatcher
from towpath.errors import SubscriptionNotFound, TransportUnavailable
from towpath.leases import HeldLease, LeaseKeeper
from towpath.message import utc_now
from towpath.ports import Transport
from towpath.settlement import Decision, Delivery, Release
from towpath.settling import Counts, Settling, joined
from towpath.stopping import Stop

_LONG_WAIT: Final = timedelta(minutes=10)  # of a receive that a stop ends
_RECEIVE_WAIT: Final = timedelta(seconds=2)  # of one that a stop does not end, or that keeps claims from others
_SHORT_POLL: Final = timedelta(seconds=1)  # SQS answers a poll without a wait from some of its servers only
_LOOK_SECONDS: Final = 0.05  # between two looks at what others do
_ERROR_PAUSE_SECONDS: Final = (0.5, 30.0)  # first and longest pause after a transport that does not answer


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. ``concurrency`` counts threads for each subscription.

    ``once`` ends the worker when nothing is due; ``max_deliveries`` after so many claims over all subscriptions;
    ``idle_exit`` after so long with nothing to do. Then handlers that still run may end. ``drain`` is what they get
    after a stop before they are aborted, ``abort_grace`` what they get then to notice it.
    """

    concurrency: int = 8
    drain: timedelta = timedelta(seconds=30)
    abort_grace: timedelta = timedelta(seconds=5)
    once: bool = False
    max_deliveries: int | None = None
    idle_exit: timedelta | None = None


class Allowance:
    """How many deliveries a worker's services may claim between them; ``None`` for any number. Thread-safe."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._asked_for = 0
        self._claimed = 0
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        """Ask for ``wanted`` claims; answers how many may be made. Say by ``made`` how many were."""
        with self._lock:
            granted = wanted if self._most is None else min(wanted, self._most - self._claimed - self._asked_for)
            self._asked_for += granted
            return granted

    def made(self, granted: int, claimed: int) -> None:
        """Of ``granted`` claims so many were made; the others can be taken again."""
        with self._lock:
            self._asked_for -= granted
            self._claimed += claimed

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._most is not None

    @property
    def used_up(self) -> bool:
        """Whether all were made."""
        return self._most is not None and self._claimed >= self._most


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all services of one worker go by: its options, the claims that are left, and the word to stop."""

    options: WorkerOptions
    allowance: Allowance
    stopping: Stop


class Service:
    """Serves one subscription until the worker stops or the options say that it is done; then drains."""

    def __init__(self, transport: Transport, dispatcher: Dispatcher, terms: Terms) -> None:
        self.name = dispatcher.policy.subscription
        self.fault: BaseException | None = None
        self.ended = threading.Event()
        self.gave_up = False  # set when a handler was left running
        self._dispatcher = dispatcher
        self._options = terms.options
        self._allowance = terms.allowance
        self._stopping = terms.stopping
        self._aborting = threading.Event()
        self._log = logging.getLogger("towpath.delivery")
        self._consumer = transport.consumer(self.name)
        self._keeper = LeaseKeeper(self._consumer, time.monotonic, self._log)
        self._settling = Settling(self._consumer, self._keeper, self._aborting, self._stop_on)
        self._stopping.then(self._consumer.stop_receiving)
        self._capabilities = transport.capabilities
        self._pause = _ERROR_PAUSE_SECONDS[0]
        self._free = threading.Semaphore(self._options.concurrency)
        self._waiting: queue.SimpleQueue[HeldLease | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Receive until stopped or done, then drain. Raises nothing: what went wrong is in ``fault``."""
        try:
            with self._stopping_on_fault():
                self._serve()
            with self._stopping_on_fault():
                self._keeper.close()
                self._consumer.close()
        finally:
            self.ended.set()

    @property
    def counts(self) -> Counts:
        """What was done so far."""
        return self._settling.counts

    def abort(self) -> None:
        """Ask the running handlers to stop, and wait for them no longer than that takes."""
        self._aborting.set()
        self._keeper.abort_all("shutdown")

    def _serve(self) -> None:
        self._keeper.start()
        self._settling.start(self.name)
        threads = [
            threading.Thread(target=self._handle_all, name=f"{self.name}-handler-{i}", daemon=True)
            for i in range(self._options.concurrency)
        ]
        for thread in threads:
            thread.start()
        with self._stopping_on_fault():
            self._receive_all()
        self._drain(threads)
        self._settling.end(self._options.drain + self._options.abort_grace, self._options.abort_grace)

    @contextmanager
    def _stopping_on_fault(self) -> Iterator[None]:
        try:
            yield
        except SubscriptionNotFound as error:  # taken away under the worker, which may serve others
            self._log.error("%s; the others go on", error)
            self.fault = self.fault or error
        except BaseException as error:  # noqa: BLE001 - kept, and raised by Worker.run after the drain
            self._stop_on(error)

    def _stop_on(self, error: BaseException) -> None:
        self.fault = self.fault or error
        self._stopping.set()

    # Receiving

    def _receive_all(self) -> None:
        idle_since = time.monotonic()
        while not self._stopping.is_set():
            busy = self._keeper.busy  # before the receive: what is settled during it may be due again
            received = self._receive(self._wait(idle_since, busy=busy))
            if received or busy:
                idle_since = time.monotonic()
            elif self._is_done(received, idle_since):
                return
            if busy and self._options.once and received == []:
                self._stopping.wait(_LOOK_SECONDS)  # a handler that runs may yet make something due

    def _wait(self, idle_since: float, *, busy: bool) -> timedelta:
        """How long a receive may wait: while nobody else needs its claims, and nothing else is to be noticed."""
        if self._options.once:
            return timedelta(0) if "exact_backlog" in self._capabilities else _SHORT_POLL
        if self._allowance.is_limited or "receive_ends_at_stop" not in self._capabilities:
            return _RECEIVE_WAIT
        if self._options.idle_exit is None:
            return _LONG_WAIT
        left = self._options.idle_exit - timedelta(seconds=time.monotonic() - idle_since)
        return _RECEIVE_WAIT if busy else max(left, timedelta(0))

    def _receive(self, wait: timedelta) -> list[Delivery] | None:
        """Fill the free handler threads. ``None`` when nothing was asked for, or no answer came."""
        free = self._take_free()
        granted = 0 if self._stopping.is_set() else self._allowance.take(free)  # it may have waited for a free one
        self._give_back(free - granted)
        if granted == 0:
            if free > 0:
                self._stopping.wait(_LOOK_SECONDS)  # the claims that are left are others' to make
            return None
        try:
            deliveries = self._consumer.receive(granted, wait)
        except TransportUnavailable as error:
            self._allowance.made(granted, 0)
            self._give_back(granted)
            if self._options.once:
                raise  # there is nothing to wait for: the caller has to know
            self._log.error("cannot receive, trying again in %.1f s: %s", self._pause, error)
            self._stopping.wait(self._pause)
            self._pause = min(self._pause * 2, _ERROR_PAUSE_SECONDS[1])
            return None
        self._pause = _ERROR_PAUSE_SECONDS[0]
        self._allowance.made(granted, len(deliveries))
        self._give_back(granted - len(deliveries))
        self._start(deliveries)
        if not deliveries and self._allowance.is_limited:
            self._stopping.wait(2 * _LOOK_SECONDS)  # others can take the claims that nothing came for
        return deliveries

    def _take_free(self) -> int:
        """Wait for a free handler thread; answer how many are free, all of them now taken for the next receive."""
        if not self._free.acquire(timeout=0.2):
            return 0
        free = 1
        while free < self._options.concurrency and self._free.acquire(blocking=False):
            free += 1
        return free

    def _give_back(self, count: int) -> None:
        if count > 0:
            self._free.release(count)

    def _start(self, deliveries: list[Delivery]) -> None:
        if self._dispatcher.policy != self._consumer.policy:  # another one was applied
            self._dispatcher = replace(self._dispatcher, policy=self._consumer.policy)
        self._settling.counts.received += len(deliveries)
        for delivery in deliveries:
            self._waiting.put(self._keeper.hold(delivery))

    def _is_done(self, received: list[Delivery] | None, idle_since: float) -> bool:
        """Whether there is no more to do, when nothing is in hand and nothing came."""
        limit = self._options.idle_exit
        if limit is not None and time.monotonic() - idle_since >= limit.total_seconds():
            return True
        return self._allowance.used_up if received is None else self._options.once

    # Handling

    def _handle_all(self) -> None:
        with _AsyncLoop() as loop:
            while (held := self._waiting.get()) is not None:
                with self._stopping_on_fault():
                    self._handle(held, loop)
                self._settling.await_room()  # when settling lags, claim no more: what is claimed has to be settled
                self._free.release()

    def _handle(self, held: HeldLease, loop: _AsyncLoop) -> None:
        started = time.monotonic()

        def settle_later(decision: Decision) -> None:
            if self._keeper.decide(held):
                self._settling.put(held, decision, (time.monotonic() - started) * 1000)

        def beat(progress: Progress) -> bool:
            return self._keeper.beat(held, progress)

        if held.abort.reason is not None or self._stopping.is_set():  # it waited until the worker was told to stop
            settle_later(Release(delivery=held.delivery))
            return
        self._keeper.started(held)
        limit = self._dispatcher.policy.max_processing_seconds
        deadline = None if limit is None else utc_now() + timedelta(seconds=limit)
        waited = timedelta(seconds=time.monotonic() - held.held_since)
        control = Control(abort=held.abort, beat=beat, deadline=deadline, run_async=loop.run, received_ago=waited)
        self._dispatcher.dispatch(held.delivery, control, settle_later)

    # Draining

    def _drain(self, threads: list[threading.Thread]) -> None:
        """Let running handlers end within ``drain`` seconds, then abort them, then give back what still runs."""
        for _ in threads:
            self._waiting.put(None)
        if not joined(threads, self._options.drain.total_seconds(), self._aborting.is_set):
            self._log.warning("handlers still run; they are aborted")
            self.abort()
            if not joined(threads, self._options.abort_grace.total_seconds()):
                self._give_up()

    def _give_up(self) -> None:
        for held in self._keeper.held():
            if self._keeper.decide(held):
                self.gave_up = True
                self._log.error("a handler ignores its abort; its delivery is released: %s", held.delivery.id)
                self._settling.put(held, Release(delivery=held.delivery), 0.0)


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
