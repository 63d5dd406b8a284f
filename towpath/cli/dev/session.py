"""The session: hears what happens, decides by ``control``, and has it done and shown."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable
from typing import Final, Protocol, assert_never

from towpath.cli.dev.control import Act, Control, Step, on_change, on_end, on_pause_over, on_stop
from towpath.cli.dev.happenings import Changed, Ended, Happening, Interrupted, Pressed, Refused, Said, Started, Told
from towpath.cli.dev.project import Project
from towpath.cli.dev.workers import Workers
from towpath.errors import TowpathError

MakeWorkers = Callable[[Callable[[Happening], None]], Workers]

_LATER_SECONDS: Final = 1.0  # before a process that was ended is started anew
_TICK_SECONDS: Final = 0.25


class Display(Protocol):
    """Shows what happens."""

    def show(self, told: Told) -> None:
        """Something happened."""

    def draining(self, *, leaving: bool) -> None:
        """The workers are told to drain."""

    def toggle(self) -> None:
        """Show the last traceback, or hide it."""

    def tick(self) -> bool:
        """Called again and again: draw what changed. Answers whether counts are wanted now."""


class Session:
    """One run of ``towpath dev``. ``tell`` may be called by any thread, and within a signal handler."""

    def __init__(self, project: Project, display: Display, workers: MakeWorkers) -> None:
        self._project = project
        self._display = display
        self._heard: queue.SimpleQueue[Happening] = queue.SimpleQueue()
        self._workers = workers(self.tell)
        self._control = Control()
        self._start_at: float | None = None
        self._name = ""
        self._code: int | None = None
        self._failed = False  # whether the process that ended last did

    def tell(self, happening: Happening) -> None:
        """Have the session hear of it."""
        self._heard.put(happening)

    def run(self) -> int:
        """Run until somebody wants an end. Answers the exit code: 0 when everything was drained, 1 otherwise."""
        try:
            if self._apply():
                self._do(on_change(self._control))
            while self._code is None:
                self._hear()
                if self._start_at is not None and time.monotonic() >= self._start_at:
                    self._start_at = None
                    self._do(on_pause_over(self._control))
                if self._display.tick():
                    self._count()
            return self._code
        finally:
            self._workers.drain()  # nothing runs any more, unless an error of our own ended this

    def _hear(self) -> None:
        """Take in all that was told by now; wait a little for a first."""
        try:
            self._take(self._heard.get(timeout=_TICK_SECONDS))
            for _ in range(self._heard.qsize()):
                self._take(self._heard.get_nowait())
        except queue.Empty:
            return

    def _take(self, happening: Happening) -> None:
        match happening:
            case Pressed(key=key):
                self._press(key)
            case Interrupted():
                self._stop()
            case Changed():
                self._change(happening)
            case Ended():
                self._end(happening)
            case _:
                self._display.show(happening)

    def _change(self, changed: Changed) -> None:
        """Modules are loaded anew although the topology has mistakes: the database has the last one without."""
        self._display.show(changed)
        is_code = any(path.endswith(".py") for path in changed.paths)
        if self._apply() or (is_code and self._name):
            self._do(on_change(self._control))

    def _end(self, ended: Ended) -> None:
        """An end that was wanted, and went well, is nothing to tell of. A process that has no ear for the signal yet
        has claimed nothing either.
        """
        wanted = self._control.stopping != "no"
        self._failed = ended.code not in ((0, -signal.SIGTERM) if wanted else (0,))
        if self._failed or not wanted:
            self._display.show(ended)
        self._do(on_end(self._control, ended.code, died=ended.died))

    def _press(self, key: str) -> None:
        match key:
            case "p":
                self._act(self._project.pause_or_resume)
            case "r":
                self._act(self._project.replay)
            case "e":
                self._display.toggle()
            case "q":
                self._stop()

    def _stop(self) -> None:
        """Workers that did not start before are no failure of the end."""
        if not self._control.running:
            self._failed = False
        self._do(on_stop(self._control))

    def _act(self, action: Callable[[], str]) -> None:
        try:
            self._display.show(Said(sentence=action()))
        except TowpathError as error:
            self._display.show(Said(sentence=f"error: {error}"))

    def _count(self) -> None:
        try:
            self._display.show(self._project.look())
        except TowpathError as error:  # a database that is busy now: the next look is soon
            self._display.show(Said(sentence=f"error: {error}"))

    def _apply(self) -> bool:
        """Have the database hold the topology as it is now; answers whether it does."""
        applied = self._project.apply()
        if isinstance(applied, Refused):
            self._display.show(applied)
            return False
        self._name, told = applied
        self._display.show(told)
        return True

    def _do(self, step: Step) -> None:
        self._control = step.control
        if step.act is not None:
            self._act_on(step.act)

    def _act_on(self, act: Act) -> None:
        match act:
            case "start":
                self._failed = False
                self._display.show(Started(topology=self._name, pid=self._workers.start()))
            case "start_later":
                self._start_at = time.monotonic() + _LATER_SECONDS
            case "drain":
                self._display.draining(leaving=self._control.leaving)
                self._workers.drain()
            case "abort":
                self._workers.drain()
            case "kill":
                self._workers.kill()
            case "leave":
                self._code = 1 if self._failed else 0
            case _:
                assert_never(act)
