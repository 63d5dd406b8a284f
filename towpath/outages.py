"""What of a transport does not answer just now: told once for all who meet it, and how long each waits then."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from typing import Final

FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0


class Outages:
    """The outages that one process meets. Thread-safe.

    However many meet one, there is a line when it begins, one for each longer pause, one every 30 s from then on, and
    one when the last of those who met it got an answer.
    """

    def __init__(self, log: logging.Logger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._pauses: dict[str, float] = {}  # of each that got no answer
        self._told_pause = 0.0
        self._told_at = -math.inf
        self._began_at = 0.0

    def failed(self, who: str, doing: str, error: object, *, every: float | None = None) -> float:
        """``who`` could not do what it was ``doing`` (an infinitive); answers after how many seconds to try again.

        That is ``every`` so many where given, else longer each time, from 0.5 s to 30 s.
        """
        now = self._monotonic()
        with self._lock:
            if not self._pauses:
                self._told_pause, self._told_at, self._began_at = 0.0, -math.inf, now
            longer = min(self._pauses.get(who, FIRST_PAUSE_SECONDS / 2) * 2, LONGEST_PAUSE_SECONDS)
            pause = self._pauses[who] = longer if every is None else every
            is_news = pause > self._told_pause or now - self._told_at >= LONGEST_PAUSE_SECONDS
            if is_news:
                self._told_pause, self._told_at = pause, now
        if is_news:
            self._log.error("cannot %s, trying again in %.1f s: %s", doing, pause, error)
        return pause

    def answered(self, who: str) -> None:
        """``who`` got an answer."""
        if who not in self._pauses:
            return
        with self._lock:
            is_over = self._pauses.pop(who, None) is not None and not self._pauses
            seconds = self._monotonic() - self._began_at
        if is_over:
            self._log.warning("answered again, after %.1f s", seconds)

    def is_met_by(self, who: str) -> bool:
        """Whether the last thing that ``who`` tried got no answer."""
        return who in self._pauses
