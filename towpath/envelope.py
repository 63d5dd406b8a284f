"""The wire form of a message: building, measuring and reading the envelope ``towpath/1``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

from towpath import limits
from towpath.attributes import attributes_bytes, read_attribute
from towpath.canonical import read_canonical
from towpath.errors import InvalidEnvelope, UnsupportedSchema
from towpath.frozen import Record
from towpath.json_values import is_plain_json, is_text, parsed
from towpath.message import (
    ABSENT,
    AttributeValue,
    Clock,
    JsonValue,
    Message,
    NewMessage,
    PayloadRef,
    PublishError,
    RandomBytes,
    format_time,
    is_message_id,
    new_message_id,
    new_message_ids,
)
from towpath.patterns import Pattern
from towpath.validation import CLAIM_CHECK_ADVICE, carried_fault, first_fault, ref_fault

_Text = TypeVar("_Text", str, str | None)
TOPIC_NAME: Final = Pattern(r"[a-z0-9]+([._-][a-z0-9]+)*")
_CLAIM = Pattern(r'"schema"\s*:\s*"towpath/')
_TIME = Pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)")


def is_topic_name(text: str) -> bool:
    """Lower-case words joined by one of ``.``, ``-``, ``_``, at most 200 characters."""
    return len(text) <= limits.TOPIC_NAME_LENGTH and TOPIC_NAME.fullmatch(text) is not None


class Prepared(metaclass=Record):
    """A message that keeps the contract, and the body that goes over the wire for it."""

    message: Message[JsonValue]
    body: str
    size_bytes: int


class Sources(metaclass=Record):
    """Where time and ids come from, so that a test can say what they are."""

    clock: Clock
    random_bytes: RandomBytes


# --- Publishing ------------------------------------------------------------------------------------------------


def prepare(
    topic: str, new: NewMessage, max_bytes: int, sources: Sources, new_id: str | None = None
) -> Prepared | PublishError:
    """Check ``new`` against the contract (the first fault wins), fill its defaults, and encode it.

    Its id, where it has none, is ``new_id``, or one that is made here. ``max_bytes`` is the topic's limit on envelope
    plus attributes, in bytes. Nothing is sent or changed here.
    """
    now = sources.clock()
    own_id = new.id or new_id or new_message_id(now, sources.random_bytes)
    return EnvelopeMaker(topic, max_bytes, now).prepare(new, own_id)


def ids_of(messages: Sequence[NewMessage], sources: Sources) -> list[str]:
    """The ids that the messages have, and new ones for the rest: made once for a call, however often it is tried."""
    missing = sum(new.id is None for new in messages)
    made = iter(new_message_ids(missing, sources.clock(), sources.random_bytes))
    return [next(made) if new.id is None else new.id for new in messages]


class EnvelopeMaker:
    """Does what ``prepare`` does for messages of one topic that are all published ``now``."""

    def __init__(self, topic: str, max_bytes: int, now: datetime) -> None:
        self._topic = topic
        self._limit = min(max_bytes, limits.MAX_MESSAGE_BYTES)
        self._published_at = _as_written(now)
        self._end = _end(topic, self._published_at)

    def prepare(self, new: NewMessage, new_id: str) -> Prepared | PublishError:
        """``prepare`` of ``new``; its id, where it has none, is ``new_id``."""
        fault = first_fault(new)
        if fault is not None:
            return fault
        message = self._filled(new, new_id)
        try:
            body = _encoded(message, self._end)
            size = len(body) if body.isascii() else len(body.encode())
        except (TypeError, ValueError) as error:  # a subclass that shows itself to JSON as something else
            return PublishError(code="InvalidPayload", message=f"the payload cannot be written as JSON: {error}")
        if message.attributes:
            size += attributes_bytes(message.attributes)
        if size > self._limit:
            return self._too_large(size)
        return Prepared(message=message, body=body, size_bytes=size)

    def _filled(self, new: NewMessage, new_id: str) -> Message[JsonValue]:
        """``new``, which keeps the contract, with its defaults; all but the payload in Python's own types.

        Of an enumeration's member that is text, ``str()`` may be its name, which no one after this is to trip over.
        """
        message_id = _plain(new.id) or new_id
        attributes = new.attributes
        return Message(
            id=message_id,
            topic=self._topic,
            payload=new.payload,
            payload_ref=new.payload_ref,
            partition_key=_plain(new.partition_key),
            attributes={_plain(name): _stored(value) for name, value in attributes.items()} if attributes else {},
            correlation_id=_plain(new.correlation_id) if new.correlation_id is not None else message_id,
            causation_id=_plain(new.causation_id),
            traceparent=_plain(new.traceparent),
            published_at=self._published_at,
            deliver_after=None if new.deliver_after is None else _as_written(new.deliver_after),
            expires_at=None if new.expires_at is None else _as_written(new.expires_at),
        )

    def _too_large(self, size: int) -> PublishError:
        return PublishError(
            code="PayloadTooLarge",
            message=f"the message is {size:,} bytes with its attributes, {size - self._limit:,} over the topic's limit "
            f"of {self._limit:,}; {CLAIM_CHECK_ADVICE}",
        )


def encode(message: Message[JsonValue]) -> str:
    """The canonical envelope: sorted keys, no blanks, absent optionals left out.

    ``decode`` of it is ``message`` again, for a message as ``prepare`` makes it; a payload's tuples come back as lists.
    """
    return _encoded(message, _end(message.topic, message.published_at))


def _end(topic: str, published_at: datetime) -> str:
    """What stands at an envelope's end, but for ``traceparent``: the same for all messages of a call."""
    return f'"published_at":"{format_time(published_at)}","schema":"{limits.SCHEMA}","topic":{_json(topic)}'


