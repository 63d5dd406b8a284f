"""Housekeeping that no claim waits for: what is over ends, what was kept for long enough goes, counts are folded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Final

from local_transport.connections import Database
from local_transport.expiring import Cancelled, Expired, LastAttempts
from local_transport.folding import Folding
from local_transport.leasing import delivery_id
from local_transport.pacing import Pacer
from local_transport.retention import DeadLetters, Finished, Keys, Unwanted
from local_transport.swept import Step, Swept

_LONGEST_PAUSE: Final = 0.1  # seconds, after a batch


class Sweep:
    """Does what is due, in transactions of bounded size. One instance works at a time; the others do nothing.

    After a full batch it pauses for as long as that took, so that others can write where only one can at a time.
    """

    def __init__(
        self, database: Database, due: Callable[[Collection[int]], None], log: logging.Logger, pacer: Pacer
    ) -> None:
        """``due`` is told for which subscriptions something may have become claimable."""
        self._database = database
        self._due = due
        self._log = log
        self._pacer = pacer
        kinds = (LastAttempts, Cancelled, Expired, DeadLetters, Finished, Unwanted, Keys, Folding)
        self._steps: tuple[Step, ...] = tuple(kind(database.dialect) for kind in kinds)

    def run(self) -> int:
        """Sweep until nothing is due; answers how many rows were settled or removed.

        A batch of each kind in turn, so that no kind waits for all of another.
        """
        total = 0
        while True:
            more = False
            for step in self._steps:
                swept = self._batch(step)
                if swept is None:
                    return total
                total += swept.count
                more = more or swept.is_full
            if not more:
                return total

    def _batch(self, step: Step) -> Swept | None:
        """One batch; ``None`` when another instance is sweeping."""
        began_at = self._pacer.monotonic()
        with self._database.writing() as connection:
            if not self._database.dialect.try_to_sweep(connection):
                return None
            swept = step.batch(connection)
        self._tell(swept)
        if swept.is_full:
            self._pacer.sleep(min(self._pacer.monotonic() - began_at, _LONGEST_PAUSE))
        return swept

    def _tell(self, swept: Swept) -> None:
        for row in swept.deliveries:
            ids = {"delivery_id": delivery_id(row.message_ordinal, row.subscription_id), "attempt": row.attempt}
            facts = ids | {"state": swept.state, "reason": swept.reason}
            self._log.log(swept.level, "delivery %s", swept.state, extra=facts)
        if swept.deliveries:
            self._due({row.subscription_id for row in swept.deliveries})
