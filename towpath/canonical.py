"""The quick way to read an envelope: of one that is written as Towpath writes it, which nearly all are."""

from __future__ import annotations

import json
import sys
from datetime import datetime
from itertools import chain
from math import isfinite
from typing import Any, Final

from towpath import limits
from towpath.json_values import is_text
from towpath.message import ABSENT, JsonValue, Message, PayloadRef
from towpath.patterns import Pattern

# Text without escapes in printable ASCII. Whatever else the contract allows is read the long way.
_SOLID: Final = r"[!#-\[\]-~]"
_TEXT: Final = r"[ !#-\[\]-~]"
_ID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_TIME: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
_NAME: Final = rf'"(?!(?i:towpath))[A-Za-z0-9_-]{{1,{limits.ATTRIBUTE_NAME_LENGTH}}}"'
_ATTRIBUTE: Final = rf'{_NAME}:(?:"{_TEXT}{{1,{limits.ATTRIBUTE_VALUE_LENGTH}}}"|-?[0-9]{{1,9}})'
_REFERENCE: Final = (
    rf'(?:"content_type":"({_TEXT}*)",)?(?:"sha256":"([0-9a-f]{{64}})",)?'
    rf'(?:"size_bytes":(0|[1-9][0-9]{{,17}}),)?"uri":"({_TEXT}+)"'
)
_HOLDERS: Final = frozenset({dict, list})
_HEAD: Final = Pattern(
    rf'\{{(?:"attributes":(\{{{_ATTRIBUTE}(?:,{_ATTRIBUTE}){{,{limits.ATTRIBUTES - 1}}}\}}),)?'
    rf'(?:"causation_id":"({_ID})",)?'
    rf'"correlation_id":"({_SOLID}{{1,{limits.CORRELATION_ID_LENGTH}}})",'
    rf'(?:"deliver_after":"({_TIME})",)?'
    rf'(?:"expires_at":"({_TIME})",)?'
    rf'"id":"({_ID})",'
    rf'(?:"partition_key":"({_TEXT}{{1,{limits.PARTITION_KEY_LENGTH}}})",)?'
    rf'(?:"payload":|"payload_ref":\{{{_REFERENCE}\}})'
)
_TAIL: Final = Pattern(
    rf',"published_at":"({_TIME})","schema":"{limits.SCHEMA}","topic":"([a-z0-9]+(?:[._-][a-z0-9]+)*)"'
    r'(?:,"traceparent":"(00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2})")?\}'
)


def read_canonical(body: str) -> Message[JsonValue] | None:
    """The message that a canonical envelope says, exactly as the strict reading has it; ``None`` for any other body.

    Two patterns hold what stands around the payload to the contract, all at once. ``None`` says nothing yet: a body
    that is written in another way, or breaks a rule, is for the strict reading, which explains.
    """
    head = _HEAD.match(body, 0)
    if head is None:
        return None
    carried, causation_id, correlation_id, deliver_after, expires_at, message_id, key, kind, digest, size, uri = (
        head.groups()
    )
    try:
        payload, end = (ABSENT, head.end()) if uri is not None else _DECODER.raw_decode(body, head.end())
        tail = _TAIL.fullmatch(body, end)
        if tail is None or not _is_plain(body, payload):
            return None
        published_at, topic, traceparent = tail.groups()
        if len(topic) > limits.TOPIC_NAME_LENGTH:
            return None
        return Message(
            id=message_id,
            topic=topic,
            payload=payload,
            payload_ref=None if uri is None else _reference(uri, kind, digest, size),
            partition_key=key,
            attributes={} if carried is None else _DECODER.raw_decode(carried)[0],
            correlation_id=correlation_id,
            causation_id=causation_id,
            traceparent=traceparent,
            published_at=datetime.fromisoformat(published_at),
            deliver_after=None if deliver_after is None else datetime.fromisoformat(deliver_after),
            expires_at=None if expires_at is None else datetime.fromisoformat(expires_at),
        )
    except (ValueError, RecursionError):
        return None


def _is_plain(body: str, payload: JsonValue) -> bool:
    """Whether ``payload``, which was read from ``body``, keeps the rules of ``json_values``: told by the text, since
    looking at each value takes as long as reading it.

    Without ``\\u`` there is no surrogate in it that ``body`` does not have. Python reads no longer integer than ours
    may be, unless it was told to. There are fewer values than characters, and no deeper ones than brackets open.
    """
    return (
        ("\\" not in body or "\\u" not in body)  # the first is a tenth of the second's work
        and is_text(body)
        and len(body) <= limits.PAYLOAD_VALUES
        and 0 < sys.get_int_max_str_digits() <= limits.PAYLOAD_INTEGER_DIGITS
        and (body.count("{") + body.count("[") <= limits.PAYLOAD_DEPTH or _is_shallow(payload))
    )


def _is_shallow(value: JsonValue) -> bool:
    """Whether arrays and objects are within one another no deeper than they may be: level by level."""
    level: list[Any] = [value]
    for _ in range(limits.PAYLOAD_DEPTH + 1):
        holders = [item.values() if type(item) is dict else item for item in level if type(item) in _HOLDERS]
        if not holders:
            return True
        level = list(chain.from_iterable(holders))
    return False


def _reference(uri: str, kind: str | None, digest: str | None, size: str | None) -> PayloadRef:
    return PayloadRef(uri=uri, content_type=kind, sha256=digest, size_bytes=None if size is None else int(size))


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("a number is beyond a float")
    return number


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_refused)