def _encoded(message: Message[JsonValue], end: str) -> str:
    """Written piece by piece, in the order of the keys: only what has an inside goes through JSON's encoder."""
    text = "{"
    if message.attributes:
        text += f'"attributes":{_json(message.attributes)},'
    if message.causation_id is not None:
        text += f'"causation_id":{_json(message.causation_id)},'
    text += f'"correlation_id":{_json(message.correlation_id)},'
    if message.deliver_after is not None:
        text += f'"deliver_after":"{format_time(message.deliver_after)}",'
    if message.expires_at is not None:
        text += f'"expires_at":"{format_time(message.expires_at)}",'
    text += f'"id":{_json(message.id)},'
    if message.partition_key is not None:
        text += f'"partition_key":{_json(message.partition_key)},'
    if message.payload is not ABSENT:
        text += f'"payload":{_json(message.payload)},'
    if message.payload_ref is not None:
        text += f'"payload_ref":{_json(message.payload_ref.record())},'
    text += end
    if message.traceparent is not None:
        text += f',"traceparent":{_json(message.traceparent)}'
    text += "}"
    if text.isascii():
        return text
    # The two characters that JSON leaves as they are and SQS refuses (API reference, SendMessage): written as escapes.
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def _as_written(moment: datetime) -> datetime:
    """What the envelope can say of ``moment``: UTC, whole milliseconds."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def _plain(text: _Text) -> _Text:
    """Text as Python's own type, whatever subclass it is of; ``None`` as it is."""
    return text if text is None or type(text) is str else str.__str__(text)


def _stored(value: str | float | list[str] | tuple[str, ...]) -> AttributeValue:
    if isinstance(value, str):
        return _plain(value)
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, int) else float(value)


# Made once: making one takes as long as a short message. What contains itself was refused before: no look-out for it.
_json = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode


# --- Reading ---------------------------------------------------------------------------------------------------


class Known(Protocol):
    """What a transport knows of a body besides the body: all that there is to say of a foreign message."""

    @property
    def message_id(self) -> str:
        """The transport's own id of the message."""

    @property
    def topic(self) -> str:
        """Where it was published."""

    @property
    def received_at(self) -> datetime:
        """When it was received."""

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """The message attributes that it came with."""


class Origin(metaclass=Record):
    """What is known of a body where there is no delivery of it."""

    message_id: str
    topic: str
    received_at: datetime
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)


def decode(body: str, origin: Known, *, accept_foreign: bool = True) -> Message[JsonValue]:
    """Read a body: a Towpath envelope strictly, anything else as a foreign message where those are accepted.

    Of a foreign body the parsed JSON is the payload. It is the body's text instead where that is no JSON, and where its
    JSON has what no message could carry on: a lone surrogate (``"\\ud800"``), which breaks whatever writes it in UTF-8,
    a database and a log line among it; a number beyond a float or of too many digits; arrays and objects too deep in
    one another. So a handler loses nothing of it, and all that it is given, it can store and publish. Text was chosen
    over ``InvalidEnvelope``, since what is no envelope breaks no rule of one, and over a replacement character, since
    the payload is what was sent. Of two equal keys the last one counts, as everywhere in Python; a byte-order mark
    before JSON is none of it (RFC 8259, section 8.1).

    Raises ``UnsupportedSchema`` for another version and ``InvalidEnvelope`` for a malformed envelope (also one that is
    no JSON any more), for a foreign body that is not accepted, and for a body that is no text (its bytes that are not
    UTF-8 are surrogates, as Python's ``surrogateescape`` makes them); never anything else, whatever the bytes.
    """
    message = read_canonical(body)
    return message if message is not None else read_strictly(body, origin, accept_foreign=accept_foreign)


def read_strictly(body: str, origin: Known, *, accept_foreign: bool = True) -> Message[JsonValue]:
    """``decode`` without its quick way for canonical envelopes, which answers alike."""
    if not is_text(body):
        raise InvalidEnvelope("the body is not text in UTF-8")
    document = _parsed(body)
    if _is_envelope(document):
        return _read_envelope(document)
    attributes = origin.attributes
    if _is_sns_notification(document):
        body, attributes = document["Message"], _notification_attributes(document)
        document = _parsed(body)
        if _is_envelope(document):
            return _read_envelope(document)
    if not accept_foreign:
        raise InvalidEnvelope("the body is no Towpath envelope, and this subscription accepts no foreign messages")
    return _foreign(body, document, origin, attributes)


