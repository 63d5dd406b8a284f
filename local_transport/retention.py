"""What was kept for long enough goes: dead letters, history, the messages that nothing refers to, deduplication keys.

History and dead letters are looked for by time within each subscription, messages that no subscription wanted within
each topic, so that a sweep reads what it removes and little else. A message goes with the history of its deliveries,
the last of them if it has several; one that has a delivery, open or dead, stays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.auditing import record
from local_transport.changes import drop_those
from local_transport.dialects import Dialect
from local_transport.dialects.columns import LIMIT, Later, moment
from local_transport.dialects.port import Change, Columns, Plan, Statement
from local_transport.leasing import delivery_id
from local_transport.swept import Swept
from local_transport.tables import deduplication, delivery, history, message, subscription, topic, unwanted
from towpath.operating import Warrant

_LETTERS: Final = 500  # in one transaction
_ROWS: Final = 2_000  # of what is only removed
_DAY: Final = 86_400.0
_RETENTION: Final = "Retention"
_ONE: Final[sa.ColumnElement[int]] = sa.literal_column("1", sa.Integer())

_KEPT: Final[Columns] = {"id": sa.Integer(), "seconds": sa.Float()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """For how long the rows of a subscription, or of a topic, are kept."""

    id: int
    name: str
    days: int

    @property
    def seconds(self) -> float:
        """The same in seconds."""
        return self.days * _DAY


class _Overdue:
    """Finds the subscriptions or topics that have rows older than these are kept: one look for all."""

    def __init__(self, dialect: Dialect, owner: sa.Column[Any], since: sa.Column[Any]) -> None:
        self._kept = dialect.batch("kept", _KEPT)
        row = self._kept.rows.c
        # Not whether any is older: PostgreSQL takes those for a third of the table, and reads all of it to find one.
        oldest = (
            sa.select(since).where(owner == row.id, since.is_not(None)).order_by(since).limit(_ONE).scalar_subquery()
        )
        self._look: Statement = dialect.statement(sa.select(row.id).where(oldest <= Later(moment(), -row.seconds)))

    def those(self, connection: Connection, kept: Sequence[_Kept]) -> Iterator[_Kept]:
        """Those of ``kept`` that have such rows."""
        known = {one.id: one for one in kept}
        asked = self._kept.bind([(one.id, one.seconds) for one in known.values()])
        for found in self._look.run(connection, asked).all():
            yield known[found.id]


class DeadLetters:
    """Dead letters that nobody has looked after in time are discarded, with an entry in the audit trail."""

    def __init__(self, dialect: Dialect) -> None:
        held = delivery.c
        self._overdue = _Overdue(dialect, held.subscription_id, held.dead_since)
        old = sa.select(held.message_ordinal, held.subscription_id)
        old = old.where(held.subscription_id == _OWNER, held.dead_since <= _BEFORE, held.state == "dead")
        first = old.order_by(held.dead_since).limit(LIMIT).with_for_update(skip_locked=True).cte("over_now")
        self._plan = dialect.plan(drop_those(first, lambda _: sa.literal(_RETENTION, sa.Text())))

    def batch(self, connection: Connection) -> Swept:
        """The oldest of one subscription."""
        owner = next(self._overdue.those(connection, _subscriptions(connection, "dead_letter_retention_days")), None)
        if owner is None:
            return _NOTHING
        rows = self._plan.run(connection, _of(owner) | {"limit": _LETTERS})
        ids = [delivery_id(row.message_ordinal, row.subscription_id) for row in rows]
        warrant = Warrant(actor="towpath", reason=f"dead letters are kept for {owner.days} days")
        if ids:
            record(connection, warrant, "retention", owner.name, {"deliveries": ids})
        return Swept(count=len(rows), is_full=bool(rows), deliveries=rows, reason=_RETENTION, level=logging.WARNING)

    def overdue(self, connection: Connection) -> int:
        """See ``Retained``."""
        owners = _subscriptions(connection, "dead_letter_retention_days")
        return _counted(connection, owners, delivery.c.subscription_id, delivery.c.dead_since)


class Finished:
    """History that is older than its topic's retention goes, and with it the messages that have no delivery left."""

    def __init__(self, dialect: Dialect) -> None:
        row = history.c
        self._overdue = _Overdue(dialect, row.subscription_id, row.finished_at)
        self._plan = dialect.plan(_removal(history, row.subscription_id, row.finished_at))

    def batch(self, connection: Connection) -> Swept:
        """The oldest of each subscription, until the batch is full: one that always has some holds up no other."""
        owners = self._overdue.those(connection, _subscriptions(connection, "retention_days"))
        return _removed(_of_each(connection, self._plan, owners))

    def overdue(self, connection: Connection) -> int:
        """See ``Retained``."""
        owners = _subscriptions(connection, "retention_days")
        return _counted(connection, owners, history.c.subscription_id, history.c.finished_at)


