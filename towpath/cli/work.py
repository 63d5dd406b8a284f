"""``towpath work``: a worker, in one process or in several."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import typer

from towpath.cli.endpoint import MetricsOption
from towpath.cli.known import subscriptions_of_manifest
from towpath.cli.link import Starter
from towpath.cli.live import LiveLine
from towpath.cli.logs import start_logging
from towpath.cli.options import BindingsOption, ManifestOption, TransportOption, connected, without_password
from towpath.cli.output import JsonFlag, print_document, print_sentence, stderr, telling
from towpath.cli.processes import Processes, ProcessOptions, processes_environment
from towpath.cli.serving import (
    Ears,
    Signals,
    Where,
    aborting,
    draining,
    leaving_if_abandoned,
    left_of,
    opened_patiently,
    telling_progress,
    worker_of,
)
from towpath.cli.telemetry import telemetry, telemetry_of_processes
from towpath.worker import Counts, WorkerOptions

_MOST_THREADS: Final = 1_000  # of one process, for one subscription
_MOST_PROCESSES: Final = 1_000
_LONGEST_SECONDS: Final = 30 * 86_400  # timers have an end

Names: TypeAlias = Annotated[
    list[str],
    typer.Argument(
        help="Subscriptions to serve; '*' serves all.",
        metavar="SUBSCRIPTION",
        autocompletion=subscriptions_of_manifest,
    ),
]
Concurrency: TypeAlias = Annotated[
    int, typer.Option("--concurrency", min=1, max=_MOST_THREADS, help="Threads for each subscription.")
]
ProcessCount: TypeAlias = Annotated[
    int, typer.Option("--processes", min=1, max=_MOST_PROCESSES, help="Worker processes; one that dies is replaced.")
]
MaxInFlight: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-in-flight", min=1, help="Run at most so many deliveries at a time, over all subscriptions of a process."
    ),
]
Once: TypeAlias = Annotated[bool, typer.Option("--once", help="Handle what is due now, then exit.")]
Max: TypeAlias = Annotated[
    int | None, typer.Option("--max", min=1, help="Claim at most so many deliveries, over all processes, then exit.")
]
MaxDuration: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--max-duration", min=0, max=_LONGEST_SECONDS, help="Drain after so many seconds, whatever is left, then exit."
    ),
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

Say = Callable[[str], None]


def work(
    context: typer.Context,
    subscriptions: Names,
    *,
    transport: TransportOption,
    concurrency: Concurrency = 8,
    processes: ProcessCount = 1,
    max_in_flight: MaxInFlight = None,
    once: Once = False,
    maximum: Max = None,
    max_duration: MaxDuration = None,
    idle_exit: IdleExit = None,
    drain: Drain = 30.0,
    metrics: MetricsOption = None,
    manifest: ManifestOption = None,
    bindings: BindingsOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run handlers for SUBSCRIPTIONs until stopped.

    SIGTERM or SIGINT drains: no new claim, running handlers end or are given back; a second signal aborts them at once.

    Exit 0 when stopped, done, empty or out of time; 1 when nothing could run (no subscription that can be served, a
    transport that refuses or never answered) or a fault ended it; 2 for wrong use or a wrong file. --json prints the
    counts as one object at the end, and each line of the log as one.

    Example: towpath work documents.convert --transport sqlite:///dev.db
    """
    handler = start_logging(as_json=as_json)
    options = WorkerOptions(
        concurrency=concurrency,
        drain=timedelta(seconds=drain),
        once=once,
        max_deliveries=maximum,
        max_duration=_seconds(max_duration),
        idle_exit=_seconds(idle_exit),
        max_in_flight=max_in_flight,
    )
    where = Where(url=transport, manifest=manifest, bindings=bindings)
    ears = Ears(say=_unsaid if as_json else _said, live=LiveLine.wanted(handler, as_json=as_json), metrics=metrics)
    starter = Starter.of_this_process(os.environ, is_limited=maximum is not None)
    if starter is not None:
        _serve_for(starter, subscriptions, where, options)
        return
    report = partial(_report, as_json=as_json)
    if processes == 1:
        _serve(subscriptions, where, options, ears, report)
        return
    arguments = ["work", *_arguments(options, where), *(["--json"] if as_json else []), "--", *subscriptions]
    several = ProcessOptions(
        count=processes,
        arguments=arguments,
        environment=processes_environment(transport, debug=bool(context.obj)),
        max_deliveries=maximum,
        max_duration=options.max_duration,
    )
    code = _run_several(several, where, options, ears, report)
    if code:
        raise typer.Exit(code)


