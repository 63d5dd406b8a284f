"""The backlog for those who ask often: read from the transport at most once in some seconds, however many ask."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from towpath.operating import Backlog, Operator

_FRESH_SECONDS: Final = 10.0  # for so long the figures are told again, without a look
_KEPT_SECONDS: Final = 60.0  # and for so long when the transport does not answer
_FEW: Final = 3  # subscriptions that are asked for one by one; more of them with all others, in one query of a database
_PATIENCE_SECONDS: Final = 2.0  # what one who asks waits for a look: scrapers give up after 10 s


class Backlogs:
    """The backlog of the subscriptions that ``names`` gives. Thread-safe; one who asks never waits for long."""

    def __init__(
        self,
        operator: Callable[[], Operator],
        names: Callable[[], Collection[str]],
        monotonic: Callable[[], float],
        *,
        patience: float = _PATIENCE_SECONDS,
    ) -> None:
        """``operator`` is asked for with each look; ``patience`` is how many seconds one who asks waits for a look."""
        self._patience = patience
        self._operator = operator
        self._names = names
        self._monotonic = monotonic
        self._log = logging.getLogger("towpath.worker")
        self._lock = threading.Lock()
        self._looking: threading.Event | None = None
        self._tried_at = -math.inf
        self._found: tuple[float, Sequence[Backlog]] = (-math.inf, ())

    def current(self) -> Sequence[Backlog] | None:
        """The figures, 10 s old at most, or 60 s while the transport does not answer; then ``None``."""
        if not self._names():
            return ()  # nothing is served yet: the first look is for what will be
        looking = self._look_if_due()
        if looking is not None:
            looking.wait(self._patience)
        found_at, rows = self._found
        return rows if self._monotonic() - found_at < _KEPT_SECONDS else None

    def _look_if_due(self) -> threading.Event | None:
        with self._lock:
            now = self._monotonic()
            if self._looking is None and now - self._tried_at >= _FRESH_SECONDS:
                self._looking, self._tried_at = threading.Event(), now
                threading.Thread(target=self._look, args=(self._looking,), name="towpath-backlog", daemon=True).start()
            return self._looking

    def _look(self, looking: threading.Event) -> None:
        try:
            self._found = (self._tried_at, self._read())
        except Exception as error:  # noqa: BLE001 - a worker works on, and who asks is told that there is no answer
            self._log.warning("the backlog is not told: %s: %s", type(error).__name__, error)
        with self._lock:
            self._looking = None
        looking.set()

    def _read(self) -> list[Backlog]:
        names, operator = self._names(), self._operator()
        if len(names) <= _FEW:
            return [row for name in names for row in operator.backlog(name)]
        return [row for row in operator.backlog() if row.subscription in names]
