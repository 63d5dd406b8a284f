"""What all services of one worker go by: its options, the claims that are left, its places, and the word to stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from towpath.observing import Observer
from towpath.outages import Outages
from towpath.places import Places
from towpath.stopping import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. ``concurrency`` counts threads for each subscription; ``max_in_flight`` is the most deliveries
    that run at a time over all of them.

    ``once`` ends the worker when nothing is due; ``max_deliveries`` after so many claims over all subscriptions;
    ``max_duration`` after so long, as a stop does; ``idle_exit`` after so long with nothing to do. Then handlers that
    still run may end. ``drain`` is what they get after a stop before they are aborted, ``abort_grace`` what they get
    then to notice it.
    """

    concurrency: int = 8
    drain: timedelta = timedelta(seconds=30)
    abort_grace: timedelta = timedelta(seconds=5)
    once: bool = False
    max_deliveries: int | None = None
    max_duration: timedelta | None = None
    idle_exit: timedelta | None = None
    max_in_flight: int | None = None


class ClaimsLeft(Protocol):
    """How many deliveries may still be claimed, by whoever shares them. Thread-safe."""

    def take(self, wanted: int) -> int:
        """Ask for ``wanted`` claims; answers how many may be made. Say by ``made`` how many were."""

    def made(self, granted: int, claimed: int) -> None:
        """Of ``granted`` claims so many were made; the others can be taken again."""

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""

    @property
    def used_up(self) -> bool:
        """Whether all were made."""


class Allowance:
    """How many deliveries a worker's services may claim between them; ``None`` for any number. Thread-safe."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._asked_for = 0
        self._claimed = 0
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        """See ``ClaimsLeft``, as for all that follow."""
        with self._lock:
            granted = wanted if self._most is None else min(wanted, self._most - self._claimed - self._asked_for)
            self._asked_for += granted
            return granted

    def made(self, granted: int, claimed: int) -> None:
        """They are counted."""
        with self._lock:
            self._asked_for -= granted
            self._claimed += claimed

    @property
    def is_limited(self) -> bool:
        """Whether ``most`` was given."""
        return self._most is not None

    @property
    def used_up(self) -> bool:
        """Whether so many were claimed."""
        return self._most is not None and self._claimed >= self._most


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all services of one worker go by, and who is told of what they settle."""

    options: WorkerOptions
    allowance: ClaimsLeft
    places: Places
    outages: Outages
    stopping: Stop
    observer: Observer | None = None
