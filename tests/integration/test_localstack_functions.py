"""LocalStack with the process executor: functions really run, and end as they end on AWS."""

import base64
import io
import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.servers.localstack import ENDPOINT_VARIABLE, Aws

pytestmark = pytest.mark.skipif(
    ENDPOINT_VARIABLE in os.environ, reason=f"{ENDPOINT_VARIABLE} names a LocalStack whose executor may be another"
)

SOURCE = """
import os, sys, time
print("init")
def handle(event, context):
    what = event["do"]
    if what == "return":
        return {"pid": os.getpid(), "remaining": context.get_remaining_time_in_millis(), "cwd": os.getcwd()}
    if what == "environment":
        return dict(os.environ)
    if what == "raise":
        raise ValueError("as asked")
    if what == "sleep":
        print("about to sleep")
        time.sleep(60)
    if what == "crash":
        print("about to crash")
        os._exit(3)
    if what == "kill":
        os.kill(os.getpid(), 9)
    if what == "log":
        print("to standard output")
        print("to standard error", file=sys.stderr)
    if what == "much":
        return "x" * (6 * 1024 * 1024 + 1000)
"""


@dataclass(frozen=True)
class Invoked:
    answer: Any
    error: str | None
    log: str


class Function:
    """One function on LocalStack."""

    def __init__(self, aws: Aws, name: str, source: str) -> None:
        self.name = name
        self.lambda_ = aws.client("lambda")
        self.lambda_.create_function(
            FunctionName=name,
            Role="arn:aws:iam::000000000000:role/function",
            Runtime=f"python3.{sys.version_info.minor}",
            Handler="module.handle",
            Timeout=2,
            Environment={"Variables": {"GREETING": "hello"}},
            Code={"ZipFile": _zipped(source)},
        )
        self.lambda_.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})

    def invoke(self, **event: Any) -> Invoked:
        response = self.lambda_.invoke(FunctionName=self.name, Payload=json.dumps(event), LogType="Tail")
        return Invoked(
            answer=json.loads(response["Payload"].read()),
            error=response.get("FunctionError"),
            log=base64.b64decode(response["LogResult"]).decode(),
        )


