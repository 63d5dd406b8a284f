"""What the live view knows: a value, and how each happening changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

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
from towpath.operating import DeliveryEntry, SubscriptionStats

_MOST_MOVED: Final = 100
_MOST_PRINTED: Final = 20
_WORKER: Final = "towpath.worker"
_SERIOUS: Final = ("WARNING", "ERROR", "CRITICAL")

Workers = Literal["starting", "serving", "restarting", "died", "stopped", "leaving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An error with its traceback: of a handler, or of a module that does not load."""

    title: str
    traceback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is shown. ``moved`` and ``printed`` have the newest first and last. ``refusal`` is what is wrong
    with the topology, ``failure`` why the workers do not run, ``said`` what was done last.
    """

    database: str
    topology: str = ""
    workers: Workers = "starting"
    stats: tuple[SubscriptionStats, ...] = ()
    running: tuple[DeliveryEntry, ...] = ()
    moved: tuple[Moved, ...] = ()
    printed: tuple[str, ...] = ()
    refusal: str = ""
    failure: str = ""
    said: str = ""
    trouble: Trouble | None = None
    shows_trouble: bool = True

    @property
    def is_paused(self) -> bool:
        """Whether nothing is claimed from any subscription."""
        return bool(self.stats) and all(row.status != "active" for row in self.stats)


def after(state: State, told: Told) -> State:
    """The state once ``told`` is known."""
    match told:
        case Moved():
            return _moved(state, told)
        case Logged():
            return _logged(state, told)
        case Printed(text=text):
            return _printed(state, text)
        case Counted(stats=stats, running=running):
            return replace(state, stats=stats, running=running)
        case Started(topology=topology):
            return _started(state, topology)
        case Ended():
            return _ended(state, told)
        case Changed(paths=paths):
            return replace(state, said=f"changed: {', '.join(paths)}")
        case TopologyApplied(warnings=warnings):
            return replace(state, refusal="", said="\n".join(warnings) or state.said)
        case Refused(problem=problem):
            return replace(state, refusal=problem)
        case Said(sentence=sentence):
            return replace(state, said=sentence)


def draining(state: State, *, leaving: bool) -> State:
    """The state while the workers drain, to be started anew or to leave."""
    return replace(state, workers="leaving" if leaving else "restarting")


def toggled(state: State) -> State:
    """The state with the last traceback shown instead of hidden, or hidden instead of shown."""
    return replace(state, shows_trouble=not state.shows_trouble)


def _moved(state: State, moved: Moved) -> State:
    known = replace(state, moved=(moved, *state.moved[: _MOST_MOVED - 1]))
    if not moved.traceback:
        return known
    title = f"{moved.subscription} {moved.delivery_id}, attempt {moved.attempt}: {moved.reason}"
    return replace(known, trouble=Trouble(title=title, traceback=moved.traceback))


def _logged(state: State, logged: Logged) -> State:
    serious = logged.level in _SERIOUS
    if logged.logger == _WORKER and logged.level == "ERROR":  # such as that one of several handlers does not load
        state = replace(state, failure=logged.text)
    if logged.traceback:
        state = replace(state, trouble=Trouble(title=logged.text, traceback=logged.traceback))
    return _printed(state, f"{logged.level}: {logged.text}" if serious else logged.text)


def _printed(state: State, text: str) -> State:
    return replace(state, printed=(*state.printed, text)[-_MOST_PRINTED:])


def _started(state: State, topology: str) -> State:
    """What kept the workers from starting is mended; what ended them, such as a handler, may do so again."""
    serving = replace(state, workers="serving", topology=topology, failure="")
    if not state.failure:
        return serving
    if state.workers == "died":
        return replace(serving, said=f"started again: {state.failure}")
    return replace(serving, trouble=None)


def _ended(state: State, ended: Ended) -> State:
    stopped = replace(state, workers="died" if ended.died else "stopped", failure=ended.sentence)
    if not ended.traceback:
        return stopped
    return replace(stopped, trouble=Trouble(title=ended.sentence, traceback=ended.traceback))
