"""What follows from deliveries that left the table: history has them, they are counted, their details go."""

from __future__ import annotations

from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects.columns import Now
from local_transport.tables import delivery_detail, history, tally

Ending = Literal["completed", "discarded"]

_HISTORY: Final = ["message_ordinal", "subscription_id", "finished_at", "attempt", "outcome", "reason"]


def into_history(
    gone: FromClause,
    outcome: Ending,
    reason: sa.ColumnElement[Any],
    where: sa.ColumnElement[bool] | None = None,
) -> UpdateBase:
    """Have history tell of the deliveries in ``gone``; ``where`` joins the rows that ``reason`` comes from."""
    row = gone.c
    ended = sa.literal(outcome, sa.Text())
    new = sa.select(row.message_ordinal, row.subscription_id, Now(), row.attempt, ended, reason)
    return history.insert().from_select(_HISTORY, new if where is None else new.where(where))


def into_tally(gone: FromClause, outcome: Ending) -> UpdateBase:
    """Count the deliveries in ``gone``."""
    new = sa.select(gone.c.subscription_id, sa.literal(outcome, sa.Text()), sa.func.count())
    grouped = new.group_by(gone.c.subscription_id)
    return tally.insert().from_select(["subscription_id", "outcome", "amount"], grouped)


def without_details(gone: FromClause) -> UpdateBase:
    """Remove what was kept beside the deliveries in ``gone``. To come last."""
    kept = delivery_detail.c
    keys = sa.select(gone.c.message_ordinal, gone.c.subscription_id)
    return sa.delete(delivery_detail).where(sa.tuple_(kept.message_ordinal, kept.subscription_id).in_(keys))


def known_reason(gone: FromClause) -> sa.ColumnElement[Any]:
    """The reason that the details of a delivery in ``gone`` give: why it was cancelled, or why it was dead."""
    kept, row = delivery_detail.c, gone.c
    same = (kept.message_ordinal == row.message_ordinal, kept.subscription_id == row.subscription_id)
    return sa.select(kept.reason).where(*same).scalar_subquery()
