"""AWS's bounds on a filter policy as a whole: keys, combinations, wildcards, bytes.

Source: Amazon SNS developer guide, "Filter policy constraints" and "AND/OR logic". Where these leave two readings, the
stricter one is taken: a policy that is accepted here must not be refused when it is deployed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from towpath import limits
from towpath.filters.operands import OR, wildcards

# Each $or adds a key at least, so a policy within the bound on keys does not nest them deeper.
DEEPEST_OR: Final = limits.SNS_FILTER_KEYS - 1

_COUNTED: Final = 10**9  # what is above need not be told to a digit, and may have more digits than Python writes


def bound_faults(policy: Mapping[str, Any]) -> Iterator[str]:
    """The bounds that ``policy`` exceeds. What is no policy in it is passed over."""
    keys = sum(1 for _ in _tested(policy, 0))
    if keys > limits.SNS_FILTER_KEYS:
        within = ", those in $or included" if OR in policy else ""
        yield f"has {keys} keys{within}, SNS allows {limits.SNS_FILTER_KEYS}"
    combinations = _combinations(policy, 0)
    if combinations > limits.SNS_FILTER_COMBINATIONS:
        count = f"{combinations:,}" if combinations < _COUNTED else f"more than {_COUNTED:,}"
        yield f"makes {count} combinations of values, SNS allows {limits.SNS_FILTER_COMBINATIONS}"
    points = _wildcard_points(policy)
    if points > limits.SNS_FILTER_WILDCARD_POINTS:
        yield (
            f"has a wildcard complexity of {points:,} points, SNS allows {limits.SNS_FILTER_WILDCARD_POINTS}; "
            "put fewer conditions beside the wildcards of a key"
        )


def size_fault(text: str) -> str | None:
    """Why a policy with this JSON text is too large, if it is."""
    size = len(text.encode())
    return (
        f"is {size:,} bytes of JSON, SNS allows {limits.SNS_FILTER_BYTES:,}" if size > limits.SNS_FILTER_BYTES else None
    )


def _alternatives(policy: Mapping[str, Any], depth: int) -> list[Mapping[str, Any]]:
    """What stands in the ``$or`` of a policy that is itself within so many."""
    members = policy.get(OR)
    if not isinstance(members, list | tuple) or depth >= DEEPEST_OR:
        return []
    return [member for member in members if isinstance(member, Mapping)]


def _tested(policy: Mapping[str, Any], depth: int) -> Iterator[Sequence[Any]]:
    """The conditions of each key, also of those in ``$or``, which itself is none."""
    for key, conditions in policy.items():
        if key != OR:
            yield conditions if isinstance(conditions, list | tuple) else ()
    for member in _alternatives(policy, depth):
        yield from _tested(member, depth + 1)


def _combinations(policy: Mapping[str, Any], depth: int) -> int:
    """Conditions multiplied over the keys; a ``$or`` counts the sum of its alternatives."""
    own = (len(c) for key, c in policy.items() if key != OR and isinstance(c, list | tuple))
    return math.prod(own) * (sum(_combinations(m, depth + 1) for m in _alternatives(policy, depth)) or 1)


def _wildcard_points(policy: Mapping[str, Any]) -> int:
    """The points of each key's conditions times their number, over all keys; none without a wildcard."""
    fields = list(_tested(policy, 0))
    if not any(_pattern_points(condition) for conditions in fields for condition in conditions):
        return 0
    return sum(len(conditions) * sum(map(_points, conditions)) for conditions in fields)


def _points(condition: object) -> int:
    beside = isinstance(condition, Mapping) and "anything-but" in condition
    return _pattern_points(condition) + beside


def _pattern_points(condition: object) -> int:
    """One for a pattern with a single wildcard or none, three for each wildcard of a pattern with more."""
    match condition:
        case {"wildcard": str(pattern)} | {"anything-but": {"wildcard": str(pattern)}}:
            return 3 * wildcards(pattern) if wildcards(pattern) > 1 else 1
        case _:
            return 0
