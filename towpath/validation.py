"""The contract of a message, checked before anything is sent: which field breaks it, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeGuard

from towpath import limits
from towpath.json_values import is_text, json_fault, shown
from towpath.message import ABSENT, Message, NewMessage, PayloadRef, PublishCode, PublishError, is_message_id
from towpath.patterns import Pattern

_ATTRIBUTE_NAME = Pattern(rf"[A-Za-z0-9_-]{{1,{limits.ATTRIBUTE_NAME_LENGTH}}}")
_CORRELATION_ID = Pattern(rf"[!-~]{{1,{limits.CORRELATION_ID_LENGTH}}}")
# W3C Trace Context, "traceparent header": version ff and ids of zeros are invalid, and only a later version may go on.
_IDS = r"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = Pattern(rf"00{_IDS}|(?!00|ff)[0-9a-f]{{2}}{_IDS}(-[!-~]*)?")
_SHA256 = Pattern(r"[0-9a-f]{64}")
# SQS drops a message of SNS with such text in an attribute: it carries the characters of XML 1.0 (Amazon SQS API
# reference, MessageAttributeValue). Refused on every transport, so that a message travels on each.
_UNCARRIED = Pattern("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def require_messages(messages: object) -> None:
    """Raise ``TypeError`` for what is no sequence of ``NewMessage``: the caller's code is wrong, not a message."""
    if isinstance(messages, NewMessage):
        raise TypeError("publish takes a list of messages; write publish(topic, [message])")
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        raise TypeError(f"publish takes a list of NewMessage, not a {type(messages).__name__}")
    for position, message in enumerate(messages):
        if not isinstance(message, NewMessage):
            problem = f"message {position} is a {type(message).__name__}; write NewMessage(payload=...)"
            raise TypeError(f"publish takes a list of NewMessage: {problem}")


def first_fault(new: NewMessage) -> PublishError | None:
    """The first rule that ``new`` breaks, in the documented order of codes; ``None`` when it keeps them all."""
    fault = _id_fault(new) or carried_fault(new) or _lifetime_fault(new)
    is_keyed = new.deduplication_key is not None or new.deduplication_ttl is not None
    if fault is None and (is_keyed or new.deduplication_window != "sliding"):
        return _deduplication_fault(new)
    return fault


def carried_fault(message: NewMessage | Message[Any]) -> PublishError | None:
    """The first rule that what travels of a message breaks, all but its id.

    Every message is looked at, so what it does not have costs no call.
    """
    fault = _payload_fault(message)
    if fault is None and (type(message.attributes) is not dict or message.attributes):
        fault = _attributes_fault(message)
    if fault is None and (message.deliver_after is not None or message.expires_at is not None):
        fault = _times_fault(message)
    if fault is None and message.partition_key is not None:
        fault = _partition_key_fault(message)
    if fault is None and not (message.correlation_id is message.causation_id is message.traceparent is None):
        fault = _correlation_fault(message)
    return fault


def _id_fault(new: NewMessage) -> PublishError | None:
    if new.id is None or is_message_id(new.id):
        return None
    problem = f"message id {shown(new.id)} is not a UUID in lower-case text"
    return PublishError(code="InvalidMessageId", message=problem)


def _payload_fault(new: NewMessage | Message[Any]) -> PublishError | None:
    if new.payload_ref is not None:
        return _refused("InvalidPayload", _reference_problem(new))
    fault = None if new.payload is ABSENT else json_fault(new.payload, "payload")
    if fault is None:
        return None
    if not fault.is_vast:
        return PublishError(code="InvalidPayload", message=fault.text)
    problem = f"{fault.text}, and a message at most {limits.MAX_MESSAGE_BYTES:,} bytes; {CLAIM_CHECK_ADVICE}"
    return PublishError(code="PayloadTooLarge", message=problem)


CLAIM_CHECK_ADVICE: Final = "store the payload elsewhere and publish a claim check (payload_ref)"


def _reference_problem(new: NewMessage | Message[Any]) -> str | None:
    reference: object = new.payload_ref  # whatever the caller put there
    if new.payload is not ABSENT:
        return "a message carries payload or payload_ref, not both"
    if not isinstance(reference, PayloadRef):
        return f"payload_ref must be a PayloadRef, not {shown(reference)}"
    return ref_fault(reference.record())


def _attributes_fault(new: NewMessage | Message[Any]) -> PublishError | None:
    return _refused("InvalidAttributes", attributes_fault(new.attributes))


def _times_fault(new: NewMessage | Message[Any]) -> PublishError | None:
    for name in ("deliver_after", "expires_at"):
        moment = getattr(new, name)
        if moment is not None and not _is_moment(moment):
            problem = f"{name} must be a datetime with a time zone, in the years 1 to 9999 of UTC"
            return PublishError(code="InvalidAttributes", message=problem)
    return None


def _lifetime_fault(new: NewMessage) -> PublishError | None:
    """Only of what is published: what is stored already is discarded as expired."""
    if new.deliver_after is None or new.expires_at is None or new.deliver_after < new.expires_at:
        return None
    problem = "deliver_after must be earlier than expires_at: what is due only when it is over is never handled"
    return PublishError(code="InvalidAttributes", message=problem)


def _partition_key_fault(new: NewMessage | Message[Any]) -> PublishError | None:
    if _is_key(new.partition_key, limits.PARTITION_KEY_LENGTH):
        return None
    problem = f"partition_key must be text of 1 to {limits.PARTITION_KEY_LENGTH} characters, none of them NUL"
    return PublishError(code="InvalidPartitionKey", message=problem)


