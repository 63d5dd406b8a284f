"""The places that deliveries of one worker run in, shared by its subscriptions, and what each may claim next."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

_LOOK_SECONDS: Final = 0.1  # between two looks at whether there is still a reason to wait


class Places:
    """At most ``most`` at a time, over all subscriptions; ``None`` for any number. Thread-safe.

    One that comes free goes to who has waited longest, and who asks for many gets no more than its share among those
    who wait: a busy subscription cannot keep another one out.
    """

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._free = most or 0
        self._line: deque[object] = deque()
        self._changed = threading.Condition()

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._most is not None

    def take(self, wanted: int, is_over: Callable[[], bool]) -> int:
        """Wait for a first free place, until ``is_over``, and take up to ``wanted``; answers how many. Give each back.

        Without a limit that is all of them, at once.
        """
        if self._most is None or wanted <= 0:
            return max(wanted, 0)
        own = object()
        with self._changed:
            self._line.append(own)
            try:
                while not (is_first := self._free > 0 and self._line[0] is own) and not is_over():
                    self._changed.wait(_LOOK_SECONDS)
                granted = min(wanted, max(self._free // len(self._line), 1)) if is_first else 0
                self._free -= granted
            finally:
                self._line.remove(own)
                self._changed.notify_all()
        return granted

    def give_back(self, count: int = 1) -> None:
        """So many that were taken are free again."""
        if self._most is None or count <= 0:
            return
        with self._changed:
            self._free += count
            self._changed.notify_all()
