"""The operator's view: counts and dead letters."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Row

from local_transport.applied import TopologyReader, unknown_subscription
from local_transport.claims import delivery_id
from local_transport.connections import Database
from local_transport.dialects.columns import Now, as_shown, moment
from local_transport.tables import delivery, delivery_detail, message, subscription, tally, topic
from towpath.ports import DeadLetterEntry, SubscriptionStats


class DatabaseOperator:
    """Looks after the subscriptions of one database. Thread-safe."""

    def __init__(self, database: Database, reader: TopologyReader) -> None:
        self._database = database
        self._reader = reader

    def stats(self) -> list[SubscriptionStats]:
        """Every subscription, by name; the counts are exact, of one moment. Raises ``TransportUnavailable``.

        A lease whose time is over counts as pending, since nobody is known to work on it.
        """
        with self._database.reading() as connection:
            return [_stats(row) for row in connection.execute(_STATS)]

    def dead_letters(self, subscription: str, limit: int) -> list[DeadLetterEntry]:
        """At most ``limit`` dead letters, those dead for longest first. Raises ``SubscriptionNotFound``."""
        with self._database.reading() as connection:
            known = self._reader.current(connection).subscriptions
            if subscription not in known:
                raise unknown_subscription(subscription, known)
            parameters = {"wanted": known[subscription].id, "limit": limit}
            return [_entry(subscription, row) for row in connection.execute(_DEAD_LETTERS, parameters)]


def _counts() -> sa.Subquery:
    held = delivery.c
    waits = sa.or_(held.state == "pending", sa.and_(held.state == "leased", held.lease_expires_at <= moment()))
    works = sa.and_(held.state == "leased", held.lease_expires_at > moment())
    return (
        sa.select(
            held.subscription_id,
            sa.func.count().filter(waits).label("pending"),
            sa.func.count().filter(works).label("leased"),
            sa.func.count().filter(held.state == "dead").label("dead"),
            sa.func.min(held.message_ordinal).filter(waits).label("oldest"),
        )
        .group_by(held.subscription_id)
        .subquery("counts")
    )


def _finished() -> sa.Subquery:
    amounts = {
        outcome: sa.func.sum(tally.c.amount).filter(tally.c.outcome == outcome).label(outcome)
        for outcome in ("completed", "discarded")
    }
    return sa.select(tally.c.subscription_id, *amounts.values()).group_by(tally.c.subscription_id).subquery("finished")


def _stats_query() -> sa.Select[Any]:
    counts, finished = _counts(), _finished()
    source = (
        subscription.join(topic, topic.c.id == subscription.c.topic_id)
        .outerjoin(counts, counts.c.subscription_id == subscription.c.id)
        .outerjoin(finished, finished.c.subscription_id == subscription.c.id)
        .outerjoin(message, message.c.ordinal == counts.c.oldest)
    )
    columns = (
        subscription.c.name,
        topic.c.name.label("topic"),
        counts.c.pending,
        counts.c.leased,
        counts.c.dead,
        finished.c.completed,
        finished.c.discarded,
        message.c.published_at,
        sa.select(Now()).scalar_subquery().label("now"),
    )
    present = subscription.c.removed_at.is_(None)
    return sa.select(*columns).select_from(source).where(present).order_by(subscription.c.name)


def _dead_letter_query() -> sa.Select[Any]:
    held, detail = delivery.c, delivery_detail.c
    same = sa.and_(detail.message_ordinal == held.message_ordinal, detail.subscription_id == held.subscription_id)
    source = delivery.join(message, message.c.ordinal == held.message_ordinal).outerjoin(delivery_detail, same)
    columns = (
        held.message_ordinal,
        held.subscription_id,
        held.attempt,
        held.dead_since,
        message.c.id,
        message.c.body,
        detail.reason,
        detail.error_type,
        detail.error_message,
        detail.error_traceback,
    )
    wanted = (held.subscription_id == sa.bindparam("wanted"), held.dead_since.is_not(None))
    oldest_first = (
        sa.select(*columns).select_from(source).where(*wanted).order_by(held.dead_since, held.message_ordinal)
    )
    return oldest_first.limit(sa.bindparam("limit", type_=sa.Integer()))


_STATS: Final = _stats_query()
_DEAD_LETTERS: Final = _dead_letter_query()


def _stats(row: Row[Any]) -> SubscriptionStats:
    oldest = None if row.published_at is None else max(timedelta(0), row.now - row.published_at)
    return SubscriptionStats(
        subscription=row.name,
        topic=row.topic,
        pending=row.pending or 0,
        leased=row.leased or 0,
        dead=row.dead or 0,
        completed=int(row.completed or 0),
        discarded=int(row.discarded or 0),
        oldest_pending=oldest,
    )


def _entry(subscription_name: str, row: Row[Any]) -> DeadLetterEntry:
    return DeadLetterEntry(
        delivery_id=delivery_id(row.message_ordinal, row.subscription_id),
        subscription=subscription_name,
        message_id=row.id,
        reason=row.reason or "",
        error=_error(row),
        attempts=row.attempt,
        dead_since=row.dead_since,
        body=as_shown(row.body),
    )


def _error(row: Row[Any]) -> str:
    """The last error: type and message in the first line, then the traceback."""
    if row.error_type is None:
        return ""
    sentence = f"{row.error_type}: {row.error_message}" if row.error_message else row.error_type
    return f"{sentence}\n{row.error_traceback}" if row.error_traceback else str(sentence)
