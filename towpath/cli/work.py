"""``towpath work``: a worker process."""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from towpath.cli.endpoint import MetricsOption
from towpath.cli.logs import start_logging
from towpath.cli.options import (
    BindingsOption,
    ManifestOption,
    TransportOption,
    opened,
    require_subscriptions,
    without_password,
)
from towpath.cli.output import JsonFlag, print_failure, print_json, print_sentence, stderr, telling
from towpath.cli.telemetry import telemetry
from towpath.errors import SubscriptionNotFound
from towpath.ports import Transport
from towpath.worker import Counts, Worker, WorkerOptions

_FORCED_END_SECONDS: Final = 30.0  # after an abort: longer than its graces, and than a transport gets to answer
_MOST_THREADS: Final = 1_000  # of one process, for one subscription
_LONGEST_SECONDS: Final = 30 * 86_400  # timers have an end

Names: TypeAlias = Annotated[
    list[str], typer.Argument(help="Subscriptions to serve; '*' serves all.", metavar="SUBSCRIPTION...")
]
Concurrency: TypeAlias = Annotated[
    int, typer.Option("--concurrency", min=1, max=_MOST_THREADS, help="Threads for each subscription.")
]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Handle what is due now, then exit.")]
Max: TypeAlias = Annotated[
    int | None, typer.Option("--max", min=1, help="Claim at most so many deliveries, then exit.")
]
IdleExit: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--idle-exit",
        min=0,
        max=_LONGEST_SECONDS,
        help="Exit after so many seconds with nothing to do.",
    ),
]
Drain: TypeAlias = Annotated[
    float,
    typer.Option(
        "--drain",
        min=0,
        max=_LONGEST_SECONDS,
        help="Seconds that running handlers get after SIGTERM before they are aborted.",
    ),
]


def work(
    subscriptions: Names,
    *,
    transport: TransportOption,
    concurrency: Concurrency = 8,
    once: Once = False,
    maximum: Max = None,
    idle_exit: IdleExit = None,
    drain: Drain = 30.0,
    metrics: MetricsOption = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run handlers for SUBSCRIPTIONs until stopped.

    SIGTERM or SIGINT drains: no new claim, running handlers end or are given back; a second signal aborts them at once.

    Example: towpath work documents.convert --transport sqlite:///dev.db
    """
    start_logging(as_json=as_json)
    options = WorkerOptions(
        concurrency=concurrency,
        drain=timedelta(seconds=drain),
        once=once,
        max_deliveries=maximum,
        idle_exit=None if idle_exit is None else timedelta(seconds=idle_exit),
    )
    say = _unsaid if as_json else _said
    with telemetry(metrics) as told, opened(transport, manifest, bindings) as open_transport:
        names = _chosen(subscriptions, open_transport, transport)
        worker = Worker(open_transport, names, options, told.observer)
        told.begin(worker.standing, open_transport)
        _tell_of_stopped(names, open_transport)
        _drain_on_signals(worker, options.drain, say)
        say(_serving(names, transport, concurrency))
        if told.address is not None:
            say(f"metrics on http://{told.address}/metrics")
        try:
            counts = worker.run()
            with telling(f"{counts.received} deliveries were handled"):
                _report(counts, as_json=as_json)
        finally:
            _leave_if_abandoned(worker)


def _chosen(asked: list[str], transport: Transport, url: str) -> list[str]:
    """The subscriptions to serve. Raises ``SubscriptionNotFound`` for what a worker cannot serve here."""
    policies = transport.policies()
    require_subscriptions(transport, url, policies)
    if "*" not in asked:
        for name in asked:
            if name not in policies:
                _refuse(name, transport)
        return list(dict.fromkeys(asked))
    chosen = sorted(name for name, policy in policies.items() if policy.handler is not None)
    if not chosen:
        raise SubscriptionNotFound("*", "this transport has no subscription with a handler that a worker may run")
    return chosen


def _tell_of_stopped(names: list[str], transport: Transport) -> None:
    policies = transport.policies()
    for name in names:
        if policies[name].status != "active":
            said = "%s is %s: nothing is claimed from it"
            logging.getLogger("towpath.worker").warning(said, name, policies[name].status)


def _refuse(name: str, transport: Transport) -> None:
    """Have the transport say why a worker cannot serve ``name``; a file's name came from a star without quotes."""
    try:
        transport.consumer(name).close()
    except SubscriptionNotFound as error:
        if not Path(name).exists():
            raise
        repair = "it is a file of this folder: quote the star, as in towpath work '*'"
        raise SubscriptionNotFound(name, repair) from error


def _serving(names: list[str], url: str, concurrency: int) -> str:
    threads = "1 thread" if concurrency == 1 else f"{concurrency} threads"
    each = " each" if len(names) > 1 else ""
    return f"serving {', '.join(names)} on {without_password(url)} ({threads}{each}); Ctrl-C drains"


def _said(sentence: str) -> None:
    stderr().print(sentence, soft_wrap=True, markup=False)


def _unsaid(_: str) -> None:
    """For programs, which read one JSON object a line."""


def _drain_on_signals(worker: Worker, drain: timedelta, say: Callable[[str], None]) -> None:
    """The first SIGTERM or SIGINT stops, the second aborts. Both are done by a thread of their own: a signal handler
    interrupts the main thread anywhere, even while that holds the lock which stopping takes.

    What is said is said aside, since nobody may be reading; and a process that an abort did not end, whatever it hangs
    on, is ended. A process that a handler forks has the signals' own meaning again: it has no such thread.
    """
    received: queue.SimpleQueue[int] = queue.SimpleQueue()  # its put is made to be interrupted by itself

    def obey() -> None:
        received.get()
        worker.stop()
        aside(f"draining: up to {drain.total_seconds():,g} s; press Ctrl-C again to abort")
        received.get()
        worker.abort()
        aside("aborting: what still runs is given back")
        time.sleep(_FORCED_END_SECONDS)
        os._exit(1)

    def aside(text: str) -> None:
        threading.Thread(target=say, args=(text,), daemon=True).start()

    threading.Thread(target=obey, name="towpath-signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: received.put(number))
    os.register_at_fork(after_in_child=_forget_signals)


def _forget_signals() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave_if_abandoned(worker: Worker) -> None:
    """End the process at once when something still runs in it: Python itself would wait for threads of executors."""
    if worker.abandoned:
        error = sys.exc_info()[1]
        if error is not None:
            print_failure(str(error))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0 if error is None else 1)


def _report(counts: Counts, *, as_json: bool) -> None:
    """What was done, in words."""
    if as_json:
        print_json({"received": counts.received, **counts.states})
        return
    words = {"released": "given back", "failed": "not settled", "lease_lost": "lost to another worker"}
    states = ", ".join(f"{count} {words.get(state, state)}" for state, count in sorted(counts.states.items()))
    print_sentence(f"{counts.received} received" + (f": {states}" if states else ""))
