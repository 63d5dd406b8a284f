"""A Lambda execution environment on this machine: an unpacked bundle under AWS's own runtime client, with a Python
that has nothing else and variables that are only those of Lambda and those given.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bundling.bytecode import find_interpreter
from bundling.outcomes import RecordOutcome
from bundling.runtime_api import Answer, InitError, Invocation, RuntimeProcess, error_payload
from bundling.stamp import Stamp
from bundling.target import Target
from bundling.uv import Tell, find_uv, untold
from towpath.limits import LAMBDA_RESPONSE_BYTES

REGION: Final = "us-east-1"
LAMBDA_HAS: Final = ("boto3",)  # what AWS's Python runtimes bring along
_RUNTIME_CLIENT: Final = "awslambdaric>=3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """How the function runs. ``packages`` are installed beside the runtime client: Lambda's own Python runtimes have
    boto3 there (``LAMBDA_HAS``). ``timeout_seconds`` holds for each start and for each event. ``tell`` is told what
    is prepared.
    """

    timeout_seconds: float = 30
    memory_mb: int = 256
    packages: tuple[str, ...] = ()
    tell: Tell = untold


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A start of the function: milliseconds until its first call for an event, and what it wrote meanwhile."""

    duration_ms: float
    logs: str
    error: Any = None
    """The error document of a function that could not start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoked:
    """One event, and what came of it. With ``is_error``, ``response`` is an error document of the function, or of its
    runtime when that crashed or ran out of time. ``logs`` is what was written meanwhile. ``records`` says what became
    of the event's records, where it has any.
    """

    event: str
    response: Any
    is_error: bool
    duration_ms: float
    logs: str
    records: tuple[RecordOutcome, ...] = ()


class Sandbox:
    """Runs the bundle unpacked in ``folder / "task"``, from the moment it is made until ``close``."""

    def __init__(self, folder: Path, command: tuple[str, ...], environment: Mapping[str, str], timeout: float) -> None:
        self._tree = folder / "task"
        self._log = folder / "log"
        self._log_offset = 0
        self._command = command
        self._environment = environment
        self._timeout = timeout
        self._launched = time.monotonic()
        self._process = self._launch()

    def wait_until_ready(self) -> Started:
        """Wait until the function asks for an event or fails to start."""
        error = None
        try:
            self._process.ready.result(self._timeout)
        except InitError as failure:
            error = _document(failure.payload)
        except TimeoutError:
            error = _document(self._timed_out())
        duration_ms = _since(self._launched)
        if error is not None:
            self._process.kill()
        return Started(duration_ms=duration_ms, logs=self._new_logs(), error=error)

    def invoke(self, event: str, document: object) -> Invoked:
        """Send one event. As on Lambda, a function that crashed or ran out of time before is started again."""
        before, restarted = time.monotonic(), None
        if not self._process.alive:
            self._process = self._launch()
            restarted = self.wait_until_ready()
        if restarted is not None and restarted.error is not None:
            answer = Answer(payload=json.dumps(restarted.error).encode(), is_error=True)
        else:
            answer = self._answer(document)
        return Invoked(
            event=event,
            response=_document(answer.payload),
            is_error=answer.is_error,
            duration_ms=_since(before),
            logs=(restarted.logs if restarted else "") + self._new_logs(),
        )

    def peak_memory_mb(self) -> int | None:
        """The most memory that the process has had; None when it is gone or the system does not tell."""
        return self._process.peak_memory_mb()

    def close(self) -> None:
        """End the function's process with all its children."""
        self._process.stop()

    def _launch(self) -> RuntimeProcess:
        self._launched = time.monotonic()
        return RuntimeProcess(self._command, self._tree, self._environment, self._log, LAMBDA_RESPONSE_BYTES)

    def _answer(self, document: object) -> Answer:
        name = self._environment["AWS_LAMBDA_FUNCTION_NAME"]
        invocation = Invocation(
            request_id=str(uuid.uuid4()),
            payload=json.dumps(document).encode(),
            function_arn=f"arn:aws:lambda:{REGION}:000000000000:function:{name}",
            deadline_ms=int((time.time() + self._timeout) * 1000),
        )
        try:
            return self._process.invoke(invocation, self._timeout)
        except TimeoutError:
            self._process.kill()
            return Answer(payload=self._timed_out(), is_error=True)

    def _timed_out(self) -> bytes:
        return error_payload("Sandbox.Timedout", f"the function did not answer within {self._timeout:g} seconds")

    def _new_logs(self) -> str:
        with self._log.open("rb") as log:
            log.seek(self._log_offset)
            data = log.read()
        self._log_offset += len(data)
        return data.decode(errors="replace")


def make_sandbox(folder: Path, stamp: Stamp, environment: Mapping[str, str], conditions: Conditions) -> Sandbox:
    """A sandbox for the bundle in ``folder / "task"``, with a fresh Python environment. Raises
    ``InterpreterMissing`` or ``UvFailed``.
    """
    python = _make_python(folder, stamp.target, conditions)
    variables = {**_lambda_variables(folder, stamp, conditions), **environment}
    command = (str(python), "-m", "awslambdaric", stamp.entry_point)
    return Sandbox(folder, command, variables, conditions.timeout_seconds)


def _make_python(folder: Path, target: Target, conditions: Conditions) -> Path:
    """A virtual environment with AWS's runtime client alone, and the packages of the conditions."""
    uv = find_uv(folder, conditions.tell)
    repair = f"get one with 'uv python install {target.python}'"
    interpreter = find_interpreter(uv, target, repair)
    python = folder / "python"
    uv.run("venv", "--python", interpreter, python, purpose="make a Python environment")
    executable = python / "bin" / "python"
    packages = (_RUNTIME_CLIENT, *conditions.packages)
    uv.run("pip", "install", "--python", executable, *packages, purpose=f"install {' and '.join(packages)}")
    return executable


def _lambda_variables(folder: Path, stamp: Stamp, conditions: Conditions) -> dict[str, str]:
    """What Lambda sets ("Defined runtime environment variables"), with the folders of this machine."""
    home = folder / "tmp"
    home.mkdir()
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(folder / "task"),
        "PYTHONDONTWRITEBYTECODE": "1",  # Lambda's task folder is read-only
        "LAMBDA_TASK_ROOT": str(folder / "task"),
        "AWS_EC2_METADATA_DISABLED": "true",  # no credentials but those given
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EXECUTION_ENV": f"AWS_Lambda_python{stamp.target.python}",
        "AWS_LAMBDA_FUNCTION_NAME": stamp.name.replace(".", "-"),
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(conditions.memory_mb),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "_HANDLER": stamp.entry_point,
    }


def _document(payload: bytes) -> Any:
    """JSON as far as it is: a runtime may post anything."""
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode(errors="replace")


def _since(before: float) -> float:
    return (time.monotonic() - before) * 1000
