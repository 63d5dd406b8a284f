"""What all services of one worker go by: its options, the claims that are left, and the word to stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta

from towpath.observing import Observer
from towpath.stopping import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs. ``concurrency`` counts threads for each subscription.

    ``once`` ends the worker when nothing is due; ``max_deliveries`` after so many claims over all subscriptions;
    ``idle_exit`` after so long with nothing to do. Then handlers that still run may end. ``drain`` is what they get
    after a stop before they are aborted, ``abort_grace`` what they get then to notice it.
    """

    concurrency: int = 8
    drain: timedelta = timedelta(seconds=30)
    abort_grace: timedelta = timedelta(seconds=5)
    once: bool = False
    max_deliveries: int | None = None
    idle_exit: timedelta | None = None


class Allowance:
    """How many deliveries a worker's services may claim between them; ``None`` for any number. Thread-safe."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._asked_for = 0
        self._claimed = 0
        self._lock = threading.Lock()

    def take(self, wanted: int) -> int:
        """Ask for ``wanted`` claims; answers how many may be made. Say by ``made`` how many were."""
        with self._lock:
            granted = wanted if self._most is None else min(wanted, self._most - self._claimed - self._asked_for)
            self._asked_for += granted
            return granted

    def made(self, granted: int, claimed: int) -> None:
        """Of ``granted`` claims so many were made; the others can be taken again."""
        with self._lock:
            self._asked_for -= granted
            self._claimed += claimed

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._most is not None

    @property
    def used_up(self) -> bool:
        """Whether all were made."""
        return self._most is not None and self._claimed >= self._most


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What all services of one worker go by: its options, the claims that are left, the word to stop, and who is told
    of what they settle.
    """

    options: WorkerOptions
    allowance: Allowance
    stopping: Stop
    observer: Observer | None = None
