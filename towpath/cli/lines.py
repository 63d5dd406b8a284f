"""Messages from JSON Lines, one line at a time: a file of any size passes in bounded memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, BinaryIO, Final, Literal

from towpath import limits
from towpath.cli.given import Numbered
from towpath.errors import did_you_mean
from towpath.message import JsonValue, NewMessage, PayloadRef, PublishError

Kind = Literal["payloads", "messages"]

_LONGEST: Final = 8 * limits.MAX_MESSAGE_BYTES  # of a line: JSON may write a byte as six letters

_NAMES: Final = (
    "payload",
    "payload_ref",
    "partition_key",
    "attributes",
    "id",
    "correlation_id",
    "causation_id",
    "traceparent",
    "deliver_after",
    "expires_at",
    "deduplication_key",
)
_TIMES: Final = ("deliver_after", "expires_at")


class Lines:
    """The lines of a file, in bytes: one that is no UTF-8 spoils no other, and only a line feed ends one.

    ``number`` is the last line's that was read, ``read`` the bytes until then, ``digest`` the SHA-256 of these. Of a
    line that is longer than any message there is ``None``: it is read in parts, none of which is kept.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self.number = 0
        self.read = 0

    @property
    def digest(self) -> str:
        """The SHA-256 of all that was read, as hexadecimal digits."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[bytes | None]:
        while part := self._part():
            is_whole = True
            while len(part) == _LONGEST and not part.endswith(b"\n"):
                is_whole, part = False, self._part()
            self.number += 1
            yield part if is_whole else None

    def _part(self) -> bytes:
        part = self._file.readline(_LONGEST)
        self._digest.update(part)
        self.read += len(part)
        return part

    def skip(self, count: int) -> None:
        """Read ``count`` lines, or as many as there are."""
        for _ in zip(range(count), self, strict=False):
            pass


def messages(lines: Lines, name: str, template: NewMessage, kind: Kind) -> Iterator[Numbered]:
    """One message for each line that is not blank: its payload, or all of it. What a line lacks ``template`` has."""
    read = _payload if kind == "payloads" else _message
    for line in lines:
        if line is not None and not line.strip():
            continue
        found = _found(line, template, read)
        message, fault = (template, found) if isinstance(found, PublishError) else (found, None)
        source = f"{name}, line {lines.number}: "
        yield Numbered(source=source, message=message, fault=fault, line=lines.number, read=lines.read)


def _found(
    line: bytes | None, template: NewMessage, read: Callable[[JsonValue, NewMessage], NewMessage]
) -> NewMessage | PublishError:
    if line is None:
        told = f"the line is longer than {_LONGEST:,} bytes, and a message has {limits.MAX_MESSAGE_BYTES:,} at most"
        return PublishError(code="PayloadTooLarge", message=told)
    try:
        return read(json.loads(line), template)
    except (ValueError, RecursionError) as error:
        told = str(error) if isinstance(error, _NoMessage) else f"the line is not JSON: {error}"
        return PublishError(code="InvalidPayload", message=told)


class _NoMessage(ValueError):
    """A line that is JSON, and no message; the text says why."""


def _payload(value: JsonValue, template: NewMessage) -> NewMessage:
    return replace(template, payload=value)


def _message(value: JsonValue, template: NewMessage) -> NewMessage:
    """Raises ``_NoMessage``. What the values must be is left to the contract, but for those that JSON does not have."""
    if not isinstance(value, dict):
        raise _NoMessage('with --lines messages each line is an object, such as {"payload": 1}')
    for name in value:
        if name not in _NAMES:
            raise _NoMessage(f"{name!r} is none of {', '.join(_NAMES)}{did_you_mean(name, _NAMES)}")
    given = {name: _READ.get(name, _as_it_is)(name, held) for name, held in value.items() if _is_given(name, held)}
    if isinstance(given.get("attributes"), dict):
        given["attributes"] = {**template.attributes, **given["attributes"]}
    return replace(template, **given)


def _is_given(name: str, value: JsonValue) -> bool:
    return name == "payload" or value is not None


def _as_it_is(_: str, value: JsonValue) -> Any:
    return value


def _time(name: str, value: JsonValue) -> datetime:
    try:
        time = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        time = None
    if time is None or time.tzinfo is None:
        raise _NoMessage(f"{name} {value!r} is no time with its offset, such as 2026-01-31T08:15:00Z")
    return time


def _reference(name: str, value: JsonValue) -> PayloadRef:
    names = ("uri", "content_type", "size_bytes", "sha256")
    if not isinstance(value, dict) or "uri" not in value or not value.keys() <= set(names):
        raise _NoMessage(f"{name} is an object of uri and, where known, content_type, size_bytes and sha256")
    return PayloadRef(**value)


_READ: Final[Mapping[str, Callable[[str, JsonValue], Any]]] = {
    "payload_ref": _reference,
    **dict.fromkeys(_TIMES, _time),
}
