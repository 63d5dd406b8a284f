"""An event source mapping in this process: receives, gathers batches, calls the function, deletes what is done."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aws_transport.settlement import SqsAttribute
from lambda_runtime.local.queue import Received
from lambda_runtime.local.response import Verdict, verdict
from towpath import limits
from towpath.testing import LocalClock

LambdaFunction = Callable[[Any, Any], Any]

_ACCOUNT: Final = "000000000000"


class Source(Protocol):
    """What a mapping polls."""

    def receive(self, limit: int) -> Sequence[Received]:
        """At most ``limit`` messages that nobody else gets for a while."""

    def delete(self, receipt: str) -> object:
        """Delete a message that is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """How a mapping polls. ``reports_item_failures`` is ``ReportBatchItemFailures``, without which an answer says
    nothing.
    """

    batch_size: int = 10
    batch_window_seconds: float = 0
    reports_item_failures: bool = True
    timeout_seconds: float = 60
    queue_name: str = "local"
    region: str = "eu-west-1"

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= limits.ESM_STANDARD_BATCH:
            raise ValueError(f"batch_size must be 1 to {limits.ESM_STANDARD_BATCH:,}, not {self.batch_size}")
        if not 0 <= self.batch_window_seconds <= limits.ESM_BATCH_WINDOW_SECONDS:
            raise ValueError(f"batch_window_seconds must be 0 to {limits.ESM_BATCH_WINDOW_SECONDS}")
        if self.batch_size > limits.SQS_BATCH_ENTRIES and self.batch_window_seconds < 1:
            raise ValueError(f"a batch_size over {limits.SQS_BATCH_ENTRIES} needs batch_window_seconds of 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of the function. ``failed`` are the message ids that stay in the queue; ``problem`` says why that is the
    whole batch, if it is for a fault of the answer; ``error`` is what the function raised.
    """

    message_ids: tuple[str, ...]
    answer: Any
    failed: frozenset[str]
    problem: str | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class LocalContext:
    """Lambda's context object, as far as handlers use it."""

    deadline: float
    clock: LocalClock
    function_name: str = "local"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = f"arn:aws:lambda:eu-west-1:{_ACCOUNT}:function:local:live"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log_group_name: str = "/aws/lambda/local"
    log_stream_name: str = "local"

    def get_remaining_time_in_millis(self) -> int:
        """The time left, in milliseconds."""
        return max(int(1000 * (self.deadline - self.clock.seconds())), 0)


class LocalMapping:
    """Polls ``source`` and calls ``function``, which may be any Lambda function for SQS events.

    A batch is invoked when it is full, when one record more would take it over Lambda's six megabytes, and when its
    window is over; without a window, with what there is. What the function does not report as failed is deleted. What
    it does, and a whole batch whose function raises or whose answer cannot be read, is left alone: it comes again when
    it becomes visible, which is the queue's matter.
    """

    def __init__(
        self, source: Source, function: LambdaFunction, settings: MappingSettings, clock: LocalClock | None = None
    ) -> None:
        self._source = source
        self._function = function
        self._settings = settings
        self._clock = clock if clock is not None else LocalClock()
        self._gathered: list[Received] = []
        self._gathering_since = 0.0

    def poll(self) -> Invocation | None:
        """One batch; ``None`` when there is none, or one that is still being gathered."""
        self._gather()
        batch = self._batch()
        if not batch:
            return None
        self._gathered = self._gathered[len(batch) :]
        self._gathering_since = self._clock.seconds()
        return self._invoked(batch)

    def run(self) -> list[Invocation]:
        """Batch after batch, until there is none."""
        invocations: list[Invocation] = []
        while (invocation := self.poll()) is not None:
            invocations.append(invocation)
        return invocations

    def _gather(self) -> None:
        while (room := self._settings.batch_size - len(self._gathered)) > 0:
            received = self._source.receive(min(room, limits.SQS_BATCH_ENTRIES))
            if not received:
                return
            if not self._gathered:
                self._gathering_since = self._clock.seconds()
            self._gathered += received

    def _batch(self) -> list[Received]:
        """The batch that is due, of what was gathered; empty when none is."""
        fitting: list[Received] = []
        left = limits.LAMBDA_REQUEST_BYTES
        for received in self._gathered:
            left -= len(json.dumps(self._record(received)))
            if fitting and left < 0:
                return fitting
            fitting.append(received)
        waited = self._clock.seconds() - self._gathering_since
        is_due = len(fitting) == self._settings.batch_size or waited >= self._settings.batch_window_seconds
        return fitting if is_due else []

    def _invoked(self, batch: Sequence[Received]) -> Invocation:
        ids = tuple(received.sent.id for received in batch)
        event = {"Records": [self._record(received) for received in batch]}
        context = LocalContext(self._clock.seconds() + self._settings.timeout_seconds, self._clock)
        try:
            answer = self._function(event, context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a function raises fails its batch
            return Invocation(message_ids=ids, answer=None, failed=frozenset(ids), error=error)
        found = verdict(answer, ids) if self._settings.reports_item_failures else Verdict(failed=frozenset())
        for received in batch:
            if received.sent.id not in found.failed:
                self._source.delete(received.receipt)
        return Invocation(message_ids=ids, answer=answer, failed=found.failed, problem=found.problem)

    def _record(self, received: Received) -> dict[str, Any]:
        """A record as Lambda gets it (AWS Lambda developer guide, "Using Lambda with Amazon SQS")."""
        sent = received.sent
        system = {
            "ApproximateReceiveCount": str(received.receives),
            "SentTimestamp": str(int(1000 * received.sent_at)),
            "SenderId": "local",
            "ApproximateFirstReceiveTimestamp": str(int(1000 * received.first_received_at)),
        }
        if sent.group_id is not None:
            system["MessageGroupId"] = sent.group_id
        if sent.deduplication_id is not None:
            system["MessageDeduplicationId"] = sent.deduplication_id
        return {
            "messageId": sent.id,
            "receiptHandle": received.receipt,
            "body": sent.body,
            "attributes": system,
            "messageAttributes": _attributes(sent.attributes),
            "md5OfBody": hashlib.md5(sent.body.encode(errors="replace"), usedforsecurity=False).hexdigest(),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{self._settings.region}:{_ACCOUNT}:{self._settings.queue_name}",
            "awsRegion": self._settings.region,
        }


def _attributes(attributes: Mapping[str, SqsAttribute]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for name, attribute in attributes.items():
        value = attribute.value
        carried = (
            {"binaryValue": base64.b64encode(value).decode()} if isinstance(value, bytes) else {"stringValue": value}
        )
        empty: dict[str, Any] = {"stringListValues": [], "binaryListValues": [], "dataType": attribute.data_type}
        written[name] = carried | empty
    return written
