"""Records of an SQS event, as Lambda hands them over: read into deliveries, and put into lanes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from aws_transport.settlement import REPLAY_ATTRIBUTE, SqsAttribute, SqsDelivery, readable_attributes, replay_count
from towpath.errors import InvalidEvent
from towpath.frozen import Record
from towpath.settlement import SubscriptionPolicy

_ValueT = TypeVar("_ValueT")


class Slot(metaclass=Record, frozen=False):  # as there are as many as records, and making one is quicker
    """A delivery and its record's position in the event. Nobody changes it."""

    position: int
    delivery: SqsDelivery


Lane = Sequence[Slot]  # deliveries that run one after another


def records_of(event: Any) -> list[Any]:
    """The event's records, which may be none. Raises ``InvalidEvent`` for what SQS never sent.

    An event whose records all lack a message id is refused as a whole: not one of them could be reported as failed,
    and a record that is not reported counts as done.
    """
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        raise InvalidEvent("the event has no list 'Records'; this handler takes the events of an SQS queue")
    if records and all(record_id(record) is None for record in records):
        raise InvalidEvent("no record has a 'messageId'; this handler takes the events of an SQS queue")
    return records


def record_id(record: Any) -> str | None:
    """The id by which Lambda knows the record, or ``None`` for what is no SQS record."""
    is_mapping = type(record) is dict or isinstance(record, Mapping)  # to ask for a type is quicker than for an ABC
    found = record.get("messageId") if is_mapping else None
    return found if isinstance(found, str) and found else None


def read_delivery(record: Any, policy: SubscriptionPolicy, received_at: datetime) -> SqsDelivery | None:
    """The delivery that ``record`` is; ``None`` when it lacks what every SQS record has."""
    message_id = record_id(record)
    if message_id is None:
        return None
    try:
        system = record["attributes"]
        attempt = int(system["ApproximateReceiveCount"])
        body, handle, group_id = record["body"], record["receiptHandle"], system.get("MessageGroupId")
        given = record.get("messageAttributes")
        carried = _carried(given) if given else {}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    if not (isinstance(body, str) and isinstance(handle, str) and (group_id is None or isinstance(group_id, str))):
        return None
    if not handle or attempt < 1:
        return None
    replay = replay_count(carried) if given and REPLAY_ATTRIBUTE in given else 0
    return SqsDelivery(
        id=message_id,
        subscription=policy.subscription,
        topic=policy.topic,
        attempt=attempt,
        is_replay=replay > 0,
        message_id=message_id,
        body=body,
        attributes=_OnUse(carried, readable_attributes) if given else {},
        lease_token=handle,
        received_at=received_at,
        group_id=group_id,
        replay=replay,
        sqs_attributes=carried,
    )


class _OnUse(Mapping[str, _ValueT]):
    """A mapping that is worked out when it is first asked something: attributes are for foreign messages, and for dead
    letters.
    """

    __slots__ = ("_found", "_given", "_read")

    def __init__(self, given: Mapping[str, Any], read: Callable[[Mapping[str, Any]], dict[str, _ValueT]]) -> None:
        self._given = given
        self._read = read
        self._found: dict[str, _ValueT] | None = None

    def _all(self) -> dict[str, _ValueT]:
        if self._found is None:
            self._found = self._read(self._given)
        return self._found

    def __getitem__(self, name: str) -> _ValueT:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())


def _carried(given: Mapping[str, Any]) -> Mapping[str, SqsAttribute]:
    """The attributes, looked at now: one that is none raises as reading it does. Text, as most are, is read on use."""
    for found in given.values():
        if type(found["dataType"]) is not str or type(found.get("stringValue")) is not str:
            return _read_all(given)
    return _OnUse(given, _read_all)


def _read_all(given: Mapping[str, Any]) -> dict[str, SqsAttribute]:
    return {name: _attribute(found) for name, found in given.items()}


def lanes_of(slots: Iterable[Slot], *, fifo: bool) -> list[Lane]:
    """The lanes, by their first record: one for each message group of a FIFO queue, else one for each message.

    A standard queue's groups (fair queues) promise no order, so its records share a lane only when SQS delivered the
    same message twice.
    """
    lanes: dict[str, list[Slot]] = {}
    for slot in slots:
        delivery = slot.delivery
        key = delivery.group_id if fifo and delivery.group_id else delivery.message_id
        lanes.setdefault(key, []).append(slot)
    return list(lanes.values())


def _attribute(found: Mapping[str, Any]) -> SqsAttribute:
    data_type, text, encoded = found["dataType"], found.get("stringValue"), found.get("binaryValue")
    if not isinstance(data_type, str):
        raise TypeError("dataType is no text")
    if isinstance(text, str):
        return SqsAttribute(data_type=data_type, value=text)
    try:
        return SqsAttribute(data_type=data_type, value=base64.b64decode(encoded or "", validate=True))
    except binascii.Error:
        return SqsAttribute(data_type=data_type, value=b"")
