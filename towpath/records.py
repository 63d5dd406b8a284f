"""Reading JSON into frozen dataclasses, strictly, with the standard library alone."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, TypeVar

from towpath.errors import Mistake, MistakesFound

RecordT = TypeVar("RecordT")

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_record(record_type: type[RecordT], document: object, error: type[MistakesFound], subject: str) -> RecordT:
    """Make ``record_type`` of a parsed JSON document.

    Every field without a default must be there, and nothing else may be. Raises ``error`` about ``subject`` with
    all mistakes and their paths at once.
    """
    mistakes: list[Mistake] = []
    record = _read(record_type, document, "", mistakes)
    if mistakes:
        raise error(subject, mistakes)
    return typing.cast("RecordT", record)


def read_json_record(record_type: type[RecordT], text: str, error: type[MistakesFound], subject: str) -> RecordT:
    """Make ``record_type`` of JSON text, as ``read_record`` does. Text that is no JSON is a mistake too."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as cause:
        raise error(subject, [Mistake(path="", problem=f"is not JSON: {cause}")]) from cause
    return read_record(record_type, document, error, subject)


def _read(wanted: Any, value: object, path: str, mistakes: list[Mistake]) -> Any:
    if is_dataclass(wanted) and isinstance(wanted, type):
        return _read_fields(wanted, value, path, mistakes)
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return value
    if origin is Literal:
        if any(value == allowed and type(value) is type(allowed) for allowed in arguments):  # True == 1 == 1.0
            return value
        return _mistaken(mistakes, path, f"must be {' or '.join(map(repr, arguments))}, not {value!r}")
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _read(inner, value, path, mistakes)
    if origin is tuple:
        if not isinstance(value, list):
            return _mistaken(mistakes, path, "must be a list")
        return tuple(_read(arguments[0], item, f"{path}[{i}]", mistakes) for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, Mapping):
            return _mistaken(mistakes, path, "must be an object")
        return {key: _read(arguments[1], item, _join(path, key), mistakes) for key, item in value.items()}
    return _read_scalar(wanted, value, path, mistakes)


def _read_fields(wanted: type[Any], value: object, path: str, mistakes: list[Mistake]) -> Any:
    if not isinstance(value, Mapping):
        return _mistaken(mistakes, path, "must be an object")
    hints = typing.get_type_hints(wanted)
    known = {f.name: f for f in fields(wanted) if f.init}
    mistakes.extend(Mistake(path=_join(path, key), problem="is not a known key") for key in value if key not in known)
    found = {name: value[name] for name in known if name in value}
    missing = [n for n, f in known.items() if n not in found and f.default is MISSING and f.default_factory is MISSING]
    mistakes.extend(Mistake(path=_join(path, name), problem="is missing") for name in missing)
    before = len(mistakes)
    read = {name: _read(hints[name], item, _join(path, name), mistakes) for name, item in found.items()}
    return None if missing or len(mistakes) > before else wanted(**read)


def _read_scalar(wanted: Any, value: object, path: str, mistakes: list[Mistake]) -> Any:
    accepted: tuple[type, ...] = (int, float) if wanted is float else (wanted,)
    if isinstance(value, accepted) and (wanted is bool or not isinstance(value, bool)):
        return value
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return _mistaken(mistakes, path, f"must be {names[wanted]}, not {value!r}")


def _mistaken(mistakes: list[Mistake], path: str, problem: str) -> None:
    mistakes.append(Mistake(path=path, problem=problem))


def key_path(keys: Iterable[object]) -> str:
    """The path that leads through ``keys``, as TOML writes it: ``subscriptions."documents.convert".handler``."""
    return ".".join(key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False) for key in map(str, keys))


def _join(path: str, key: object) -> str:
    return f"{path}.{key_path([key])}" if path else key_path([key])
