"""``towpath work --processes N``: starts worker processes, passes signals on, and restarts one that died."""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from towpath.cli.link import Line, Linked, start_linked
from towpath.cli.live import LiveLine
from towpath.settling import Counts
from towpath.terms import Allowance

_FIRST_PAUSE_SECONDS: Final = 1.0  # before another process takes the place of one that died
_LONGEST_PAUSE_SECONDS: Final = 60.0
_LONG_LIFE_SECONDS: Final = 60.0  # after which one that dies is taken for a new case
_SHOW_SECONDS: Final = 0.5
_FORCED_END_SECONDS: Final = 45.0  # after an abort: longer than a process takes to end itself
_LAST_WORDS_SECONDS: Final = 2.0  # of a process that has ended
_FAULT_CODES: Final = (1, 2)  # of a process that has told what is wrong: it would be so again


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOptions:
    """What to start: ``count`` processes of ``arguments`` (those of ``towpath``), with ``environment`` as theirs.

    ``max_deliveries`` is shared among them; ``max_duration`` after the first of them serves they are told to stop.
    """

    count: int
    arguments: Sequence[str]
    environment: Mapping[str, str]
    max_deliveries: int | None = None
    max_duration: timedelta | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Child(Linked):
    """One process that was started."""

    started_at: float
    counts: Counts = field(default_factory=Counts)
    granted: int = 0  # claims that it asked for and has not told of


Event = tuple[str, Any]


