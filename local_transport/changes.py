"""The statements by which an operator, or a sweep, changes deliveries that nobody, or somebody else, holds.

``chosen`` are rows with the delivery's key and the lease token that it had when it was chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.details import KEY, upsert_details
from local_transport.dialects import Dialect
from local_transport.dialects.columns import Now
from local_transport.dialects.port import Change, Columns
from local_transport.endings import into_history, into_tally, without_details
from local_transport.lanes import touch
from local_transport.selecting import in_state
from local_transport.tables import delivery

CHOSEN: Final[Columns] = {"ordinal": sa.BigInteger(), "subscription": sa.Integer(), "token": sa.Integer()}

_HELD: Final = delivery.c
_RETURNED: Final = (_HELD.message_ordinal, _HELD.subscription_id, _HELD.lane, _HELD.attempt)


def give_back(dialect: Dialect, chosen: FromClause) -> Change:
    """Dead letters are due now, as replays, from attempt 1 on, at the place that they had. Their last errors stay."""
    values = {"state": "pending", "due_at": Now(), "dead_since": None, "attempt": 0, "is_replay": True}
    given = sa.update(delivery).values(values).where(*_same(chosen), _HELD.state == "dead")

    def forget_reason(changed: FromClause) -> UpdateBase:
        return upsert_details(dialect, _with(changed, sa.null()), [*KEY, "reason"], {})

    return Change(change=given.returning(*_RETURNED), then=[forget_reason, touch])


def drop(chosen: FromClause) -> Change:
    """Deliveries that no live lease holds are gone, and history has them with the ``reason``."""
    key = sa.tuple_(_HELD.message_ordinal, _HELD.subscription_id, _HELD.lease_token)
    dropped = sa.delete(delivery).where(
        key.in_(sa.select(chosen.c.ordinal, chosen.c.subscription, chosen.c.token)), ~in_state("leased")
    )
    return _discarding(dropped, lambda _: _REASON)


def drop_those(keys: sa.CTE, reason: Callable[[FromClause], sa.ColumnElement[Any]]) -> Change:
    """Deliveries with these ``keys``, whose rows are locked, are gone, and history has them with their ``reason``."""
    key = sa.tuple_(_HELD.message_ordinal, _HELD.subscription_id)
    return _discarding(sa.delete(delivery).where(key.in_(sa.select(*(keys.c[name] for name in KEY)))), reason)


def cancel(dialect: Dialect, chosen: FromClause) -> Change:
    """Deliveries under a live lease are marked: their holders are told, and at the lease's end they are discarded."""
    values = {"cancel_requested": True, "due_at": _HELD.lease_expires_at, "ends_at": _HELD.lease_expires_at}
    marked = sa.update(delivery).values(values)
    marked = marked.where(*_same(chosen), in_state("leased"), ~_HELD.cancel_requested)

    def keep_reason(changed: FromClause) -> UpdateBase:
        return upsert_details(dialect, _with(changed, _REASON), [*KEY, "reason"], {})

    return Change(change=marked.returning(*_RETURNED), then=[keep_reason])


_REASON: Final = sa.bindparam("reason", type_=sa.Text())


def _same(chosen: FromClause) -> tuple[sa.ColumnElement[Any], ...]:
    return (
        _HELD.message_ordinal == chosen.c.ordinal,
        _HELD.subscription_id == chosen.c.subscription,
        _HELD.lease_token == chosen.c.token,
    )


def _with(changed: FromClause, reason: sa.ColumnElement[Any]) -> sa.Select[Any]:
    keys = (changed.c[name] for name in KEY)
    return sa.select(*keys, reason).where(sa.true())  # SQLite takes ON CONFLICT for the ON of a join without it


def _discarding(dropped: sa.Delete, reason: Callable[[FromClause], sa.ColumnElement[Any]]) -> Change:
    return Change(
        change=dropped.returning(*_RETURNED),
        then=[
            lambda gone: into_history(gone, "discarded", reason(gone)),
            lambda gone: into_tally(gone, "discarded"),
            touch,
            without_details,
        ],
    )