def _zipped(source: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("module.py", source)
    return content.getvalue()


@pytest.fixture(scope="module")
def make_function(aws: Aws) -> Iterator[Callable[[str, str], Function]]:
    made: list[Function] = []

    def make(name: str, source: str) -> Function:
        made.append(Function(aws, name, source))
        return made[-1]

    yield make
    for function in made:
        function.lambda_.delete_function(FunctionName=function.name)


@pytest.fixture(scope="module")
def function(make_function: Callable[[str, str], Function]) -> Function:
    return make_function("executor-test", SOURCE)


def test_a_function_runs_with_its_time_and_in_the_same_process_again(function: Function) -> None:
    first, second = function.invoke(do="return"), function.invoke(do="return")
    assert first.error is None
    assert 0 < first.answer["remaining"] <= 2000
    assert first.answer["pid"] == second.answer["pid"]


def test_a_function_sees_its_own_variables_and_its_unpacked_code(function: Function) -> None:
    environment = function.invoke(do="environment").answer
    assert environment["GREETING"] == "hello"
    assert environment["AWS_LAMBDA_FUNCTION_NAME"] == "executor-test"
    assert function.invoke(do="return").answer["cwd"] == environment["LAMBDA_TASK_ROOT"]
    assert environment["AWS_ENDPOINT_URL"].startswith("http://")


def test_a_raised_error_is_the_answer_and_the_process_lives_on(function: Function) -> None:
    before = function.invoke(do="return").answer["pid"]
    raised = function.invoke(do="raise")
    assert raised.error == "Unhandled"
    assert (raised.answer["errorType"], raised.answer["errorMessage"]) == ("ValueError", "as asked")
    assert function.invoke(do="return").answer["pid"] == before


def test_a_function_over_its_time_is_killed_and_the_next_call_starts_anew(function: Function) -> None:
    before = function.invoke(do="return").answer["pid"]
    started = time.monotonic()
    late = function.invoke(do="sleep")
    assert time.monotonic() - started < 10
    assert late.error == "Unhandled"
    assert late.answer["errorType"] == "Sandbox.Timedout"
    assert late.log.index("about to sleep") < late.log.index("Task timed out after 2.00 seconds")
    assert function.invoke(do="return").answer["pid"] != before


def test_a_crash_is_reported_and_the_next_call_starts_anew(function: Function) -> None:
    crashed = function.invoke(do="crash")
    assert crashed.error == "Unhandled"
    assert crashed.answer["errorType"] == "Runtime.ExitError"
    assert crashed.answer["errorMessage"].endswith("Runtime exited with error: exit status 3")
    assert "about to crash" in crashed.log
    assert function.invoke(do="return").error is None


def test_an_end_by_a_signal_is_reported_and_the_next_call_starts_anew(function: Function) -> None:
    killed = function.invoke(do="kill")
    assert killed.answer["errorType"] == "Runtime.ExitError"
    assert killed.answer["errorMessage"].endswith("Runtime exited with error: signal: killed")
    assert function.invoke(do="return").error is None


def test_an_answer_over_six_megabytes_is_refused(function: Function) -> None:
    refused = function.invoke(do="much")
    assert refused.error == "Unhandled"
    assert refused.answer["errorType"] == "Function.ResponseSizeTooLarge"


def test_a_failing_init_is_the_answer_of_every_call_with_its_output(make_function: Callable[..., Function]) -> None:
    broken = make_function("executor-test-broken", 'print("before"); raise RuntimeError("no database")')
    for _ in range(5):  # each runs init again
        failed = broken.invoke()
        assert failed.error == "Unhandled"
        assert failed.answer["errorMessage"] == "no database"
        assert "before" in failed.log


def test_an_init_that_ends_the_process_is_the_answer_of_every_call(make_function: Callable[..., Function]) -> None:
    gone = make_function("executor-test-gone", 'import os; print("before"); os._exit(4)')
    for _ in range(2):
        failed = gone.invoke()
        assert failed.answer["errorType"] == "Runtime.ExitError"
        assert failed.answer["errorMessage"].endswith("Runtime exited with error: exit status 4")
        assert "before" in failed.log


def test_an_init_that_hangs_is_given_up_and_the_call_times_out(make_function: Callable[..., Function]) -> None:
    """Lambda gives an init ten seconds, and then the first call's time."""
    hanging = make_function("executor-test-hanging", 'import time; print("before"); time.sleep(60)')
    late = hanging.invoke()
    assert late.answer["errorType"] == "Sandbox.Timedout"
    assert "before" in late.log


def test_output_is_in_the_log_between_start_and_end(function: Function, aws: Aws) -> None:
    lines = function.invoke(do="log").log.splitlines()
    start, end = (next(i for i, line in enumerate(lines) if line.startswith(word)) for word in ("START", "END"))
    assert {"to standard output", "to standard error"} <= set(lines[start:end])
    assert lines[end + 1].startswith("REPORT")
    assert "to standard output" in _stored_log(aws, "/aws/lambda/executor-test")


def _stored_log(aws: Aws, group: str) -> str:
    logs = aws.client("logs")
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        events = logs.filter_log_events(logGroupName=group)["events"]
        if any("standard output" in event["message"] for event in events):
            break
        time.sleep(0.2)
    return "\n".join(event["message"] for event in events)


def test_a_function_that_is_no_python_fails_when_it_is_made(aws: Aws) -> None:
    lambda_ = aws.client("lambda")
    lambda_.create_function(
        FunctionName="executor-test-node",
        Role="arn:aws:iam::000000000000:role/function",
        Runtime="nodejs20.x",
        Handler="index.handle",
        Code={"ZipFile": _zipped("")},
    )
    deadline = time.monotonic() + 20
    while (made := lambda_.get_function_configuration(FunctionName="executor-test-node"))["State"] == "Pending":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert made["State"] == "Failed"
    assert "Python functions only" in made["StateReason"]
