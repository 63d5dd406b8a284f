"""The Runtime API server and its process, against a runtime of a few lines that does what each event says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path

import pytest

from bundling.runtime_api import InitError, Invocation, RuntimeProcess, exit_message

_RUNTIME = """
import http.client, json, os, signal, subprocess, sys, time

API = "/2018-06-01/runtime"
connection = http.client.HTTPConnection(os.environ["AWS_LAMBDA_RUNTIME_API"])


def call(method, path, body=None):
    connection.request(method, API + path, body)
    response = connection.getresponse()
    return response.status, response.read(), response.headers


match os.environ.get("AT_START"):
    case "report":
        call("POST", "/init/error", json.dumps({"errorType": "Runtime.ImportModuleError"}))
        sys.exit(1)
    case "exit":
        sys.exit(3)
    case "hang":
        time.sleep(300)

while True:
    _, body, headers = call("GET", "/invocation/next")
    event = json.loads(body)
    path = "/invocation/" + headers["Lambda-Runtime-Aws-Request-Id"]
    match event["do"]:
        case "return":
            call("POST", path + "/response", json.dumps(event["value"]))
        case "raise":
            call("POST", path + "/error", json.dumps({"errorType": "ValueError", "errorMessage": "no"}))
        case "headers":
            call("POST", path + "/response", json.dumps(dict(headers)))
        case "exit":
            sys.exit(4)
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "answer, then exit":
            call("POST", path + "/response", "1")
            sys.exit(4)
        case "hang":
            print(subprocess.Popen(["sleep", "300"]).pid, flush=True)
            time.sleep(300)
        case "answer for another":
            status, body, _ = call("POST", "/invocation/unknown/response", "1")
            call("POST", path + "/response", json.dumps([status, json.loads(body)["errorType"]]))
"""

_LIMIT = 1_000


class Runtimes:
    """Starts runtimes in one folder and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        self._folder = folder
        self._started: list[RuntimeProcess] = []
        (folder / "runtime.py").write_text(_RUNTIME)

    def start(self, at_start: str = "") -> RuntimeProcess:
        command = [sys.executable, "runtime.py"]
        environment = {"AT_START": at_start, "PATH": os.environ["PATH"]}
        process = RuntimeProcess(command, self._folder, environment, self.log, _LIMIT)
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            process.kill()


@pytest.fixture
def runtimes(tmp_path: Path) -> Iterator[Runtimes]:
    started = Runtimes(tmp_path)
    yield started
    started.end()


def invocation(number: int = 1, **event: object) -> Invocation:
    return Invocation(
        request_id=f"request-{number}",
        payload=json.dumps(event).encode(),
        function_arn="arn:aws:lambda:eu-west-1:000000000000:function:f",
        deadline_ms=123,
        trace_id="Root=1",
    )


def call(process: RuntimeProcess, timeout: float = 20, **event: object) -> tuple[object, bool]:
    payload, is_error = process.invoke(invocation(**event), timeout)
    return json.loads(payload), is_error


def test_an_invocation_returns_what_the_function_answered_again_and_again(runtimes: Runtimes) -> None:
    process = runtimes.start()
    process.ready.result(20)
    assert call(process, do="return", value={"a": "ä"}) == ({"a": "ä"}, False)
    assert call(process, do="return", value=None) == (None, False)
    assert process.alive
    assert process.peak_memory_mb() in range(1, 200)


def test_the_runtime_is_told_request_deadline_function_and_trace(runtimes: Runtimes) -> None:
    headers, _ = call(runtimes.start(), do="headers")
    assert isinstance(headers, dict)
    assert headers["Lambda-Runtime-Aws-Request-Id"] == "request-1"
    assert headers["Lambda-Runtime-Deadline-Ms"] == "123"
    assert headers["Lambda-Runtime-Trace-Id"] == "Root=1"
    assert headers["Lambda-Runtime-Invoked-Function-Arn"].endswith(":function:f")


