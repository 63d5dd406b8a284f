"""The line at the foot of a terminal that shows how far a worker is."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from rich.console import Console
from rich.status import Status

from towpath.cli.output import stderr
from towpath.settling import Counts

_WINDOW_SECONDS: Final = 5.0  # over which the rate is measured


class Rate:
    """How much is handled in a second, over the last few. Not thread-safe."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: deque[tuple[float, int]] = deque([(monotonic(), 0)])

    def of(self, handled: int) -> float:
        """The rate, with so many handled by now."""
        now = self._monotonic()
        self._seen.append((now, handled))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_SECONDS:
            self._seen.popleft()
        (since, before), seconds = self._seen[0], now - self._seen[0][0]
        return (handled - before) / seconds if seconds > 0 and now >= since else 0.0


class LiveLine:
    """Shows counts and a rate while it is entered, below the log lines. Nothing where there is no terminal."""

    def __init__(self, console: Console | None, handler: logging.StreamHandler[TextIO] | None) -> None:
        self._console = console
        self._handler = handler
        self._rate = Rate(time.monotonic)
        self._status: Status | None = None

    @staticmethod
    def wanted(handler: logging.StreamHandler[TextIO] | None, *, as_json: bool) -> LiveLine:
        """The line on standard error, which ``handler`` logs to; none for programs, and where nobody looks."""
        console = stderr()
        is_seen = console.is_terminal and not console.is_dumb_terminal and not as_json
        return LiveLine(console if is_seen else None, handler)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it."""
        return self._console is not None

    def __enter__(self) -> LiveLine:
        if self._console is not None:
            self._status = Status("0 handled", console=self._console)
            self._status.start()
            self._log_to_standard_error()  # which is above the line from now on
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
            self._log_to_standard_error()

    def show(self, counts: Counts, left: int | None) -> None:
        """So much is done by now, and so much is left where that is known."""
        if self._status is not None:
            handled = sum(counts.states.values())
            self._status.update(sentence(handled, self._rate.of(handled), left))

    def print_above(self, text: str) -> None:
        """Lines of another process, as they are."""
        sys.stderr.write(text)

    def _log_to_standard_error(self) -> None:
        if self._handler is not None:
            self._handler.setStream(sys.stderr)


def sentence(handled: int, rate: float, left: int | None) -> str:
    """What the line says."""
    rest = "" if left is None else f", {left:,} left"
    return f"{handled:,} handled, {rate:,.0f} a second{rest}"
