"""The Amazon SNS filter-policy language over message attributes (the text operators so far)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from towpath import limits
from towpath.errors import InvalidFilter, Mistake
from towpath.message import AttributeValue

# Source of the rules: Amazon SNS developer guide, "Subscription filter policies" and its pages on string matching.
Test = Callable[[AttributeValue | None], bool]


@dataclass(frozen=True, slots=True)
class FilterPolicy:
    """A checked policy: a message matches when, for every key, at least one of the key's conditions holds."""

    keys: Mapping[str, tuple[Any, ...]]
    _tests: Mapping[str, tuple[Test, ...]]

    @staticmethod
    def parse(policy: Mapping[str, Any]) -> FilterPolicy:
        """Check and compile ``policy``; raises ``InvalidFilter`` with every mistake and its path."""
        mistakes = list(_mistakes(policy)) or list(_size_mistakes(policy))
        if mistakes:
            raise InvalidFilter("the filter policy", mistakes)
        keys = {key: tuple(conditions) for key, conditions in policy.items()}
        tests = {key: tuple(_compiled(c) for c in conditions) for key, conditions in keys.items()}
        return FilterPolicy(keys=keys, _tests=tests)

    def matches(self, attributes: Mapping[str, AttributeValue]) -> bool:
        """Whether a message with these attributes passes. A missing attribute passes only ``{"exists": false}``."""
        return all(any(test(attributes.get(key)) for test in tests) for key, tests in self._tests.items())

    def to_json(self) -> str:
        """The canonical text: equal policies give equal text."""
        return _canonical(self.keys)


def _mistakes(policy: Mapping[str, Any]) -> Iterator[Mistake]:
    if not policy:
        yield Mistake(path="", problem="has no keys; leave the filter out to receive everything")
    if len(policy) > limits.SNS_FILTER_KEYS:
        yield Mistake(path="", problem=f"has {len(policy)} keys, SNS allows {limits.SNS_FILTER_KEYS}")
    combinations = 1
    for key, conditions in policy.items():
        if not isinstance(conditions, list | tuple) or not conditions:
            yield Mistake(path=key, problem="must be a non-empty list of conditions")
            continue
        combinations *= len(conditions)
        for index, condition in enumerate(conditions):
            yield from _condition_mistakes(condition, f"{key}[{index}]")
    if combinations > limits.SNS_FILTER_COMBINATIONS:
        problem = f"makes {combinations} combinations of values, SNS allows {limits.SNS_FILTER_COMBINATIONS}"
        yield Mistake(path="", problem=problem)


def _size_mistakes(policy: Mapping[str, Any]) -> Iterator[Mistake]:
    size = len(_canonical(policy).encode("utf-8", "surrogatepass"))
    if size > limits.SNS_FILTER_BYTES:
        yield Mistake(path="", problem=f"is {size:,} bytes of JSON, SNS allows {limits.SNS_FILTER_BYTES:,}")


def _canonical(policy: Mapping[str, Any]) -> str:
    return json.dumps(policy, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _condition_mistakes(condition: object, path: str) -> Iterator[Mistake]:
    if isinstance(condition, str):
        return
    if not isinstance(condition, Mapping) or len(condition) != 1:
        yield Mistake(path=path, problem=f"must be text or an object with one of {_OPERATORS}")
        return
    operator, operand = next(iter(condition.items()))
    if operator == "exists":
        if not isinstance(operand, bool):
            yield Mistake(path=f"{path}.exists", problem="must be true or false")
    elif operator == "prefix":
        yield from _prefix_mistakes(operand, f"{path}.prefix")
    elif operator == "anything-but":
        yield from _anything_but_mistakes(operand, f"{path}.anything-but")
    else:
        yield Mistake(path=path, problem=_refused_operator(operator))


_OPERATORS = "exists, prefix, anything-but"
_COMING = frozenset({"suffix", "equals-ignore-case", "numeric", "cidr", "wildcard", "$or"})


def _refused_operator(operator: object) -> str:
    if operator in _COMING:
        return f"has the operator {operator!r}, which Towpath does not support yet; allowed are {_OPERATORS}"
    return f"has the operator {operator!r}, which SNS does not know; allowed are {_OPERATORS}"


def _prefix_mistakes(operand: object, path: str) -> Iterator[Mistake]:
    if not isinstance(operand, str) or not operand:
        yield Mistake(path=path, problem="must be non-empty text")


def _anything_but_mistakes(operand: object, path: str) -> Iterator[Mistake]:
    if isinstance(operand, Mapping):
        if set(operand) != {"prefix"}:
            yield Mistake(path=path, problem="must be text, a list of text, or an object with 'prefix'")
        else:
            yield from _prefix_mistakes(operand["prefix"], f"{path}.prefix")
        return
    values = operand if isinstance(operand, list | tuple) else [operand]
    if not values or not all(isinstance(value, str) for value in values):
        yield Mistake(path=path, problem="must be text, a list of text, or an object with 'prefix'")


def _compiled(condition: Any) -> Test:
    if isinstance(condition, str):
        return _any_of(lambda text: text == condition)
    operator, operand = next(iter(condition.items()))
    if operator == "exists":
        return lambda value: (value is not None) is operand
    if operator == "prefix":
        return _any_of(lambda text: text.startswith(operand))
    if isinstance(operand, Mapping):
        prefix = operand["prefix"]
        return _any_but(lambda text: text.startswith(prefix))
    refused = frozenset([operand] if isinstance(operand, str) else operand)
    return _any_but(lambda text: text in refused)


def _any_of(test: Callable[[str], bool]) -> Test:
    """Holds for an attribute when ``test`` does for its text, or for any text of its list; never for a number."""

    def holds(value: AttributeValue | None) -> bool:
        texts = value if isinstance(value, tuple) else (value,)
        return any(isinstance(text, str) and test(text) for text in texts)

    return holds


def _any_but(refused: Callable[[str], bool]) -> Test:
    """Holds for an attribute when its value, or any of its list, is not ``refused``; a number never is."""

    def holds(value: AttributeValue | None) -> bool:
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        return any(not (isinstance(item, str) and refused(item)) for item in values)

    return holds
