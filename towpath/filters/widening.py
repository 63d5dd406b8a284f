"""Whether one filter policy lets through everything that another does: proven from their text, never tried out.

What cannot be proven is not said: ``False`` means only that nobody knows. The conditions of a key are alternatives, its
keys must all hold, and ``$or`` is an alternative between policies (Amazon SNS developer guide, "AND/OR logic").
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from towpath.filters.operands import OR

_MOST_ALTERNATIVES: Final = 256

Flat = Mapping[str, Sequence[Any]]


def lets_through_all_of(wide: Mapping[str, Any], narrow: Mapping[str, Any]) -> bool:
    """Whether every message that passes the policy ``narrow`` certainly passes ``wide``; both are without mistakes."""
    wide_ones, narrow_ones = list(_flat(wide)), list(_flat(narrow))
    if len(wide_ones) * len(narrow_ones) > _MOST_ALTERNATIVES:
        return False
    return all(any(_holds_for(one, other) for one in wide_ones) for other in narrow_ones)


def _flat(policy: Mapping[str, Any]) -> Iterator[Flat]:
    """The policy as alternatives without ``$or``; keys outside are in each of them."""
    own = {key: value for key, value in policy.items() if key != OR}
    if OR not in policy:
        yield own
        return
    for member in policy[OR]:
        for inner in _flat(member):
            yield own | dict(inner)


def _holds_for(wide: Flat, narrow: Flat) -> bool:
    """Whether each key of ``wide`` asks no more than ``narrow`` does of the same key."""
    return all(
        key in narrow and all(any(_covers(one, other) for one in conditions) for other in narrow[key])
        for key, conditions in wide.items()
    )


def _covers(wide: Any, narrow: Any) -> bool:
    """Whether an attribute that meets the condition ``narrow`` meets ``wide``, be it a text, a number or a list."""
    if wide == narrow and isinstance(wide, bool) is isinstance(narrow, bool):
        return True
    if not isinstance(wide, Mapping):
        return False
    ((operator, operand),) = wide.items()
    of, value = next(iter(narrow.items())) if isinstance(narrow, Mapping) else ("", narrow)
    match operator:
        case "exists":
            return operand is True and of not in ("exists", "anything-but")
        case "prefix" | "suffix":
            return _affix_covers(operator, operand, of, value)
        case "equals-ignore-case":
            return of in ("", operator) and _is_text(value) and value.lower() == str(operand).lower()
        case "anything-but":
            return of == operator and _refuses_less(operand, value)
        case "numeric":
            return of in ("", operator) and _range_covers(operand, [value] if of == "" else value)
        case _:
            return False


def _affix_covers(operator: str, operand: Any, of: str, value: Any) -> bool:
    if of not in ("", operator) or not _is_text(value) or not _is_text(operand):
        return False
    return bool(value.startswith(operand) if operator == "prefix" else value.endswith(operand))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\\" not in value and '"' not in value  # as it stands, with nothing to unescape


def _refuses_less(wide: Any, narrow: Any) -> bool:
    """Lists, or single values, of what is refused; not ``prefix`` and the like, which are compared as they stand."""
    fewer, more = (value if isinstance(value, list | tuple) else [value] for value in (wide, narrow))
    if any(isinstance(value, Mapping) for value in (*fewer, *more)):
        return False
    return all(value in more for value in fewer)


def _range_covers(wide: Sequence[Any], narrow: Sequence[Any]) -> bool:
    if len(narrow) == 1:
        (number,) = narrow
        if not isinstance(number, int | float) or isinstance(number, bool):
            return False
        narrow = ["=", number]
    lower, upper = _bounds(wide)
    inner_lower, inner_upper = _bounds(narrow)
    return lower <= inner_lower and inner_upper <= upper


def _bounds(comparisons: Sequence[Any]) -> tuple[tuple[float, int], tuple[float, int]]:
    """The lower and the upper bound. The second number puts an open bound within a closed one of the same value."""
    lower, upper = (-math.inf, 0), (math.inf, 0)
    for comparison, bound in zip(comparisons[::2], comparisons[1::2], strict=True):
        if comparison in ("=", ">", ">="):
            lower = (bound, 1 if comparison == ">" else 0)
        if comparison in ("=", "<", "<="):
            upper = (bound, -1 if comparison == "<" else 0)
    return lower, upper
