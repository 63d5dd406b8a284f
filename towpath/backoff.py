"""How long a delivery waits before its next attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from math import ceil

from towpath.limits import MAX_RETRY_SECONDS

Random = Callable[[], float]  # uniform in [0, 1), as random.random


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Exponential back-off with jitter: the cap doubles with each attempt, and the delay is in its upper half."""

    base_seconds: float = 10
    max_seconds: float = 900

    def delay(self, attempt: int, random: Random) -> timedelta:
        """The wait after failed attempt ``attempt`` (1 is the first), in whole seconds.

        At least one second unless ``base_seconds`` is 0, and never beyond SQS's longest visibility time-out.
        """
        if self.base_seconds <= 0:
            return timedelta(0)
        doublings = min(attempt - 1, 64)  # 2**64 base seconds is past any cap, and stays a finite float
        cap = min(self.max_seconds, self.base_seconds * 2**doublings)
        seconds = round(cap / 2 + random() * cap / 2)
        return timedelta(seconds=min(max(1, seconds), MAX_RETRY_SECONDS))

    def longest_total(self, attempts: int) -> float:
        """The seconds that all waits between so many attempts can take together, without what handlers ask for."""
        waits = (min(self.max_seconds, self.base_seconds * 2.0 ** min(done, 64)) for done in range(attempts - 1))
        return sum(waits)


def clamp(after: timedelta | float) -> timedelta:
    """A handler's own delay (seconds or timedelta), kept within [0, 43,200 s] and rounded up to whole seconds.

    Rounded up since SQS's visibility time-out takes whole seconds and a retry must not come too early.
    """
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if seconds != seconds:  # NaN compares false with everything
        return timedelta(0)
    return timedelta(seconds=ceil(min(max(0, seconds), MAX_RETRY_SECONDS)))
