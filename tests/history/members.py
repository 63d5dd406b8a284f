"""The processes of a run: started, killed, stalled, drained, and started anew when they are gone.

They are forked from a process that has imported everything and does nothing else, since to import takes a busy machine
longer than most of them live.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

END_SECONDS = 120  # what a process gets to end by itself on a busy machine
PRELOADED = ("pytest", "tests.history.holding", "tests.history.operating", "tests.history.publishing")


def forking() -> ForkServerContext:
    """Where members come from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, "tests.history.working", "tests.history.handling", "psycopg"])
    return context


@dataclass(slots=True, kw_only=True)
class Member:
    """One place in the run, and the process that fills it now. What it records goes to files of ``folder``."""

    name: str
    main: Callable[..., None]
    arguments: Sequence[Any]
    folder: Path
    context: ForkServerContext
    ends_by_itself: bool = False
    finished: bool = False
    stalled: bool = False
    leaving_since: float | None = None
    process: ForkServerProcess | None = None
    stubborn: int = 0

    def start(self) -> None:
        """Fill the place."""
        self.stalled, self.leaving_since = False, None
        arguments = (self._log, self.main, (self.folder, *self.arguments))
        self.process = self.context.Process(target=_take_part, args=arguments, daemon=True)
        self.process.start()

    def tend(self) -> str | None:
        """Fill the place anew when its process is gone; answers what is wrong when it should not be."""
        if self.finished or self.process is None:
            return None
        code = self.process.exitcode
        if code is None:
            if self.leaving_since is not None and time.monotonic() - self.leaving_since > END_SECONDS:
                self.stubborn += 1
                self.kill()
            return None
        fault = self._fault(code)
        if code == 0 and self.ends_by_itself:
            self.finished = True
        else:
            self.start()
        return fault

    @property
    def is_at_work(self) -> bool:
        """Whether its process has recorded something, and is neither stalled nor about to end."""
        if self.finished or self.stalled or self.leaving_since is not None or self.process is None:
            return False
        return any(path.stat().st_size for path in self.folder.glob(f"{self.name}-{self.process.pid}-*.jsonl"))

    def _fault(self, code: int) -> str | None:
        """What is wrong with such an end: a process ends when it is told to, or killed, or has done its part."""
        allowed = {-signal.SIGKILL}
        if self.leaving_since is not None:
            allowed |= {0, -signal.SIGTERM}  # SIGTERM ends one that has not begun yet
        if self.ends_by_itself:
            allowed.add(0)
        if code in allowed:
            return None
        return f"{self.name} ended with {code}: {self._log.read_text()[-1500:]}"

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.name}.log"

    def kill(self) -> None:
        """SIGKILL; ``tend`` fills the place."""
        self._signal(signal.SIGKILL)
        if self.process is not None:
            self.process.join()

    def stall(self) -> None:
        """SIGSTOP, until ``go_on``."""
        self.stalled = True
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """SIGCONT."""
        if self.stalled:
            self.stalled = False
            self._signal(signal.SIGCONT)

    def drain(self) -> None:
        """SIGTERM; ``tend`` fills the place once it has ended."""
        if self.leaving_since is None:
            self.leaving_since = time.monotonic()
            self._signal(signal.SIGTERM)

    def end(self) -> str | None:
        """End it for good; answers what was wrong with its end."""
        if self.process is None or self.finished:
            return None
        self.go_on()
        self.drain()
        self.process.join(END_SECONDS)
        if self.process.exitcode is not None:
            return self._fault(self.process.exitcode)
        self.stubborn += 1
        self.kill()
        return None

    def _signal(self, number: int) -> None:
        if self.process is not None and self.process.pid is not None and self.process.exitcode is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)


def _take_part(log: Path, main: Callable[..., None], arguments: Sequence[Any]) -> None:
    """What the process does, and where it writes."""
    with log.open("ab") as output:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(output.fileno(), stream.fileno())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # not that thread's to take
    threading.Thread(target=_end_after_starter, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    main(*arguments)


def _end_after_starter() -> None:
    """A run that was broken off leaves no process behind."""
    starter = multiprocessing.parent_process()
    assert starter is not None
    starter.join()
    os._exit(1)
