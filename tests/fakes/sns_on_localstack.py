"""Where SNS on LocalStack filters otherwise than AWS's documentation says: each cause, told of a condition and a value.

``tests/integration/test_filter_agreement.py`` holds that each is still there, and that there are no others;
``docs/reference/filters.md`` lists them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.attributes import attribute_text
from towpath.filters import FilterPolicy

Attributes = Mapping[str, Any]

# --- Where LocalStack delivers otherwise than AWS's documentation says --------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One cause. ``applies`` tells it of a condition and the value it is asked about; ``example`` is a pair of it."""

    cause: str
    applies: Callable[[Any, Any], bool]
    example: tuple[dict[str, Any], Attributes]
    towpath_delivers: bool


def alone(condition: Any, value: Any) -> bool:
    return FilterPolicy.parse({"k": [condition]}).matches({"k": value})


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def operand(condition: Any, operator: str) -> Any:
    return condition.get(operator) if isinstance(condition, dict) else None


def texts(value: Any) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()


def refused_numbers(condition: Any) -> list[Any]:
    refused = operand(condition, "anything-but")
    return [item for item in (refused if isinstance(refused, list) else [refused]) if is_number(item)]


def reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def number_taken_for_text(condition: Any, value: Any) -> bool:
    on_text = not is_number(condition) and operand(condition, "numeric") is None and not refused_numbers(condition)
    return is_number(value) and on_text and alone(condition, value) is not alone(condition, attribute_text(value))


DIFFERENCES = {
    "number as text": Difference(
        cause="LocalStack compares the text of a number; AWS: text operators are for string values",
        applies=number_taken_for_text,
        example=({"k": [{"prefix": "1"}]}, {"k": 12}),
        towpath_delivers=False,
    ),
    "number refused as text": Difference(
        cause="the same under anything-but",
        applies=number_taken_for_text,
        example=({"k": [{"anything-but": ["12"]}]}, {"k": 12}),
        towpath_delivers=True,
    ),
    "exact number": Difference(
        cause="LocalStack compares the text of a number with a number, which is never equal",
        applies=lambda condition, value: is_number(condition) and is_number(value) and alone(condition, value),
        example=({"k": [12]}, {"k": 12}),
        towpath_delivers=True,
    ),
    "anything-but a number": Difference(
        cause="the same under anything-but",
        applies=lambda condition, value: bool(refused_numbers(condition)) and is_number(value),
        example=({"k": [{"anything-but": [100, 500]}]}, {"k": 100}),
        towpath_delivers=False,
    ),
    "numeric on text": Difference(
        cause="LocalStack reads a number in any text; AWS: numeric is for number attributes",
        applies=lambda condition, value: (
            operand(condition, "numeric") is not None and any(map(reads_as_number, texts(value)))
        ),
        example=({"k": [{"numeric": [">", 5]}]}, {"k": "7"}),
        towpath_delivers=False,
    ),
    "anything-but zero": Difference(
        cause="LocalStack takes 0 and empty text for no operand",
        applies=lambda condition, value: operand(condition, "anything-but") in (0, ""),
        example=({"k": [{"anything-but": 0}]}, {"k": "x"}),
        towpath_delivers=True,
    ),
    "no attributes": Difference(
        cause="LocalStack lets exists false match an empty set; AWS: only if at least one attribute is present",
        applies=lambda condition, value: False,  # nor is such a message compared
        example=({"k": [{"exists": False}]}, {}),
        towpath_delivers=False,
    ),
    "escaped text": Difference(
        cause="LocalStack wants double quotes and backslashes escaped once; AWS: twice",
        applies=lambda condition, value: "\\" in repr(condition),
        example=({"k": [r"C:\\temp"]}, {"k": r"C:\temp"}),
        towpath_delivers=True,
    ),
    "decimal places": Difference(
        cause="LocalStack compares all decimal places; AWS: five digits after the decimal point",
        applies=lambda condition, value: is_number(value) and round(value, 5) != value,
        example=({"k": [{"numeric": ["=", 0.3]}]}, {"k": 0.1 + 0.2}),
        towpath_delivers=True,
    ),
    "zone": Difference(
        cause="LocalStack takes an IPv6 address with a zone; the rule compiler of AWS takes it for plain text",
        applies=lambda condition, value: operand(condition, "cidr") is not None and "%" in repr(value),
        example=({"k": [{"cidr": "fe80::/10"}]}, {"k": "fe80::1%eth0"}),
        towpath_delivers=False,
    ),
    "IPv4 in IPv6": Difference(
        cause="the same of an IPv6 address that ends as one of IPv4",
        applies=lambda condition, value: operand(condition, "cidr") is not None and "::ffff:" in repr(value),
        example=({"k": [{"cidr": "::/0"}]}, {"k": "::ffff:10.0.0.1"}),
        towpath_delivers=False,
    ),
}

# --- Policies that LocalStack refuses, or takes, otherwise than AWS's documentation says ---------------------------

REFUSED_BY_LOCALSTACK = {
    "wildcard": {"k": [{"wildcard": "*ball"}]},
    "anything-but suffix": {"k": [{"anything-but": {"suffix": "ball"}}]},
    "anything-but wildcard": {"k": [{"anything-but": {"wildcard": "*ball"}}]},
}
TAKEN_BY_LOCALSTACK = {
    "a number beyond a billion": {"k": [2e9]},
    "six decimal places": {"k": [{"numeric": ["=", 0.123456]}]},
    "text and numbers mixed": {"k": [{"anything-but": ["a", 1]}]},
    "anything-but a boolean": {"k": [{"anything-but": [True]}]},
    "an unescaped backslash": {"k": ["C:\\temp"]},
    "an empty prefix": {"k": [{"prefix": ""}]},
    "a mask of all bits": {"k": [{"cidr": "10.0.0.1/32"}]},
    "an or of one": {"$or": [{"a": ["x"]}]},
    "a keyword in an or": {"$or": [{"prefix": ["x"]}, {"b": ["y"]}]},
    "a key inside and outside an or": {"a": ["x"], "$or": [{"a": ["y"]}, {"b": ["z"]}]},
    "six keys with those in an or": {"a": ["x"], "b": ["x"], "$or": [{k: ["x"]} for k in "cdef"]},
}


def asked(policy: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every condition with its key, also within ``$or``."""
    for key, conditions in policy.items():
        for condition in conditions:
            if key == "$or":
                yield from asked(condition)
            else:
                yield key, condition


def known_to_differ(policy: Mapping[str, Any], attributes: Attributes) -> bool:
    return any(
        difference.applies(condition, attributes[key])
        for key, condition in asked(policy)
        if key in attributes
        for difference in DIFFERENCES.values()
    )
