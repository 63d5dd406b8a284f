"""Housekeeping that no claim waits for: last attempts whose lease ended, and counts folded together."""

from __future__ import annotations

import logging
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.connections import Database
from local_transport.details import ATTEMPTS_EXCEEDED, ended_by_lease
from local_transport.dialects.columns import LIMIT, Now, moment
from local_transport.dialects.port import Change, Rows
from local_transport.leasing import delivery_id
from local_transport.tables import delivery, subscription, tally

_BATCH: Final = 500  # deliveries in one transaction
_FOLDED: Final = 10_000  # tally rows in one transaction
_WORTH_FOLDING: Final = 50


class Sweep:
    """Does what is due, in transactions of bounded size. One instance works at a time; the others do nothing."""

    def __init__(self, database: Database, log: logging.Logger) -> None:
        self._database = database
        self._log = log
        plan, dialect = database.dialect.plan, database.dialect
        self._end = plan(Change(change=_end_last_attempts(), then=[lambda dead: ended_by_lease(dialect, dead)]))
        self._fold = plan(Change(change=_take_tally(), then=[_sums]))

    def run(self) -> int:
        """Sweep until nothing is due; answers how many deliveries were made dead."""
        ended = 0
        while True:
            rows = self._run_once()
            for row in rows:
                self._report(row)
            ended += len(rows)
            if len(rows) < _BATCH:
                return ended

    def _run_once(self) -> Rows:
        with self._database.writing() as connection:
            if not self._database.dialect.try_to_sweep(connection):
                return []
            rows = self._end.run(connection, {"limit": _BATCH})
            if self._tally_rows(connection) > _WORTH_FOLDING:
                self._fold.run(connection, {"limit": _FOLDED})
            return rows

    def _tally_rows(self, connection: Connection) -> int:
        few = sa.select(tally.c.id).limit(_FOLDED).subquery()
        kinds = sa.select(sa.func.count() * 2).select_from(subscription).scalar_subquery()  # what folding leaves
        return int(connection.execute(sa.select(sa.func.count() - kinds).select_from(few)).scalar_one())

    def _report(self, row: Any) -> None:
        ids = {"delivery_id": delivery_id(row.message_ordinal, row.subscription_id), "attempt": row.attempt}
        self._log.error("delivery dead", extra=ids | {"state": "dead", "reason": ATTEMPTS_EXCEEDED})


def _end_last_attempts() -> UpdateBase:
    held = delivery.c
    over = (
        sa.select(held.message_ordinal, held.subscription_id)
        .where(held.ends_at <= moment(), held.state == "leased", ~held.cancel_requested)
        .order_by(held.ends_at)
        .limit(LIMIT)
        .with_for_update(skip_locked=True)
        .cte("over_now")
    )
    values = {"state": "dead", "due_at": None, "lease_expires_at": None, "ends_at": None, "dead_since": Now()}
    ended = sa.update(delivery).values(values | {"lease_token": held.lease_token + 1})
    same = (held.message_ordinal == over.c.message_ordinal, held.subscription_id == over.c.subscription_id)
    return ended.where(*same).returning(held.message_ordinal, held.subscription_id, held.attempt, held.state)


def _take_tally() -> UpdateBase:
    oldest = sa.select(tally.c.id).order_by(tally.c.id).limit(LIMIT)
    taken = sa.delete(tally).where(tally.c.id.in_(oldest))
    return taken.returning(tally.c.subscription_id, tally.c.outcome, tally.c.amount)


def _sums(taken: FromClause) -> UpdateBase:
    amount = sa.cast(sa.func.sum(taken.c.amount), sa.BigInteger())
    sums = sa.select(taken.c.subscription_id, taken.c.outcome, amount)
    grouped = sums.group_by(taken.c.subscription_id, taken.c.outcome)
    return tally.insert().from_select(["subscription_id", "outcome", "amount"], grouped)
