"""LocalStack's runtime executor on plain processes: one execution environment of a zip-packaged Python function."""

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from localstack import config
from localstack.aws.api.lambda_ import PackageType
from localstack.services.lambda_.invocation.executor_endpoint import (
    NAMESPACE,
    ShutdownDuringStartup,
    StatusErrorException,
)
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import LambdaRuntimeException, RuntimeExecutor

from bundling.runtime_api import Answer, InitError, Invocation, RuntimeProcess, error_payload

LOG = logging.getLogger(__name__)

PYTHON_VARIABLE = "LAMBDA_PROCESS_PYTHON"
INIT_TIMEOUT_SECONDS = 10  # AWS's limit for on-demand functions (Lambda developer guide, "execution environment")


def runtime_python() -> str:
    """The interpreter that runs functions; awslambdaric must be installed for it."""
    return os.environ.get(PYTHON_VARIABLE) or sys.executable


class ProcessRuntimeExecutor(RuntimeExecutor):
    """Starts the function's process, hands it invocations one at a time, and ends it.

    A process that crashed or timed out is started anew by the next invocation, on that invocation's time.
    """

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - named by LocalStack
        super().__init__(id=id, function_version=function_version)
        self._lock = threading.Lock()
        self._stopped = False
        self._process: RuntimeProcess | None = None
        self._env: dict[str, str] = {}
        self._dir = Path(tempfile.mkdtemp(prefix=f"lambda-{function_version.id.function_name}-"))
        self._log_path = self._dir / "output.log"
        self._log_offset = 0

    # --- Lifecycle, as LocalStack calls it ---------------------------------------------------------------------

    def start(self, env_vars: dict[str, str]) -> None:
        """Start the process and wait for its init. An on-demand function's failed init is left to its first call."""
        self._env = self._environment(env_vars)
        on_demand = env_vars["AWS_LAMBDA_INITIALIZATION_TYPE"] == "on-demand"
        process = self._launch()
        try:
            process.ready.result(INIT_TIMEOUT_SECONDS if on_demand else None)
        except CancelledError as error:
            raise ShutdownDuringStartup("the executor was stopped while the function started") from error
        except (InitError, TimeoutError) as error:
            process.kill()
            # As on AWS, the first invocation of an on-demand function runs init again, in its own time, and returns
            # the error with the output. LocalStack would keep no log of an error raised here.
            if isinstance(error, InitError) and not on_demand:
                raise StatusErrorException("the environment did not start", payload=error.payload) from error

    def stop(self) -> None:
        """End the process; an invocation that waits is cancelled."""
        with self._lock:
            self._stopped = True
        if self._process:
            self._process.stop()
        shutil.rmtree(self._dir, ignore_errors=True)

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        """One invocation: its answer, and what a CloudWatch log of it would hold."""
        timeout = self.function_version.config.timeout
        invocation = Invocation(
            request_id=payload["invoke-id"],
            payload=payload["payload"].encode(),
            function_arn=payload["invoked-function-arn"],
            deadline_ms=int((time.time() + timeout) * 1000),
            trace_id=payload.get("trace-id", ""),
        )
        init_output = self._new_output()
        started = time.monotonic()
        answer, note = self._answer(invocation, started + timeout)
        duration_ms = (time.monotonic() - started) * 1000
        logs = (
            f"{init_output}"
            f"START RequestId: {invocation.request_id} Version: {self.function_version.id.qualifier}\n"
            f"{self._new_output()}{note}"
            f"END RequestId: {invocation.request_id}\n"
            f"{self._report_line(invocation.request_id, duration_ms)}\n"
        )
        return InvocationResult(invocation.request_id, answer.payload, is_error=answer.is_error, logs=logs)

    def _answer(self, invocation: Invocation, deadline: float) -> tuple[Answer, str]:
        """The function's answer, or Lambda's own in its place, and the line that Lambda adds to the log."""
        try:
            process = self._process
            if process is None or not process.alive:
                process = self._launch()
                process.ready.result(deadline - time.monotonic())
            return process.invoke(invocation, deadline - time.monotonic()), ""
        except InitError as error:
            self._process.kill()  # it is about to end by itself, and the next call must not find it alive
            return Answer(payload=error.payload, is_error=True), ""
        except TimeoutError:
            self._process.kill()
        message = f"Task timed out after {self.function_version.config.timeout:.2f} seconds"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        refusal = error_payload("Sandbox.Timedout", message, invocation.request_id)
        return Answer(payload=refusal, is_error=True), f"{now} {invocation.request_id} {message}\n"

    def _launch(self) -> RuntimeProcess:
        function = self.function_version.config
        with self._lock:
            if self._stopped:
                raise ShutdownDuringStartup("the executor is stopped")
            self._process = RuntimeProcess(
                command=[runtime_python(), "-m", "awslambdaric", function.handler],
                cwd=function.code.get_unzipped_code_location(),
                env=self._env,
                log_path=self._log_path,
                max_response_bytes=config.LAMBDA_LIMITS_MAX_FUNCTION_PAYLOAD_SIZE_BYTES,
            )
            return self._process

    # --- Environment of the function ---------------------------------------------------------------------------

    def _environment(self, env_vars: dict[str, Any]) -> dict[str, str]:
        """What LocalStack asks for, with the paths that a container would have had made real."""
        function = self.function_version.config
        task_root = str(function.code.get_unzipped_code_location())
        layers = [str(layer.code.get_unzipped_code_location()) for layer in function.layers]
        python_path = [task_root, *(f"{layer}/python" for layer in layers)]
        own_python_path = str(env_vars.get("PYTHONPATH", "")).replace("/var/task", task_root)
        if own_python_path:
            python_path.insert(0, own_python_path)
        home = self._dir / "tmp"
        home.mkdir()
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "en_US.UTF-8",
            "HOME": str(home),  # keeps the developer's own ~/.aws out of the function
            "TMPDIR": str(home),
            **{name: str(value) for name, value in env_vars.items() if value is not None},
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.runtime}",
            "LAMBDA_TASK_ROOT": task_root,
            "PYTHONPATH": os.pathsep.join(python_path),
        }

    # --- Logs --------------------------------------------------------------------------------------------------

    def _new_output(self) -> str:
        """Output since the last call: the process writes to a file, so none of it is still on its way."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(self._log_offset)
                data = log.read()
        except OSError:  # stopped meanwhile
            return ""
        self._log_offset += len(data)
        text = data.decode(errors="replace")
        return text if not text or text.endswith("\n") else f"{text}\n"

    def _report_line(self, request_id: str, duration_ms: float) -> str:
        used = self._process.peak_memory_mb()
        fields = [
            f"REPORT RequestId: {request_id}",
            f"Duration: {duration_ms:.2f} ms",
            f"Billed Duration: {int(duration_ms) + 1} ms",
            f"Memory Size: {self.function_version.config.memory_size} MB",
        ]
        return "\t".join(fields + ([f"Max Memory Used: {used} MB"] if used else []))

    def get_logs(self) -> str:
        """All output of the environment, for LocalStack's own reports."""
        try:
            return self._log_path.read_text(errors="replace")
        except OSError:
            return ""

    # --- Addresses: functions share the host's loopback interface with LocalStack -------------------------------

    def get_address(self) -> str:
        """Where the function is."""
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        """Where LocalStack is, as the function sees it."""
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        """LocalStack's own runtime endpoint, which no process uses."""
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}{NAMESPACE}/{self.id}"

    # --- Versions ----------------------------------------------------------------------------------------------

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        """Unpack the code; a function that cannot run here becomes ``Failed`` at once, with the reason."""
        function = function_version.config
        if function.package_type != PackageType.Zip:
            raise LambdaRuntimeException("the process executor runs zip packages only")
        if not str(function.runtime).startswith("python"):
            raise LambdaRuntimeException(f"the process executor runs Python functions only, not {function.runtime}")
        function.code.prepare_for_execution()
        for layer in function.layers:
            layer.code.prepare_for_execution()

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """Nothing: LocalStack removes the unpacked code itself once no version uses it."""

    @classmethod
    def validate_environment(cls) -> bool:
        """Whether the interpreter for functions can run them; the log says why when it cannot."""
        python = runtime_python()
        try:
            command = [python, "-c", "import awslambdaric, runtime_client"]
            subprocess.run(command, check=True, capture_output=True, timeout=30)
        except (OSError, subprocess.SubprocessError) as error:
            LOG.warning(
                "Lambda functions cannot run: %s has no working awslambdaric (%s); point %s at an interpreter that has",
                python,
                error,
                PYTHON_VARIABLE,
            )
            return False
        return True