def _correlation_fault(new: NewMessage | Message[Any]) -> PublishError | None:
    problem = None
    if new.correlation_id is not None and not _matches(_CORRELATION_ID, new.correlation_id):
        most = limits.CORRELATION_ID_LENGTH
        problem = f"correlation_id must be 1 to {most} printable ASCII characters without blanks"
    elif new.causation_id is not None and not is_message_id(new.causation_id):
        problem = "causation_id must be the id of a message (a UUID in lower-case text)"
    elif new.traceparent is not None and not _matches(_TRACEPARENT, new.traceparent):
        problem = "traceparent must be a valid header of W3C Trace Context"
    return _refused("InvalidCorrelationId", problem)


def _deduplication_fault(new: NewMessage) -> PublishError | None:
    return _refused("InvalidDeduplication", _window_problem(new) or _deduplication_problem(new))


def _window_problem(new: NewMessage) -> str | None:
    window: object = new.deduplication_window  # whatever the caller put there
    if window in ("sliding", "fixed"):
        return None
    return f"deduplication_window must be 'sliding' or 'fixed', not {shown(window)}"


def _deduplication_problem(new: NewMessage) -> str | None:
    key, ttl = new.deduplication_key, new.deduplication_ttl
    if key is None:
        return None if ttl is None else "deduplication_ttl needs a deduplication_key"
    if not _is_key(key, limits.DEDUPLICATION_KEY_LENGTH) or not key.strip():
        return f"deduplication_key must be 1 to {limits.DEDUPLICATION_KEY_LENGTH} characters, not all blank, none NUL"
    shortest, longest = limits.DEDUPLICATION_TTL_SECONDS
    if ttl is not None and not (isinstance(ttl, timedelta) and shortest <= ttl.total_seconds() <= longest):
        return f"deduplication_ttl must be a timedelta of {shortest} s to {longest // 86_400} d"
    return None


def _refused(code: PublishCode, problem: str | None) -> PublishError | None:
    return None if problem is None else PublishError(code=code, message=problem)


def _is_key(key: object, longest: int) -> TypeGuard[str]:
    """Text for a database column of its own: PostgreSQL's text has no NUL."""
    return is_text(key) and 1 <= len(key) <= longest and "\0" not in key


def _is_moment(value: object) -> bool:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return False
    try:
        value.astimezone(UTC)
    except OverflowError:  # within a day of the first or the last year, in another zone
        return False
    return True


def _matches(pattern: Pattern, value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def attributes_fault(attributes: object) -> str | None:
    """Why these are no message attributes; ``None`` when they are."""
    if not isinstance(attributes, Mapping):
        return f"attributes must be a mapping, not a {type(attributes).__name__}"
    if len(attributes) > limits.ATTRIBUTES:
        return f"a message has at most {limits.ATTRIBUTES} attributes, this one {len(attributes)}"
    for name, value in attributes.items():
        if not _matches(_ATTRIBUTE_NAME, name):
            return f"attribute name {shown(name)} must be 1 to {limits.ATTRIBUTE_NAME_LENGTH} of A-Z a-z 0-9 _ -"
        if name.lower().startswith("towpath"):
            return f"attribute name {name!r} is reserved: names beginning 'towpath' are Towpath's own"
        problem = _attribute_problem(value)
        if problem is not None:
            return f"attribute {name!r} {problem}"
    return None


def _attribute_problem(value: object) -> str | None:
    if isinstance(value, str):
        return _attribute_text_problem(value)
    if isinstance(value, list | tuple):
        if len(value) > limits.ATTRIBUTE_LIST_LENGTH:
            return f"has {len(value)} items, at most {limits.ATTRIBUTE_LIST_LENGTH} are allowed"
        if not all(isinstance(item, str) for item in value):
            return "must be a list of text only"
        return next((p for p in map(_attribute_text_problem, value) if p is not None), None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _attribute_number_problem(value)
    return f"is a {type(value).__name__}; text, a number or a list of text is allowed"


def _attribute_number_problem(value: float) -> str | None:
    most = limits.ATTRIBUTE_NUMBER
    if not -most <= value <= most:  # compared as it is: an int may have no float
        return "must be a finite number within -1e9 and 1e9"
    if value != 0 and -limits.SQS_SMALLEST_NUMBER < value < limits.SQS_SMALLEST_NUMBER:
        return "is nearer to 0 than the numbers that SQS carries (1e-128); write 0"
    return None


def _attribute_text_problem(value: str) -> str | None:
    if not 1 <= len(value) <= limits.ATTRIBUTE_VALUE_LENGTH:
        return f"must be 1 to {limits.ATTRIBUTE_VALUE_LENGTH} characters long, not {len(value)}"
    if _UNCARRIED.search(value):
        return "holds a control character, U+FFFE or U+FFFF, which SQS does not carry; leave it out"
    return None if is_text(value) else "holds a lone surrogate, which UTF-8 cannot carry"


def ref_fault(ref: Mapping[str, Any]) -> str | None:
    """Why this is no claim check; ``None`` when it is."""
    if not is_text(ref.get("uri")) or not ref["uri"]:
        return "payload_ref.uri must be non-empty text"
    content_type, size, digest = ref.get("content_type"), ref.get("size_bytes"), ref.get("sha256")
    if content_type is not None and not is_text(content_type):
        return "payload_ref.content_type must be text"
    if size is not None and (type(size) is bool or not isinstance(size, int)):
        return "payload_ref.size_bytes must be a whole number"
    if size is not None and not 0 <= size <= limits.CLAIM_CHECK_BYTES:
        return f"payload_ref.size_bytes must be 0 to {limits.CLAIM_CHECK_BYTES:,}"
    if digest is not None and not _matches(_SHA256, digest):
        return "payload_ref.sha256 must be 64 lower-case hexadecimal digits"
    return None
