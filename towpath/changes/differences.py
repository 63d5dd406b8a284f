"""Where two records of a manifest differ: the deepest places, by their paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

Path = tuple[str, ...]


class Absent:
    """What stands for a value that is not there, which ``None`` in a manifest is not."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place that differs: the value there before and after, ``ABSENT`` where there is none."""

    path: Path
    old: object
    new: object


def differences(old: object, new: object, path: Path = ()) -> Iterator[Difference]:
    """Every difference between ``old`` and ``new``, in the order of their fields. There is none only if they are equal.

    Records are compared field by field, mappings key by key, and lists of records by what their records are called.
    """
    if old is new:
        return
    parts = _parts(old), _parts(new)
    if parts[0] is None or parts[1] is None or (is_dataclass(old) and type(old) is not type(new)):
        if not _same(old, new):
            yield Difference(path=path, old=old, new=new)
        return
    deeper = [
        difference
        for key in dict.fromkeys((*parts[0], *parts[1]))
        for difference in differences(parts[0].get(key, ABSENT), parts[1].get(key, ABSENT), (*path, key))
    ]
    if old != new and not deeper:  # a list that differs in its order alone
        yield Difference(path=path, old=old, new=new)
    yield from deeper


def _same(old: object, new: object) -> bool:
    """Whether two values without named parts are the same in JSON, where ``1`` is neither ``true`` nor ``1.0``."""
    return old == new and json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True)


def _parts(value: object) -> Mapping[str, object] | None:
    """What ``value`` is made of; ``None`` when it is one value, or when what it is made of has no names."""
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        called = {_called(item): item for item in value}
        if None not in called and len(called) == len(value):
            return {str(name): item for name, item in called.items()}
    return None


def _called(item: object) -> str | None:
    """What a record in a list is called: a statement by its id, a policy by its name, a widget by its title."""
    if not is_dataclass(item):
        return None
    return next((str(getattr(item, key)) for key in ("sid", "name", "title") if hasattr(item, key)), None)
