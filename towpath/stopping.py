"""The word to stop, which a worker's threads look at, wait for, and are interrupted by."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Stop:
    """Given once, it stays. Thread-safe, but not for a signal handler: it takes a lock."""

    def __init__(self) -> None:
        self._given = threading.Event()
        self._lock = threading.Lock()
        self._calls: list[Callable[[], None]] = []

    def then(self, call: Callable[[], None]) -> None:
        """Have ``call`` made when the word is given, by whoever gives it; at once when it is given already."""
        with self._lock:
            self._calls.append(call)
            if not self._given.is_set():
                return
        self._make_calls()

    def set(self) -> None:
        """Give the word."""
        self._given.set()
        self._make_calls()

    def is_set(self) -> bool:
        """Whether it was given."""
        return self._given.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for it, at most so long; answers whether it was given."""
        return self._given.wait(seconds)

    def _make_calls(self) -> None:
        """Make each call once, whichever thread comes first."""
        with self._lock:
            calls, self._calls = self._calls, []
        for call in calls:
            call()
