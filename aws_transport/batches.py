"""What goes to SNS: the entries of PublishBatch, and how they are put together."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from towpath import limits
from towpath.attributes import attribute_text, attribute_type
from towpath.envelope import Prepared

if TYPE_CHECKING:
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef

    from towpath.manifest import AwsTopic

_GROUP_ID = re.compile(rf"[!-~]{{1,{limits.SQS_GROUP_ID_LENGTH}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message that is ready to be sent, and its position in the call."""

    position: int
    prepared: Prepared

    @property
    def id(self) -> str:
        """What SNS's answer calls this entry: no other of the call has it."""
        return str(self.position)


def batches(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in their order, in batches that SNS takes: ten at most, and 256 KiB with the attributes."""
    batch: list[Entry] = []
    size = 0
    for entry in entries:
        added = entry.prepared.size_bytes
        if batch and (len(batch) == limits.SNS_BATCH_ENTRIES or size + added > limits.SNS_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += added
    if batch:
        yield batch


def request(entry: Entry, topic: AwsTopic) -> PublishBatchRequestEntryTypeDef:
    """The entry of PublishBatch. The body is the envelope; the attributes go beside it, so that SNS can filter.

    On a FIFO topic the group is the partition key, or the message alone, and SNS drops a repeat of the message id for
    five minutes. On a ``fair`` standard topic the partition key is the group that SQS's fair queues tell tenants by.
    """
    message = entry.prepared.message
    made: PublishBatchRequestEntryTypeDef = {"Id": entry.id, "Message": entry.prepared.body}
    if message.attributes:
        made["MessageAttributes"] = {
            name: {"DataType": attribute_type(value), "StringValue": attribute_text(value)}
            for name, value in message.attributes.items()
        }
    if topic.fifo:
        made["MessageGroupId"] = group_id(message.partition_key or message.id)
        made["MessageDeduplicationId"] = message.id
    elif topic.fair and message.partition_key is not None:
        made["MessageGroupId"] = group_id(message.partition_key)
    return made


def group_id(partition_key: str) -> str:
    """The message group of a partition key: the key itself where SQS allows it, else ``pk-`` and its SHA-256.

    SQS allows 1 to 128 printable ASCII characters (Amazon SQS API reference, SendMessage).
    """
    if _GROUP_ID.fullmatch(partition_key):
        return partition_key
    return "pk-" + hashlib.sha256(partition_key.encode()).hexdigest()
