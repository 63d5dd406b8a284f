"""One policy for each operator of filters, and messages that it lets through and does not."""

from collections.abc import Mapping
from typing import Any

# For each operator a policy, what passes it, and what does not; a message that lacks the attribute is among these.
OPERATORS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "exact": ({"k": ["pdf", "docx"]}, [{"k": "docx"}, {"k": ["png", "pdf"]}], [{"k": "png"}, {"k": ["png", "gif"]}]),
    "exact number": ({"k": [7, 8.5]}, [{"k": 8.5}], [{"k": 8}, {"k": "7"}]),
    "prefix": ({"k": [{"prefix": "text/"}]}, [{"k": "text/html"}], [{"k": "image/png"}]),
    "suffix": ({"k": [{"suffix": ".pdf"}]}, [{"k": "a.pdf"}], [{"k": "a.png"}]),
    "equals-ignore-case": ({"k": [{"equals-ignore-case": "pdf"}]}, [{"k": "PDF"}], [{"k": "PDFX"}]),
    "anything-but": ({"k": [{"anything-but": ["png", "gif"]}]}, [{"k": "pdf"}], [{"k": "png"}]),
    "anything-but a number": ({"k": [{"anything-but": [7, 8]}]}, [{"k": 9}], [{"k": 8}]),
    "anything-but prefix": ({"k": [{"anything-but": {"prefix": "x-"}}]}, [{"k": "y-1"}], [{"k": "x-1"}]),
    "anything-but suffix": ({"k": [{"anything-but": {"suffix": "-x"}}]}, [{"k": "1-y"}], [{"k": "1-x"}]),
    "anything-but wildcard": ({"k": [{"anything-but": {"wildcard": "a*z"}}]}, [{"k": "abc"}], [{"k": "a-z"}]),
    "numeric": ({"k": [{"numeric": [">", 0, "<=", 7.5]}]}, [{"k": 7.5}, {"k": 1}], [{"k": 0}, {"k": 8}, {"k": "x"}]),
    "cidr": ({"k": [{"cidr": "10.0.0.0/24"}]}, [{"k": "10.0.0.255"}], [{"k": "10.0.1.0"}, {"k": "here"}]),
    "wildcard": ({"k": [{"wildcard": "orders/*/paid"}]}, [{"k": "orders/7/paid"}], [{"k": "orders/7/open"}]),
    "exists": ({"k": [{"exists": True}]}, [{"k": "acme"}, {"k": 0}], []),
    "does not exist": ({"k": [{"exists": False}]}, [{"other": "x"}], [{"k": "yes"}]),
    "no attributes": ({"k": [{"exists": False}]}, [{"other": "x"}], [{}]),
    "several keys": ({"k": ["pdf"], "size": [{"exists": True}]}, [{"k": "pdf", "size": 1}], [{"k": "pdf"}]),
    "$or": ({"$or": [{"k": ["a"]}, {"n": [{"numeric": ["<", 0]}]}]}, [{"k": "a"}, {"n": -1}], [{"k": "b", "n": 0}]),
}
LACKING = {"other": "x"}


def row(operator: str) -> list[dict[str, Any]]:
    """The attributes of all messages that are made for one operator."""
    _, passing, refused = OPERATORS[operator]
    return passing + [attributes for attributes in (*refused, LACKING) if attributes not in passing]


def stored(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A message's attributes as its envelope keeps them."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in attributes.items()}
