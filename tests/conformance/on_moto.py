"""The harness of moto: SNS, SQS and DynamoDB in this process, polled by a worker, time moved by hand."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from aws_transport.clients import Clients
from aws_transport.transport import AwsTransport
from tests.conformance.harness import Running, WorkerRunning, eventually, manifest_of, sending, written
from tests.servers.ledger_time import age_keys
from tests.servers.moto_aws import MotoAws, moto_aws
from tests.servers.provision import provisioned
from towpath import NewMessage, connect
from towpath.worker import Worker, WorkerOptions

NOW = timedelta(0)


@dataclass(kw_only=True)
class MotoRunning(WorkerRunning):
    """A worker in this process: no other one sees what moto keeps."""

    def lose_a_worker(self, subscription: str) -> None:
        """A worker whose process died has received messages and settled nothing. Ours must not die."""
        assert self.transport.consumer(subscription).receive(10, NOW)

    def release_some(self, topic: str, subscription: str) -> list[str]:
        """Stop a worker in the middle of a handler."""
        (result,) = self.publish(topic, NewMessage(payload={"script": ["wait"]}))
        os.environ["CONFORMANCE_WAIT"] = "1"  # what the handler waits for to go
        worker = Worker(self.transport, [subscription], WorkerOptions(drain=NOW))
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            eventually(lambda: worker.counts.received == 1)
        finally:
            worker.stop()
            thread.join()
            del os.environ["CONFORMANCE_WAIT"]
        return [str(result.id)]


@dataclass(kw_only=True)
class MotoHarness:
    """SNS, SQS and DynamoDB of moto, polled by a worker. Time is moved by hand."""

    folder: Path
    environment: pytest.MonkeyPatch
    name: str = "moto"
    lost_lease_seconds: float = 5 + 1

    @contextmanager
    def transport(self, topology: Mapping[str, Any]) -> Iterator[Running]:
        manifest, shifted = manifest_of(topology, host="worker"), 0.0
        report = self.folder / "observations.jsonl"
        self.environment.setenv("CONFORMANCE_OBSERVER", f"file://{report}")
        for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_AWS_"))]:
            self.environment.delenv(name)

        def move_time(seconds: float) -> None:
            nonlocal shifted
            shifted += seconds
            self.environment.setenv("CONFORMANCE_SHIFT", str(shifted))
            aws.advance(seconds)

        with moto_aws() as aws, provisioned(aws, manifest) as deployment:
            options = written(self.folder, manifest, deployment.bindings)
            with _in_turn(aws, connect(f"aws://{aws.region}", options[1], bindings=options[3])) as transport:
                yield MotoRunning(
                    url=f"aws://{aws.region}",
                    transport=transport,
                    subscriptions=list(manifest.subscriptions),
                    report=report,
                    move_time=move_time,
                    age_keys=lambda seconds: age_keys(aws.client("dynamodb"), deployment.tables, seconds),
                    put=sending(aws, deployment.bindings),
                    quiet_after=NOW,
                )


def _in_turn(aws: MotoAws, opened: Any) -> AwsTransport:
    """The transport with clients whose calls take turns."""
    assert isinstance(opened, AwsTransport)
    sns, sqs, dynamodb = (aws.client(service) for service in ("sns", "sqs", "dynamodb"))
    ledger = None if opened.clients.ledger is None else dynamodb
    return replace(opened, clients=Clients(sns=sns, sqs=sqs, ledger=ledger))
