"""A delivery that came from SQS, and the message attributes that it came with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from towpath.attributes import read_attribute
from towpath.frozen import Record
from towpath.message import AttributeValue
from towpath.settlement import Delivery

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageAttributeValueOutputTypeDef

RESERVED_PREFIX = "towpath-"
REPLAY_ATTRIBUTE = "towpath-replay"


class SqsAttribute(metaclass=Record):
    """One message attribute as SQS carries it: ``data_type`` in full (``Number.int``), bytes only for ``Binary``."""

    data_type: str
    value: str | bytes


class SqsDelivery(Delivery, metaclass=Record, frozen=False):
    """A delivery with what only SQS knows of it.

    ``lease_token`` is the receipt handle; ``id`` and ``message_id`` are SQS's message id. ``group_id`` is the message
    group, which every message of a FIFO queue has. ``replay`` counts how often it came back from a dead-letter queue.
    ``sqs_attributes`` are all message attributes untouched, so that a dead letter can carry them on.
    """

    group_id: str | None = None
    replay: int = 0
    sqs_attributes: Mapping[str, SqsAttribute] = field(default_factory=dict)


def sqs_attributes(received: Mapping[str, MessageAttributeValueOutputTypeDef]) -> dict[str, SqsAttribute]:
    """Message attributes as boto3 gives them."""
    return {
        name: SqsAttribute(data_type=value["DataType"], value=value.get("StringValue", value.get("BinaryValue", b"")))
        for name, value in received.items()
    }


def readable_attributes(attributes: Mapping[str, SqsAttribute]) -> dict[str, AttributeValue]:
    """The attributes that a handler of a foreign message sees: all but binary ones and Towpath's own."""
    return {
        name: read_attribute(attribute.data_type, attribute.value)
        for name, attribute in attributes.items()
        if isinstance(attribute.value, str) and not name.startswith(RESERVED_PREFIX)
    }


def replay_count(attributes: Mapping[str, SqsAttribute]) -> int:
    """How often this message was replayed from a dead-letter queue: 0 when it never was, or says nothing readable."""
    carried = attributes.get(REPLAY_ATTRIBUTE)
    if carried is None or not isinstance(carried.value, str) or not carried.value.isascii():
        return 0
    return int(carried.value) if carried.value.isdigit() and len(carried.value) < 10 else 0
