"""The one look that a process takes for all who wait: which subscriptions have something due, and when the next is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.dialects.columns import Now
from local_transport.tables import delivery, lane, subscription, touched_lane

# In the statement's text: a prepared statement is planned for any limit, and then all is read and sorted.
_ONE: Final[sa.ColumnElement[int]] = sa.literal_column("1", sa.Integer())


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How a subscription stands. ``due_in`` is in seconds from now, not above 0 for what is due; ``None`` when nothing
    will be due by itself: there is nothing, or it may not be claimed. ``revision`` is its policy's.
    """

    due_in: float | None
    revision: int


class Look:
    """Reads the first due time of each subscription, of deliveries and of lanes: an index look-up each."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked = database.dialect.batch("waiting", {"id": sa.Integer()})
        self._statement = database.dialect.statement(self._query())

    def take(self, subscription_ids: Collection[int]) -> Mapping[int, Seen]:
        """How they stand now, by id; one that was removed is not there. Raises ``TransportUnavailable``."""
        parameters = self._asked.bind([(subscription_id,) for subscription_id in sorted(subscription_ids)])
        with self._database.reading() as connection:
            rows = self._statement.run(connection, parameters).all()
        return {row.id: Seen(due_in=_due_in(row), revision=row.revision) for row in rows}

    def _query(self) -> sa.Select[Any]:
        known = subscription.c
        claimable = sa.and_(known.status == "active", ~known.paused)
        source = self._asked.rows.join(subscription, known.id == self._asked.rows.c.id)
        columns = (
            known.id,
            known.revision,
            Now().label("now"),
            sa.case((claimable, _first_delivery())).label("delivery_due_at"),
            sa.case((claimable, _first_lane())).label("lane_due_at"),
            sa.and_(claimable, _is_touched()).label("touched"),
        )
        return sa.select(*columns).select_from(source).where(known.removed_at.is_(None))


def _first_delivery() -> sa.ScalarSelect[datetime]:
    held = delivery.c
    own = (held.subscription_id == subscription.c.id, held.lane.is_(None), held.due_at.is_not(None))
    return sa.select(held.due_at).where(*own).order_by(held.due_at).limit(_ONE).scalar_subquery()


def _first_lane() -> sa.ScalarSelect[datetime]:
    held = lane.c
    own = (held.subscription_id == subscription.c.id, held.due_at.is_not(None))
    return sa.select(held.due_at).where(*own).order_by(held.due_at).limit(_ONE).scalar_subquery()


def _is_touched() -> sa.Exists:
    """Whether somebody changed deliveries of a lane without looking at it: a claim will."""
    return sa.exists().where(touched_lane.c.subscription_id == subscription.c.id)


def _due_in(row: sa.Row[Any]) -> float | None:
    if row.touched:
        return 0.0
    times = [at for at in (row.delivery_due_at, row.lane_due_at) if at is not None]
    return (min(times) - row.now).total_seconds() if times else None
