"""What to do with the workers' process when something happens: decided here, done by the session."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

Act = Literal["start", "start_later", "drain", "abort", "kill", "leave"]
Stopping = Literal["no", "draining", "aborting", "killing"]

_TOLD: Final = (1, 2)  # exit codes of a process that has said what is wrong: only a change can help


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """How the workers' process stands. ``stale`` says that it is to be started anew once it has ended; ``leaving``,
    that the session ends with it.
    """

    running: bool = False
    stopping: Stopping = "no"
    stale: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How it stands now, and what is to be done; ``None`` for nothing."""

    control: Control
    act: Act | None = None


def waits_for_change(code: int) -> bool:
    """Whether a process that ended by itself with this exit code is not started anew before something changes."""
    return code in _TOLD


def on_change(control: Control) -> Step:
    """The code or the topology is another one: have handlers imported anew, after a drain."""
    if control.leaving:
        return Step(control=control)
    if not control.running:
        return Step(control=Control(running=True), act="start")
    stale = replace(control, stale=True)
    return Step(control=stale) if control.stopping != "no" else _drained(stale)


def on_end(control: Control, code: int) -> Step:
    """The process has ended. One that was not told to, and did not say why, is started anew after a pause: a handler
    may have ended it, and then its message has an attempt less.
    """
    ended = Control(leaving=control.leaving)
    if control.leaving:
        return Step(control=ended, act="leave")
    if control.stale:
        return Step(control=Control(running=True), act="start")
    return Step(control=ended, act=None if waits_for_change(code) else "start_later")


def on_pause_over(control: Control) -> Step:
    """It is time for what was to be started later, unless a change has started it already."""
    return Step(control=control) if control.running or control.leaving else on_change(control)


def on_stop(control: Control) -> Step:
    """Somebody wants an end. The first time it drains, the second aborts what still runs, the third waits no longer."""
    if not control.running:
        return Step(control=replace(control, leaving=True), act="leave")
    if not control.leaving:
        leaving = replace(control, leaving=True)
        return Step(control=leaving) if control.stopping != "no" else _drained(leaving)
    if control.stopping == "draining":
        return Step(control=replace(control, stopping="aborting"), act="abort")
    return Step(control=replace(control, stopping="killing"), act="kill")


def _drained(control: Control) -> Step:
    return Step(control=replace(control, stopping="draining"), act="drain")
