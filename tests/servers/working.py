"""Worker processes of the conformance suite's scripted handler, and what it saw."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

FUNCTION = Path(__file__).parents[1] / "conformance" / "function"
START_SECONDS = 180
END_SECONDS = 240  # from the word to stop, on a busy machine


class WorkerProcess:
    """A process that serves every subscription of ``url``, with what it logs."""

    def __init__(self, url: str, folder: Path, log: Path, *options: str) -> None:
        command = [sys.executable, "-m", "towpath", "work", "*", "--transport", url, *options]
        environment = os.environ | {"CONFORMANCE_OBSERVER": f"file://{_report(folder)}"}
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, cwd=FUNCTION, env=environment, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        return self._process.wait(END_SECONDS)

    def kill(self) -> None:
        """End it as the kernel does that runs out of memory, unless it has ended."""
        self._process.kill()
        self._process.wait()

    def await_line(self, text: str) -> None:
        """Until it has logged ``text``; "serving" says that from here on an outage is its own to bear."""
        deadline = time.monotonic() + START_SECONDS
        while text not in self.log.read_text():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, f"the worker does not log {text!r}"
            time.sleep(0.05)


@contextmanager
def worker(url: str, folder: Path, *options: str) -> Iterator[WorkerProcess]:
    """A process that serves every subscription of ``url``, until the block ends if not before."""
    process = WorkerProcess(url, folder, folder / f"worker-{uuid.uuid4().hex[:8]}.log", *options)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def workers(url: str, folder: Path, count: int, *options: str) -> Iterator[list[Path]]:
    """Processes that serve every subscription of ``url`` until the block ends; they must end well.

    Gives the files that they log to. A block that fails leaves none behind.
    """
    with ExitStack() as stack:
        started = [stack.enter_context(worker(url, folder, *options)) for _ in range(count)]
        for process in started:
            process.await_line("serving")
        yield [process.log for process in started]
        for process in started:
            process.send(signal.SIGTERM)
        assert [process.end() for process in started] == [0] * count, [process.log.read_text() for process in started]


def observations(folder: Path) -> list[dict[str, Any]]:
    """What the handlers saw so far, in the order in which they ended."""
    report = _report(folder)
    return [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []


def _report(folder: Path) -> Path:
    return folder / "observations.jsonl"
