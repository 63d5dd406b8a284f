"""LocalStack for the tests, run natively: installed once into ``.tools/localstack``, served on a free loopback port.

``python -m tests.servers.localstack`` serves one by hand until it is interrupted; with ``--install`` it only installs.
"""

import argparse
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from localstack_client.session import Session

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "tests" / "localstack"
HOME = PROJECT / ".tools" / "localstack"
ENDPOINT_VARIABLE = "TOWPATH_AWS_ENDPOINT"
# What SNS filters with, as AWS documents it, and this LocalStack does not; tests/integration/test_filter_agreement.py
# holds that it is still so.
FILTERS_UNLIKE_AWS = {
    "wildcard": "LocalStack refuses the operator",
    "anything-but suffix": "LocalStack refuses the operator there",
    "anything-but wildcard": "LocalStack refuses the operator there",
    "exact number": "LocalStack compares the text of a number with a number",
    "anything-but a number": "LocalStack compares the text of a number with a number",
    "no attributes": "LocalStack lets exists false match a message without attributes",
}
START_SECONDS = 120  # two seconds on an idle machine
STOP_SECONDS = 20


class LocalStackUnavailable(Exception):
    """LocalStack could not be installed, started or reached; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The interpreter that runs LocalStack, and the one that runs Lambda functions."""

    server: Path
    functions: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Aws:
    """An AWS to test against: its endpoint, and clients of it. ``dynamodb`` is the endpoint of what it lacks."""

    endpoint: str
    region: str
    dynamodb: str | None = None
    shares_files: bool = False  # whether functions are processes of this machine, which see its files
    topology: str = "suite"  # the name of the suite's topologies, with which all names begin
    quiet_seconds: float = 1.5  # nothing new for so long, and nothing comes any more

    @property
    def variables(self) -> Mapping[str, str]:
        """What a process needs to reach it."""
        known = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        if self.dynamodb is None:
            return known | {ENDPOINT_VARIABLE: self.endpoint}
        endpoints = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ENDPOINT_URL_DYNAMODB": self.dynamodb}
        return known | endpoints | {ENDPOINT_VARIABLE: ""}

    def client(self, service: str) -> Any:
        """A boto3 client of ``service``, made by localstack-client."""
        with pytest.MonkeyPatch.context() as environment:
            endpoint = (self.dynamodb or self.endpoint) if service == "dynamodb" else self.endpoint
            environment.setenv("AWS_ENDPOINT_URL", endpoint)  # how localstack-client takes any endpoint
            session = Session(region_name=self.region)
        return session.client(service)


@contextmanager
def private_localstack() -> Iterator[str]:
    """The endpoint to test against: ``TOWPATH_AWS_ENDPOINT`` when set, else a LocalStack of our own, until the end.

    Raises ``LocalStackUnavailable``. The LocalStack ends with this process, however that ends.
    """
    given = os.environ.get(ENDPOINT_VARIABLE)
    if given:
        _check_reachable(given)
        yield given
        return
    installation = install()
    with (
        tempfile.TemporaryDirectory(prefix="towpath-localstack-", ignore_cleanup_errors=True) as state,
        _served(installation, Path(state)) as endpoint,
    ):
        yield endpoint


def _check_reachable(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise LocalStackUnavailable(f"{ENDPOINT_VARIABLE} must look like http://127.0.0.1:4566, not {endpoint!r}")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname, port), timeout=5).close()
    except OSError as error:
        raise LocalStackUnavailable(f"{ENDPOINT_VARIABLE} is {endpoint}, which does not answer: {error}") from error


# --- Installing ------------------------------------------------------------------------------------------------


def install(home: Path = HOME) -> Installation:
    """Make the two environments in ``home`` where they are missing, unfinished or out of date.

    Only one process installs at a time; a marker that names what was installed is written last.
    """
    import fcntl  # not on Windows, where LocalStack needs Docker anyway

    installation = Installation(server=home / "server/bin/python", functions=home / "functions/bin/python")
    marker, wanted = home / "complete", _fingerprint()
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go by the system when this process ends
        if not marker.exists() or marker.read_text() != wanted:
            marker.unlink(missing_ok=True)
            _build(installation)
            marker.write_text(wanted)
    return installation


