"""The operator's side of a database: what it shows, and what may be done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from local_transport import counting, finished, listing, partitions
from local_transport.acting import Actions
from local_transport.applied import AppliedSubscription, TopologyReader, unknown_subscription
from local_transport.auditing import record, trail
from local_transport.connections import Database
from local_transport.editing import Editor
from local_transport.tables import subscription
from towpath.message import JsonValue
from towpath.operating import (
    AuditEntry,
    Backlog,
    DeadLetterEntry,
    DeliveryEntry,
    Discarded,
    Order,
    Pace,
    Page,
    PartitionEntry,
    PartitionState,
    Selection,
    SubscriptionStats,
    Warrant,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseOperator:
    """``towpath.ports.Operator`` for one database. Thread-safe. Everything may raise ``TransportUnavailable``."""

    database: Database
    reader: TopologyReader
    actions: Actions
    editor: Editor
    due: Callable[[Collection[int]], None]

    def stats(self) -> list[SubscriptionStats]:
        """Every subscription, by name; the counts are exact, of one moment. Takes the longer the more there waits.

        A lease whose time is over counts as pending, since nobody is known to work on it.
        """
        with self.database.reading() as connection:
            return counting.stats(connection)

    def backlog(self, subscription: str | None = None) -> list[Backlog]:
        """See the port; of one moment. Reads at most some thousands of index entries for each subscription."""
        with self.database.reading() as connection:
            if subscription is not None:
                _known(self.reader.current(connection).subscriptions, subscription)
            return counting.backlog(connection, subscription)

    def deliveries(self, selection: Selection, limit: int, cursor: str | None = None) -> Page[DeliveryEntry]:
        """See the port. A partition key of a subscription in mode ``none`` is looked for in every message."""
        look = finished.deliveries if selection.state in finished.STATES else listing.deliveries
        with self.database.reading() as connection:
            return look(connection, self.reader.current(connection), selection, limit, cursor)

    def dead_letters(self, subscription: str | None, limit: int, cursor: str | None = None) -> Page[DeadLetterEntry]:
        """See the port."""
        with self.database.reading() as connection:
            applied = self.reader.current(connection)
            return listing.dead_letters(connection, applied, subscription, limit, cursor)

    def partitions(
        self, subscription: str, limit: int, cursor: str | None = None, state: PartitionState | None = None
    ) -> Page[PartitionEntry]:
        """See the port. Keys that have nothing but dead letters are there only where these block them."""
        with self.database.reading() as connection:
            applied = _known(self.reader.current(connection).subscriptions, subscription)
            return partitions.partitions(connection, applied, limit, cursor, state)

    def replay(self, selection: Selection, warrant: Warrant, pace: Pace) -> int:
        """See the port. What comes again keeps the place that it had among its key's."""
        return self.actions.replay(Order(action="replay", selection=selection, warrant=warrant, pace=pace))

    def replay_edited(self, delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """See the port. Both changes are made together."""
        return self.editor.replay(delivery_id, payload, warrant)

    def discard(self, selection: Selection, warrant: Warrant, pace: Pace) -> Discarded:
        """See the port. What is published while it goes on is left alone."""
        return self.actions.discard(Order(action="discard", selection=selection, warrant=warrant, pace=pace))

    def purge(self, subscription: str, warrant: Warrant, pace: Pace) -> int:
        """Drop the dead letters of a subscription; answers how many."""
        dead = Selection(subscription=subscription, state="dead")
        order = Order(action="purge", selection=dead, warrant=warrant, pace=pace)
        return self.actions.discard(order).at_once

    def pause(self, subscription: str, warrant: Warrant) -> bool:
        """See the port. The next claim finds it so already."""
        return self._set_paused(subscription, warrant, "pause")

    def resume(self, subscription: str, warrant: Warrant) -> bool:
        """See the port. Workers that wait look at once."""
        return self._set_paused(subscription, warrant, "resume")

    def audit(self, limit: int, cursor: str | None = None, about: str | None = None) -> Page[AuditEntry]:
        """See the port. Entries ``about`` something are looked for in the whole trail."""
        with self.database.reading() as connection:
            return trail(connection, limit, cursor, about)

    def _set_paused(self, name: str, warrant: Warrant, action: str) -> bool:
        paused = action == "pause"
        with self.database.writing() as connection:
            applied = _known(self.reader.current(connection).subscriptions, name)
            other = sa.and_(subscription.c.id == applied.id, subscription.c.paused != paused)
            changed = connection.execute(sa.update(subscription).values(paused=paused).where(other)).rowcount == 1
            if changed:
                record(connection, warrant, action, name, {})
        if changed and not paused:
            self.due([applied.id])
        return changed


def _known(known: Mapping[str, AppliedSubscription], name: str) -> AppliedSubscription:
    if name not in known:
        raise unknown_subscription(name, known)
    return known[name]
