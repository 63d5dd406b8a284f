"""Deliveries as rows of a table and as JSON: never a body in a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime

from towpath.cli.logs import news_of
from towpath.cli.output import print_sentence, print_table
from towpath.message import JsonValue, format_time
from towpath.operating import DeadLetterEntry, DeliveryEntry


def entry_json(entry: DeliveryEntry | DeadLetterEntry) -> dict[str, JsonValue]:
    """All that there is to an entry."""
    return {name: format_time(value) if isinstance(value, datetime) else value for name, value in asdict(entry).items()}


def print_deliveries(entries: Iterable[DeliveryEntry]) -> None:
    """Deliveries for people."""
    headings = (
        "delivery",
        "subscription",
        "message",
        "key",
        "state",
        "attempt",
        "waits for",
        "since",
        "reason",
        "error",
    )
    print_table(headings, map(_delivery, entries))


def print_dead_letters(entries: Iterable[DeadLetterEntry]) -> None:
    """Dead letters for people."""
    headings = ("dead letter", "subscription", "message", "attempts", "since", "reason", "error")
    print_table(headings, map(_dead_letter, entries))


def print_rest(cursor: str | None) -> None:
    """How to go on with a list that has more than was shown."""
    if cursor is not None:
        print_sentence(f"There are more: --cursor {cursor}")


def _delivery(entry: DeliveryEntry) -> tuple[object, ...]:
    return (
        entry.delivery_id,
        entry.subscription,
        entry.message_id,
        entry.partition_key,
        "cancelled" if entry.cancel_requested else entry.state,
        entry.attempt,
        None if entry.waits_for is None else entry.waits_for.replace("_", " "),
        format_time(entry.finished_at or entry.dead_since or entry.published_at),
        entry.reason or None,
        news_of(entry.error, entry.reason),
    )


def _dead_letter(entry: DeadLetterEntry) -> tuple[object, ...]:
    return (
        entry.delivery_id,
        entry.subscription,
        entry.message_id,
        entry.attempts,
        format_time(entry.dead_since),
        entry.reason,
        news_of(entry.error, entry.reason),
    )
