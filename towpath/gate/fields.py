"""Where the guarded attributes of a resource are found in what a tool writes, and what holds where it says nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.gate.edits import UNKNOWN, Kind

Step = str | int


def as_it_is(value: Any) -> Any:
    """The value itself."""
    return value


def or_none(value: Any) -> Any:
    """The value; an empty one is none."""
    return value or None


def as_number(value: Any) -> Any:
    """A number, also where it is written as text. Anything else is a function whose answer is not there yet."""
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if value is None or is_number else UNKNOWN


def as_switch(value: Any) -> Any:
    """True or false, also where it is written as text. Anything else is a function whose answer is not there yet."""
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), UNKNOWN)
    return value if value is None or isinstance(value, bool) else UNKNOWN


def as_document(value: Any) -> Any:
    """A JSON document, also where it is written as text; an empty one is none."""
    if not isinstance(value, str):
        return value or None
    try:
        return json.loads(value) if value else None
    except ValueError:
        return value


def sorted_texts(value: Any) -> Any:
    """A list in one order; none where there is none. Anything else is a function whose answer is not there yet."""
    if isinstance(value, list):
        return sorted(value, key=str)
    return None if value is None else UNKNOWN


def never_or_days(value: Any) -> Any:
    """Days, where 0 means for ever, which is ``None`` here: more than any number."""
    return None if value in (None, 0) else as_number(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One guarded attribute: what ``towpath.gate.guards`` calls it, the steps that lead to it, how it is read, and what
    a tool takes where nothing is said.
    """

    guarded: str
    path: tuple[Step, ...]
    read: Callable[[Any], Any] = as_it_is
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a tool writes resources of one type. ``named`` are the attributes that have its name."""

    kind: Kind
    fields: tuple[Field, ...] = ()
    named: tuple[str, ...] = ()


def attributes(form: Form, values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The guarded attributes of a resource with these ``values``; nothing of one that is not there."""
    if values is None:
        return {}
    return {field.guarded: _read(field, values) for field in form.fields}


def names(form: Form, *values: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What a resource is called, before and after."""
    found = [one[key] for one in values if one is not None for key in form.named if isinstance(one.get(key), str)]
    return tuple(dict.fromkeys(found))


def _read(field: Field, values: Mapping[str, Any]) -> Any:
    found = _at(values, field.path)
    if found is UNKNOWN:
        return UNKNOWN
    value = field.read(found)
    return field.default if value is None else value


def _at(value: Any, path: tuple[Step, ...]) -> Any:
    """What stands at ``path``; text on the way is a JSON document. ``None`` where there is nothing."""
    for step in path:
        if value is UNKNOWN:
            return UNKNOWN
        inner = as_document(value) if isinstance(value, str) else value
        if isinstance(inner, Mapping):
            value = inner.get(str(step))
        elif isinstance(inner, list | tuple) and isinstance(step, int) and step < len(inner):
            value = inner[step]
        else:
            return None
    return value
