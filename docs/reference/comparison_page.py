"""The generated parts of ``docs/explanation/transports-compared.md``; its sentences are written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from towpath import limits

PAGE: Final = Path(__file__).parents[1] / "explanation" / "transports-compared.md"


def comparison_page(capabilities: str) -> str:
    """The page with its marked parts written anew: ``capabilities`` is the table of the page on transports."""
    parts: dict[str, Callable[[], str]] = {"capabilities": lambda: capabilities, "limits": limits_table}
    text = PAGE.read_text(encoding="utf-8")
    for name, made in parts.items():
        begin, end = f"<!-- generated: {name} -->", "<!-- end -->"
        pattern = re.compile(rf"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"{PAGE.name} has no part {begin!r}")
        whole = f"{begin}\n\n{made()}\n\n{end}"
        text = pattern.sub(lambda _, whole=whole: whole, text)
    return text


def limits_table() -> str:
    """The limits of both transports side by side."""
    rows = [("limit", "database", "AWS"), ("---", "---", "---"), *_rows()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rows() -> list[tuple[str, str, str]]:
    return [
        _both("a message with its attributes, bytes", _number(limits.MAX_MESSAGE_BYTES)),
        _both("attempts of a delivery", _span(limits.MAX_ATTEMPTS)),
        _both("wait before a retry, seconds, at most", _number(limits.MAX_RETRY_SECONDS)),
        _both("length of a partition key, characters", _number(limits.PARTITION_KEY_LENGTH)),
        _both("keys of a filter", _number(limits.SNS_FILTER_KEYS)),
        _both("combinations of a filter's conditions", _number(limits.SNS_FILTER_COMBINATIONS)),
        _both("a deduplication key counts for, seconds", _span(limits.DEDUPLICATION_TTL_SECONDS)),
        ("messages kept for, days, at most", *_of(limits.DATABASE_RETENTION_DAYS, limits.SQS_MAX_RETENTION_DAYS)),
        ("dead letters kept for, days, at most", *_of(limits.DATABASE_RETENTION_DAYS, limits.SQS_MAX_RETENTION_DAYS)),
        _both("a lease of a worker, seconds", _span(limits.LEASE_SECONDS)),
        (
            "one attempt, seconds, at most",
            _number(limits.MAX_PROCESSING_SECONDS),
            f"{_number(limits.SQS_MAX_VISIBILITY_SECONDS)} (function: {_number(limits.LAMBDA_TIMEOUT_SECONDS[1])})",
        ),
        ("deliveries in flight of a subscription", "–", _number(limits.SQS_IN_FLIGHT)),
        ("subscriptions of a FIFO topic", "–", _number(limits.SNS_FIFO_SUBSCRIPTIONS)),
        ("filters of a topic (a quota)", "–", _number(limits.SNS_FILTER_POLICIES_PER_TOPIC)),
        ("filters of an account (a quota)", "–", _number(limits.SNS_FILTER_POLICIES_PER_ACCOUNT)),
        ("deliveries of one receive", "–", _number(limits.SQS_BATCH_ENTRIES)),
        (
            "messages of one invocation",
            "–",
            f"standard {_number(limits.ESM_STANDARD_BATCH)}, FIFO {_number(limits.ESM_FIFO_BATCH)}",
        ),
        ("invocations at once, where bounded", "–", _span(limits.ESM_MAXIMUM_CONCURRENCY)),
        ("a bundled handler, bytes unzipped", "–", _number(limits.LAMBDA_UNZIPPED_BYTES)),
    ]


def _both(what: str, value: str) -> tuple[str, str, str]:
    return what, value, value


def _of(database: int, aws: int) -> tuple[str, str]:
    return _number(database), _number(aws)


def _span(bounds: tuple[int, int]) -> str:
    return f"{_number(bounds[0])} to {_number(bounds[1])}"


def _number(value: int) -> str:
    return f"{value:,}"
