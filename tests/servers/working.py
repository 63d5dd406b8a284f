"""Worker processes of the conformance suite's scripted handler, and what it saw."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FUNCTION = Path(__file__).parents[1] / "conformance" / "function"
START_SECONDS = 60
END_SECONDS = 120  # from the word to stop, on a busy machine


@contextmanager
def workers(url: str, folder: Path, count: int, *options: str) -> Iterator[list[Path]]:
    """Processes that serve every subscription of ``url`` until the block ends; they must end well.

    Gives the files that they log to. A block that fails leaves none behind.
    """
    command = [sys.executable, "-m", "towpath", "work", "*", "--transport", url, *options]
    environment = os.environ | {"CONFORMANCE_OBSERVER": f"file://{_report(folder)}"}
    logs = [folder / f"worker-{number}.log" for number in range(count)]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for log in logs:
            with log.open("wb") as output:
                process = subprocess.Popen(command, cwd=FUNCTION, env=environment, stdout=output, stderr=output)
            processes.append(process)
        for process, log in zip(processes, logs, strict=True):
            _await_service(process, log)
        yield logs
        for process in processes:
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(END_SECONDS) for process in processes]
        assert codes == [0] * count, [log.read_text() for log in logs]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def observations(folder: Path) -> list[dict[str, Any]]:
    """What the handlers saw so far, in the order in which they ended."""
    report = _report(folder)
    return [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []


def _await_service(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """From here on an outage is the worker's to bear; one that cannot start ends."""
    deadline = time.monotonic() + START_SECONDS
    while "serving" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "the worker did not start"
        time.sleep(0.05)


def _report(folder: Path) -> Path:
    return folder / "observations.jsonl"