def _seconds(given: float | None) -> timedelta | None:
    return None if given is None else timedelta(seconds=given)


# --- In this process -----------------------------------------------------------------------------------------------


def _serve(
    names: list[str], where: Where, options: WorkerOptions, ears: Ears, report: Callable[[Counts], None]
) -> None:
    """Work until it is over, and tell people or programs."""
    signals = Signals(ears.say, options.drain.total_seconds())
    signals.obey()
    with telemetry(ears.metrics) as told, opened_patiently(where, options) as transport:
        worker = signals.worker = worker_of(names, transport, where, options, observer=told.observer)
        told.begin(worker.standing, transport)
        ears.say(_serving(list(worker.states), where.url, options, 1) + told.where)
        left = left_of(transport, worker, options, is_shown=ears.live.is_shown)
        with leaving_if_abandoned(worker):
            with ears.live, telling_progress(worker, ears.live.show, left):
                counts = worker.run()
            report(counts)


def _serve_for(starter: Starter, names: list[str], where: Where, options: WorkerOptions) -> None:
    """Work until it is over, and tell the process that started this one; without it, drain."""
    signals = Signals(_unsaid, options.drain.total_seconds())
    signals.obey()
    starter.watch(signals.pretend)
    with telemetry(None) as told, opened_patiently(where, options) as transport:
        worker = signals.worker = worker_of(names, transport, where, options, starter=starter, observer=told.observer)
        told.begin(worker.standing, transport)
        starter.tell_serving(list(worker.states))
        left = left_of(transport, worker, options, is_shown=True)
        with leaving_if_abandoned(worker), starter.telling_end(), telling_progress(worker, starter.tell_counts, left):
            worker.run()


# --- In several ----------------------------------------------------------------------------------------------------


def _run_several(
    several: ProcessOptions, where: Where, options: WorkerOptions, ears: Ears, report: Callable[[Counts], None]
) -> int:
    """Start processes and wait for them; answers the exit code."""

    with telemetry_of_processes(ears.metrics) as told:

        def tell(what: str, said: Any) -> None:
            if what == "serving":
                told.begin(lambda: connected(where.url, where.manifest, where.bindings))
                ears.say(_serving(said, where.url, options, several.count) + told.where)
            elif what == "ended":
                told.ended(said)
            else:
                ears.say(draining(options.drain.total_seconds()) if said == 1 else aborting())

        measured = replace(several, environment={**several.environment, **told.environment})
        processes = Processes(measured, ears.live, tell)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _frame: processes.obey(number))
        with ears.live:
            counts = processes.run()
    if processes.exit_code == 0 or counts.received:
        report(counts)
    return processes.exit_code


def _arguments(options: WorkerOptions, where: Where) -> list[str]:
    """Of each process: what this one was given, but for what is shared."""
    given: dict[str, object] = {
        "--concurrency": options.concurrency,
        "--drain": options.drain.total_seconds(),
        "--max": options.max_deliveries,
        "--max-in-flight": options.max_in_flight,
        "--max-duration": None if options.max_duration is None else options.max_duration.total_seconds(),
        "--idle-exit": None if options.idle_exit is None else options.idle_exit.total_seconds(),
        "--manifest": where.manifest,
        "--bindings": where.bindings,
    }
    arguments = [text for name, value in given.items() if value is not None for text in (name, str(value))]
    return [*arguments, "--once"] if options.once else arguments


# --- What is said --------------------------------------------------------------------------------------------------


def _serving(names: list[str], url: str, options: WorkerOptions, processes: int) -> str:
    threads = "1 thread" if options.concurrency == 1 else f"{options.concurrency} threads"
    each = " each" if len(names) > 1 else ""
    several = f", {processes} processes" if processes > 1 else ""
    return f"serving {', '.join(names)} on {without_password(url)} ({threads}{each}{several}); Ctrl-C drains"


def _said(sentence: str) -> None:
    stderr().print(sentence, soft_wrap=True, markup=False)


def _unsaid(_: str) -> None:
    """For programs, which read one JSON object a line."""


def _report(counts: Counts, *, as_json: bool) -> None:
    """What was done, in words or as one line of JSON."""
    with telling(f"{counts.received} deliveries were handled"):
        if as_json:
            print_document(json.dumps({"received": counts.received, **counts.states}) + "\n")
            return
        words = {"released": "given back", "failed": "not settled", "lease_lost": "lost to another worker"}
        states = ", ".join(f"{count} {words.get(state, state)}" for state, count in sorted(counts.states.items()))
        print_sentence(f"{counts.received} received" + (f": {states}" if states else ""))
