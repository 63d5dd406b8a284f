"""The Amazon SNS filter-policy language over message attributes.

``docs/reference/filters.md`` has every operator with an example, the bounds, and where AWS's documentation leaves
something open or LocalStack does otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.errors import InvalidFilter, Mistake
from towpath.filters.bounds import size_fault
from towpath.filters.checks import mistakes
from towpath.filters.evaluation import PolicyTest, policy_test
from towpath.filters.widening import lets_through_all_of
from towpath.message import AttributeValue

__all__ = ["FilterPolicy"]

_SUBJECT = "the filter policy"


@dataclass(frozen=True, slots=True)
class FilterPolicy:
    """A checked policy: a message passes when each key has a condition that the attribute of that name meets.

    ``keys`` is the policy in plain JSON values, the conditions of each key in a tuple; below ``$or`` are policies.
    Policies are equal when their canonical texts are.
    """

    keys: Mapping[str, tuple[Any, ...]] = field(compare=False)
    _text: str = field(repr=False)
    _passes: PolicyTest = field(compare=False, repr=False)

    @staticmethod
    def parse(policy: Mapping[str, Any]) -> FilterPolicy:
        """Check and compile ``policy``; raises ``InvalidFilter`` with every mistake and its path.

        Only asking costs little afterwards, so parse once. What was given is neither kept nor changed.
        """
        found = list(mistakes(policy))
        if found:
            raise InvalidFilter(_SUBJECT, found)
        keys = {key: tuple(map(_plain, conditions)) for key, conditions in policy.items()}
        text = json.dumps(keys, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        fault = size_fault(text)
        if fault is not None:
            raise InvalidFilter(_SUBJECT, [Mistake(path="", problem=fault)])
        return FilterPolicy(keys=keys, _text=text, _passes=policy_test(keys))

    def matches(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether a message with these attributes passes.

        A missing attribute meets only ``{"exists": false}``, and a message without any attribute not even that
        (Amazon SNS developer guide, "Key matching").
        """
        return bool(attributes) and self._passes(attributes)

    def lets_through_all_of(self, other: FilterPolicy) -> bool:
        """Whether every message that passes ``other`` certainly passes this one. ``False`` when it cannot be proven."""
        return lets_through_all_of(self.keys, other.keys)

    def to_json(self) -> str:
        """The canonical text: equal policies give equal text. ``parse`` makes an equal policy of it."""
        return self._text


def _plain(value: Any) -> Any:
    """A copy in the types that JSON has, with one way to write each number."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
