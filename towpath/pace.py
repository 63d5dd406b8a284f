"""How far a worker claims ahead of its handlers: as much as they are about to take, and no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

AHEAD_SECONDS: Final = 0.2  # what is claimed ahead waits about so long for its handler
MOST_AHEAD: Final = 2_000
_WINDOW_SECONDS: Final = 0.05  # over which the handlers' speed is measured, at least


class Pace:
    """The speed of one subscription's handlers. For one thread.

    Quick handlers would wait for each claim, so that the next one is made while they run. What is claimed ahead is
    kept from other workers, so it is no more than was handled in the last fifth of a second: next to nothing where a
    handler takes long.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since = monotonic()
        self._handled = 0
        self._ahead = 0

    def ahead(self, handled: int) -> int:
        """How many deliveries may wait for a handler, when ``handled`` have been handled from the beginning on."""
        now = self._monotonic()
        elapsed = now - self._since
        if elapsed >= _WINDOW_SECONDS:
            self._ahead = min(int((handled - self._handled) / elapsed * AHEAD_SECONDS), MOST_AHEAD)
            self._since, self._handled = now, handled
        return self._ahead


def round_number(wanted: int) -> int:
    """The largest number up to ``wanted`` of 1 to 8, and powers of two from there on.

    A database makes a plan of its own for each limit that it is given, so there should be few of them.
    """
    return wanted if wanted <= 8 else 1 << (wanted.bit_length() - 1)
