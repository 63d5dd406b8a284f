"""The copy that a dead letter leaves on the dead-letter queue, and the note it carries."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from aws_transport.delivery import SqsAttribute, SqsDelivery
from towpath import limits
from towpath.envelope import is_foreign
from towpath.message import format_time

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageAttributeValueTypeDef, SendMessageBatchRequestEntryTypeDef

NOTE_ATTRIBUTE = "towpath-dead-letter"
_UNSENDABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")  # no XML characters, so SQS refuses text that holds one
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterNote:
    """Why a message was set aside. ``error`` is the last error, ``source_queue`` the name of the queue it came from,
    ``replay`` how often it had come back from the dead-letter queue before.
    """

    reason: str
    error: str
    attempts: int
    time: datetime
    source_queue: str
    replay: int = 0

    def to_json(self, max_bytes: int) -> str | None:
        """The note as JSON of at most ``max_bytes`` bytes of UTF-8; ``None`` when not even an empty one fits.

        Reason and error are cut to fit: the reason keeps at least half of the room, the error what is left.
        """
        room = max_bytes - len(self._written("", "").encode())
        if room < 0:
            return None
        reason, error = (_UNSENDABLE.sub("\ufffd", text) for text in (self.reason, self.error))
        reason = _cut(reason, max(room // 2, room - _size(error)))
        return self._written(reason, _cut(error, room - _size(reason)))

    def _written(self, reason: str, error: str) -> str:
        record: dict[str, Any] = {
            "reason": reason,
            "error": error,
            "attempts": self.attempts,
            "time": format_time(self.time),
            "source_queue": self.source_queue,
        }
        return _json(record | ({"replay": self.replay} if self.replay else {}))


def read_note(text: str) -> DeadLetterNote | None:
    """The note in a message's ``towpath-dead-letter`` attribute; ``None`` for text that is no such note.

    Anyone who may send to the queue may have written it: what it says can be shown and sent on, whatever it says.
    """
    try:
        record = json.loads(text)
        time = datetime.fromisoformat(record["time"])
        reason, error, source_queue = (
            _UNSENDABLE.sub("\ufffd", str(record[name])) for name in ("reason", "error", "source_queue")
        )
        return DeadLetterNote(
            reason=reason,
            error=error,
            attempts=int(record["attempts"]),
            time=(time if time.tzinfo is not None else time.replace(tzinfo=UTC)).astimezone(UTC),
            source_queue=source_queue,
            replay=int(record.get("replay", 0)),
        )
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCopy:
    """A message that goes from one queue to another. ``group_id`` is its message group: a FIFO queue orders by it, a
    standard one tells tenants by it (fair queues). ``deduplication_id`` is for FIFO queues alone: they swallow a repeat
    of it for five minutes.
    """

    body: str
    attributes: Mapping[str, SqsAttribute]
    group_id: str | None = None
    deduplication_id: str | None = None

    @property
    def size_bytes(self) -> int:
        """What it weighs towards SQS's limits for a message and for a batch."""
        return len(self.body.encode()) + sum(attribute_bytes(*pair) for pair in self.attributes.items())

    def entry(self, entry_id: str) -> SendMessageBatchRequestEntryTypeDef:
        """The copy as an entry of SendMessageBatch."""
        entry: SendMessageBatchRequestEntryTypeDef = {
            "Id": entry_id,
            "MessageBody": self.body,
            "MessageAttributes": {name: _sent(attribute) for name, attribute in self.attributes.items()},
        }
        if self.group_id is not None:
            entry["MessageGroupId"] = self.group_id
        if self.deduplication_id is not None:
            entry["MessageDeduplicationId"] = self.deduplication_id
        return entry


def copy_for(queue_url: str, delivery: SqsDelivery, note: DeadLetterNote) -> QueueCopy:
    """The copy of ``delivery`` for the dead-letter queue at ``queue_url``, with ``note`` as one attribute.

    An envelope holds its attributes itself, so only a foreign message's are kept beside the note, while there is room:
    SQS takes ten, and 256 KiB with the body. A body that leaves no room for a note goes without one.

    The deduplication id begins with SQS's message id, not the envelope's: two messages published with one id a while
    apart are two dead letters, and FIFO would swallow the second. The replay count keeps copies of a replay apart too.
    """
    fifo = is_fifo(queue_url)
    return QueueCopy(
        body=delivery.body,
        attributes=_carried(delivery, note),
        group_id=delivery.group_id or (delivery.id if fifo else None),
        deduplication_id=f"{delivery.id}:dl:{delivery.replay}" if fifo else None,
    )


def is_fifo(queue_url: str) -> bool:
    """Whether the queue is a FIFO queue: SQS demands the suffix of every one, and of no other."""
    return queue_url.endswith(".fifo")


def _carried(delivery: SqsDelivery, note: DeadLetterNote) -> Mapping[str, SqsAttribute]:
    room = limits.SQS_MESSAGE_BYTES - len(delivery.body.encode())
    wanted = dict(delivery.sqs_attributes) if is_foreign(delivery.body) else {}
    wanted.pop(NOTE_ATTRIBUTE, None)  # of an earlier stay on a dead-letter queue
    unfilled = attribute_bytes(NOTE_ATTRIBUTE, SqsAttribute(data_type="String", value=""))
    text = note.to_json(min(limits.DEAD_LETTER_NOTE_BYTES, room) - unfilled)
    if text is not None:
        wanted = {NOTE_ATTRIBUTE: SqsAttribute(data_type="String", value=text)} | wanted
    carried: dict[str, SqsAttribute] = {}
    for name, attribute in wanted.items():
        size = attribute_bytes(name, attribute)
        if size <= room and len(carried) < limits.SQS_ATTRIBUTES:
            room -= size
            carried[name] = attribute
    return carried


def attribute_bytes(name: str, attribute: SqsAttribute) -> int:
    """What an attribute weighs: name, data type and value (Amazon SQS developer guide, "Message quotas")."""
    value = attribute.value if isinstance(attribute.value, bytes) else attribute.value.encode()
    return len(name.encode()) + len(attribute.data_type.encode()) + len(value)


def _sent(attribute: SqsAttribute) -> MessageAttributeValueTypeDef:
    if isinstance(attribute.value, bytes):
        return {"DataType": attribute.data_type, "BinaryValue": attribute.value}
    return {"DataType": attribute.data_type, "StringValue": attribute.value}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(text: str) -> int:
    """The bytes that ``text`` takes inside a JSON string."""
    return len(_json(text).encode()) - len('""')


def _cut(text: str, room: int) -> str:
    """The longest beginning of ``text`` that takes at most ``room`` bytes in JSON, marked when it is not all."""
    if _size(text) <= room:
        return text
    left = room - len(_ELLIPSIS.encode())
    if left < 0:
        return ""
    end = 0
    while (left := left - _size(text[end])) >= 0:
        end += 1
    return text[:end] + _ELLIPSIS
