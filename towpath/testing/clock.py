"""The time that everything local goes by: real, and moved on by hand where a test must not wait."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final

_LONGEST: Final = 1_000 * 366 * 86_400.0  # seconds


class LocalClock:
    """Real time, plus what it was moved on by. A local database and local functions may share one."""

    def __init__(self) -> None:
        self._moved = 0.0

    def advance(self, seconds: float) -> None:
        """Move time on. Raises ``ValueError`` for less than nothing, since what is due stays due, and for more than a
        date can hold.
        """
        if not 0 <= seconds <= _LONGEST - self._moved:
            raise ValueError(f"time moves on only, and not for ever: advance(seconds) takes 0 or more, not {seconds!r}")
        self._moved += seconds

    def seconds(self) -> float:
        """Seconds that only grow."""
        return time.monotonic() + self._moved

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC) + timedelta(seconds=self._moved)
