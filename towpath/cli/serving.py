"""One worker process: opens the transport, runs the worker, obeys signals, and tells how far it is."""

from __future__ import annotations

import logging
import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from towpath.cli.link import Starter
from towpath.cli.live import LiveLine
from towpath.cli.options import connected, is_file, require_subscriptions
from towpath.cli.output import print_failure
from towpath.errors import SubscriptionNotFound, TowpathError, TransportUnavailable
from towpath.observing import Observer
from towpath.outages import Outages
from towpath.ports import Transport
from towpath.worker import Counts, Worker, WorkerOptions

_FORCED_END_SECONDS: Final = 30.0  # after an abort: longer than its graces, and than a transport gets to answer
_TELL_SECONDS: Final = 0.5
_OPENING: Final = "opening"
_COUNT_SECONDS: Final = 2.0  # between two counts of what is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """The transport that a worker is to open."""

    url: str
    manifest: Path | None
    bindings: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ears:
    """Who hears of a worker: ``say`` takes sentences for people, ``live`` shows counts to them, and on the address
    ``metrics`` programs ask.
    """

    say: Callable[[str], None]
    live: LiveLine
    metrics: str | None


@contextmanager
def opened_patiently(where: Where, options: WorkerOptions) -> Iterator[Transport]:
    """The transport, once it answers. Raises ``TransportUnavailable`` where there is nothing to wait for: for
    ``--once``, for a file, and when the worker's time is over.
    """
    transport = _opened(where, options)
    try:
        yield transport
    finally:
        transport.close()


def _opened(where: Where, options: WorkerOptions) -> Transport:
    outages = Outages(logging.getLogger("towpath.worker"), time.monotonic)
    limits = [limit.total_seconds() for limit in (options.idle_exit, options.max_duration) if limit is not None]
    ends_at = time.monotonic() + min(limits, default=math.inf)
    while True:
        try:
            transport = connected(where.url, where.manifest, where.bindings)
        except TransportUnavailable as error:
            left = ends_at - time.monotonic()
            if options.once or is_file(where.url) or left <= 0:
                raise
            time.sleep(min(outages.failed(_OPENING, "open the transport", error), left))
        else:
            outages.answered(_OPENING)
            return transport


def worker_of(
    names: list[str],
    transport: Transport,
    where: Where,
    options: WorkerOptions,
    *,
    starter: Starter | None = None,
    observer: Observer | None = None,
) -> Worker:
    """The worker; a name that is a file's came from a star without quotes."""
    require_subscriptions(transport, where.url, transport.policies())
    try:
        return Worker(transport, names, options, allowance=starter, observer=observer)
    except SubscriptionNotFound as error:
        if not Path(error.name).exists():
            raise
        repair = "it is a file of this folder: quote the star, as in towpath work '*'"
        raise SubscriptionNotFound(error.name, repair) from error


class Signals:
    """The first SIGTERM or SIGINT stops, the second aborts. Both are done by a thread of their own: a signal handler
    interrupts the main thread anywhere, even while that holds the lock which stopping takes.

    Before there is a worker nothing is held, and the process ends at once. What is said is said aside, since nobody may
    be reading; and a process that an abort did not end, whatever it hangs on, is ended. A process that a handler forks
    has the signals' own meaning again: it has no such thread.
    """

    def __init__(self, say: Callable[[str], None], drain_seconds: float) -> None:
        self.worker: Worker | None = None
        self._say = say
        self._drain_seconds = drain_seconds
        self._received: queue.SimpleQueue[int] = queue.SimpleQueue()  # its put is made to be interrupted by itself

    def obey(self) -> None:
        """Take them from now on."""
        threading.Thread(target=self._obey, name="towpath-signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _frame: self._received.put(number))
        os.register_at_fork(after_in_child=_forget_signals)

    def pretend(self) -> None:
        """As if one had come."""
        self._received.put(signal.SIGTERM)

    def _obey(self) -> None:
        self._received.get()
        if self.worker is None:
            os._exit(0)
        self.worker.stop()
        self._aside(draining(self._drain_seconds))
        self._received.get()
        threading.Thread(target=_end_at_last, daemon=True).start()
        self.worker.abort()
        self._aside(aborting())

    def _aside(self, text: str) -> None:
        threading.Thread(target=self._say, args=(text,), daemon=True).start()


def _end_at_last() -> None:
    time.sleep(_FORCED_END_SECONDS)
    os._exit(1)


def aborting() -> str:
    """What is said at the second."""
    return "aborting: what still runs is given back"


def draining(seconds: float) -> str:
    """What is said at the first signal."""
    return f"draining: up to {seconds:,g} s; press Ctrl-C again to abort"


def _forget_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def telling_progress(
    worker: Worker, tell: Callable[[Counts, int | None], None], left: Callable[[], int | None]
) -> Iterator[None]:
    """Tell how far ``worker`` is, twice a second and at the end; what is left is counted every 2 s."""
    ended = threading.Event()

    def keep_telling() -> None:
        known, counted_at = left(), time.monotonic()
        tell(worker.counts, known)
        while not ended.wait(_TELL_SECONDS):
            if time.monotonic() - counted_at >= _COUNT_SECONDS:
                known, counted_at = left(), time.monotonic()
            tell(worker.counts, known)

    thread = threading.Thread(target=keep_telling, name="towpath-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        tell(worker.counts, left())


def left_of(
    transport: Transport, worker: Worker, options: WorkerOptions, *, is_shown: bool
) -> Callable[[], int | None]:
    """Counts what is left for ``--max`` and ``--once``, where somebody looks and the transport knows exactly."""
    most = options.max_deliveries
    if most is not None:
        return lambda: max(most - worker.counts.received, 0)
    if not (is_shown and options.once and "exact_backlog" in transport.capabilities):
        return lambda: None

    def waiting() -> int | None:
        served = worker.states
        try:
            return sum(row.pending for row in transport.operator().stats() if row.subscription in served)
        except TowpathError:
            return None

    return waiting


@contextmanager
def leaving_if_abandoned(worker: Worker) -> Iterator[None]:
    """End the process at once when something still runs in it: Python itself would wait for threads of executors."""
    try:
        yield
    finally:
        if worker.abandoned:
            _leave(sys.exc_info()[1])


def _leave(error: BaseException | None) -> None:
    if error is not None:
        print_failure(str(error))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0 if error is None else 1)
