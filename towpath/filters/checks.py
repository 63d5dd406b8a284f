"""Every mistake of a filter policy, each with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from towpath.errors import Mistake, did_you_mean
from towpath.filters.bounds import DEEPEST_OR, bound_faults
from towpath.filters.operands import (
    COMPARISONS,
    KEYWORDS,
    OPERATORS,
    OR,
    network_fault,
    number_fault,
    pattern_fault,
    text_fault,
    unicode_fault,
    written_fault,
)
from towpath.records import key_path

_REFUSABLE: Final = ("prefix", "suffix", "wildcard")  # what anything-but takes, by "String value matching"
_RANGE: Final = 'must be a comparison such as ["<", 10], or a range, its lower bound first, such as [">=", 1, "<", 10]'


def mistakes(policy: object) -> Iterator[Mistake]:
    """What is wrong with ``policy``: as a whole, then in the order in which it is written."""
    if not isinstance(policy, Mapping):
        yield Mistake(path="", problem="must be an object with lists of conditions")
        return
    if not policy:
        yield Mistake(path="", problem="has no keys; leave the filter out to receive everything")
    for fault in bound_faults(policy):
        yield Mistake(path="", problem=fault)
    yield from _key_mistakes(policy, "", frozenset(), 0)


def _key_mistakes(
    policy: Mapping[object, object], path: str, outside: frozenset[object], depth: int
) -> Iterator[Mistake]:
    """The mistakes of each key. ``outside`` are the keys that are tested beside the ``$or`` that this policy is in."""
    own = outside | policy.keys()
    for key, value in policy.items():
        here = _joined(path, key)
        if key == OR:
            yield from _or_mistakes(value, here, own, depth)
            continue
        if _is_meant_as_or(key, value):
            yield Mistake(path=here, problem=f'is the name of an attribute; did you mean "{OR}"?')
            continue
        fault = _key_fault(key, outside, depth)
        if fault is not None:
            yield Mistake(path=here, problem=fault)
        yield from _condition_list_mistakes(value, here)


def _joined(path: str, key: object) -> str:
    told = key_path([str(key)]).encode(errors="backslashreplace").decode()
    return f"{path}.{told}" if path else told


def _is_meant_as_or(key: object, value: object) -> bool:
    """Whether policies stand below a key that is nearly ``$or``: their keys would be told as operators, one by one."""
    policies = isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value)
    return bool(policies) and isinstance(key, str) and key.strip("$").lower() == "or"


def _key_fault(key: object, outside: frozenset[object], depth: int) -> str | None:
    if not isinstance(key, str):
        return "must be text, the name of an attribute"
    if depth and key in KEYWORDS:
        return "is a keyword of the language, so SNS does not read the $or around it as an operator"
    if key in outside:
        return (
            "is tested outside this $or too, and SNS keeps one of the two tests; "
            "test the attribute either outside, or in each alternative"
        )
    return unicode_fault(key)


def _or_mistakes(value: object, path: str, outside: frozenset[object], depth: int) -> Iterator[Mistake]:
    """Amazon SNS developer guide, "AND/OR logic": when ``$or`` is an operator. Else it would be an attribute's name,
    which no attribute can have.
    """
    if depth >= DEEPEST_OR:
        yield Mistake(path=path, problem=f"is nested more than {DEEPEST_OR} deep, which needs too many keys for SNS")
        return
    if not isinstance(value, list | tuple) or len(value) < 2:
        yield Mistake(
            path=path, problem="must be a list of at least two objects, or SNS does not read it as an operator"
        )
    for index, member in enumerate(value if isinstance(value, list | tuple) else ()):
        here = f"{path}[{index}]"
        if isinstance(member, Mapping) and member:
            yield from _key_mistakes(member, here, outside, depth + 1)
        else:
            yield Mistake(path=here, problem="must be an object with lists of conditions")


def _condition_list_mistakes(value: object, path: str) -> Iterator[Mistake]:
    if isinstance(value, Mapping) and not value.keys() & set(OPERATORS):
        problem = "must be a non-empty list of conditions; over attributes SNS takes no policy within a policy"
        yield Mistake(path=path, problem=problem)
    elif not isinstance(value, list | tuple) or not value:
        one = isinstance(value, str | int | float | Mapping)
        hint = "; put brackets around it, also when it is only one" if one else ""
        yield Mistake(path=path, problem=f"must be a non-empty list of conditions{hint}")
    else:
        for index, condition in enumerate(value):
            yield from _condition_mistakes(condition, f"{path}[{index}]")


def _condition_mistakes(condition: object, path: str) -> Iterator[Mistake]:
    if isinstance(condition, Mapping) and len(condition) == 1:
        ((operator, operand),) = condition.items()
        yield from _operator_mistakes(operator, operand, path)
    elif isinstance(condition, str | int | float):
        yield from _at(path, None if isinstance(condition, bool) else _value_fault(condition))
    elif condition is not None:
        problem = f"must be text, a number, true, false, null, or an object with one of {', '.join(OPERATORS)}"
        yield Mistake(path=path, problem=problem)


def _value_fault(value: object) -> str | None:
    """Why this is no value to be equal to, or different from."""
    if isinstance(value, str):
        return written_fault(value)
    return number_fault(value) if _is_number(value) else "must be text or a number"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _operator_mistakes(operator: object, operand: object, path: str) -> Iterator[Mistake]:
    here = f"{path}.{operator}"
    match operator:
        case "prefix" | "suffix" | "equals-ignore-case":
            yield from _at(here, text_fault(operand))
        case "wildcard":
            yield from _at(here, pattern_fault(operand))
        case "cidr":
            yield from _at(here, network_fault(operand))
        case "exists":
            yield from _at(here, None if isinstance(operand, bool) else "must be true or false")
        case "numeric":
            yield from _numeric_mistakes(operand, here)
        case "anything-but":
            yield from _anything_but_mistakes(operand, here)
        case _:
            yield Mistake(path=path, problem=_unknown(operator, OPERATORS, "which SNS does not know"))


def _at(path: str, fault: str | None) -> Iterator[Mistake]:
    if fault is not None:
        yield Mistake(path=path, problem=fault)


def _unknown(operator: object, known: tuple[str, ...], why: str) -> str:
    name = str(operator)[:80].encode(errors="backslashreplace").decode()
    return f"has the operator {name!r}, {why}{did_you_mean(name, known) or '; allowed are ' + ', '.join(known)}"


def _numeric_mistakes(operand: object, path: str) -> Iterator[Mistake]:
    bounds: list[Any]
    match operand:
        case [str(comparison), bound] if comparison in COMPARISONS:
            bounds = [bound]
        case [">" | ">=", lower, "<" | "<=", upper]:
            bounds = [lower, upper]
        case _:
            yield Mistake(path=path, problem=_RANGE)
            return
    faults = [number_fault(bound) for bound in bounds]
    for position, fault in enumerate(faults):
        yield from _at(f"{path}[{2 * position + 1}]", fault)
    if faults == [None, None] and bounds[0] >= bounds[1]:
        yield Mistake(path=path, problem="must have its lower bound below its upper bound")


def _anything_but_mistakes(operand: object, path: str) -> Iterator[Mistake]:
    if isinstance(operand, Mapping) and len(operand) == 1:
        ((operator, inner),) = operand.items()
        if operator in _REFUSABLE:
            yield from _operator_mistakes(operator, inner, path)
        else:
            yield Mistake(path=path, problem=_unknown(operator, _REFUSABLE, "which SNS does not document there"))
    elif isinstance(operand, str) or _is_number(operand):
        yield from _at(path, _value_fault(operand))
    elif isinstance(operand, list | tuple) and operand:
        for index, value in enumerate(operand):
            yield from _at(f"{path}[{index}]", _value_fault(value))
        if any(isinstance(value, str) for value in operand) and any(map(_is_number, operand)):
            yield Mistake(path=path, problem="must be all text or all numbers")
    else:
        choices = f"text, a number, a list of either, or an object with one of {', '.join(_REFUSABLE)}"
        yield Mistake(path=path, problem=f"must be {choices}")
