"""Tellers for what is often said: a number that falls, a value that is another, a switch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from towpath.changes.differences import Difference
from towpath.changes.rules import Impact, Teller, Told, shown
from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy


def number(of: str, unit: str = "", *, falls: str = "", none: str = "nothing") -> Teller:
    """A number, of which ``None`` is more than any. ``falls`` says why it is lossy that it falls, if it is."""

    def tell(_old: Any, _new: Any, found: Sequence[Difference]) -> Told:
        told = next((d for d in found if _size(d.new) < _size(d.old)), found[0])  # of several, one that falls
        before, after = told.old, told.new
        without_unit = isinstance(after, int | float) and isinstance(before, int | float)
        was = _amount(before, "" if without_unit else unit, none)
        sentence = f"{of} {_amount(after, unit, none)} instead of {was}"
        if falls and _size(after) < _size(before):
            return Told(impact="lossy", sentence=f"{sentence}: {falls}")
        return Told(impact="safe", sentence=sentence)

    return tell


def _amount(value: object, unit: str, none: str) -> str:
    if isinstance(value, int | float):
        return f"{value:,} {unit.removesuffix('s') if value == 1 else unit}".rstrip()
    return none if value is None else shown(value)


def _size(value: object) -> float:
    return value if isinstance(value, int | float) else float("inf")


def other(of: str, impact: Impact, because: str = "") -> Teller:
    """Another value, whichever: ``because`` says what that means."""

    def tell(_old: Any, _new: Any, found: Sequence[Difference]) -> Told:
        values = " and ".join(f"{shown(d.new)} instead of {shown(d.old)}" for d in found)
        sentence = f"{of} {values}"
        return Told(impact=impact, sentence=f"{sentence}: {because}" if because else sentence)

    return tell


def switch(on: Told, off: Told) -> Teller:
    """True or false: what is said when it becomes the one or the other."""
    return lambda _old, _new, found: on if all(difference.new is True for difference in found) else off


def filtered(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Told:
    """Another filter, ``None`` where everything is wanted. What lets through all that the old one did is safe."""
    only = "what is published from then on; what it has already stays"
    if new is None and old is not None:
        return safe(f"its filter goes and it gets everything of {only}")
    turned = f"gets the filter {shown(new)} instead of {shown(old)}"
    if old is not None and new is not None and _is_wider(new, old):
        return safe(f"{turned}, for {only}; it lets through all that the old one did")
    return lossy(f"{turned}, for {only}, and what the filter keeps out never comes")


def _is_wider(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    try:
        return FilterPolicy.parse(new).lets_through_all_of(FilterPolicy.parse(old))
    except InvalidFilter:  # nothing is proven of what SNS would refuse
        return False


def lossy(sentence: str) -> Told:
    """What may cost messages, attempts or a protection."""
    return Told(impact="lossy", sentence=sentence)


def safe(sentence: str) -> Told:
    """What costs nothing."""
    return Told(impact="safe", sentence=sentence)


def destructive(sentence: str) -> Told:
    """What deletes something that runs."""
    return Told(impact="destructive", sentence=sentence)


def always(told: Told) -> Teller:
    """The same, whatever differs."""
    return lambda _old, _new, _found: told
