"""One run of the function: when it must end, and when what is done at its end has to begin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from towpath.frozen import Record
from towpath.function_settings import deadline_guard_seconds
from towpath.message import Clock

Seconds = Callable[[], float]  # a clock that nobody sets, as time.monotonic

_LAST_MOMENT: Final = (1.0, 0.25)  # of the guard's time at most so many seconds, and so great a share
_AHEAD: Final = (5.0, 0.5)  # before the guard at most so many seconds, and so great a share of the time until then


class Invocation(metaclass=Record):
    """One run of so many records, and its times, by a clock that nobody sets. Without Lambda's context (a call by hand)
    it has no end. ``oldest_age_ms`` is how long ago the oldest record was sent.

    ``ready_at`` is when a client for SQS should be at hand, for a batch that is still under way by then; from
    ``guard_at`` on no record starts and what runs is aborted; at ``last_at`` what still runs is given up.
    """

    records: int
    oldest_age_ms: float | None
    started_at: datetime
    deadline: datetime | None
    ready_at: float = math.inf
    guard_at: float = math.inf
    last_at: float = math.inf
    last_moment_seconds: float = 0.0


def begin(
    records: Sequence[Any], lambda_context: Any, timeout_seconds: float, clock: Clock, seconds: Seconds
) -> Invocation:
    """The run of ``records`` that ``lambda_context`` stands for."""
    remaining: Callable[[], float] | None = getattr(lambda_context, "get_remaining_time_in_millis", None)
    now, monotonic = clock(), seconds()
    age = _oldest_age_ms(records, now)
    if remaining is None:
        return Invocation(records=len(records), oldest_age_ms=age, started_at=now, deadline=None)
    left, last_moment = remaining() / 1000, last_moment_seconds(timeout_seconds)
    until_guard = left - deadline_guard_seconds(timeout_seconds)
    return Invocation(
        records=len(records),
        oldest_age_ms=age,
        started_at=now,
        deadline=now + timedelta(seconds=left),
        ready_at=monotonic + until_guard - min(_AHEAD[0], until_guard * _AHEAD[1]),
        guard_at=monotonic + until_guard,
        last_at=monotonic + left - last_moment,
        last_moment_seconds=last_moment,
    )


def last_moment_seconds(timeout_seconds: float) -> float:
    """How long before the deadline handlers that ignored their abort are given up, with the process they run in."""
    return min(_LAST_MOMENT[0], _LAST_MOMENT[1] * deadline_guard_seconds(timeout_seconds))


def usual_seconds(timeout_seconds: float, max_processing_seconds: float | None) -> float:
    """How long a run is usually under way before there is anything to be done about its time."""
    until_guard = timeout_seconds - deadline_guard_seconds(timeout_seconds)
    usual = until_guard - min(_AHEAD[0], until_guard * _AHEAD[1])
    return usual if max_processing_seconds is None else min(usual, max_processing_seconds)


def _oldest_age_ms(records: Sequence[Any], now: datetime) -> float | None:
    """How long ago the oldest record was sent; ``None`` when a record does not say so."""
    try:
        oldest = min([int(record["attributes"]["SentTimestamp"]) for record in records])
        return max(1000 * now.timestamp() - oldest, 0.0)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