class Processes:
    """The processes of one worker. Each is in a session of its own: what a terminal sends reaches this process alone.

    One that died is restarted, after a pause that grows while that goes on. One that ends with a fault which restarting
    cannot mend ends them all. When this process ends, in whatever way, they notice, and drain.
    """

    def __init__(
        self,
        options: ProcessOptions,
        live: LiveLine,
        tell: Callable[[str, Any], None],
        *,
        start: Callable[..., tuple[subprocess.Popen[Any], Line]] = start_linked,
    ) -> None:
        """``tell`` hears ``serving`` with the names once, ``signal`` with how many there were, and ``ended`` with the
        id of a process. ``start`` is as ``start_linked``.
        """
        self.exit_code = 0
        self._options = options
        self._live = live
        self._tell = tell
        self._start_linked = start
        self._log = logging.getLogger("towpath.worker")
        self._allowance = Allowance(options.max_deliveries)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()  # its put is made to be interrupted by itself
        self._children: list[_Child] = []
        self._past = Counts()
        self._left: int | None = None
        self._pause = _FIRST_PAUSE_SECONDS
        self._starts_at: list[float] = []  # of those that are to be restarted
        self._signals = 0
        self._ends_at: float | None = None  # of patience
        self._is_serving = False
        self._is_stopping = False

    @property
    def counts(self) -> Counts:
        """What all have done; of one that was killed, what it had told."""
        total = Counts(received=self._past.received, states=dict(self._past.states))
        for child in self._children:
            total.include(child.counts)
        return total

    def obey(self, number: int) -> None:
        """Take a signal: the first has all processes drain, the second has them abort. For a signal handler."""
        self._events.put(("signal", number))

    def run(self) -> Counts:
        """Start them, one before the others to see whether it can run at all, and wait until all have ended.

        Raises ``OSError`` when the first cannot be started.
        """
        try:
            self._start()
            while self._children or self._starts_at:
                self._take_event()
                self._restart_due()
                self._live.show(self.counts, self._what_is_left())
        finally:
            for child in self._children:
                child.process.kill()
                child.process.wait()
        return self.counts

    # What happens

    def _take_event(self) -> None:
        try:
            kind, what = self._events.get(timeout=_SHOW_SECONDS)
        except queue.Empty:
            if self._ends_at is not None and time.monotonic() > self._ends_at:
                for child in self._children:
                    child.process.kill()
            return
        if kind == "ended":
            self._bury(what)
        elif kind == "serving":
            self._begin(what)
        elif kind == "time":
            self._stop()
        else:
            self._signals += 1
            self._tell("signal", self._signals)
            self._stop(again=self._signals > 1)

    def _begin(self, names: list[str]) -> None:
        """One serves, so the others can: start them."""
        if self._is_serving:
            return
        self._is_serving = True
        self._tell("serving", names)
        limit = self._options.max_duration
        if limit is not None:
            timer = threading.Timer(limit.total_seconds(), self._events.put, [("time", None)])
            timer.daemon = True
            timer.start()
        for _ in range(0 if self._is_stopping else self._options.count - len(self._children)):
            self._try_to_start()

    def _stop(self, *, again: bool = False) -> None:
        """Have all processes drain; ``again`` has them abort."""
        self._is_stopping = True
        self._starts_at.clear()
        if again and self._ends_at is None:
            self._ends_at = time.monotonic() + _FORCED_END_SECONDS
        for child in self._children:
            child.line.send(stop=True)

    def _bury(self, child: _Child) -> None:
        """Of a process that has ended: what it has done is kept, and another one is started where it died."""
        code = child.process.wait()
        self._children.remove(child)
        self._past.include(child.counts)
        self._tell("ended", child.process.pid)
        self._allowance.made(child.granted, child.granted)  # nobody can say that they were not
        child.line.close()
        if code in _FAULT_CODES and (self._is_stopping or not child.has_died(code)):
            self.exit_code = self.exit_code or code  # it has told why
            self._stop()
        elif child.has_died(code) and not self._is_stopping:
            self._restart(child, code)

    def _restart(self, child: _Child, code: int) -> None:
        if time.monotonic() - child.started_at >= _LONG_LIFE_SECONDS:
            self._pause = _FIRST_PAUSE_SECONDS
        self._start_later(f"worker process {child.process.pid} {_ending(code)}")

    def _start_later(self, why: str) -> None:
        self._log.error("%s; another one starts in %.0f s", why, self._pause)
        self._starts_at.append(time.monotonic() + self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE_SECONDS)

    def _restart_due(self) -> None:
        now = time.monotonic()
        for at in [at for at in self._starts_at if at <= now]:
            self._starts_at.remove(at)
            self._try_to_start()

    # Starting and hearing

    def _try_to_start(self) -> None:
        """Start one; later where the machine lacks something just now, which is no reason to end those that run."""
        try:
            self._start()
        except OSError as error:
            self._start_later(f"a worker process cannot be started: {error.strerror or error}")

    def _start(self) -> None:
        command = [sys.executable, "-m", "towpath", *self._options.arguments]
        stderr = subprocess.PIPE if self._live.is_shown else None
        process, line = self._start_linked(command, self._options.environment, stderr=stderr)
        child = _Child(process=process, line=line, started_at=time.monotonic())
        self._children.append(child)
        threading.Thread(target=self._await, args=(child,), daemon=True).start()

    def _await(self, child: _Child) -> None:
        """Hear it until it has ended. What its handlers forked may keep the line open, but not longer than that."""
        hearing = [threading.Thread(target=each, args=(child,), daemon=True) for each in (self._hear, self._pass_on)]
        for thread in hearing:
            thread.start()
        child.process.wait()
        for thread in hearing:
            thread.join(_LAST_WORDS_SECONDS)
        self._events.put(("ended", child))

    def _hear(self, child: _Child) -> None:
        for said in child.line.heard():
            self._take_word(child, said)

    def _take_word(self, child: _Child, said: Mapping[str, Any]) -> None:
        child.note(said)
        if "take" in said:
            granted = self._allowance.take(said["take"])
            child.granted += granted
            child.line.send(granted=granted, used_up=self._allowance.used_up)
        elif "made" in said:
            granted, claimed = said["made"]
            child.granted -= granted
            self._allowance.made(granted, claimed)
        elif "counts" in said:
            child.counts = Counts(**said["counts"])
            self._left = said["left"] if said["left"] is not None else self._left
        elif "serving" in said:
            self._events.put(("serving", said["serving"]))

    def _pass_on(self, child: _Child) -> None:
        if child.process.stderr is not None:
            for line in child.process.stderr:
                self._live.print_above(line.decode(errors="replace"))

    def _what_is_left(self) -> int | None:
        if self._options.max_deliveries is not None:
            return max(self._options.max_deliveries - self.counts.received, 0)
        return self._left


def _ending(code: int) -> str:
    """How a process died, in words."""
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL: by somebody, or because memory ran out)"
    if code < 0:
        return f"was ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def processes_environment(url: str, *, debug: bool) -> dict[str, str]:
    """The environment for worker processes: this one's, with the transport's URL, which may hold a password."""
    variables = {"TOWPATH_TRANSPORT": url} | ({"TOWPATH_DEBUG": "1"} if debug else {})
    return {**os.environ, **variables}
