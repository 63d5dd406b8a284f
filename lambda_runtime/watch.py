"""One thread that looks after what is under way, at the times at which something is due for it."""

from __future__ import annotations

import math
import threading
from typing import Protocol

from lambda_runtime.invocation import Seconds


class Watched(Protocol):
    """What is looked after."""

    def due_at(self) -> float:
        """When something is due next; infinity for never."""

    def act(self, now: float) -> None:
        """Have done what is due. Raises nothing, and waits for nothing: others are looked after by the same thread."""


class Watch:
    """Looks after any number of things. Its thread is there while anything is under way, and a while longer.

    Waking a thread takes as long as handling several quick deliveries. So nothing that begins wakes it, unless it is
    due sooner than the thread looks anyway, which is after ``longest`` seconds at the latest: let that be how long a
    thing is usually under way before something is due for the first time.
    """

    def __init__(self, seconds: Seconds, longest: float) -> None:
        self._seconds = seconds
        self._longest = longest
        self._changed = threading.Condition()
        self._watched: list[Watched] = []
        self._begun = 0
        self._looks_at = math.inf
        self._is_looking = False

    def begin(self, watched: Watched) -> None:
        """Look after ``watched`` from now on. Raises ``RuntimeError`` where the process can have no more threads: then
        nobody looks after it.
        """
        with self._changed:
            if not self._is_looking:
                threading.Thread(target=self._look, name="towpath-watch", daemon=True).start()
                self._is_looking = True
            elif watched.due_at() < self._looks_at:
                self._changed.notify()
            self._watched.append(watched)
            self._begun += 1

    def end(self, watched: Watched) -> None:
        """Look after ``watched`` no more: when this returns, it acts no more."""
        with self._changed:
            self._watched.remove(watched)

    def _look(self) -> None:
        with self._changed:
            while True:
                begun, now = self._begun, self._seconds()
                for watched in [w for w in self._watched if w.due_at() <= now]:
                    watched.act(now)
                self._looks_at = min([now + self._longest, *(watched.due_at() for watched in self._watched)])
                self._changed.wait(min(max(self._looks_at - self._seconds(), 0), threading.TIMEOUT_MAX))
                if not self._watched and begun == self._begun:
                    self._is_looking = False
                    return
