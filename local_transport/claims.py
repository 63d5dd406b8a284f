"""Claiming due deliveries that are in no lane: all of a subscription without partitions, else those without a key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.connections import Database
from local_transport.details import ended_by_lease
from local_transport.dialects.columns import LIMIT, Moment, moment
from local_transport.dialects.port import Change
from local_transport.front import Walk, front_for
from local_transport.leasing import MAX_CLAIM, SUBSCRIPTION, Claimed, Leasing, claimable, first_due, with_message
from local_transport.tables import delivery
from towpath.backoff import Random

_FRONT: Final = sa.bindparam("front", type_=Moment())


class Claims:
    """Claims one subscription's deliveries by one revision of its policy. Thread-safe.

    The statement itself checks that the revision still holds and that nobody paused the subscription; it claims
    nothing otherwise. Being due is the only condition on a delivery: a lease that ended is due again, since claiming
    sets ``due_at`` to the lease's end plus the back-off, so that no other process has to notice the end.
    """

    def __init__(
        self,
        database: Database,
        applied: AppliedSubscription,
        random: Random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._leasing = Leasing(applied, random)
        self.front: Final = front_for(database.dialect, monotonic)
        self._plan = database.dialect.plan(self._claiming())
        self._found_enough = False
        self._look = database.dialect.statement(sa.select(due_deliveries(sa.literal_column("1")).limit(1).exists()))

    def claim(self, limit: int) -> Claimed:
        """At most ``limit`` due deliveries, longest due first, leased from now on. Raises ``TransportUnavailable``.

        What became visible after others that were due later may be left out for a while.
        """
        return self._claim(limit, self.front.walk())

    def claim_all(self, limit: int) -> Claimed:
        """The same, and nothing is left out."""
        walk = self.front.walk()
        found = self._claim(limit, walk)
        if walk.is_whole or found.count >= limit:
            return found
        return found + self._claim(limit - found.count, self.front.whole_walk())

    def _claim(self, limit: int, walk: Walk) -> Claimed:
        parameters = self._leasing.parameters(limit) | {"front": walk.start}
        looks = self._database.dialect.looks_before_it_locks and not self._found_enough
        if looks and not self._anything_due(parameters):
            return Claimed()
        with self._database.changing() as connection:
            rows = self._plan.run(connection, parameters)
        self._found_enough = len(rows) >= min(limit, MAX_CLAIM)  # then there may well be more
        self.front.walked(walk, first_due(rows))
        return self._leasing.claimed(rows)

    def _anything_due(self, parameters: Mapping[str, Any]) -> bool:
        with self._database.reading() as connection:
            return bool(self._look.run(connection, parameters).scalar_one())

    def _claiming(self) -> Change:
        dialect = self._database.dialect
        due = due_deliveries(delivery.c.message_ordinal, delivery.c.due_at).order_by(delivery.c.due_at).limit(LIMIT)
        locked = due.with_for_update(skip_locked=True, of=delivery).cte("due")

        def read(leased: FromClause) -> sa.Select[Any]:
            source: FromClause = leased
            was_due_at: sa.ColumnElement[Any] = sa.null()
            if dialect.keeps_entries:
                source = leased.join(locked, locked.c.message_ordinal == leased.c.message_ordinal)
                first = sa.select(sa.func.min(locked.c.due_at)).scalar_subquery()
                was_due_at = sa.case(
                    (locked.c.due_at == first, locked.c.due_at), else_=sa.null()
                )  # the front is enough
            joined, columns = with_message(leased, source)
            found = sa.select(*columns, was_due_at.label("was_due_at")).select_from(joined)
            return found.order_by(leased.c.message_ordinal)

        return Change(
            change=self._leasing.lease(locked),
            keyed=self._leasing.keyed(sa.select(locked.c.message_ordinal)),
            then=[lambda leased: ended_by_lease(dialect, leased)],
            read=read,
        )


def due_deliveries(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """``columns`` of the deliveries that may be claimed, from the front on, if the subscription may be."""
    held = delivery.c
    return sa.select(*columns).where(
        held.subscription_id == SUBSCRIPTION,
        held.lane.is_(None),
        held.due_at >= _FRONT,
        held.due_at <= moment(),
        claimable(),
    )
