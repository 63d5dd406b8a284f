"""The harness that every conformance case is written against, and three of its six implementations.

A case gets a ``Harness`` and calls ``transport(topology)`` on it. What comes back publishes, works, moves time and
shows what the handlers saw, alike on every transport; what a transport cannot do is a capability it does not have.
"""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import pytest
import sqlalchemy as sa

from aws_transport.bindings import Bindings
from local_transport.connections import Database
from local_transport.tables import message
from tests.servers.clock import advance_in
from tests.servers.ledger_time import age_keys
from tests.servers.localstack import Aws
from tests.servers.provision import Clients, Deployment, provisioned
from tests.servers.real_aws import RealAws
from towpath import NewMessage, PublishResult, connect
from towpath.manifest import Manifest
from towpath.ports import Capability, DeadLetterEntry, Operator, Transport
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import parse_topology
from towpath.worker import Worker, WorkerOptions

FUNCTION = Path(__file__).parent / "function"
ENVIRONMENTS = count(1)
PATIENCE = 120  # seconds for what must come, on a busy machine
FUNCTION_SECONDS = 10  # a function killed while a busy machine starts it has its message come again, as it must
# For a case that waits until a function's messages come again: the queue's visibility is six times this.
SHORT_LIVED = {"timeout_seconds": 3}
DRAIN_PATIENCE = 540  # the same for 2,000 deliveries, for which a test needs a time limit of its own

Observation = dict[str, Any]  # one line of scripted.observe


class Running(Protocol):
    """A transport that runs one topology."""

    capabilities: frozenset[Capability]

    def publish(self, topic: str, *messages: NewMessage) -> list[PublishResult]:
        """Publish; every message must be accepted."""

    def put(self, subscription: str, body: str) -> None:
        """Have ``body``, whatever it is, come to the subscription as other producers' bodies do, or broken ones."""

    def work(self, handled: int = 0) -> None:
        """Let handlers run until nothing is due, and there are ``handled`` observations in all, or it takes too long.

        A case that says how many are to come does not depend on how fast AWS's parts are. It still has to look.
        """

    def attended(self) -> AbstractContextManager[object]:
        """Have handlers run all the time, until the block ends."""

    def advance(self, seconds: float) -> None:
        """Move time on: by shifting what is stored, or by waiting."""

    def age_keys(self, seconds: float) -> None:
        """Move time on for deduplication keys at least: nothing has to wait."""

    def lose_a_worker(self, subscription: str) -> None:
        """Let a worker of a handler that ends its process run into it."""

    def release_some(self, topic: str, subscription: str) -> list[str]:
        """Publish, have deliveries given back unfinished, and answer the ids of their messages."""

    def drain(self, processes: int, threads: int, deliveries: int) -> int:
        """Let several processes of several threads each work until so many deliveries were handled.

        Answers how many processes must have taken part at least.
        """

    def observations(self, subscription: str | None = None) -> list[Observation]:
        """What handlers saw so far, in the order of their starts."""

    def dead_letters(self, subscription: str) -> list[DeadLetterEntry]:
        """The subscription's dead letters."""

    @property
    def operator(self) -> Operator:
        """Who may replay and discard, where the transport can."""


class Harness(Protocol):
    """One transport under test."""

    name: str
    lost_lease_seconds: float  # how long after a crash its deliveries are surely due again

    def transport(self, topology: Mapping[str, Any]) -> Any:
        """A context manager that runs ``topology`` (as in topology.toml) and gives a ``Running``."""


def manifest_of(
    topology: Mapping[str, Any], *, host: str | None = None, on_database: bool = False, name: str = "suite"
) -> Manifest:
    """Resolve a case's topology in an environment of its own, so that cases share nothing."""
    subscriptions = {}
    for subscription, written in topology["subscriptions"].items():
        defaults = {"handler": "scripted:handle", "lease_seconds": 5, "backoff": {"base_seconds": 1, "max_seconds": 2}}
        subscriptions[subscription] = defaults | ({"host": host} if host else {}) | written
        if host == "lambda":
            tuned = written.get("lambda", {})
            subscriptions[subscription]["lambda"] = {"timeout_seconds": FUNCTION_SECONDS} | _own_machine() | tuned
    parsed = parse_topology({"name": name} | dict(topology) | {"subscriptions": subscriptions}, "the case")
    if on_database:
        parsed = with_all_on_database(parsed)
    return resolve(parsed, f"c{os.getpid()}-{next(ENVIRONMENTS)}")


