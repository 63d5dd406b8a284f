"""Counts of what ended, folded together: each settled batch adds a row."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects import Dialect
from local_transport.dialects.columns import LIMIT
from local_transport.dialects.port import Change
from local_transport.swept import Swept
from local_transport.tables import subscription, tally

_FOLDED: Final = 10_000  # rows in one transaction
_WORTH_IT: Final = 50  # rows more than folding would leave


class Folding:
    """Puts the sum in the place of the counts that are oldest."""

    def __init__(self, dialect: Dialect) -> None:
        self._fold = dialect.plan(Change(change=_take(), then=[_sums]))

    def batch(self, connection: Connection) -> Swept:
        """Fold, where that is worth a write. It settles and removes nothing."""
        surplus = _surplus(connection)
        if surplus > _WORTH_IT:
            self._fold.run(connection, {"limit": _FOLDED})
        return Swept(count=0, is_full=surplus >= _FOLDED)


def _surplus(connection: Connection) -> int:
    few = sa.select(tally.c.id).limit(2 * _FOLDED).subquery()
    kinds = sa.select(sa.func.count() * 2).select_from(subscription).scalar_subquery()  # what folding leaves
    return int(connection.execute(sa.select(sa.func.count() - kinds).select_from(few)).scalar_one())


def _take() -> UpdateBase:
    oldest = sa.select(tally.c.id).order_by(tally.c.id).limit(LIMIT)
    taken = sa.delete(tally).where(tally.c.id.in_(oldest))
    return taken.returning(tally.c.subscription_id, tally.c.outcome, tally.c.amount)


def _sums(taken: FromClause) -> UpdateBase:
    amount = sa.cast(sa.func.sum(taken.c.amount), sa.BigInteger())
    sums = sa.select(taken.c.subscription_id, taken.c.outcome, amount)
    grouped = sums.group_by(taken.c.subscription_id, taken.c.outcome)
    return tally.insert().from_select(["subscription_id", "outcome", "amount"], grouped)
