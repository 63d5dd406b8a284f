"""One subscription's part of a worker: receives, runs handlers on threads, keeps leases, settles in batches, drains."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, NoReturn

from towpath.context import Progress
from towpath.dispatch import Control, Dispatcher
from towpath.errors import HandlerNotFound, SubscriptionNotFound, TransportRejected, TransportUnavailable, Unsupported
from towpath.leases import HeldLease, LeaseKeeper
from towpath.loops import AsyncLoop
from towpath.message import utc_now
from towpath.pace import Pace, round_number
from towpath.permits import Permit, Permits
from towpath.ports import Transport
from towpath.settlement import Decision, Delivery, Release, SubscriptionPolicy
from towpath.settling import Counts, Settling, joined
from towpath.stopping import Stop
from towpath.terms import Terms

_LONG_WAIT: Final = timedelta(minutes=10)  # of a receive that a stop ends without harm
_RECEIVE_WAIT: Final = timedelta(seconds=2)  # of one that a stop has to wait for, or that keeps claims from others
_SHORT_POLL: Final = timedelta(seconds=1)  # SQS answers a poll without a wait from some of its servers only
_FREE_SECONDS: Final = 0.2  # of a wait for a free thread
_LATE_SECONDS: Final = 5.0  # what was claimed ahead waits no longer for a thread: another worker may have one
_LOOK_SECONDS: Final = 0.05  # between two looks at what others do
_STRAY_CODE: Final = 70  # of the copy of a process that is ended

# What ends one subscription's part, and none of the others.
OWN_FAULTS: Final = (HandlerNotFound, SubscriptionNotFound, TransportRejected, Unsupported)

Renew = Callable[[Dispatcher, SubscriptionPolicy], Dispatcher]


class Service:
    """Serves one subscription until it or the worker stops, or the options say that it is done; then drains."""

    def __init__(self, transport: Transport, dispatcher: Dispatcher, terms: Terms, renew: Renew) -> None:
        """``renew`` makes the dispatcher for another policy; it raises ``HandlerNotFound`` or ``Unsupported``."""
        self.name = dispatcher.policy.subscription
        self.fault: BaseException | None = None
        self.trouble: TransportUnavailable | None = None  # while nothing was ever received
        self.ended = threading.Event()
        self.gave_up = False  # set when a handler was left running
        self._dispatcher = dispatcher
        self._renew = renew
        self._terms = terms
        self._options = terms.options
        self._allowance = terms.allowance
        self._places = terms.places
        self._stopping = Stop()
        self._aborting = threading.Event()
        self._log = logging.getLogger("towpath.delivery")
        self._consumer = transport.consumer(self.name)
        self._keeper = LeaseKeeper(self._consumer, time.monotonic, self._log, self._give_back)
        self._settling = Settling(self._consumer, self._keeper, self._aborting, self._stop_on, terms)
        self._stopping.then(self._consumer.stop_receiving)
        terms.stopping.then(self._stopping.set)
        self._capabilities = transport.capabilities
        self._has_answered = False
        self._permits = Permits(terms, self._stopping.is_set)
        self._pace = Pace(time.monotonic)
        self._enough = 0  # while so many deliveries wait for a thread, no more are claimed
        self._received = 0
        self._is_careful = False  # what was tried before may be what ended the process that held it
        self._handled = [0] * self._options.concurrency  # by each thread
        self._pid = os.getpid()
        self._freed = threading.Event()
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

    @property
    def in_flight(self) -> int:
        """How many deliveries are in its hands."""
        return len(self._keeper.held())

    @property
    def is_in_trouble(self) -> bool:
        """Whether the transport did not answer the last time that it was asked for deliveries."""
        return self._terms.outages.is_met_by(self.name)

    def stop(self) -> None:
        """Claim nothing more and drain, while the worker goes on."""
        self._stopping.set()

    def abort(self) -> None:
        """Ask the running handlers to stop, and wait for them no longer than that takes."""
        self._aborting.set()
        self._keeper.abort_all("shutdown")

    def _serve(self) -> None:
        self._keeper.start()
        self._settling.start(self.name)
        threads = [
            threading.Thread(target=self._handle_all, args=(i,), name=f"{self.name}-handler-{i}", daemon=True)
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
        except BaseException as error:  # noqa: BLE001 - kept, and raised by Worker.run after the drain
            self._stop_on(error)

    def _stop_on(self, error: BaseException) -> None:
        self.fault = self.fault or error
        self._stopping.set()
        if not isinstance(error, OWN_FAULTS):
            self._terms.stopping.set()

    # Receiving

    def _receive_all(self) -> None:
        idle_since = time.monotonic()
        received: list[Delivery] | None = None
        while not self._stopping.is_set():
            busy = self._keeper.busy  # before the receive: what is settled during it may be due again
            wait = self._wait(idle_since, busy=busy, quiet=not busy and not received)
            received = self._receive(wait, found_nothing=received == [])
            if received or busy:
                idle_since = time.monotonic()
            elif self._is_done(received, idle_since):
                return
            if busy and self._options.once and received == []:
                self._stopping.wait(_LOOK_SECONDS)  # a handler that runs may yet make something due

    def _wait(self, idle_since: float, *, busy: bool, quiet: bool) -> timedelta:
        """How long a receive may wait: while nobody else needs its claims, and nothing else is to be noticed.

        One that a stop leaves behind may yet bring something: also what this worker gives back then, if it is ``busy``,
        and the more probably the less ``quiet`` it is.
        """
        if self._options.once or self.is_in_trouble:  # an end of the trouble is to be noticed at once
            return timedelta(0) if "exact_backlog" in self._capabilities else _SHORT_POLL
        if self._allowance.is_limited or not (quiet or "receive_ends_at_stop" in self._capabilities):
            return _RECEIVE_WAIT
        if self._options.idle_exit is None:
            return _LONG_WAIT
        left = self._options.idle_exit - timedelta(seconds=time.monotonic() - idle_since)
        return _RECEIVE_WAIT if busy else max(left, timedelta(0))

    def _receive(self, wait: timedelta, *, found_nothing: bool) -> list[Delivery] | None:
        """Have the handler threads in work. ``None`` when nothing was asked for, or no answer came."""
        wanted = self._wanted()
        if wanted == 0 or self._stopping.is_set():  # it may have waited for a free one
            return None
        permit = self._permits.ask(wanted, wait, found_nothing=found_nothing)
        if permit.count == 0 or self._stopping.is_set():  # it may have waited for a place
            self._permits.used(permit, 0)
            self._stopping.wait(_LOOK_SECONDS)  # the claims that are left are others' to make
            return None
        try:
            deliveries = self._consumer.receive(permit.count, permit.wait)
        except TransportUnavailable as error:
            self._permits.used(permit, 0)
            self._await_answer(error)
            return None
        except BaseException:
            self._permits.used(permit, 0)
            raise
        self._terms.outages.answered(self.name)
        self._has_answered, self.trouble = True, None
        self._permits.used(permit, len(deliveries))
        self._start(deliveries, self._placed(permit, len(deliveries)))
        if not deliveries and self._allowance.is_limited:
            self._stopping.wait(2 * _LOOK_SECONDS)  # others can take the claims that nothing came for
        return deliveries

    def _await_answer(self, error: TransportUnavailable) -> None:
        """Wait until it is time to try again; raises ``error`` where there is nothing to wait for."""
        if self._options.once:
            raise error  # the caller has to know
        if not self._has_answered:
            self.trouble = error
        self._stopping.wait(self._terms.outages.failed(self.name, "receive", error))

    def _placed(self, permit: Permit, claimed: int) -> int:
        """How many of those ``claimed`` may run now; waits a while for a place."""
        until = time.monotonic() + _LATE_SECONDS
        return self._permits.placed(permit, claimed, lambda: self._stopping.is_set() or time.monotonic() > until)

    def _wanted(self) -> int:
        """How many deliveries to claim now: for the threads that are free, and some ahead. Waits a while for a first.

        What is claimed ahead is claimed in few calls: not before half of it is used up.
        """
        self._freed.clear()
        ahead = self._ahead()
        self._enough = max(ahead - ahead // 2, self._options.concurrency)
        wanted = self._free() + ahead
        if wanted <= ahead // 2:
            self._freed.wait(_FREE_SECONDS)
            wanted = self._free() + ahead
        return round_number(wanted) if wanted > ahead // 2 else 0

    def _free(self) -> int:
        """How many threads are free; negative by what waits for one."""
        return self._options.concurrency - self._received + sum(self._handled)

    def _ahead(self) -> int:
        """How many may wait for a thread: only of what can be given back without harm, and is nobody else's to claim.

        A process that dies takes an attempt of each delivery that it holds, so where there is just one attempt, or the
        last claim brought more that were tried before than others, none may.
        """
        ahead = self._pace.ahead(sum(self._handled))
        if self._is_careful or self._allowance.is_limited or self._places.is_limited:
            return 0
        if self._dispatcher.policy.max_attempts == 1:
            return 0
        return ahead if "release_refunds_attempt" in self._capabilities else 0

    def _start(self, deliveries: list[Delivery], placed: int) -> None:
        """Have so many run as are ``placed``, keep ahead what may be, and give back the others."""
        self._settling.counts.received += len(deliveries)
        try:
            self._follow_policy()
        except OWN_FAULTS:
            self._places.give_back(placed)
            self._release(deliveries)
            raise
        self._release(deliveries[placed:])
        free = min(max(self._free(), 0), placed)
        ahead = [delivery for delivery in deliveries[free:placed] if delivery.attempt == 1]
        self._have_handled(self._keeper.hold(deliveries[:free]))
        self._have_handled(self._keeper.hold(ahead, time.monotonic() + _LATE_SECONDS))
        self._release([delivery for delivery in deliveries[free:placed] if delivery.attempt > 1])
        self._is_careful = sum(delivery.attempt > 1 for delivery in deliveries) * 2 > len(deliveries)

    def _follow_policy(self) -> None:
        """Go by the policy that the last claim went by. Raises one of ``OWN_FAULTS`` when its handler does not load."""
        policy = self._consumer.policy
        if policy is not self._dispatcher.policy and policy != self._dispatcher.policy:
            self._dispatcher = self._renew(self._dispatcher, policy)

    def _have_handled(self, leases: Sequence[HeldLease]) -> None:
        self._received += len(leases)
        for held in leases:
            self._waiting.put(held)

    def _release(self, deliveries: Iterable[Delivery]) -> None:
        """Give back at once what was just claimed."""
        for held in self._keeper.hold(deliveries):
            if self._keeper.decide(held):
                self._give_back(held)

    def _is_done(self, received: list[Delivery] | None, idle_since: float) -> bool:
        """Whether there is no more to do, when nothing is in hand and nothing came."""
        limit = self._options.idle_exit
        if limit is not None and time.monotonic() - idle_since >= limit.total_seconds():
            return True
        return self._allowance.used_up if received is None else self._options.once

    # Handling

    def _handle_all(self, number: int) -> None:
        with AsyncLoop() as loop:
            while (held := self._waiting.get()) is not None:
                try:
                    self._handle(held, loop)
                except BaseException as error:  # noqa: BLE001 - as everywhere, but without a generator for each
                    self._stop_on(error)
                self._places.give_back()
                self._settling.await_room()  # when settling lags, claim no more: what is claimed has to be settled
                self._handled[number] += 1
                if self._waiting.qsize() <= self._enough and not self._freed.is_set():
                    self._freed.set()

    def _handle(self, held: HeldLease, loop: AsyncLoop) -> None:
        started = time.monotonic()

        def settle_later(decision: Decision) -> None:
            if os.getpid() != self._pid:
                self._end_copy(held)
            if self._keeper.decide(held):
                self._settling.put(held, decision, (time.monotonic() - started) * 1000)

        def beat(progress: Progress) -> bool:
            return self._keeper.beat(held, progress)

        if held.abort.reason is not None or self._stopping.is_set():  # it waited until the worker was told to stop
            settle_later(Release(delivery=held.delivery))
            return
        if not self._keeper.begin(held):
            return
        limit = self._dispatcher.policy.max_processing_seconds
        deadline = None if limit is None else utc_now() + timedelta(seconds=limit)
        held.waited = waited = started - held.held_since
        control = Control(abort=held.abort, beat=beat, deadline=deadline, run_async=loop.run, received_ago=waited)
        self._dispatcher.dispatch(held.delivery, control, settle_later)

    def _end_copy(self, held: HeldLease) -> NoReturn:
        """A handler forked and returned in both processes. The copy has no thread that settles, and would never end."""
        self._log.error("a handler forked this process, and returned in the copy, which is ended: %s", held.delivery.id)
        os._exit(_STRAY_CODE)

    def _give_back(self, held: HeldLease) -> None:
        """Of a delivery that is decided by now."""
        self._settling.put(held, Release(delivery=held.delivery), 0.0)

    # Draining

    def _drain(self, threads: list[threading.Thread]) -> None:
        """Let running handlers end within ``drain`` seconds, then abort them, then give back what still runs."""
        if self._stopping.is_set():
            self._release_waiting()
        for _ in threads:
            self._waiting.put(None)
        if not joined(threads, self._options.drain.total_seconds(), self._aborting.is_set):
            self._log.warning("handlers still run; they are aborted")
            self.abort()
            if not joined(threads, self._options.abort_grace.total_seconds()):
                self._give_up()

    def _release_waiting(self) -> None:
        """Give back what no thread has taken yet: those that run may take long."""
        with suppress(queue.Empty):
            while (held := self._waiting.get_nowait()) is not None:
                self._places.give_back()
                if self._keeper.decide(held):
                    self._give_back(held)

    def _give_up(self) -> None:
        for held in self._keeper.held():
            if self._keeper.decide(held):
                self.gave_up = True
                self._log.error("a handler ignores its abort; its delivery is released: %s", held.delivery.id)
                self._settling.put(held, Release(delivery=held.delivery), 0.0)
