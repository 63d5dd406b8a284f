"""``towpath work``: a worker process."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, TypeAlias

import typer

from towpath.cli.logs import start_logging
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, opened, require_subscriptions
from towpath.cli.output import JsonFlag, console, print_json
from towpath.errors import SubscriptionNotFound
from towpath.settlement import SubscriptionPolicy
from towpath.worker import Counts, Worker, WorkerOptions

Names: TypeAlias = Annotated[
    list[str], typer.Argument(help="Subscriptions to serve; '*' serves all.", metavar="SUBSCRIPTION...")
]
Concurrency: TypeAlias = Annotated[int, typer.Option("--concurrency", min=1, help="Threads for each subscription.")]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Handle what is due now, then exit.")]
Max: TypeAlias = Annotated[
    int | None, typer.Option("--max", min=1, help="Claim at most so many deliveries, then exit.")
]
IdleExit: TypeAlias = Annotated[
    float | None, typer.Option("--idle-exit", min=0, help="Exit after so many seconds with nothing to do.")
]
Drain: TypeAlias = Annotated[
    float,
    typer.Option("--drain", min=0, help="Seconds that running handlers get after SIGTERM before they are aborted."),
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
    with opened(transport, manifest, bindings) as open_transport:
        policies = open_transport.policies()
        require_subscriptions(open_transport, transport, policies)
        worker = Worker(open_transport, _chosen(subscriptions, policies), options)
        _drain_on_signals(worker)
        counts = worker.run()
    _report(counts, as_json=as_json)


def _chosen(names: list[str], policies: Mapping[str, SubscriptionPolicy]) -> list[str]:
    if names != ["*"]:
        return list(dict.fromkeys(names))
    chosen = sorted(name for name, policy in policies.items() if policy.handler is not None)
    if not chosen:
        raise SubscriptionNotFound("*", "this transport has no subscription with a handler; apply a manifest with one")
    return chosen


def _drain_on_signals(worker: Worker) -> None:
    """The first SIGTERM or SIGINT stops, the second aborts. Both are done by a thread of their own: a signal handler
    interrupts the main thread anywhere, even while that holds the lock which stopping takes.
    """
    received: queue.SimpleQueue[int] = queue.SimpleQueue()  # its put is made to be interrupted by itself

    def obey() -> None:
        received.get()
        worker.stop()
        received.get()
        worker.abort()

    threading.Thread(target=obey, name="towpath-signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _frame: received.put(number))


def _report(counts: Counts, *, as_json: bool) -> None:
    if as_json:
        print_json({"received": counts.received, **counts.states})
        return
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.states.items()))
    console().print(f"{counts.received} received" + (f": {states}" if states else ""))
