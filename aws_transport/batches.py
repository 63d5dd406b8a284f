"""What goes to SNS: messages as entries of PublishBatch, their groups and their deduplication keys."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath import limits
from towpath.attributes import attribute_text, attribute_type
from towpath.envelope import Prepared
from towpath.message import DeduplicationWindow, Message

if TYPE_CHECKING:
    from mypy_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef

    from towpath.manifest import AwsTopic

_GROUP_ID = re.compile(rf"[!-~]{{1,{limits.SQS_GROUP_ID_LENGTH}}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicationClaim:
    """A deduplication key, and for how long it shall count for a message that is published with it."""

    key: str
    ttl_seconds: float
    window: DeduplicationWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A message that is ready to be sent, and its position in the call.

    ``group`` is its message group on a FIFO topic: what has the same one is sent one after another.
    """

    position: int
    prepared: Prepared
    group: str | None = None
    claim: DeduplicationClaim | None = None

    @property
    def id(self) -> str:
        """What SNS's answer calls this entry: no other of the call has it."""
        return str(self.position)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Names of what at most one entry may be on its way for: its group, and its deduplication key."""
        if self.claim is None:
            return () if self.group is None else (f"group {self.group}",)
        key = f"key {self.claim.key}"
        return (key,) if self.group is None else (f"group {self.group}", key)

    @property
    def group_lane(self) -> str | None:
        """The name of what keeps its group in order."""
        return None if self.group is None else f"group {self.group}"


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
    group = message_group(message, topic)
    if group is not None:
        made["MessageGroupId"] = group
    if topic.fifo:
        made["MessageDeduplicationId"] = message.id
    return made


def message_group(message: Message[Any], topic: AwsTopic) -> str | None:
    """The message group on this topic, and on the queues that it leads to; ``None`` where there is none."""
    if topic.fifo:
        return group_id(message.partition_key or message.id)
    return group_id(message.partition_key) if topic.fair and message.partition_key is not None else None


def group_id(partition_key: str) -> str:
    """The message group of a partition key: the key itself where SQS allows it, else ``pk-`` and its SHA-256.

    SQS allows 1 to 128 printable ASCII characters (Amazon SQS API reference, SendMessage).
    """
    if _GROUP_ID.fullmatch(partition_key):
        return partition_key
    return "pk-" + hashlib.sha256(partition_key.encode()).hexdigest()
