"""Message attributes as SNS and SQS carry them: a type, and a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from towpath.json_values import STRICT_DECODER, is_text
from towpath.message import AttributeValue, JsonValue


def attribute_type(value: AttributeValue) -> str:
    """The SNS message-attribute type that carries this value."""
    if isinstance(value, str):
        return "String"
    return "String.Array" if isinstance(value, tuple) else "Number"


def attribute_text(value: AttributeValue) -> str:
    """The value as SNS carries it: the text, the number's shortest form, or a JSON array of strings."""
    if isinstance(value, str):
        return value
    return _ENCODER.encode(value)


def attributes_bytes(attributes: Mapping[str, AttributeValue]) -> int:
    """What the attributes weigh: name, type and value of each, in UTF-8 bytes, as SNS and SQS count them."""
    return sum(
        len(name.encode()) + len(attribute_type(value)) + len(attribute_text(value).encode())
        for name, value in attributes.items()
    )


def read_attribute(type_name: str, text: str) -> AttributeValue:
    """The value of an SNS or SQS message attribute; text that is not what its type says stays text."""
    if type_name == "String.Array":
        return _read_list(text)
    return _read_number(text) if type_name.partition(".")[0] == "Number" else text


def _read_list(text: str) -> AttributeValue:
    try:
        found = STRICT_DECODER.decode(text)
        items = tuple(map(_item_text, found)) if isinstance(found, list) else None
    except (ValueError, RecursionError):
        return text
    return items if items is not None and all(map(is_text, items)) else text


def _read_number(text: str) -> AttributeValue:
    try:
        found = STRICT_DECODER.decode(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(found, int | float) and not isinstance(found, bool) and found not in _INFINITE
    return found if is_number else text


def _item_text(item: JsonValue) -> str:
    return item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))  # making one takes longer than using it
_INFINITE = (float("inf"), float("-inf"))  # what Python reads 1e400 as
