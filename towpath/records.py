"""Reading JSON into frozen dataclasses, strictly, with the standard library alone."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Literal, TypeVar

from towpath.errors import Mistake, MistakesFound
from towpath.frozen import Record
from towpath.patterns import Pattern

RecordT = TypeVar("RecordT")
Defaults = Literal["allowed", "refused"]
Path = tuple[str | int, ...]

_BARE_KEY = Pattern(r"[A-Za-z0-9_-]+")
_SHOWN_LENGTH = 80


def read_record(
    record_type: type[RecordT],
    document: object,
    error: type[MistakesFound],
    subject: str,
    *,
    defaults: Defaults = "allowed",
) -> RecordT:
    """Make ``record_type`` of a parsed JSON document.

    Every field must be there, but for those with a default where ``defaults`` are allowed, and nothing else may be.
    Raises ``error`` about ``subject`` with all mistakes and their paths at once.
    """
    reader = _Reader(defaults=defaults)
    record = reader.read(record_type, document, ())
    if reader.mistakes:
        raise error(subject, reader.mistakes)
    return typing.cast("RecordT", record)


def read_json_record(record_type: type[RecordT], text: str, error: type[MistakesFound], subject: str) -> RecordT:
    """Make ``record_type`` of JSON text, as ``read_json`` and ``read_record`` do."""
    return read_record(record_type, read_json(text, error, subject), error, subject)


def read_json(text: str, error: type[MistakesFound], subject: str) -> object:
    """Parse JSON text so that writing it again loses nothing. Raises ``error`` about ``subject`` for anything else:
    text that is no JSON, a key twice in an object, a number that is not finite, half of a surrogate pair.
    """
    try:
        document = json.loads(text, object_pairs_hook=_once_each, parse_float=_finite, parse_constant=_refused_constant)
        if "\\u" in text:
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError as cause:
        raise error(subject, [Mistake(path="", problem="holds half of a surrogate pair, which no text has")]) from cause
    except (ValueError, RecursionError) as cause:
        raise error(subject, [Mistake(path="", problem=f"is not JSON: {cause}")]) from cause
    return document


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return document


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text} is too large")
    return number


def _refused_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


class _Known(metaclass=Record):
    """A field: the type that is wanted, and whether it must be there."""

    wanted: Any
    required: bool


def _optional(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


class _Reader:
    """Reads one document and gathers what is wrong in it."""

    def __init__(self, defaults: Defaults) -> None:
        self._defaults = defaults
        self._known: dict[type[Any], dict[str, _Known]] = {}
        self.mistakes: list[Mistake] = []

    def read(self, wanted: Any, value: object, path: Path) -> Any:
        """``value`` as the type ``wanted``; ``None``, and a mistake more, when it is not of it."""
        if is_dataclass(wanted) and isinstance(wanted, type):
            return self._fields(wanted, value, path)
        origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
        if wanted is Any:
            return value
        if origin is Literal:
            if any(value == allowed and type(value) is type(allowed) for allowed in arguments):  # True == 1 == 1.0
                return value
            return self._mistaken(path, f"must be {' or '.join(map(_shown, arguments))}, not {_shown(value)}")
        if origin in (typing.Union, types.UnionType):
            (inner,) = (argument for argument in arguments if argument is not type(None))
            return None if value is None else self.read(inner, value, path)
        if origin is tuple:
            if not isinstance(value, list):
                return self._mistaken(path, "must be a list")
            return tuple(self.read(arguments[0], item, (*path, i)) for i, item in enumerate(value))
        if origin is dict:
            if not isinstance(value, Mapping):
                return self._mistaken(path, "must be an object")
            return {key: self.read(arguments[1], item, (*path, key)) for key, item in value.items()}
        return self._scalar(wanted, value, path)

    def _fields(self, wanted: type[Any], value: object, path: Path) -> Any:
        if not isinstance(value, Mapping):
            return self._mistaken(path, "must be an object")
        known = self._known_fields(wanted)
        before = len(self.mistakes)
        for key in value:
            if key not in known:
                self._mistaken((*path, key), "is not a known key")
        missing = [name for name, field in known.items() if name not in value and field.required]
        for name in missing:
            self._mistaken((*path, name), "is missing")
        found = {name: field for name, field in known.items() if name in value}
        read = {name: self.read(field.wanted, value[name], (*path, name)) for name, field in found.items()}
        return None if len(self.mistakes) > before else wanted(**read)

    def _known_fields(self, wanted: type[Any]) -> dict[str, _Known]:
        """The fields of a record, worked out once: a document has many records of one type."""
        if wanted not in self._known:
            hints = typing.get_type_hints(wanted)
            self._known[wanted] = {
                field.name: _Known(
                    wanted=hints[field.name], required=self._defaults == "refused" or not _optional(field)
                )
                for field in fields(wanted)
                if field.init
            }
        return self._known[wanted]

    def _scalar(self, wanted: Any, value: object, path: Path) -> Any:
        accepted: tuple[type, ...] = (int, float) if wanted is float else (wanted,)
        if isinstance(value, accepted) and (wanted is bool or not isinstance(value, bool)):
            return value
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
        return self._mistaken(path, f"must be {names[wanted]}, not {_shown(value)}")

    def _mistaken(self, path: Path, problem: str) -> None:
        self.mistakes.append(Mistake(path=key_path(path), problem=problem))


def _shown(value: object) -> str:
    """A value as its JSON, short."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}..."


def key_path(keys: Iterable[str | int]) -> str:
    """The path that leads through ``keys``, as TOML writes it, with positions in brackets:
    ``subscriptions."documents.convert".filter.kind[0]``.
    """
    return "".join(map(_step, keys)).removeprefix(".")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _BARE_KEY.fullmatch(key) else f".{json.dumps(key, ensure_ascii=False)}"
