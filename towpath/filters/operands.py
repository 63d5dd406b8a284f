"""What stands in a filter policy: its words, and how texts, numbers, patterns and networks are written and meant.

Each ``*_fault`` says what is wrong with an operand, or ``None``; what it stands for is asked only of one without fault.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from towpath import limits
from towpath.json_values import is_text

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

OR: Final = "$or"
OPERATORS: Final = (
    "prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "exists", "cidr", "wildcard"
)  # fmt: skip
COMPARISONS: Final = ("=", "<", "<=", ">", ">=")
# Amazon SNS developer guide, "AND/OR logic": no key inside $or is a reserved keyword. Which ones these are is in the
# list RESERVED_FIELD_NAMES_IN_OR_RELATIONSHIP of aws/event-ruler, AWS's rule compiler, whose error texts SNS answers.
KEYWORDS: Final = frozenset(
    {
        *OPERATORS, *COMPARISONS, "exactly", "regex", "not-wildcard", "not-equals-ignore-case",
        "date-after", "date-on-or-after", "date-before", "date-on-or-before", "in-date-range",
        "ip-address-in-range", "ip-address-not-in-range",
    }
)  # fmt: skip

_UNITS: Final = 10**limits.SNS_FILTER_DECIMALS
_ESCAPED_TEXT: Final = re.compile(r'(?:[^"\\]|\\["\\])*', re.DOTALL)
_ESCAPE: Final = re.compile(r'\\(["\\])')
_PATTERN: Final = re.compile(r'(?:[^"\\]|\\\*)*', re.DOTALL)
_WILDCARD: Final = re.compile(r"(?<!\\)\*")
_ADDRESS: Final = re.compile(r"[0-9.]+|[0-9A-Fa-f:]+")  # as aws/event-ruler knows them: no zone, no IPv4 within IPv6
_MASK: Final = re.compile(r"[0-9]{1,3}")


def unicode_fault(text: str) -> str | None:
    """Why SNS, which takes UTF-8, cannot be given this text."""
    return None if is_text(text) else "holds a lone surrogate, which UTF-8 cannot carry"


def text_fault(operand: object) -> str | None:
    """Why this is no text that an operator takes."""
    return written_fault(operand) if isinstance(operand, str) and operand else "must be non-empty text"


def written_fault(text: str) -> str | None:
    """Why this text, which may be empty, stands for none."""
    if not _ESCAPED_TEXT.fullmatch(text):
        return "must have a backslash before every double quote and backslash, as SNS wants them"
    return unicode_fault(text)


def plain_text(written: str) -> str:
    r"""The text of an attribute that ``written`` stands for: ``\"`` is a double quote, and ``\\`` a backslash.

    Amazon SNS developer guide, "Filter policy constraints": these two are escaped twice, or nothing matches. JSON
    itself is the first escape, this is the second.
    """
    return _ESCAPE.sub(r"\1", written)


def number_fault(operand: object) -> str | None:
    """Why this is no number to compare with ("Filter policy constraints" has its limits)."""
    if isinstance(operand, bool) or not isinstance(operand, int | float):
        return "must be a number"
    if not -limits.SNS_FILTER_NUMBER <= operand <= limits.SNS_FILTER_NUMBER:
        return f"must be from {-limits.SNS_FILTER_NUMBER:,.0f} to {limits.SNS_FILTER_NUMBER:,.0f}"
    if round(operand, limits.SNS_FILTER_DECIMALS) != operand:
        return f"must have at most {limits.SNS_FILTER_DECIMALS} decimal places"
    return None


def scaled(number: float) -> int:
    """The number in units of the last decimal place that SNS compares; further ones are rounded away."""
    return math.floor(number * _UNITS + 0.5)


def pattern_fault(operand: object) -> str | None:
    """Why this is no pattern with wildcards.

    That two in a row are refused, and that a backslash makes an asterisk of one, is aws/event-ruler's rule.
    """
    if not isinstance(operand, str) or not operand:
        return "must be non-empty text"
    if not _PATTERN.fullmatch(operand):
        return r"must have no double quote, and a backslash only as \* for an asterisk; a * can stand in their place"
    if "" in pattern_parts(operand)[1:-1]:
        return "must not have two wildcards in a row"
    if wildcards(operand) > limits.SNS_FILTER_WILDCARDS:
        return f"has {wildcards(operand)} wildcards, SNS allows {limits.SNS_FILTER_WILDCARDS} in a pattern"
    return unicode_fault(operand)


def wildcards(pattern: str) -> int:
    """How many wildcards the pattern has."""
    return len(_WILDCARD.findall(pattern))


def pattern_parts(pattern: str) -> list[str]:
    """The texts before, between and after the pattern's wildcards."""
    return [part.replace(r"\*", "*") for part in _WILDCARD.split(pattern)]


def network_fault(operand: object) -> str | None:
    """Why this is no network in CIDR notation.

    aws/event-ruler refuses a mask of all bits, and reads an address with bits below the mask as the start of a
    range that ends with the network: neither is what anybody means.
    """
    try:
        found = network(operand) if isinstance(operand, str) else None
    except ValueError:
        found = None
    if found is None:
        return 'must be a network whose address has no bits below its mask, such as "10.0.0.0/24" or "2001:db8::/32"'
    if found.prefixlen == found.max_prefixlen:
        return "is a single address, which SNS takes as a text of its own, without a mask"
    return None


def network(operand: str) -> IPv4Network | IPv6Network:
    """The network that ``operand`` stands for. Raises ``ValueError`` when it stands for none."""
    from ipaddress import ip_network  # 3 to 15 ms, which a process without such a filter need not wait for

    start, _, mask = operand.rpartition("/")
    if not _ADDRESS.fullmatch(start) or not _MASK.fullmatch(mask):
        raise ValueError("an address and a number of bits are wanted")  # ip_network also knows netmasks and zones
    return ip_network(operand)


def address(text: str) -> IPv4Address | IPv6Address | None:
    """The address that an attribute's text is, or ``None``."""
    from ipaddress import ip_address

    if not _ADDRESS.fullmatch(text):
        return None
    with suppress(ValueError):
        return ip_address(text)
    return None
