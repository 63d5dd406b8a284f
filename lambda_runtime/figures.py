"""What the deliveries of one invocation came to, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from towpath.frozen import Record
from towpath.settlement import Completion, DeadLettering, Decision, Discard, Release, Settled, SettleResult

Ending = Literal["completed", "retried", "dead_lettered", "released", "discarded", "failed"]


class Figures(metaclass=Record):
    """The numbers of one invocation. ``processed`` are its records: those that ended in one of the ways that follow,
    and those that had expired. ``failed`` came to no end that SQS took, or to none at all.
    """

    processed: int
    completed: int
    retried: int
    dead_lettered: int
    released: int
    failed: int
    durations_ms: Sequence[float]
    oldest_age_ms: float | None


def ending(decision: Decision, result: SettleResult) -> Ending:
    """What a delivery came to."""
    if type(decision) is Completion:
        return "completed"
    if not isinstance(result, Settled):
        return "failed"
    match decision:
        case DeadLettering():
            return "dead_lettered"
        case Discard():
            return "discarded"
        case Release():
            return "released"
        case _:
            return "retried"


def figures(
    records: int, endings: Sequence[Ending], durations_ms: Sequence[float], oldest_age_ms: float | None
) -> Figures:
    """Add up one invocation of so many records; those that never started count as released too."""
    count = endings.count
    return Figures(
        processed=records,
        completed=count("completed"),
        retried=count("retried"),
        dead_lettered=count("dead_lettered"),
        released=count("released"),
        failed=count("failed") + records - len(endings),
        durations_ms=durations_ms,
        oldest_age_ms=oldest_age_ms,
    )
