"""One run of a Lambda runtime: its process, and the Runtime API server that the process polls.

The protocol is AWS's: https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html. Standard library alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

API: Final = "/2018-06-01/runtime"
TERM_GRACE_SECONDS: Final = 0.5


class InitError(Exception):
    """The runtime failed before it asked for its first invocation; ``payload`` is the error document it left."""

    def __init__(self, payload: bytes) -> None:
        super().__init__(payload.decode(errors="replace"))
        self.payload = payload


class Answer(NamedTuple):
    """What the runtime posted for an invocation: the function's JSON, or an error document."""

    payload: bytes
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of the function. ``deadline_ms`` is epoch time; ``answer`` is resolved once, by whoever is first."""

    request_id: str
    payload: bytes
    function_arn: str
    deadline_ms: int
    trace_id: str = ""
    answer: Future[Answer] = field(default_factory=Future)

    def headers(self) -> dict[str, str]:
        """The headers under which the Runtime API hands an invocation out."""
        return {
            "Content-Type": "application/json",
            "Lambda-Runtime-Aws-Request-Id": self.request_id,
            "Lambda-Runtime-Deadline-Ms": str(self.deadline_ms),
            "Lambda-Runtime-Invoked-Function-Arn": self.function_arn,
            "Lambda-Runtime-Trace-Id": self.trace_id,
        }


def error_payload(error_type: str, message: str, request_id: str | None = None) -> bytes:
    """The error document that Lambda itself writes when the runtime could not."""
    if request_id:
        message = f"RequestId: {request_id} Error: {message}"
    return json.dumps({"errorType": error_type, "errorMessage": message}).encode()


def exit_message(returncode: int) -> str:
    """How Lambda words the end of a runtime process; a negative code is a signal's number."""
    if returncode < 0:
        name = (signal.strsignal(-returncode) or str(-returncode)).lower()
        return f"Runtime exited with error: signal: {name}"
    if returncode:
        return f"Runtime exited with error: exit status {returncode}"
    return "Runtime exited without providing a reason"


class RuntimeProcess:
    """Starts ``command`` and feeds it invocations one at a time, until it exits or is stopped.

    ``env`` is the whole environment, to which only the API's address is added. Output is appended to ``log_path``.
    ``ready`` resolves when the runtime asks for its first invocation, and holds ``InitError`` when it fails or exits
    before.
    """

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        log_path: Path,
        max_response_bytes: int,
    ) -> None:
        self.ready: Future[None] = Future()
        self.max_response_bytes = max_response_bytes
        self._lock = threading.Lock()
        self._handed_over: SimpleQueue[Invocation | None] = SimpleQueue()
        self._current: Invocation | None = None
        self._idle = threading.Event()  # the runtime polls for work, or is gone
        self._gone = threading.Event()  # set under the lock, once the process is reaped
        self._server = _RuntimeApiServer(self)
        try:
            self._process = _start(command, cwd, {**env, "AWS_LAMBDA_RUNTIME_API": self._server.address}, log_path)
        except BaseException:
            self._server.server_close()
            raise
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        threading.Thread(target=self._watch, daemon=True).start()

    @property
    def alive(self) -> bool:
        """False once the process has ended and whatever waited on it has its answer coming."""
        return not self._gone.is_set()

    def invoke(self, invocation: Invocation, timeout: float) -> Answer:
        """Hand over one invocation and wait for its answer, which is an error document when the process exits first.

        Raises ``TimeoutError`` after ``timeout`` seconds; the runtime is then still at work, and to be killed. Raises
        ``CancelledError`` when ``stop`` is called meanwhile.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            self._current = invocation
            gone = self._gone.is_set()
        if gone:
            self._fail_current()
        else:
            self._handed_over.put(invocation)
        answer = invocation.answer.result(timeout)
        # A runtime may die on its way back from an answer, so the next call waits for it to poll.
        self._idle.wait(max(0, deadline - time.monotonic()))
        return answer

    def peak_memory_mb(self) -> int | None:
        """High-water mark of the process's resident memory in MiB; None once it is gone, or where there is no /proc."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return None
        peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(peaks[0]) // 1024 if peaks else None

    def kill(self) -> None:
        """End the whole process group at once and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self._gone.wait()

    def stop(self) -> None:
        """Cancel what waits on this runtime, then end it: SIGTERM, a short grace, SIGKILL."""
        self.ready.cancel()
        with self._lock:
            current = self._current
        if current:
            current.answer.cancel()
        self._signal(signal.SIGTERM)
        self._gone.wait(TERM_GRACE_SECONDS)
        self.kill()

    # Called by the Runtime API server

    def next_invocation(self) -> Invocation | None:
        """Block until there is an invocation; None once the process is gone."""
        self._idle.set()
        with suppress(InvalidStateError):  # it has been ready before, or is being stopped
            self.ready.set_result(None)
        invocation = self._handed_over.get()
        with self._lock:
            if not self._gone.is_set():
                self._idle.clear()
        return invocation

    def finish(self, request_id: str, answer: Answer) -> bool:
        """Take the runtime's answer; False when it answers for another invocation."""
        with self._lock:
            current = self._current
        if current is None or current.request_id != request_id:
            return False
        _settle(current, answer)
        return True

    def fail_init(self, payload: bytes) -> None:
        """Take the runtime's account of why it cannot start; without effect once it is ready."""
        with suppress(InvalidStateError):
            self.ready.set_exception(InitError(payload))

    # Internals

    def _signal(self, number: int) -> None:
        with self._lock:  # the watcher takes it before it reaps, so the pid is still ours
            if not self._gone.is_set():
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, number)

    def _watch(self) -> None:
        """Wait for the process to end, then fail whatever still waits on it."""
        _await_exit(self._process)
        with self._lock:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # children it left behind
            self._process.wait()
            self._gone.set()
        self.fail_init(error_payload("Runtime.ExitError", exit_message(self._process.returncode)))
        self._fail_current()
        self._idle.set()
        self._handed_over.put(None)
        self._server.shutdown()
        self._server.server_close()

    def _fail_current(self) -> None:
        with self._lock:
            current = self._current
        if current:
            message = exit_message(self._process.returncode)
            payload = error_payload("Runtime.ExitError", message, current.request_id)
            _settle(current, Answer(payload=payload, is_error=True))