def is_foreign(body: str) -> bool:
    """Whether ``body`` is something else than a bare Towpath envelope, of whatever version, sound or not."""
    try:
        return is_text(body) and not _is_envelope(_parsed(body))
    except InvalidEnvelope:
        return False


def _parsed(body: str) -> JsonValue:
    """The JSON that ``body`` is; ``ABSENT`` when it is none, or Python cannot read it.

    Raises ``InvalidEnvelope`` for what begins as an object and says that it is an envelope, and cannot be read: it was
    cut off or edited, or holds what JSON does not have (NaN). As text it would look foreign, and reach a handler.
    """
    text = body.removeprefix("\ufeff")
    try:
        return parsed(text)
    except (ValueError, RecursionError) as error:
        if text.lstrip(_BLANKS).startswith("{") and _CLAIM.search(text) is not None:
            raise InvalidEnvelope(f"the envelope cannot be read: {error}") from error
        return ABSENT


_BLANKS: Final = " \t\n\r"  # the blanks of JSON


def _is_envelope(document: JsonValue) -> bool:
    schema = document.get("schema") if isinstance(document, dict) else None
    return isinstance(schema, str) and schema.startswith("towpath/")


def _is_sns_notification(document: JsonValue) -> bool:
    """An SNS delivery without raw delivery: Amazon SNS developer guide, "HTTP/HTTPS notification JSON format"."""
    return (
        isinstance(document, dict)
        and document.get("Type") == "Notification"
        and isinstance(document.get("TopicArn"), str)
        and is_text(document.get("Message"))
    )


def _notification_attributes(document: Mapping[str, Any]) -> dict[str, AttributeValue]:
    found = document.get("MessageAttributes")
    entries = found.items() if isinstance(found, dict) else ()
    return {
        name: read_attribute(entry["Type"], entry["Value"])
        for name, entry in entries
        if is_text(name) and isinstance(entry, dict) and is_text(entry.get("Type")) and is_text(entry.get("Value"))
    }


def _foreign(
    text: str, document: JsonValue, origin: Known, attributes: Mapping[str, AttributeValue]
) -> Message[JsonValue]:
    """The message of another producer, whose ``text`` is ``document`` (``ABSENT`` when it is no JSON)."""
    return Message(
        id=origin.message_id,
        topic=origin.topic,
        payload=document if is_plain_json(document, limits.FOREIGN_DEPTH) else text,
        attributes=dict(attributes),  # a transport may hand over another mapping, which JSON cannot write
        correlation_id=origin.message_id,
        published_at=origin.received_at,
    )


def _read_envelope(record: Mapping[str, Any]) -> Message[JsonValue]:
    if record["schema"] != limits.SCHEMA:
        raise UnsupportedSchema(record["schema"])
    message_id, topic = record.get("id"), record.get("topic")
    if not is_message_id(message_id):
        raise InvalidEnvelope("id must be a UUID in lower-case text")
    if not isinstance(topic, str) or not is_topic_name(topic):
        raise InvalidEnvelope("topic must be a topic name")
    published_at = _read_time(record, "published_at")
    if published_at is None:
        raise InvalidEnvelope("published_at is missing")
    correlation_id = record.get("correlation_id")
    message: Message[JsonValue] = Message(
        id=message_id,
        topic=topic,
        payload=record.get("payload", ABSENT),
        payload_ref=_read_ref(record.get("payload_ref")),
        partition_key=record.get("partition_key"),
        attributes=_read_attributes(record.get("attributes")),
        correlation_id=message_id if correlation_id is None else correlation_id,
        causation_id=record.get("causation_id"),
        traceparent=record.get("traceparent"),
        published_at=published_at,
        deliver_after=_read_time(record, "deliver_after"),
        expires_at=_read_time(record, "expires_at"),
    )
    fault = carried_fault(message)
    if fault is not None:
        raise InvalidEnvelope(fault.message)
    return message


def _read_attributes(value: JsonValue) -> Any:
    """The attributes as a handler gets them: arrays are tuples. What is no object stays, for its fault to be told."""
    if type(value) is not dict:
        return {} if value is None else value
    return {name: tuple(item) if type(item) is list else item for name, item in value.items()}


def _read_ref(value: JsonValue) -> PayloadRef | None:
    if value is None:
        return None
    problem = ref_fault(value) if isinstance(value, dict) else "payload_ref must be an object"
    if problem is not None:
        raise InvalidEnvelope(problem)
    known = ("uri", "content_type", "size_bytes", "sha256")
    return PayloadRef(**{name: value[name] for name in known if name in value})


def _read_time(record: Mapping[str, Any], name: str) -> datetime | None:
    text = record.get(name)
    if text is None:
        return None
    try:
        if isinstance(text, str) and _TIME.fullmatch(text):
            moment = datetime.fromisoformat(text)
            return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise InvalidEnvelope(f"{name} must be a UTC time such as 2026-01-31T08:15:00.123Z")
