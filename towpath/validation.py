"""The contract of a message, checked before anything is sent: which field breaks it, and how."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from towpath import limits
from towpath.message import ABSENT, NewMessage, PayloadRef, PublishCode, PublishError, is_message_id

_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CORRELATION_ID = re.compile(r"[!-~]{1,200}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# SQS drops a message of SNS with such text in an attribute: it carries the characters of XML 1.0 (Amazon SQS API
# reference, MessageAttributeValue). Refused on every transport, so that a message travels on each.
_UNCARRIED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


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
    for code, check in _CHECKS:
        problem = check(new)
        if problem is not None:
            return PublishError(code=code, message=problem)
    return None


def _id_fault(new: NewMessage) -> str | None:
    if new.id is None or is_message_id(new.id):
        return None
    return f"message id {_shown(new.id)} is not a UUID in lower-case text"


def _payload_fault(new: NewMessage) -> str | None:
    reference: object = new.payload_ref  # whatever the caller put there
    if reference is not None:
        if new.payload is not ABSENT:
            return "a message carries payload or payload_ref, not both"
        if not isinstance(reference, PayloadRef):
            return f"payload_ref must be a PayloadRef, not {_shown(reference)}"
        return ref_fault(asdict(reference))
    return None if new.payload is ABSENT else json_fault(new.payload)


def _attributes_fault(new: NewMessage) -> str | None:
    return attributes_fault(new.attributes)


def _partition_key_fault(new: NewMessage) -> str | None:
    key = new.partition_key
    if key is None or _is_key(key, limits.PARTITION_KEY_LENGTH):
        return None
    return f"partition_key must be text of 1 to {limits.PARTITION_KEY_LENGTH} characters, none of them NUL"


def _correlation_fault(new: NewMessage) -> str | None:
    if new.correlation_id is not None and not _matches(_CORRELATION_ID, new.correlation_id):
        return "correlation_id must be 1 to 200 printable ASCII characters without blanks"
    if new.causation_id is not None and not is_message_id(new.causation_id):
        return "causation_id must be the id of a message (a UUID in lower-case text)"
    if new.traceparent is not None and not _matches(_TRACEPARENT, new.traceparent):
        return "traceparent must be a W3C trace context header"
    return None


def _times_fault(new: NewMessage) -> str | None:
    for name in ("deliver_after", "expires_at"):
        moment = getattr(new, name)
        if moment is not None and not _is_moment(moment):
            return f"{name} must be a datetime with a time zone, in the years 1 to 9999 of UTC"
    return None


def _deduplication_fault(new: NewMessage) -> str | None:
    key, ttl, window = new.deduplication_key, new.deduplication_ttl, new.deduplication_window
    if window not in ("sliding", "fixed"):
        return f"deduplication_window must be 'sliding' or 'fixed', not {_shown(window)}"
    if key is None:
        return None if ttl is None else "deduplication_ttl needs a deduplication_key"
    if not _is_key(key, limits.DEDUPLICATION_KEY_LENGTH) or not key.strip():
        return f"deduplication_key must be 1 to {limits.DEDUPLICATION_KEY_LENGTH} characters, not all blank, none NUL"
    shortest, longest = limits.DEDUPLICATION_TTL_SECONDS
    if ttl is not None and not (isinstance(ttl, timedelta) and shortest <= ttl.total_seconds() <= longest):
        return f"deduplication_ttl must be a timedelta of {shortest} s to {longest // 86_400} d"
    return None


_CHECKS: tuple[tuple[PublishCode, Callable[[NewMessage], str | None]], ...] = (
    ("InvalidMessageId", _id_fault),
    ("InvalidPayload", _payload_fault),
    ("InvalidAttributes", _attributes_fault),
    ("InvalidAttributes", _times_fault),
    ("InvalidPartitionKey", _partition_key_fault),
    ("InvalidCorrelationId", _correlation_fault),
    ("InvalidDeduplication", _deduplication_fault),
)


def _is_text(value: object) -> bool:
    """Text that UTF-8 can carry: a lone surrogate is no character."""
    return isinstance(value, str) and (value.isascii() or _SURROGATE.search(value) is None)


def _is_key(key: str, longest: int) -> bool:
    """Text for a database column of its own: PostgreSQL's text has no NUL."""
    return _is_text(key) and 1 <= len(key) <= longest and "\0" not in key