def _fingerprint() -> str:
    """What an installation depends on: the locked versions, the plugin's entry point, interpreter, project folder."""
    digest = hashlib.sha256()
    for name in ("localstack.lock", "functions.lock", "process_executor/pyproject.toml"):
        digest.update((SOURCES / name).read_bytes())
    digest.update(repr((sys.version, sys.base_prefix, str(PROJECT))).encode())
    return digest.hexdigest()


def _build(installation: Installation) -> None:
    for python, lock in ((installation.server, "localstack.lock"), (installation.functions, "functions.lock")):
        shutil.rmtree(python.parents[1], ignore_errors=True)
        _uv("venv", "--python", sys.executable, str(python.parents[1]))
        _uv("pip", "install", "--python", str(python), "--requirement", str(SOURCES / lock))
    ours = ["--editable", str(PROJECT), "--editable", str(SOURCES / "process_executor")]
    _uv("pip", "install", "--python", str(installation.server), "--no-deps", *ours)


def _uv(*arguments: str) -> None:
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise LocalStackUnavailable(f"installing LocalStack failed: uv {' '.join(arguments)}\n{done.stderr.strip()}")


# --- Serving ---------------------------------------------------------------------------------------------------


@contextmanager
def _served(installation: Installation, state: Path) -> Iterator[str]:
    """LocalStack with its files in ``state``, healthy when the body starts and gone when it has ended."""
    port = _free_port()
    log_path = state / "localstack.log"
    supervise = [sys.executable, str(Path(__file__).with_name("supervise.py"))]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*supervise, str(installation.server), "-m", "localstack.runtime.main"],
            cwd=state,
            env=_environment(installation, state, port),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _await_healthy(endpoint, process, log_path)
        yield endpoint
    finally:
        process.stdin.close()  # tells the supervisor to end it
        process.wait(STOP_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _environment(installation: Installation, state: Path, port: int) -> dict[str, str]:
    """Nothing from outside (no download, analytics, DNS server, Docker), and nothing shared with another instance."""
    temporary = state / "tmp"
    temporary.mkdir()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("AWS_") and k != "PYTHONPATH"}
    return inherited | {
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "DNS_ADDRESS": "0",
        # Else LocalStack may take itself for a container and use /tmp/localstack, which every instance clears.
        "OVERRIDE_IN_DOCKER": "0",
        "FILESYSTEM_ROOT": str(state),
        "TMPDIR": str(temporary),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "LOCALSTACK_HOST": f"127.0.0.1:{port}",
        "SQS_ENDPOINT_STRATEGY": "off",  # queue URLs that need no DNS: http://127.0.0.1:PORT/ACCOUNT/NAME
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "LAMBDA_PROCESS_PYTHON": str(installation.functions),
        # AWS polls all the time; LocalStack waits 1 s between batches and up to 10 s on an empty queue.
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": "0.02",
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": "0.1",
    }


def _await_healthy(endpoint: str, process: "subprocess.Popen[bytes]", log_path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{endpoint}/_localstack/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    ended = process.poll()
    what = f"did not answer within {START_SECONDS} s" if ended is None else f"ended with exit code {ended}"
    log_end = "\n".join(log_path.read_text(errors="replace").splitlines()[-30:])
    raise LocalStackUnavailable(f"LocalStack {what}; the end of its log:\n{log_end}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.localstack", description=__doc__)
    parser.add_argument("--install", action="store_true", help="only install, serve nothing")
    if parser.parse_args().install:
        install()
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clear up as after Ctrl-C
    with private_localstack() as endpoint:
        print(f"export {ENDPOINT_VARIABLE}={endpoint}   # Ctrl-C stops it", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except LocalStackUnavailable as unavailable:
        sys.exit(f"localstack: {unavailable}")
