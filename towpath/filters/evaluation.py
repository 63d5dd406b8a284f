"""Filter policies made into functions, once, so that asking them costs little.

Source of what each operator means: Amazon SNS developer guide, "String value matching", "Numeric value matching",
"Key matching" and "AND/OR logic".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from towpath import limits
from towpath.filters.operands import OR, address, network, pattern_parts, plain_text, scaled
from towpath.message import AttributeValue

Attributes = Mapping[str, AttributeValue]
PolicyTest = Callable[[Attributes], bool]
KeyTest = Callable[[AttributeValue | None], bool]
TextTest = Callable[[str], bool]
NumberTest = Callable[[float], bool]

Value = TypeVar("Value", str, float)


def policy_test(policy: Mapping[str, Any]) -> PolicyTest:
    """Whether a message's attributes pass a policy without mistakes: every key, and one alternative of ``$or``."""
    keys = tuple((key, _key_test(conditions)) for key, conditions in policy.items() if key != OR)
    alternatives = tuple(policy_test(member) for member in policy.get(OR, ()))

    def every_key_holds(attributes: Attributes) -> bool:
        for key, holds in keys:  # noqa: SIM110 - all() takes twice the time
            if not holds(attributes.get(key)):
                return False
        return True

    if not alternatives:
        return every_key_holds

    def passes(attributes: Attributes) -> bool:
        if every_key_holds(attributes):
            for alternative_holds in alternatives:
                if alternative_holds(attributes):
                    return True
        return False

    return passes


def _key_test(conditions: Sequence[Any]) -> KeyTest:
    """Whether an attribute meets one of the conditions; ``None`` is one that is missing.

    A list does when one of its texts does, and an empty one meets none ("Key matching": exists asks for a non-empty
    value).
    """
    text_holds = _any_of(_text_tests(conditions))
    number_holds = _any_of(_number_tests(conditions))
    missing = False in _operands(conditions, "exists")

    def holds(value: AttributeValue | None) -> bool:
        if isinstance(value, str):
            return text_holds(value)
        if value is None:
            return missing
        if isinstance(value, tuple):
            return any(map(text_holds, value))
        return number_holds(value)

    return holds


def _text_tests(conditions: Sequence[Any]) -> Iterator[TextTest]:
    """What of the conditions can hold for a text. Alike ones are made one, whose cost does not grow with them."""
    texts = frozenset(plain_text(condition) for condition in conditions if isinstance(condition, str))
    prefixes = tuple(map(plain_text, _operands(conditions, "prefix")))
    suffixes = tuple(map(plain_text, _operands(conditions, "suffix")))
    in_any_case = frozenset(plain_text(operand).lower() for operand in _operands(conditions, "equals-ignore-case"))
    if texts:
        yield texts.__contains__
    if prefixes:
        yield lambda text: text.startswith(prefixes)
    if suffixes:
        yield lambda text: text.endswith(suffixes)
    if in_any_case:
        yield lambda text: text.lower() in in_any_case
    yield from map(_pattern_test, _operands(conditions, "wildcard"))
    yield from map(_network_test, _operands(conditions, "cidr"))
    yield from (_not(_any_of(_text_tests(_listed(refused)))) for refused in _operands(conditions, "anything-but"))
    if True in _operands(conditions, "exists"):
        yield _always


def _number_tests(conditions: Sequence[Any]) -> Iterator[NumberTest]:
    """What of the conditions can hold for a number: no text is equal to one, not even its digits."""
    numbers = frozenset(scaled(c) for c in conditions if isinstance(c, int | float) and not isinstance(c, bool))
    if numbers:
        yield lambda number: scaled(number) in numbers
    yield from map(_range_test, _operands(conditions, "numeric"))
    yield from (_not(_any_of(_number_tests(_listed(refused)))) for refused in _operands(conditions, "anything-but"))
    if True in _operands(conditions, "exists"):
        yield _always


def _operands(conditions: Sequence[Any], operator: str) -> list[Any]:
    return [c[operator] for c in conditions if isinstance(c, Mapping) and operator in c]


def _listed(refused: Any) -> Sequence[Any]:
    """What ``anything-but`` refuses, as conditions."""
    return refused if isinstance(refused, list) else [refused]


def _pattern_test(pattern: str) -> TextTest:
    first, *rest = pattern_parts(pattern)
    if not rest:
        return lambda text: text == first
    *middle, last = rest

    def holds(text: str) -> bool:
        """Each part where it comes first: taking it later could not help the parts after it."""
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        start, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, start, end)
            if found < 0:
                return False
            start = found + len(part)
        return True

    return holds


def _network_test(operand: str) -> TextTest:
    wanted = network(operand)

    def holds(text: str) -> bool:
        found = address(text)
        return found is not None and found in wanted

    return holds


def _range_test(operand: Sequence[Any]) -> NumberTest:
    """The bounds are moved by half of the last decimal place, which is what rounding the number would come to."""
    lowest, above = -math.inf, math.inf
    half = 0.5 * 10**-limits.SNS_FILTER_DECIMALS
    for comparison, bound in zip(operand[::2], operand[1::2], strict=True):
        if comparison in ("=", ">", ">="):
            lowest = bound + half if comparison == ">" else bound - half
        if comparison in ("=", "<", "<="):
            above = bound - half if comparison == "<" else bound + half
    return lambda number: lowest <= number < above


def _any_of(tests: Iterable[Callable[[Value], bool]]) -> Callable[[Value], bool]:
    """Whether one of the tests holds, without a loop where there are few of them."""
    made = tuple(tests)
    if not made:
        return _never
    if len(made) == 1:
        return made[0]
    if len(made) == 2:
        first, second = made
        return lambda value: first(value) or second(value)

    def holds(value: Value) -> bool:
        for test in made:  # noqa: SIM110 - any() takes twice the time
            if test(value):
                return True
        return False

    return holds


def _not(test: Callable[[Value], bool]) -> Callable[[Value], bool]:
    return lambda value: not test(value)


def _always(_: object) -> bool:
    return True


def _never(_: object) -> bool:
    return False