def _is_moment(value: object) -> bool:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        return False
    try:
        value.astimezone(UTC)
    except OverflowError:  # within a day of the first or the last year, in another zone
        return False
    return True


def _shown(value: object) -> str:
    """A wrong value for a message about it: text in short, of anything else only what it is."""
    return repr(value[:80]) if isinstance(value, str) else f"a {type(value).__name__}"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def json_fault(value: object, name: str = "payload") -> str | None:
    """Why ``value`` is no JSON value that survives the wire unchanged, with its path within what has this ``name``;
    ``None`` when it is one.
    """
    return None if _is_plainly_json(value, 0) else next(_json_faults(value, name, 0), None)


def _is_plainly_json(value: object, depth: int) -> bool:
    """Whether ``value`` is JSON at a glance: quick, since every message is looked at. ``False`` says nothing yet."""
    if isinstance(value, str):
        return value.isascii() or _SURROGATE.search(value) is None
    if value is None or isinstance(value, int):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth >= limits.PAYLOAD_DEPTH or not isinstance(value, dict | list):
        return False
    if isinstance(value, dict):
        for key in value:
            if not _is_text(key):
                return False
        value = value.values()
    for item in value:  # noqa: SIM110 - all() takes twice the time
        if not _is_plainly_json(item, depth + 1):
            return False
    return True


def _json_faults(value: object, path: str, depth: int) -> Iterator[str]:
    if depth > limits.PAYLOAD_DEPTH:
        yield f"{path[:80]}... is nested more than {limits.PAYLOAD_DEPTH} deep, or contains itself"
    elif value is None or isinstance(value, bool | int):
        return
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"{path} is {value}, which JSON does not have"
    elif isinstance(value, str):
        if not _is_text(value):
            yield f"{path} holds a lone surrogate, which UTF-8 cannot carry"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not _is_text(key):
                yield f"{path} has the key {_shown(key)}; JSON keys are text that UTF-8 can carry"
            yield from _json_faults(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _json_faults(item, f"{path}[{index}]", depth + 1)
    else:
        yield f"{path} is a {type(value).__name__}, which JSON does not have"


def attributes_fault(attributes: object) -> str | None:
    """Why these are no message attributes; ``None`` when they are."""
    if not isinstance(attributes, Mapping):
        return f"attributes must be a mapping, not a {type(attributes).__name__}"
    if len(attributes) > limits.ATTRIBUTES:
        return f"a message has at most {limits.ATTRIBUTES} attributes, this one {len(attributes)}"
    for name, value in attributes.items():
        if not _matches(_ATTRIBUTE_NAME, name):
            return f"attribute name {_shown(name)} must be 1 to 64 of A-Z a-z 0-9 _ -"
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
        within = -limits.ATTRIBUTE_NUMBER <= value <= limits.ATTRIBUTE_NUMBER  # no float of it: an int may have none
        return None if within else "must be a finite number within -1e9 and 1e9"
    return f"is a {type(value).__name__}; text, a number or a list of text is allowed"


def _attribute_text_problem(value: str) -> str | None:
    if not 1 <= len(value) <= limits.ATTRIBUTE_VALUE_LENGTH:
        return f"must be 1 to {limits.ATTRIBUTE_VALUE_LENGTH} characters long, not {len(value)}"
    if _UNCARRIED.search(value):
        return "holds a control character, U+FFFE or U+FFFF, which SQS does not carry; leave it out"
    return None if _is_text(value) else "holds a lone surrogate, which UTF-8 cannot carry"


def ref_fault(ref: Mapping[str, Any]) -> str | None:
    """Why this is no claim check; ``None`` when it is."""
    if not _is_text(ref.get("uri")) or not ref["uri"]:
        return "payload_ref.uri must be non-empty text"
    content_type, size, digest = ref.get("content_type"), ref.get("size_bytes"), ref.get("sha256")
    if content_type is not None and not _is_text(content_type):
        return "payload_ref.content_type must be text"
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 0):
        return "payload_ref.size_bytes must be a whole number of bytes"
    if digest is not None and not _matches(_SHA256, digest):
        return "payload_ref.sha256 must be 64 lower-case hexadecimal digits"
    return None
