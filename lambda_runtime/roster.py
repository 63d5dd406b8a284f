"""Where each delivery of one invocation stands: waiting, running, done, or given back. Usable from several threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import field

from lambda_runtime.figures import Ending
from lambda_runtime.records import Slot
from towpath.context import AbortSignal
from towpath.frozen import Record


class Running(metaclass=Record, frozen=False):  # as there are as many as records, and making one is quicker
    """A delivery whose handler runs, since when, and how it is told to stop. Nobody changes it."""

    slot: Slot
    since: float
    abort: AbortSignal


class Closed(metaclass=Record):
    """What a roster held when it was closed. ``unstarted`` never start, and are the closer's to give back."""

    done: Sequence[Slot]
    running: Sequence[Running]
    unstarted: Sequence[Slot]


class Roster(metaclass=Record, frozen=False, kw_only=False):
    """Keeps count of ``slots``. Once it is closed nothing starts any more."""

    slots: Sequence[Slot]
    endings: list[Ending] = field(default_factory=list)
    durations_ms: list[float] = field(default_factory=list)  # of those that started
    done: set[int] = field(default_factory=set)  # positions in the event
    is_closed: bool = False
    _started: set[int] = field(default_factory=set)
    _running: dict[int, Running] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, running: Running) -> bool:
        """Take note that a delivery starts. ``False`` when nothing may start any more."""
        position = running.slot.position
        with self._lock:
            if self.is_closed:
                return False
            self._started.add(position)
            self._running[position] = running
            return True

    def end(self, slot: Slot, *, is_done: bool) -> bool:
        """Take note that a delivery is settled, ``is_done`` when it never comes again.

        Answers whether whoever closed the roster knew nothing of that.
        """
        with self._lock:
            del self._running[slot.position]
            if is_done:
                self.done.add(slot.position)
            return self.is_closed

    def take_back(self, slots: Iterable[Slot]) -> list[Slot]:
        """Those of ``slots`` that have not started, and from now on never will; each is answered once."""
        with self._lock:
            return self._taken_back(slots)

    def close(self) -> Closed:
        """Let nothing start any more."""
        with self._lock:
            self.is_closed = True
            return Closed(
                done=[slot for slot in self.slots if slot.position in self.done],
                running=list(self._running.values()),
                unstarted=self._taken_back(self.slots),
            )

    def running(self) -> list[Running]:
        """What runs now."""
        with self._lock:
            return list(self._running.values())

    def _taken_back(self, slots: Iterable[Slot]) -> list[Slot]:
        taken = [slot for slot in slots if slot.position not in self._started]
        self._started.update(slot.position for slot in taken)
        self.endings.extend(["released"] * len(taken))
        return taken
