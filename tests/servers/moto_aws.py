"""AWS in this process, by moto: one call after another, and time that is moved by hand."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from moto import mock_aws
from moto.sqs import sqs_backends

from tests.servers.ledger_time import age_keys

# What SNS filters with, as AWS documents it, and moto does not; tests/unit/test_moto_aws.py holds that it is still so.
FILTERS_UNLIKE_AWS = {
    "wildcard": "moto refuses the operator",
    "cidr": "moto refuses the operator",
    "anything-but suffix": "moto takes the operator there and lets nothing through",
    "anything-but wildcard": "moto takes the operator there and lets nothing through",
    "exact number": "moto refuses a message whose attribute is a list of texts there",
    "no attributes": "moto lets exists false match a message without attributes",
}
POLL_SECONDS = 0.05  # a poll holds up every other call, so it is a short one


class InTurn:
    """A boto3 client none of whose calls runs beside another: moto does not guard what it keeps, and AWS does.

    Two receives at a time would both get a message, and of two conditional writes both would succeed.
    """

    def __init__(self, client: Any, turn: threading.Lock) -> None:
        self._client = client
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        made = getattr(self._client, name)
        if not callable(made):
            return made

        def call(**request: Any) -> Any:
            wait = request.get("WaitTimeSeconds", 0)
            with self._turn:
                answer = made(**request | ({"WaitTimeSeconds": 0} if wait else {}))
            if wait and not answer.get("Messages"):
                time.sleep(POLL_SECONDS)
            return answer

        return call


@dataclass(frozen=True, kw_only=True)
class MotoAws:
    """As ``tests.servers.localstack.Aws``, in this process only."""

    region: str = "eu-west-1"
    topology: str = "suite"
    turn: threading.Lock = field(default_factory=threading.Lock)

    def client(self, service: str) -> Any:
        """A client of ``service``, whose calls take turns with those of all others made here."""
        return InTurn(boto3.client(service, region_name=self.region), self.turn)

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass, for every message and every deduplication key. Nothing has to wait."""
        with self.turn:
            for account in sqs_backends.values():
                for queue in account[self.region].queues.values():
                    for message in queue._messages:
                        message.visible_at -= seconds * 1000
                        message.sent_timestamp -= int(seconds * 1000)
        dynamodb = self.client("dynamodb")
        age_keys(dynamodb, dynamodb.list_tables()["TableNames"], seconds)


@contextmanager
def moto_aws() -> Iterator[MotoAws]:
    """An AWS in which there is nothing yet. Every boto3 client that is made meanwhile calls it."""
    with mock_aws():
        yield MotoAws()
