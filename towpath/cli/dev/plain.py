"""The display without a terminal: one line for each thing that happens, or one JSON object."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import Final, Protocol

from towpath.cli.dev.control import waits_for_change
from towpath.cli.dev.happenings import (
    Changed,
    Counted,
    Ended,
    Logged,
    Moved,
    Printed,
    Refused,
    Said,
    Started,
    Told,
    TopologyApplied,
)
from towpath.cli.dev.view import clock, took, why
from towpath.cli.output import CONTROLS
from towpath.transports import Applied

_KINDS: Final = {
    Moved: "delivery",
    Logged: "log",
    Printed: "output",
    Started: "started",
    Ended: "ended",
    Changed: "changed",
    TopologyApplied: "applied",
    Refused: "refused",
    Said: "said",
}
_NOTHING: Final = Applied(added=(), changed=(), removed=())


class Write(Protocol):
    """Writes a text to standard output, at once."""

    def __call__(self, text: str, /) -> None:
        """Write it."""


class Lines:
    """Shows each happening as it comes: in words, or ``as_json``."""

    def __init__(self, write: Write, *, as_json: bool) -> None:
        self._write = write
        self._as_json = as_json

    def show(self, told: Told) -> None:
        """Write what happened. Counts are for a view that stays; and words say nothing of a topology as it was."""
        if isinstance(told, Counted) or (not self._as_json and _is_no_news(told)):
            return
        self._write(json_line(told) if self._as_json else text_lines(told))

    def draining(self, *, leaving: bool) -> None:
        """Say so."""
        then = "to leave; Ctrl-C aborts" if leaving else "to start anew"
        self.show(Said(sentence=f"draining, {then}"))

    def toggle(self) -> None:
        """There are no keys here."""

    def tick(self) -> bool:
        """Everything is written by now, and counts are not wanted."""
        return False


def json_line(told: Told) -> str:
    """One JSON object: ``kind``, and the fields of what happened."""
    facts = {"kind": _KINDS[type(told)]} | asdict(told)
    return json.dumps(facts, ensure_ascii=False) + "\n"


def text_lines(told: Told) -> str:
    """What happened, in words; a traceback stands below, indented."""
    traceback = getattr(told, "traceback", "")
    below = textwrap.indent(traceback.rstrip(), "    ") + "\n" if traceback else ""
    return _shown(f"{_words(told)}\n{below}")


def _is_no_news(told: Told) -> bool:
    return isinstance(told, TopologyApplied) and told == TopologyApplied(applied=_NOTHING)


def _shown(text: str) -> str:
    return "\n".join(line.translate(CONTROLS) for line in text.split("\n"))


def _words(told: Told) -> str:
    match told:
        case Moved():
            return _moved(told)
        case Logged(time=time, level=level, text=text):
            return f"{clock(time)} {level:<10} {text}"
        case Printed(text=text):
            return text
        case Started(topology=topology, pid=pid):
            return f"{topology}: workers run, as process {pid}"
        case Ended(code=code, sentence=sentence):
            then = "waiting for a change" if waits_for_change(code) else "starting them again"
            return f"error: {sentence}; {then}" if sentence else "the workers have ended"
        case Changed(paths=paths):
            return f"changed: {', '.join(paths)}"
        case TopologyApplied(applied=applied, warnings=warnings):
            return "\n".join([f"applied: {_applied(applied)}", *(f"warning: {warning}" for warning in warnings)])
        case Refused(problem=problem):
            return f"error: {problem}\nThe database keeps the last good topology; waiting for a change."
        case Said(sentence=sentence):
            return sentence
        case Counted():
            return ""


def _moved(moved: Moved) -> str:
    attempt = "" if moved.attempt is None else f", attempt {moved.attempt}"
    duration = "" if moved.milliseconds is None else f", {took(moved.milliseconds)}"
    key = "" if moved.partition_key is None else f", key {moved.partition_key}"
    reason = f": {why(moved)}" if why(moved) else ""
    head = f"{clock(moved.time)} {moved.state:<10} {moved.subscription} {moved.delivery_id}"
    return f"{head}{attempt}{duration}{key}{reason}"


def _applied(applied: Applied) -> str:
    parts = (("added", applied.added), ("changed", applied.changed), ("removed", applied.removed))
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names) or "nothing to change"
