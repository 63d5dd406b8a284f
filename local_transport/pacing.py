"""Doing much without haste: no more than so many a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacer:
    """Waits as long as a rate asks for. ``monotonic`` and ``sleep`` are the system's, or a test's."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait_for(self, began_at: float, done: int, rate: float | None) -> None:
        """Wait until ``done`` since ``began_at``, a time of ``monotonic``, are no more than ``rate`` a second."""
        if rate is None:
            return
        left = began_at + done / rate - self.monotonic()
        if left > 0:
            self.sleep(left)