class Unwanted:
    """Messages that no subscription wanted go when they are older than their topic's retention."""

    def __init__(self, dialect: Dialect) -> None:
        row = unwanted.c
        self._overdue = _Overdue(dialect, row.topic_id, row.published_at)
        self._plan = dialect.plan(_removal(unwanted, row.topic_id, row.published_at))

    def batch(self, connection: Connection) -> Swept:
        """The oldest of each topic, until the batch is full."""
        return _removed(_of_each(connection, self._plan, self._overdue.those(connection, _topics(connection))))

    def overdue(self, connection: Connection) -> int:
        """See ``Retained``."""
        return _counted(connection, _topics(connection), unwanted.c.topic_id, unwanted.c.published_at)


class Keys:
    """Deduplication keys whose window is over go. One that a publisher is just about to take anew is left alone."""

    def __init__(self, dialect: Dialect) -> None:
        row = deduplication.c
        over = sa.select(row.topic_id, row.key).where(row.expires_at <= moment()).order_by(row.expires_at)
        first = over.limit(LIMIT).with_for_update(skip_locked=True).cte("over_now")
        taken = sa.tuple_(row.topic_id, row.key).in_(sa.select(first.c.topic_id, first.c.key))
        self._remove = dialect.statement(sa.delete(deduplication).where(taken).returning(row.topic_id))

    def batch(self, connection: Connection) -> Swept:
        """Those whose windows ended first."""
        return _removed(len(self._remove.run(connection, {"limit": _ROWS}).all()))

    def overdue(self, connection: Connection) -> int:
        """See ``Retained``."""
        over = sa.select(sa.func.count()).select_from(deduplication).where(deduplication.c.expires_at <= moment())
        return int(connection.scalar(over) or 0)


# --- What they share ---------------------------------------------------------------------------------------------

_OWNER: Final = sa.bindparam("owner", type_=sa.Integer())
_BEFORE: Final = Later(moment(), -sa.bindparam("seconds", type_=sa.Float()))
_NOTHING: Final = Swept(count=0, is_full=False)


def _removal(table: sa.Table, owner: sa.Column[Any], since: sa.Column[Any]) -> Change:
    """The oldest rows of ``owner`` go, and the messages of those."""
    key = list(table.primary_key)
    old = sa.select(*key).where(owner == _OWNER, since <= _BEFORE).order_by(*key).limit(LIMIT)
    removed = sa.delete(table).where(sa.tuple_(*key).in_(old)).returning(table.c.message_ordinal)
    return Change(change=removed, then=[_without_messages])


def _without_messages(removed: FromClause) -> UpdateBase:
    kept = sa.exists().where(delivery.c.message_ordinal == message.c.ordinal)
    return sa.delete(message).where(message.c.ordinal.in_(sa.select(removed.c.message_ordinal)), ~kept)


def _of_each(connection: Connection, removal: Plan, owners: Iterator[_Kept]) -> int:
    """Remove what is overdue of one owner after the other, and no more than a batch; answers how many."""
    count = 0
    for owner in owners:
        count += len(removal.run(connection, _of(owner) | {"limit": _ROWS - count}))
        if count >= _ROWS:
            break
    return count


def _removed(count: int) -> Swept:
    return Swept(count=count, is_full=count >= _ROWS)


def _of(owner: _Kept) -> dict[str, Any]:
    return {"owner": owner.id, "seconds": owner.seconds}


def _subscriptions(connection: Connection, setting: str) -> list[_Kept]:
    """All subscriptions, removed ones too, with a setting of their own, or else of their topic."""
    query = sa.select(subscription.c.id, subscription.c.name, subscription.c.policy, topic.c.policy.label("topic"))
    rows = connection.execute(query.join(topic, topic.c.id == subscription.c.topic_id))
    return [_kept(row, row.topic if setting == "retention_days" else row.policy, setting) for row in rows]


def _topics(connection: Connection) -> list[_Kept]:
    rows = connection.execute(sa.select(topic.c.id, topic.c.name, topic.c.policy))
    return [_kept(row, row.policy, "retention_days") for row in rows]


def _counted(connection: Connection, owners: Sequence[_Kept], owner: sa.Column[Any], since: sa.Column[Any]) -> int:
    """How many rows the owners have that are older than these are kept."""
    old = sa.select(sa.func.count()).where(owner == _OWNER, since <= _BEFORE)
    return sum(int(connection.scalar(old, _of(one)) or 0) for one in owners)


def _kept(row: Any, policy: str, setting: str) -> _Kept:
    """Read from the text alone: a sweep goes on while another version of Towpath applies its topology."""
    return _Kept(id=row.id, name=row.name, days=int(json.loads(policy)[setting]))
