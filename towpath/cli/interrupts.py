"""Ctrl-C and SIGTERM while something is done in steps: the first ends it between two steps, a second at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """A signal that ends the command. Its text is what was done until then; ``code`` is 128 and the signal's number."""

    def __init__(self, number: int, told: str = "") -> None:
        super().__init__(told)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code of a command that this ends: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number

    def saying(self, told: str) -> Interrupted:
        """The same with what was done until then."""
        return Interrupted(self.number, told)


class Interrupts:
    """Whether a signal came. Made by ``interruptible``."""

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self._received: int | None = None
        self._in_step = False

    @property
    def received(self) -> bool:
        """Whether a signal came."""
        return self._received is not None

    @contextmanager
    def step(self) -> Iterator[None]:
        """A first signal does not cut off what is done here: its end raises ``Interrupted``, or ``between`` does."""
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False
        self.between()

    def pause(self, seconds: float) -> None:
        """Wait within a step, with nothing half done: a signal ends it at once, and one that came before."""
        in_step, self._in_step = self._in_step, False
        try:
            self.between()
            self._sleep(seconds)
        finally:
            self._in_step = in_step

    def between(self) -> None:
        """Nothing is half done just now: raises ``Interrupted`` when a signal came."""
        if self._received is not None:
            raise Interrupted(self._received)

    def receive(self, number: int, _frame: FrameType | None = None) -> None:
        """A signal came. Raises ``Interrupted`` outside of a step, and within it when it is not the first."""
        if self._received is not None or not self._in_step:
            raise Interrupted(number)
        self._received = number


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Signals end what is done here as ``Interrupts`` says; before and after, they have the meaning that they had."""
    interrupts = Interrupts()
    if threading.current_thread() is not threading.main_thread():  # only the main one may, and is told of signals
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.receive) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
