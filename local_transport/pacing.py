"""Doing much without haste: no more than so many a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from towpath.operating import Pace


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacer:
    """How time passes: ``monotonic`` and ``sleep`` are the system's, or a test's."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Paced:
    """Keeps what is done to a rate, over all batches of it. The time begins with it."""

    def __init__(self, pacer: Pacer, pace: Pace) -> None:
        self._pacer = pacer
        self._rate = pace.rate
        self._pause = pace.pause or pacer.sleep
        self._began_at = pacer.monotonic()
        self._done = 0

    def count(self, done: int) -> None:
        """So many more are done."""
        self._done += done

    def wait(self) -> None:
        """Wait until all that is done is no more than the rate allows."""
        if self._rate is None:
            return
        left = self._began_at + self._done / self._rate - self._pacer.monotonic()
        if left > 0:
            self._pause(left)
