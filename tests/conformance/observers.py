"""Where functions report what their handlers saw: a file of this machine's where they share it, else a queue."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from tests.servers.localstack import Aws
from tests.servers.real_aws import RealAws

NUMBERS = count(1)


class Observer(Protocol):
    """Gets reports."""

    address: str  # for CONFORMANCE_OBSERVER

    def collected(self) -> list[dict[str, Any]]:
        """What has come since the last look; a queue may not show all of it at once."""


@contextmanager
def observing(aws: Aws | RealAws, folder: Path) -> Iterator[Observer]:
    """One for the functions of one topology."""
    if isinstance(aws, Aws) and aws.shares_files:
        yield FileObserver(folder / f"observations-{next(NUMBERS)}.jsonl")
        return
    observer = QueueObserver(aws.client("sqs"), aws.topology)
    try:
        yield observer
    finally:
        observer.remove()


class FileObserver:
    """Reads a file that others append to, a line at a time."""

    def __init__(self, path: Path) -> None:
        self.address = f"file://{path}"
        self._path = path
        self._read = 0

    def collected(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as report:
            report.seek(self._read)
            lines = report.read().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith(b"\n")]
        self._read += sum(map(len, whole))
        return [json.loads(line) for line in whole]


class QueueObserver:
    """A queue that the roles of the suite's functions may send to, whose own policies are what a manifest says."""

    def __init__(self, sqs: Any, topology: str) -> None:
        self._sqs = sqs
        self.address = sqs.create_queue(QueueName=f"{topology}-observer-{os.getpid()}-{next(NUMBERS)}")["QueueUrl"]
        known = sqs.get_queue_attributes(QueueUrl=self.address, AttributeNames=["QueueArn"])["Attributes"]
        arn = known["QueueArn"]
        partition, account = arn.split(":")[1], arn.split(":")[4]
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnLike": {"aws:PrincipalArn": f"arn:{partition}:iam::{account}:role/{topology}-*"}},
        }
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        sqs.set_queue_attributes(QueueUrl=self.address, Attributes={"Policy": policy})

    def collected(self) -> list[dict[str, Any]]:
        received = self._sqs.receive_message(QueueUrl=self.address, MaxNumberOfMessages=10, WaitTimeSeconds=0)
        messages = received.get("Messages", [])
        if messages:
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            self._sqs.delete_message_batch(QueueUrl=self.address, Entries=entries)
        return [json.loads(message["Body"]) for message in messages]

    def remove(self) -> None:
        """Delete the queue."""
        self._sqs.delete_queue(QueueUrl=self.address)
