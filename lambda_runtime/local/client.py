"""The calls that a function makes about its own messages, answered by queues of this process as SQS answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aws_transport.settlement import SqsAttribute
from lambda_runtime.local.queue import LocalQueue, Refusal, Sent


class LocalSqs:
    """boto3's SQS client, as far as settling needs it. ``queues`` are known by their URLs."""

    def __init__(self, queues: Mapping[str, LocalQueue]) -> None:
        self._queues = queues

    def delete_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Delete by receipt handles."""
        queue = self._queues[QueueUrl]
        return _answered(Entries, lambda entry: queue.delete(entry["ReceiptHandle"]))

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Hide by receipt handles, each for its own time."""
        queue = self._queues[QueueUrl]
        return _answered(Entries, lambda entry: queue.hide(entry["ReceiptHandle"], entry["VisibilityTimeout"]))

    def send_message_batch(self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:  # noqa: N803 - boto3's names
        """Send."""
        self._queues[QueueUrl].send(*map(_sent, Entries))
        return _answered(Entries, lambda _: None)


def _answered(
    entries: Sequence[Mapping[str, Any]], do: Callable[[Mapping[str, Any]], Refusal | None]
) -> dict[str, Any]:
    refusals = {entry["Id"]: do(entry) for entry in entries}
    return {
        "Successful": [{"Id": entry_id} for entry_id, refusal in refusals.items() if refusal is None],
        "Failed": [
            {"Id": entry_id, "Code": refusal, "Message": "", "SenderFault": True}
            for entry_id, refusal in refusals.items()
            if refusal is not None
        ],
    }


def _sent(entry: Mapping[str, Any]) -> Sent:
    return Sent(
        body=entry["MessageBody"],
        group_id=entry.get("MessageGroupId"),
        deduplication_id=entry.get("MessageDeduplicationId"),
        attributes={
            name: SqsAttribute(
                data_type=found["DataType"], value=found.get("StringValue", found.get("BinaryValue", ""))
            )
            for name, found in entry.get("MessageAttributes", {}).items()
        },
    )