def test_an_error_of_the_function_is_an_answer_and_the_runtime_goes_on(runtimes: Runtimes) -> None:
    process = runtimes.start()
    assert call(process, do="raise") == ({"errorType": "ValueError", "errorMessage": "no"}, True)
    assert call(process, do="return", value=1) == (1, False)


@pytest.mark.parametrize(
    ("event", "message"),
    [("exit", "exit status 4"), ("crash", "signal: segmentation fault")],
)
def test_a_runtime_that_ends_at_work_fails_this_invocation_and_the_next(
    runtimes: Runtimes, event: str, message: str
) -> None:
    process = runtimes.start()
    for _ in range(2):
        answer, is_error = call(process, do=event)
        assert is_error
        assert answer == {
            "errorType": "Runtime.ExitError",
            "errorMessage": f"RequestId: request-1 Error: Runtime exited with error: {message}",
        }
    assert not process.alive
    assert process.peak_memory_mb() is None


def test_a_runtime_that_ends_after_its_answer_is_gone_when_the_answer_is_in_hand(runtimes: Runtimes) -> None:
    process = runtimes.start()
    assert call(process, do="answer, then exit") == (1, False)
    assert not process.alive


def test_an_init_error_carries_the_runtimes_own_account(runtimes: Runtimes) -> None:
    with pytest.raises(InitError) as caught:
        runtimes.start("report").ready.result(20)
    assert json.loads(caught.value.payload) == {"errorType": "Runtime.ImportModuleError"}


def test_an_exit_at_start_is_an_init_error(runtimes: Runtimes) -> None:
    with pytest.raises(InitError, match="exit status 3"):
        runtimes.start("exit").ready.result(20)


def test_a_response_over_the_limit_is_an_error_and_the_runtime_goes_on(runtimes: Runtimes) -> None:
    process = runtimes.start()
    answer, is_error = call(process, do="return", value="x" * _LIMIT)
    assert is_error
    assert isinstance(answer, dict)
    assert answer["errorType"] == "Function.ResponseSizeTooLarge"
    assert f"{_LIMIT + 2} bytes" in answer["errorMessage"]
    assert call(process, do="return", value="x" * (_LIMIT - 2)) == ("x" * (_LIMIT - 2), False)


def test_an_answer_for_another_request_is_refused(runtimes: Runtimes) -> None:
    assert call(runtimes.start(), do="answer for another") == ([400, "InvalidRequestID"], False)


def test_a_time_out_leaves_a_runtime_that_a_kill_ends_with_its_children(runtimes: Runtimes) -> None:
    process = runtimes.start()
    process.ready.result(20)
    with pytest.raises(TimeoutError):
        process.invoke(invocation(do="hang"), timeout=1)
    assert process.alive
    process.kill()
    assert not process.alive
    child = int(runtimes.log.read_text())
    assert _ends(child)


def test_a_stop_cancels_what_waits(runtimes: Runtimes) -> None:
    process = runtimes.start()
    process.ready.result(20)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(process.invoke, invocation(do="hang"), 60)
        _wait_until(lambda: runtimes.log.read_text() != "")
        process.stop()
        assert isinstance(waiting.exception(20), CancelledError)
    assert not process.alive


def test_a_stop_cancels_a_start(runtimes: Runtimes) -> None:
    process = runtimes.start("hang")
    process.stop()
    with pytest.raises(CancelledError):
        process.ready.result(20)


def test_an_exit_is_worded_as_lambda_words_it() -> None:
    assert exit_message(0) == "Runtime exited without providing a reason"
    assert exit_message(1) == "Runtime exited with error: exit status 1"
    assert exit_message(-signal.SIGKILL) == "Runtime exited with error: signal: killed"


def _ends(pid: int) -> bool:
    """Whether a process that was sent SIGKILL is gone, or dead and only not yet reaped by its new parent."""

    def ended() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return _wait_until(ended)


def _wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_the_server_needs_the_standard_library_alone() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); before = set(sys.modules); "
        "import bundling.runtime_api; "
        "loaded = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(loaded - sys.stdlib_module_names))"
    )
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "['bundling']\n"