def _start(command: Sequence[str], cwd: Path, env: Mapping[str, str], log_path: Path) -> subprocess.Popen[bytes]:
    """A process in a session of its own, so that it can be ended with all its children."""
    with log_path.open("ab") as log:
        return subprocess.Popen(  # noqa: S603 - starting the caller's command is its purpose
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _await_exit(process: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended: unreaped where the system can, so that its id is not another's yet."""
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:  # macOS before Python 3.13
        process.wait()


def _settle(invocation: Invocation, answer: Answer) -> None:
    """Resolve an answer that another thread may have resolved or cancelled first."""
    with suppress(InvalidStateError):
        invocation.answer.set_result(answer)


class _RuntimeApiServer(ThreadingHTTPServer):
    """The Runtime API of one process, on a loopback port of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, runtime: RuntimeProcess) -> None:
        super().__init__(("127.0.0.1", 0), _RuntimeApiHandler)
        self.runtime = runtime

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: the runtime hangs up whenever it dies, and its watcher reports that."""


class _RuntimeApiHandler(BaseHTTPRequestHandler):
    """The four calls that a runtime makes: next invocation, response, error, init error."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave together: apart, the second waits 40 ms for an acknowledgement
    server: _RuntimeApiServer

    def do_GET(self) -> None:
        """Hand out the next invocation."""
        if self.path != f"{API}/invocation/next":
            self._reply(404)
            return
        invocation = self.server.runtime.next_invocation()
        if invocation is None:
            self.close_connection = True
            return
        self._reply(200, invocation.payload, invocation.headers())

    def do_POST(self) -> None:
        """Take an answer, or the reason why the runtime cannot start."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == f"{API}/init/error":
            self.server.runtime.fail_init(body)
            self._accepted()
            return
        prefix, _, action = self.path.rpartition("/")
        request_id = prefix.removeprefix(f"{API}/invocation/")
        if prefix == request_id or action not in ("response", "error"):
            self._reply(404)
        elif action == "response" and len(body) > self.server.runtime.max_response_bytes:
            self._refuse_too_large(request_id, len(body))
        elif self._finish(request_id, Answer(payload=body, is_error=action == "error")):
            self._accepted()

    def _finish(self, request_id: str, answer: Answer) -> bool:
        if self.server.runtime.finish(request_id, answer):
            return True
        self._reply(400, error_payload("InvalidRequestID", "Invalid request ID"))
        return False

    def _refuse_too_large(self, request_id: str, size: int) -> None:
        message = (
            f"Response payload size ({size} bytes) exceeded maximum allowed payload size "
            f"({self.server.runtime.max_response_bytes} bytes)."
        )
        refusal = error_payload("Function.ResponseSizeTooLarge", message)
        if self._finish(request_id, Answer(payload=refusal, is_error=True)):
            self._reply(413, error_payload("RequestEntityTooLarge", message))

    def _accepted(self) -> None:
        self._reply(202, b'{"status":"OK"}')

    def _reply(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {"Content-Type": "application/json"}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - named by http.server
        """Keep quiet: one line per poll would drown the function's own output."""
