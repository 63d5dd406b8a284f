"""A message, as published and as received, and the answer to publishing one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeGuard, TypeVar

from towpath.frozen import Record
from towpath.patterns import Pattern

if TYPE_CHECKING:
    from pathlib import Path

JsonValue: TypeAlias = Any  # any JSON value: mypy has no use for the recursive type at its seams
AttributeValue = str | int | float | tuple[str, ...]
Clock = Callable[[], datetime]
RandomBytes = Callable[[int], bytes]
DeduplicationWindow = Literal["sliding", "fixed"]  # whether a suppressed repeat renews the window, or leaves its end

PayloadT = TypeVar("PayloadT")


class Absent(Enum):
    """The type of ``ABSENT``: a message without a payload, which is not the same as the payload ``null``."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT


class PayloadRef(metaclass=Record):
    """A claim check: where the payload lies when it does not travel with the message. It excludes ``payload``."""

    uri: str
    content_type: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None

    def record(self) -> dict[str, JsonValue]:
        """What there is to say of it, by name: what is left out is not in it. Nothing is checked here."""
        named = {
            "uri": self.uri,
            "content_type": self.content_type,
            "size_bytes": self.size_bytes,
            "sha256": self.sha256,
        }
        return {name: value for name, value in named.items() if value is not None}

    @staticmethod
    def for_file(path: str | Path) -> PayloadRef:
        """The claim check for a file of this machine: its ``file://`` address, type, size and SHA-256.

        Reads the file once, in bounded memory. Raises ``OSError`` when it cannot be read.
        """
        import hashlib
        import mimetypes
        from pathlib import Path

        file = Path(path).resolve()
        with file.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256")
            size = content.tell()
        return PayloadRef(
            uri=file.as_uri(),
            content_type=mimetypes.guess_type(file.name)[0],
            size_bytes=size,
            sha256=digest.hexdigest(),
        )


class Message(Generic[PayloadT], metaclass=Record):
    """One message as a handler sees it. ``id`` stays the same over redelivery and replay.

    ``payload`` has the type that the handler's annotation asks for, or is ``ABSENT``. Times are aware, in UTC.
    """

    id: str
    topic: str
    payload: PayloadT
    published_at: datetime
    correlation_id: str
    payload_ref: PayloadRef | None = None
    partition_key: str | None = None
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    causation_id: str | None = None
    traceparent: str | None = None
    deliver_after: datetime | None = None
    expires_at: datetime | None = None


class NewMessage(metaclass=Record):
    """One message to publish. What is left out gets its default; ``docs/reference/contracts.md`` has the limits.

    ``attributes`` values are strings, numbers or lists of strings. Times must be aware.
    """

    payload: JsonValue = ABSENT
    payload_ref: PayloadRef | None = None
    partition_key: str | None = None
    attributes: Mapping[str, str | float | list[str] | tuple[str, ...]] = field(default_factory=dict)
    id: str | None = None
    correlation_id: str | None = None
    causation_id: str | None = None
    traceparent: str | None = None
    deliver_after: datetime | None = None
    expires_at: datetime | None = None
    deduplication_key: str | None = None
    deduplication_ttl: timedelta | None = None
    deduplication_window: DeduplicationWindow = "sliding"


PublishCode = Literal[
    "InvalidMessageId",
    "InvalidPayload",
    "InvalidAttributes",
    "InvalidPartitionKey",
    "InvalidCorrelationId",
    "InvalidDeduplication",
    "PayloadTooLarge",
    "TopicNotFound",
    "TopicDisabled",
    "TopicUnbound",
    "MessageIdConflict",
    "DeduplicationPending",
    "DelayUnsupported",
    "TransportRejected",
    "TransportUnavailable",
]

RETRYABLE_CODES: Final[frozenset[PublishCode]] = frozenset(
    {"TopicUnbound", "DeduplicationPending", "TransportUnavailable"}
)


class PublishError(metaclass=Record):
    """Why a message was rejected. ``retryable`` says whether the same call can succeed later."""

    code: PublishCode
    message: str

    @property
    def retryable(self) -> bool:
        """Whether trying again later, with nothing changed, can succeed."""
        return self.code in RETRYABLE_CODES


class PublishResult(metaclass=Record):
    """The answer for one message, at the position it had in the call.

    ``id`` is the message's id; for a duplicate the id of the message that won; ``None`` when the message was
    rejected before it had a valid one. ``error`` is there exactly when ``status`` is ``rejected``. ``subscriptions``
    says how many an accepted message goes to; ``None`` where the transport does not know (AWS).
    """

    id: str | None
    status: Literal["accepted", "duplicate", "rejected"]
    error: PublishError | None = None
    subscriptions: int | None = None


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RANDOM_BYTES: Final = 10  # of an id; the version and the variant take the place of 6 bits
_VARIANT: Final = {f"{digit:x}": f"{digit & 3 | 8:x}" for digit in range(16)}
_UUID = Pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_message_id(text: object) -> TypeGuard[str]:
    """Whether ``text`` is a UUID in its usual lower-case form."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


def new_message_id(now: datetime, random_bytes: RandomBytes) -> str:
    """A UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds, then 74 random bits."""
    (made,) = new_message_ids(1, now, random_bytes)
    return made


def new_message_ids(count: int, now: datetime, random_bytes: RandomBytes) -> list[str]:
    """So many of them, all of one moment."""
    milliseconds = (now - _EPOCH) // timedelta(milliseconds=1)  # exact, which a float of seconds is not
    time = f"{milliseconds:012x}"
    start = f"{time[:8]}-{time[8:]}-7"  # the version
    drawn = random_bytes(_RANDOM_BYTES * count).hex()
    return [
        f"{start}{drawn[i + 1 : i + 4]}-{_VARIANT[drawn[i + 4]]}{drawn[i + 5 : i + 8]}-{drawn[i + 8 : i + 20]}"
        for i in range(0, len(drawn), 2 * _RANDOM_BYTES)
    ]


def utc_now() -> datetime:
    """The system's clock, in UTC."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """UTC with milliseconds, as the envelope writes it: ``2026-01-31T08:15:00.123Z``."""
    utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return utc.isoformat(timespec="milliseconds")[: -len("+00:00")] + "Z"
