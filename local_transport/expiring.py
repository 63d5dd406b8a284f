"""Deliveries whose time is over: last attempts, those that were cancelled, and messages that expired.

Claims meet the same deliveries and end them too; this is for those of subscriptions that nobody claims from.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.changes import drop_those
from local_transport.details import ATTEMPTS_EXCEEDED, ended_by_lease
from local_transport.dialects import Dialect
from local_transport.dialects.columns import LIMIT, Now, moment
from local_transport.dialects.port import Change
from local_transport.endings import known_reason
from local_transport.lanes import touch
from local_transport.selecting import in_state
from local_transport.swept import Swept
from local_transport.tables import delivery

BATCH: Final = 500  # deliveries in one transaction
EXPIRED: Final = "Expired"

_HELD: Final = delivery.c
_KEY: Final = (_HELD.message_ordinal, _HELD.subscription_id)
_RETURNED: Final = (*_KEY, _HELD.lane, _HELD.attempt, _HELD.state)
_LEASE_OVER: Final = (_HELD.ends_at <= moment(), _HELD.state == "leased")


class LastAttempts:
    """Deliveries whose last attempt's lease is over become dead letters."""

    def __init__(self, dialect: Dialect) -> None:
        fresh = sa.or_(_HELD.expires_at.is_(None), _HELD.expires_at > moment())
        over = _first(_HELD.ends_at, *_LEASE_OVER, ~_HELD.cancel_requested, fresh)
        values = {"state": "dead", "due_at": None, "lease_expires_at": None, "ends_at": None, "dead_since": Now()}
        ended = sa.update(delivery).values(values | {"lease_token": _HELD.lease_token + 1})
        ended = ended.where(_HELD.message_ordinal == over.c.message_ordinal)
        ended = ended.where(_HELD.subscription_id == over.c.subscription_id)
        then = [lambda dead: ended_by_lease(dialect, dead), touch]
        self._plan = dialect.plan(Change(change=ended.returning(*_RETURNED), then=then))

    def batch(self, connection: Connection) -> Swept:
        """Those whose leases ended first."""
        rows = self._plan.run(connection, {"limit": BATCH})
        full, level = len(rows) == BATCH, logging.ERROR
        return Swept(
            count=len(rows), is_full=full, deliveries=rows, state="dead", reason=ATTEMPTS_EXCEEDED, level=level
        )


class Cancelled:
    """Deliveries that an operator cancelled, and whose holders let the lease end without a word, are discarded."""

    def __init__(self, dialect: Dialect) -> None:
        over = _first(_HELD.ends_at, *_LEASE_OVER, _HELD.cancel_requested)
        self._plan = dialect.plan(drop_those(over, known_reason))

    def batch(self, connection: Connection) -> Swept:
        """Those whose leases ended first."""
        rows = self._plan.run(connection, {"limit": BATCH})
        return Swept(count=len(rows), is_full=len(rows) == BATCH, deliveries=rows, reason="Cancelled")


class Expired:
    """Deliveries of messages that expired are discarded, unless a worker has them or they are dead letters."""

    def __init__(self, dialect: Dialect) -> None:
        waits = (in_state("pending"), _HELD.dead_since.is_(None), ~_HELD.cancel_requested)
        over = _first(_HELD.expires_at, _HELD.expires_at <= moment(), *waits)
        self._plan = dialect.plan(drop_those(over, lambda _: sa.literal(EXPIRED, sa.Text())))

    def batch(self, connection: Connection) -> Swept:
        """Those that expired first."""
        rows = self._plan.run(connection, {"limit": BATCH})
        return Swept(count=len(rows), is_full=len(rows) == BATCH, deliveries=rows, reason=EXPIRED)


def _first(order: sa.Column[Any], *where: sa.ColumnElement[bool]) -> sa.CTE:
    """The keys of the first deliveries that nobody locks."""
    found = sa.select(*_KEY).where(*where).order_by(order).limit(LIMIT)
    return found.with_for_update(skip_locked=True).cte("over_now")