def awaited_dead_letters(running: Running, subscription: str, count: int) -> list[DeadLetterEntry]:
    """The subscription's dead letters, once there are ``count``, or patience has ended.

    What handlers never see cannot be waited for as an observation, and on AWS each message comes in its own time.
    """
    deadline = time.monotonic() + PATIENCE
    while len(letters := running.dead_letters(subscription)) < count and time.monotonic() < deadline:
        running.work()
    return letters


def eventually(condition: Callable[[], object]) -> None:
    """Until it is so; a failure when that takes longer than patience."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def _own_machine() -> dict[str, str]:
    """What the suite's zip is bundled for."""
    architecture = "arm64" if platform.machine() == "aarch64" else "x86_64"
    return {"runtime": f"python3.{sys.version_info.minor}", "architecture": architecture}


# --- Databases, and SQS polled by a worker: the same worker, in this process or in others -------------------------


@dataclass(kw_only=True)
class WorkerRunning:
    """A transport whose handlers run in Towpath's worker."""

    url: str
    transport: Transport
    subscriptions: list[str]
    report: Path
    move_time: Callable[[float], None]
    age_keys: Callable[[float], None]
    put: Callable[[str, str], None]
    quiet_after: timedelta
    command_options: list[str] = field(default_factory=list)

    @property
    def capabilities(self) -> frozenset[Capability]:
        return self.transport.capabilities

    @property
    def operator(self) -> Operator:
        return self.transport.operator()

    def publish(self, topic: str, *messages: NewMessage) -> list[PublishResult]:
        results = self.transport.publish(topic, list(messages))
        assert [r.error for r in results if r.error] == []
        return results

    def work(self, handled: int = 0) -> None:
        once = self.quiet_after == timedelta(0)
        options = WorkerOptions(concurrency=4, once=once, idle_exit=None if once else self.quiet_after)
        deadline = time.monotonic() + PATIENCE
        Worker(self.transport, self.subscriptions, options).run()
        while len(self.observations()) < handled and time.monotonic() < deadline:
            Worker(self.transport, self.subscriptions, options).run()

    @contextmanager
    def attended(self) -> Iterator[Worker]:
        worker = Worker(self.transport, self.subscriptions, WorkerOptions(concurrency=4))
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield worker
        finally:
            worker.abort()
            thread.join()

    def advance(self, seconds: float) -> None:
        self.move_time(seconds)

    def lose_a_worker(self, subscription: str) -> None:
        process = self._start_worker(subscription, "--idle-exit", "20", "--concurrency", "1")
        assert process.wait(timeout=PATIENCE) == 9, "the handler was to end its process"

    def release_some(self, topic: str, subscription: str) -> list[str]:
        """Stop a worker in the middle of a handler."""
        (result,) = self.publish(topic, NewMessage(payload={"script": ["wait"]}))
        process = self._start_worker(subscription, "--drain", "0", CONFORMANCE_WAIT="1")
        eventually(lambda: any(row.leased for row in self.transport.operator().stats()))
        time.sleep(0.2)  # from the claim to the handler
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
        return [str(result.id)]

    def drain(self, processes: int, threads: int, deliveries: int) -> int:
        options = ("*", "--idle-exit", "3", "--concurrency", str(threads))
        with TemporaryDirectory() as folder:
            meeting = Path(folder) / str(processes)
            meeting.mkdir()
            started = [self._start_worker(*options, CONFORMANCE_MEETING=str(meeting)) for _ in range(processes)]
            assert [process.wait(timeout=DRAIN_PATIENCE) for process in started] == [0] * processes
        return processes

    def observations(self, subscription: str | None = None) -> list[Observation]:
        lines = self.report.read_text().splitlines() if self.report.exists() else []
        return chosen([json.loads(line) for line in lines], subscription)

    def dead_letters(self, subscription: str) -> list[DeadLetterEntry]:
        return list(self.transport.operator().dead_letters(subscription, 100))

    def _start_worker(self, subscription: str, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "towpath", "work", subscription, "--transport", self.url]
        return subprocess.Popen(
            [*command, *options, *self.command_options],
            cwd=FUNCTION,
            env=os.environ | variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def chosen(observations: list[Observation], subscription: str | None) -> list[Observation]:
    wanted = [o for o in observations if subscription in (None, o["subscription"])]
    return sorted(wanted, key=lambda observation: observation["started"])


@dataclass(kw_only=True)
class DatabaseHarness:
    """SQLite or PostgreSQL. Time is moved by shifting stored times."""

    name: str
    url: str
    folder: Path
    environment: pytest.MonkeyPatch
    lost_lease_seconds: float = 5 + 2 + 1  # the lease, its back-off, and one to spare

    @contextmanager
    def transport(self, topology: Mapping[str, Any]) -> Iterator[Running]:
        transport: Any = connect(self.url)
        clock = Database(self.url)
        report = self.folder / "observations.jsonl"
        self.environment.setenv("CONFORMANCE_OBSERVER", f"file://{report}")
        shifted = 0.0

        def move_time(seconds: float) -> None:
            nonlocal shifted
            shifted += seconds
            self.environment.setenv("CONFORMANCE_SHIFT", str(shifted))
            advance_in(clock, seconds)

        try:
            manifest = manifest_of(topology, on_database=True)
            transport.apply(manifest)
            yield WorkerRunning(
                url=self.url,
                transport=transport,
                subscriptions=list(manifest.subscriptions),
                report=report,
                move_time=move_time,
                age_keys=move_time,
                put=lambda subscription, body: self._put(transport, manifest.subscriptions[subscription].topic, body),
                quiet_after=timedelta(0),
            )
        finally:
            clock.close()
            transport.close()

    def _put(self, transport: Transport, topic: str, body: str) -> None:
        """A row that was written, or broken, by somebody else."""
        (result,) = transport.publish(topic, [NewMessage(payload=None)])
        with closing(Database(self.url)) as database, database.writing() as connection:
            connection.execute(sa.update(message).where(message.c.id == result.id).values(body=body))


@dataclass(kw_only=True)
class PolledHarness:
    """SNS and SQS on LocalStack, polled by a worker. Time passes by waiting.

    ``dynamodb`` starts what LocalStack lacks, for who asks for it, and answers its endpoint.
    """

    aws: Aws | RealAws
    dynamodb: Callable[[], str]
    folder: Path
    environment: pytest.MonkeyPatch
    name: str = "aws-worker"
    lost_lease_seconds: float = 5 + 2  # the lease, and LocalStack puts messages back about once a second

    @contextmanager
    def transport(self, topology: Mapping[str, Any]) -> Iterator[Running]:
        manifest = manifest_of(topology, host="worker", name=self.aws.topology)
        aws = with_tables(self.aws, manifest, self.dynamodb)
        report = self.folder / "observations.jsonl"
        self.environment.setenv("CONFORMANCE_OBSERVER", f"file://{report}")
        with provisioned(aws, manifest) as deployment, opened_on(aws, deployment, self) as transport:
            yield WorkerRunning(
                url=_url(aws),
                transport=transport,
                subscriptions=list(manifest.subscriptions),
                report=report,
                move_time=time.sleep,
                age_keys=lambda seconds: age_keys(aws.client("dynamodb"), deployment.tables, seconds),
                put=sending(aws, deployment.bindings),
                quiet_after=timedelta(seconds=aws.quiet_seconds),
                command_options=written(self.folder, manifest, deployment.bindings),
            )


def with_tables(aws: Aws | RealAws, manifest: Manifest, dynamodb: Callable[[], str]) -> Aws | RealAws:
    """``aws`` with DynamoDB where the manifest has tables, which only the real one has by itself."""
    has_tables = any(topic.aws and topic.aws.deduplication_table for topic in manifest.topics.values())
    return replace(aws, dynamodb=dynamodb()) if has_tables and isinstance(aws, Aws) else aws


class Place(Protocol):
    """Where a harness keeps files, and the variables of its process."""

    folder: Path
    environment: pytest.MonkeyPatch


@contextmanager
def opened_on(aws: Aws | RealAws, deployment: Deployment, harness: Place) -> Iterator[Transport]:
    """The AWS transport on what was deployed, with the credentials and the endpoints of the tests."""
    environment = harness.environment
    for name, value in aws.variables.items():
        environment.setenv(name, value)
    if aws.variables:
        environment.delenv("AWS_CA_BUNDLE", raising=False)
    options = written(harness.folder, deployment.manifest, deployment.bindings)
    transport = connect(_url(aws), options[1], bindings=options[3])
    try:
        yield transport
    finally:
        transport.close()


def sending(clients: Clients, bindings: Bindings) -> Callable[[str, str], None]:
    """Sends a body straight to a subscription's queue."""
    queue_urls = {name: binding.queue_url for name, binding in bindings.subscriptions.items()}
    sqs = clients.client("sqs")
    return lambda subscription, body: sqs.send_message(QueueUrl=queue_urls[subscription], MessageBody=body)


def _url(aws: Aws | RealAws) -> str:
    return f"aws://{aws.region}"


def written(folder: Path, manifest: Manifest, bindings: Bindings) -> list[str]:
    """The manifest and the bindings as files, as command-line options."""
    manifest_file, bindings_file = folder / "manifest.json", folder / "bindings.json"
    manifest_file.write_text(manifest.to_json())
    bindings_file.write_text(bindings.to_json())
    return ["--manifest", str(manifest_file), "--bindings", str(bindings_file)]
