"""The display at a terminal: the view on a screen of its own, which goes away at the end."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.live import Live

from towpath.cli.dev.happenings import Told
from towpath.cli.dev.state import State, after, draining, toggled
from towpath.cli.dev.view import view

_DRAWN_SECONDS: Final = 0.1  # at least between two drawings, however much happens
_COUNTED_SECONDS: Final = 0.5


class Screen:
    """Shows the state, which it keeps. A context manager: the terminal is as before when it ends."""

    def __init__(self, console: Console, state: State) -> None:
        self._state = state
        self._console = console
        self._live = Live(console=console, screen=True, auto_refresh=False)
        self._drawn_at = 0.0
        self._counted_at = 0.0

    def __enter__(self) -> Screen:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, told: Told) -> None:
        """Take it into the state, which the next tick draws."""
        self._state = after(self._state, told)

    def draining(self, *, leaving: bool) -> None:
        """Show that the workers are told to drain."""
        self._state = draining(self._state, leaving=leaving)

    def toggle(self) -> None:
        """Show the last traceback, or hide it."""
        self._state = toggled(self._state)

    def tick(self) -> bool:
        """Draw, unless that was just done; answers whether the counts are old."""
        now = time.monotonic()
        if now - self._drawn_at >= _DRAWN_SECONDS:
            self._drawn_at = now
            self._live.update(view(self._state, self._console.size.height), refresh=True)
        if now - self._counted_at < _COUNTED_SECONDS:
            return False
        self._counted_at = now
        return True
