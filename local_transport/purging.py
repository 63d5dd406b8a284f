"""Retention now, for an operator who does not want to wait for the sweep, and what it would remove."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from local_transport.auditing import record
from local_transport.connections import Database
from local_transport.pacing import Pacer
from local_transport.retention import DeadLetters, Finished, Keys, Unwanted
from local_transport.swept import Retained, Swept
from towpath.errors import TransportUnavailable
from towpath.operating import Warrant

KINDS: Final[Mapping[str, type[Retained]]] = {
    "dead_letters": DeadLetters,
    "history": Finished,
    "unwanted_messages": Unwanted,
    "deduplication_keys": Keys,
}

_LONGEST_PAUSE: Final = 0.1  # seconds, after a batch
_TRIES: Final = 100  # while another process sweeps, whose batches are short
_BETWEEN: Final = 0.1  # seconds

Told = Callable[[str, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Purging:
    """Removes what was kept for longer than its retention, as the sweep does: in batches, each a transaction.

    ``due`` is told for which subscriptions something may have become claimable.
    """

    database: Database
    due: Callable[[Collection[int]], None]
    pacer: Pacer

    def overdue(self) -> dict[str, int]:
        """How many rows of each kind are kept for longer than they should be. Reads all that it counts."""
        with self.database.reading() as connection:
            return {name: kind(self.database.dialect).overdue(connection) for name, kind in KINDS.items()}

    def run(self, warrant: Warrant, told: Told) -> dict[str, int]:
        """Remove them; answers how many of each kind. ``told`` hears of each batch, and may raise to end it there.

        What was done is in the audit trail, also when it ends early. Raises ``TransportUnavailable``.
        """
        removed = dict.fromkeys(KINDS, 0)
        try:
            for name, kind in KINDS.items():
                self._remove(name, kind(self.database.dialect), removed, told)
        finally:
            if any(removed.values()):
                with self.database.writing() as connection:
                    record(connection, warrant, "purge retention", self.database.label, {"removed": dict(removed)})
        return removed

    def _remove(self, name: str, step: Retained, removed: dict[str, int], told: Told) -> None:
        while True:
            began_at = self.pacer.monotonic()
            swept = self._batch(step)
            removed[name] += swept.count
            if swept.deliveries:
                self.due({row.subscription_id for row in swept.deliveries})
            if swept.count:
                told(name, swept.count)
            if not swept.is_full:
                return
            self.pacer.sleep(min(self.pacer.monotonic() - began_at, _LONGEST_PAUSE))

    def _batch(self, step: Retained) -> Swept:
        """One batch, in turn with the sweep of another process."""
        for _ in range(_TRIES):
            with self.database.writing() as connection:
                if self.database.dialect.try_to_sweep(connection):
                    return step.batch(connection)
            self.pacer.sleep(_BETWEEN)
        raise TransportUnavailable("another process has been sweeping all the time; try again in a minute")
