"""The workers' process: ``towpath work '*'`` for the session's database, its log and its output read line by line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Final

from towpath.cli.dev.happenings import Happening, Printed
from towpath.cli.dev.lines import read_end, read_log_line
from towpath.cli.link import Linked, start_linked

Tell = Callable[[Happening], None]

_DRAIN_SECONDS: Final = 10  # what running handlers get when the code has changed
_LAST_LINES: Final = 400  # of what is no log, to say why it ended


class Workers:
    """One process at a time, which imports the handlers anew.

    Threads of its own tell ``tell`` what it writes, and when it has ended.
    """

    def __init__(self, folder: Path, database: str, tell: Tell) -> None:
        self._folder = folder
        self._database = database
        self._tell = tell
        self._running: Linked | None = None

    def start(self) -> int:
        """Start it; answers its number. Raises ``OSError``. When this process is killed it drains by itself."""
        command = [sys.executable, "-m", "towpath", "--debug", "work", "*", "--json", "--drain", str(_DRAIN_SECONDS)]
        process, line = start_linked(
            [*command, "--transport", self._database],
            {**os.environ, "PYTHONUNBUFFERED": "1"},
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        self._running = running = Linked(process=process, line=line)
        threading.Thread(target=self._follow, args=(running,), name="dev-workers", daemon=True).start()
        return process.pid

    def drain(self) -> None:
        """Have it claim nothing more and end, as soon as what runs is settled or given back; a second time, abort."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it now: what it holds comes again when its leases end."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._running is not None and self._running.process.poll() is None:
            self._running.process.send_signal(number)

    def _follow(self, running: Linked) -> None:
        """Tell what it writes until it has ended. A process that a handler left behind may hold the pipes longer."""
        last: deque[str] = deque(maxlen=_LAST_LINES)
        process = running.process
        readers = [
            threading.Thread(target=self._hear, args=(running,), name="dev-link", daemon=True),
            threading.Thread(target=self._read_log, args=(process.stderr, last), name="dev-log", daemon=True),
            threading.Thread(target=self._read_output, args=(process.stdout,), name="dev-output", daemon=True),
        ]
        for reader in readers:
            reader.start()
        code = process.wait()
        for reader in readers:
            reader.join(timeout=1)
        running.line.close()
        self._tell(replace(read_end(code, tuple(last)), died=running.has_died(code)))

    def _hear(self, running: Linked) -> None:
        for said in running.line.heard():
            running.note(said)

    def _read_log(self, stream: IO[str] | None, last: deque[str]) -> None:
        for line in stream or ():
            told = read_log_line(line.rstrip("\n"))
            if isinstance(told, Printed):
                last.append(told.text)
            else:
                self._tell(told)

    def _read_output(self, stream: IO[str] | None) -> None:
        for line in stream or ():
            self._tell(Printed(text=line.rstrip("\n")))
