"""How often AWS is asked: at an even pace, since looks share their account's quotas with all else."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Pacer:
    """Lets calls go at ``rate`` a second, whichever threads make them. Thread-safe.

    ``monotonic`` and ``sleep`` are the clock's.
    """

    def __init__(self, rate: float, monotonic: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._apart = 1 / rate
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._next = monotonic()

    def wait(self) -> None:
        """Return when it is the caller's turn."""
        with self._lock:
            now = self._monotonic()
            turn = max(now, self._next)
            self._next = turn + self._apart
        if turn > now:
            self._sleep(turn - now)
