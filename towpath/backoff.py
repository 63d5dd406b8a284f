"""How long a delivery waits before its next attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from math import ceil, floor

from towpath.frozen import Record
from towpath.limits import MAX_RETRY_SECONDS

Random = Callable[[], float]  # uniform in [0, 1), as random.random

_MOST_DOUBLINGS = 1_000  # a float cannot hold 2 ** 1,024, and nothing bounds how often SQS hands out a message


class BackOff(metaclass=Record):
    """Exponential back-off with jitter: the cap doubles with each attempt, and the delay is in its upper half."""

    base_seconds: float = 10
    """The longest wait after the first attempt; it doubles with each one more."""
    max_seconds: float = 900
    """The longest wait after any attempt."""

    def delay(self, attempt: int, random: Random) -> timedelta:
        """The wait after failed attempt ``attempt`` (1 is the first), in whole seconds, each as likely as the other.

        At least one second unless ``base_seconds`` is 0, and never beyond SQS's longest visibility time-out.
        """
        choices = self._choices(attempt)
        return timedelta(seconds=choices[floor(random() * len(choices))])

    def longest_total(self, attempts: int) -> int:
        """The seconds that all waits between so many attempts can take together, without what handlers ask for."""
        return sum(self._choices(attempt)[-1] for attempt in range(1, attempts))

    def _choices(self, attempt: int) -> range:
        """The whole seconds within the upper half of the attempt's cap; where there are none, the first above."""
        if self.base_seconds <= 0:
            return range(1)
        cap = min(self.max_seconds, self.base_seconds * 2.0 ** min(attempt - 1, _MOST_DOUBLINGS), MAX_RETRY_SECONDS)
        shortest = max(1, ceil(cap / 2))
        return range(shortest, max(shortest, floor(cap)) + 1)


def clamp(after: timedelta | float) -> timedelta:
    """A handler's own delay (seconds or timedelta), kept within [0, 43,200 s] and rounded up to whole seconds.

    Rounded up since SQS's visibility time-out takes whole seconds and a retry must not come too early.
    """
    seconds = after.total_seconds() if isinstance(after, timedelta) else after
    if seconds != seconds:  # NaN compares false with everything
        return timedelta(0)
    return timedelta(seconds=ceil(min(max(0, seconds), MAX_RETRY_SECONDS)))
