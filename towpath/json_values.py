"""JSON values that survive the wire unchanged: seen at a glance, and where one does not, told where and why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, Final, TypeGuard

from towpath import limits
from towpath.frozen import Record
from towpath.message import ABSENT, JsonValue
from towpath.patterns import Pattern

_TOO_LONG: Final = 10**limits.PAYLOAD_INTEGER_DIGITS  # the first integer with a digit too many
_NOT_PLAIN: Final = -1
_HOLDERS: Final = (dict, list, tuple)
_SHOWN: Final = 40  # characters of a key, and of each end of a long path
_PLAIN_KEY = Pattern(rf"[A-Za-z_][A-Za-z0-9_-]{{,{_SHOWN - 1}}}")


def _refused(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


STRICT_DECODER: Final = json.JSONDecoder(parse_constant=_refused)
"""Python's decoder without NaN and the infinities. Made once: making one takes as long as reading a short text."""


def parsed(text: str) -> JsonValue:
    """The JSON that ``text`` is, without NaN and the infinities. Raises ``ValueError``, or ``RecursionError``."""
    if text.startswith("{"):  # as every envelope does: to look for blanks around it takes longer than a short one
        document, end = STRICT_DECODER.raw_decode(text)
        if end == len(text):
            return document
    return STRICT_DECODER.decode(text)


def is_text(value: object) -> TypeGuard[str]:
    """Whether ``value`` is text that UTF-8 can carry: a lone surrogate is no character."""
    if not isinstance(value, str):
        return False
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
    return True


def is_plain_json(value: JsonValue, deepest: int = limits.PAYLOAD_DEPTH) -> bool:
    """Whether ``value`` is JSON at a glance, of Python's own types and at most ``deepest`` arrays and objects deep.

    It is quick, since every message is looked at. ``False`` says nothing yet: ``json_fault`` explains.
    """
    return _left(value, limits.PAYLOAD_VALUES, deepest) >= 0


def _left(value: JsonValue, left: int, deepest: int) -> int:
    """How many more values may come after ``value``; negative when it is not plain, or there are too many already."""
    kind = type(value)
    if not (kind is dict or kind is list or kind is tuple):
        return left if _is_plain_scalar(value) else _NOT_PLAIN
    left -= len(value)
    if deepest == 0 or left < 0:
        return _NOT_PLAIN
    if kind is dict:
        for key in value:
            if type(key) is not str or not (key.isascii() or is_text(key)):
                return _NOT_PLAIN
        value = value.values()
    for item in value:
        kind = type(item)
        if kind is str:  # most items are, and a call for each takes longer than looking at it
            if not (item.isascii() or is_text(item)):
                return _NOT_PLAIN
        elif kind is dict or kind is list or kind is tuple:
            left = _left(item, left, deepest - 1)
            if left < 0:
                return _NOT_PLAIN
        elif not _is_plain_scalar(item):
            return _NOT_PLAIN
    return left


def _is_plain_scalar(value: JsonValue) -> bool:
    kind = type(value)
    if kind is str:
        return is_text(value)
    if kind is int:
        return bool(-_TOO_LONG < value < _TOO_LONG)
    return isfinite(value) if kind is float else value is None or kind is bool


class JsonFault(metaclass=Record):
    """What is wrong with a value, and where. ``is_vast`` tells one that is merely too much from one that is no JSON."""

    text: str
    is_vast: bool = False


def json_fault(value: object, name: str) -> JsonFault | None:
    """Why ``value`` is no JSON that survives the wire, with the path within what is called ``name``; else ``None``.

    A tuple counts as an array, and a subclass of a JSON type (an enumeration's member) as what it holds: both come back
    as Python's own types. A value that is met many times over, as YAML's aliases make them, weighs what JSON would
    write for it; so looking ends after more values than any message has room for.
    """
    return None if is_plain_json(value) else _first_fault(value, name)


def _first_fault(value: Any, name: str) -> JsonFault | None:
    """The first fault in the order of writing. Without recursion, whose frames cost more than looking (Python 3.11)."""
    way: list[object] = []  # by which names and positions to get to what is looked at
    levels: list[Iterator[tuple[object, Any]]] = [iter([(name, value)])]
    left = limits.PAYLOAD_VALUES
    while levels:
        depth = len(levels) - 1
        for step, item in levels[-1]:
            way[depth:] = [step]
            problem = _problem(item, depth)
            if problem is not None:
                return JsonFault(text=f"{_path(way)} {problem}")
            if isinstance(item, _HOLDERS):
                left -= len(item)
                if left < 0:
                    most = f"{limits.PAYLOAD_VALUES:,} values (one that is shared counts each time)"
                    return JsonFault(text=f"{name} holds more than {most}", is_vast=True)
                levels.append(iter(item.items() if isinstance(item, dict) else enumerate(item)))
                break
        else:
            levels.pop()
    return None


def _problem(value: Any, depth: int) -> str | None:
    if isinstance(value, _HOLDERS):
        if depth >= limits.PAYLOAD_DEPTH:
            return f"is nested more than {limits.PAYLOAD_DEPTH} deep, or contains itself"
        return _keys_problem(value) if isinstance(value, dict) else None
    if value is None or isinstance(value, str):
        return None if value is None or is_text(value) else "holds a lone surrogate, which UTF-8 cannot carry"
    if isinstance(value, int):
        within = -_TOO_LONG < value < _TOO_LONG
        return (
            None if within else f"is an integer of more than {limits.PAYLOAD_INTEGER_DIGITS:,} digits; send it as text"
        )
    if isinstance(value, float):
        return None if isfinite(value) else f"is {value:f}, which JSON does not have"
    return f"is a {type(value).__name__}, which JSON does not have"


def _keys_problem(value: dict[Any, Any]) -> str | None:
    wrong = next((key for key in value if not is_text(key)), ABSENT)
    return None if wrong is ABSENT else f"has the key {shown(wrong)}; JSON keys are text that UTF-8 can carry"


def shown(value: object) -> str:
    """A wrong value for a sentence about it: text in short, of anything else only what it is."""
    if isinstance(value, str):
        return repr(str.__str__(value)[: 2 * _SHOWN])
    return "a type" if isinstance(value, type) else f"a {type(value).__name__}"


def _path(way: Sequence[object]) -> str:
    """``name.key[0]['a key']`` of a name, keys and positions; a long one is cut in its middle."""
    path = "".join([str(way[0]), *map(_step, way[1:])])
    return path if len(path) <= 3 * _SHOWN else f"{path[:_SHOWN]}...{path[-_SHOWN:]}"


def _step(step: object) -> str:
    if not isinstance(step, str):
        return f"[{step}]"
    key = str.__str__(step)
    return f".{key}" if _PLAIN_KEY.fullmatch(key) else f"[{key[:_SHOWN]!r}]"
