"""Checks a bundle and, where it is for this machine, runs it as Lambda would and sends it events."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bundling.archive import unpack
from bundling.contents import problems
from bundling.errors import UnusableEvent, raise_all
from bundling.loopback_sqs import LoopbackSqs, loopback_sqs
from bundling.outcomes import record_outcomes
from bundling.sandbox import Conditions, Invoked, Sandbox, Started, make_sandbox
from bundling.stamp import Stamp, read_stamp
from bundling.target import Target, host_target
from bundling.tree import entries

Sqs: TypeAlias = Literal["stand-in", "not there"]

_DEFAULTS = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event for the function: what it is called in reports, and its JSON."""

    name: str
    document: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. ``invocations`` are empty when ``started`` holds an error. ``peak_memory_mb`` is None where the system
    does not tell. ``sqs_calls`` counts the calls that the stand-in for SQS answered; None where there was none.
    """

    started: Started
    invocations: tuple[Invoked, ...]
    peak_memory_mb: int | None
    sqs_calls: dict[str, int] | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the function started and answered every event."""
        return self.started.error is None and not any(invoked.is_error for invoked in self.invocations)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was found. ``run`` is None when the bundle is for another Python or system than the ``host``: then its
    contents were checked, and it was not run.
    """

    stamp: Stamp
    host: Target
    run: Run | None


def read_event(path: Path) -> Event:
    """An event from a JSON file. Raises ``UnusableEvent``."""
    try:
        return Event(name=path.name, document=json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UnusableEvent(f"event {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnusableEvent(f"event {path} is not JSON: {error}") from error


def verify(
    path: Path,
    events: Sequence[Event],
    environment: Mapping[str, str],
    conditions: Conditions = _DEFAULTS,
    sqs: Sqs = "not there",
) -> VerifyReport:
    """Check the zip at ``path``; where it is for this machine, run it and send it the events, one after another.

    ``environment`` is added to what Lambda sets. The function sees nothing of this process's environment and home
    folder, so it has no credentials but those given, and made-up ones for a stand-in for SQS. Raises ``NotABundle``,
    ``InvalidStamp``, what ``problems`` finds (``BundleProblems`` for several), ``InterpreterMissing`` or ``UvFailed``.
    """
    stamp, host = read_stamp(path), host_target()
    with tempfile.TemporaryDirectory(prefix="towpath-verify-") as folder:
        tree = Path(folder) / "task"
        unpack(path, tree)
        raise_all(problems(tree, entries(tree), stamp))
        if stamp.target != host:
            return VerifyReport(stamp=stamp, host=host, run=None)
        with ExitStack() as running:
            stand_in = running.enter_context(loopback_sqs()) if sqs == "stand-in" else None
            variables = {**(stand_in.environment if stand_in else {}), **environment}
            sandbox = running.enter_context(closing(make_sandbox(Path(folder), stamp, variables, conditions)))
            return VerifyReport(stamp=stamp, host=host, run=_run(sandbox, events, stand_in))


def _run(sandbox: Sandbox, events: Sequence[Event], sqs: LoopbackSqs | None) -> Run:
    started = sandbox.wait_until_ready()
    if started.error is not None:
        return Run(started=started, invocations=(), peak_memory_mb=None)
    return Run(
        started=started,
        invocations=tuple(_invoke(sandbox, event, sqs) for event in events),
        peak_memory_mb=sandbox.peak_memory_mb(),
        sqs_calls=dict(sqs.calls) if sqs else None,
    )


def _invoke(sandbox: Sandbox, event: Event, sqs: LoopbackSqs | None) -> Invoked:
    if sqs is not None:
        sqs.hidden.clear()  # another event may have the same receipt handles
    invoked = sandbox.invoke(event.name, event.document)
    hidden = sqs.hidden if sqs is not None else {}
    return replace(invoked, records=record_outcomes(event.document, invoked.response, invoked.logs, hidden))
