"""Counts of a database's deliveries: exact ones, and the bounded ones that a scaler asks for all the time.

The exact counts read the indexes of what waits and the rows of what is leased, delayed or dead, so they take the
longer the more there is. The bounded ones, and rates, read at most some thousands of entries for each subscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.dialects.columns import Later, Now, Only, moment
from local_transport.selecting import in_state
from local_transport.tables import delivery, history, lane, message, subscription, tally, topic, touched_lane
from towpath.operating import Backlog, SubscriptionStats

_LATELY: Final = 300.0  # seconds that a rate is of
_MOST_LATELY: Final = 10_000  # rows that a rate is reckoned from at most: the newest

CAP: Final = 1_000  # what a bounded count counts to
_LOOKED_AT: Final = 10 * CAP  # rows at most, of those that are not due, or that tell of lanes, to find what counts

_PRESENT: Final = subscription.c.removed_at.is_(None)


def stats(connection: Connection) -> list[SubscriptionStats]:
    """Every subscription, by name; the counts are exact, of one moment."""
    return [_stats(row) for row in connection.execute(_STATS)]


def backlog(connection: Connection, name: str | None = None) -> list[Backlog]:
    """Every subscription, by name, of one moment; or the one that is called ``name``."""
    wanted = _COUNTED if name is None else _COUNTED.where(subscription.c.name == name)
    counted = wanted.cte("counted").prefix_with("MATERIALIZED")  # else SQLite counts anew wherever a count is named
    figures = _figures(counted).order_by(counted.c.name)
    return [Backlog(**row._mapping) for row in connection.execute(figures)]


# --- Conditions, each in the words of an index -------------------------------------------------------------------

_HELD: Final = delivery.c
_OWN: Final = _HELD.subscription_id == subscription.c.id
_LOOSE: Final = sa.and_(_OWN, _HELD.lane.is_(None), _HELD.due_at.is_not(None))  # towpath_delivery_due
_EXCLUSIVE: Final = sa.and_(_OWN, _HELD.lane.is_not(None), ~_HELD.ordered, _HELD.due_at.is_not(None))
_ORDERED: Final = sa.and_(_OWN, _HELD.lane.is_not(None), _HELD.ordered)
_DEAD: Final = sa.and_(_OWN, _HELD.dead_since.is_not(None))
_LOOSE_LEASED: Final = sa.and_(_LOOSE, _HELD.due_at > moment(), in_state("leased"))  # due at its end at the earliest
_LANE_HELD: Final = sa.and_(
    lane.c.subscription_id == subscription.c.id, lane.c.held_ordinal.is_not(None), lane.c.due_at > moment()
)


def _count(table: sa.Table, where: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    counted = sa.select(sa.func.count()).select_from(table).where(where)
    return counted.correlate(subscription).scalar_subquery()


# --- Exact -------------------------------------------------------------------------------------------------------


def _finished(outcome: Literal["completed", "discarded"]) -> sa.ScalarSelect[int]:
    amount = sa.func.coalesce(sa.func.sum(tally.c.amount), 0)
    own = (tally.c.subscription_id == subscription.c.id, tally.c.outcome == outcome)
    return sa.select(amount).where(*own).correlate(subscription).scalar_subquery()


def _oldest() -> sa.ScalarSelect[int]:
    waits = sa.select(_HELD.message_ordinal).where(_OWN, in_state("pending")).order_by(_HELD.message_ordinal)
    first = waits.limit(1).correlate(subscription).scalar_subquery()
    return sa.select(message.c.published_at).where(message.c.ordinal == first).scalar_subquery()


def _oldest_dead() -> sa.ScalarSelect[datetime]:
    first = sa.select(_HELD.dead_since).where(_DEAD).order_by(_HELD.dead_since).limit(1)
    return first.correlate(subscription).scalar_subquery()


def _lately(since: sa.Column[Any], own: sa.ColumnElement[bool], meant: sa.ColumnElement[bool]) -> sa.FromClause:
    """The newest rows of the last minutes, no more of them than it takes to tell a rate."""
    ago = Later(moment(), sa.literal(-_LATELY, sa.Float()))
    rows = sa.select(since.label("at"), meant.label("meant")).where(own, since > ago)
    return rows.order_by(since.desc()).limit(_MOST_LATELY).correlate(subscription).subquery()


def _rate_columns(name: str, rows: sa.FromClause) -> Iterator[sa.Label[Any]]:
    counted = sa.select(sa.func.count()).select_from(rows)
    yield counted.scalar_subquery().label(f"{name}_seen")
    yield counted.where(rows.c.meant).scalar_subquery().label(f"{name}_lately")
    yield sa.select(sa.func.min(rows.c.at)).scalar_subquery().label(f"{name}_begun")


_RATES: Final = {
    "completed": _lately(
        history.c.finished_at, history.c.subscription_id == subscription.c.id, history.c.outcome == "completed"
    ),
    "dead": _lately(_HELD.dead_since, _DEAD, _HELD.dead_since.is_not(None)),
}


def _per_minute(row: Row[Any], name: str) -> float:
    """The rate of the last minutes, or of the shorter time that the newest rows are of."""
    seen, lately, since = (row._mapping[f"{name}_{part}"] for part in ("seen", "lately", "begun"))
    seconds = _LATELY if seen < _MOST_LATELY else max(1.0, (row.now - since).total_seconds())
    return float(round(60 * lately / seconds, 1))


def _stats_query() -> sa.Select[Any]:
    columns = (
        subscription.c.name,
        subscription.c.status,
        subscription.c.paused,
        topic.c.name.label("topic"),
        (_count(delivery, _LOOSE) + _count(delivery, _EXCLUSIVE) + _count(delivery, _ORDERED)).label("kept"),
        _count(delivery, sa.and_(_DEAD, _ORDERED)).label("dead_in_order"),
        (_count(delivery, _LOOSE_LEASED) + _count(lane, _LANE_HELD)).label("leased"),
        _count(delivery, _DEAD).label("dead"),
        _finished("completed").label("completed"),
        _finished("discarded").label("discarded"),
        _oldest().label("published_at"),
        _oldest_dead().label("dead_since"),
        *(column for name, rows in _RATES.items() for column in _rate_columns(name, rows)),
        sa.select(Now()).scalar_subquery().label("now"),
    )
    source = subscription.join(topic, topic.c.id == subscription.c.topic_id)
    return sa.select(*columns).select_from(source).where(_PRESENT).order_by(subscription.c.name)


_STATS: Final = _stats_query()


def _stats(row: Row[Any]) -> SubscriptionStats:
    return SubscriptionStats(
        subscription=row.name,
        topic=row.topic,
        pending=row.kept - row.dead_in_order - row.leased,
        leased=row.leased,
        dead=row.dead,
        completed=int(row.completed),
        discarded=int(row.discarded),
        oldest_pending=_age(row.published_at, row.now),
        status="paused" if row.paused and row.status == "active" else row.status,
        oldest_dead=_age(row.dead_since, row.now),
        completed_per_minute=_per_minute(row, "completed"),
        dead_per_minute=_per_minute(row, "dead"),
    )


def _age(since: datetime | None, now: datetime) -> timedelta | None:
    return None if since is None else max(timedelta(0), now - since)


# --- Bounded -----------------------------------------------------------------------------------------------------


def _of_first(some: sa.Select[Any], most: int, where: str | None = None) -> sa.ScalarSelect[int]:
    """How many rows the first ``most`` of ``some`` are, or how many of these have their column ``where``."""
    first = some.limit(most).correlate(subscription).subquery()
    counted = sa.select(sa.func.count()).select_from(first)
    return (counted if where is None else counted.where(first.c[where])).scalar_subquery()


def _due() -> sa.Select[Any]:
    return sa.select(_HELD.message_ordinal).where(_LOOSE, _HELD.due_at <= moment()).order_by(_HELD.due_at)


def _due_lanes() -> sa.Select[Any]:
    return sa.select(lane.c.lane).where(_OWN_LANE, lane.c.due_at <= moment()).order_by(lane.c.due_at)


def _touches() -> sa.Select[Any]:
    row = touched_lane.c
    own = Only(row.subscription_id, subscription.c.id)
    return sa.select(row.subscription_id, row.lane).where(own).order_by(row.subscription_id, row.id)


def _touched_lanes() -> sa.Select[Any]:
    """Lanes that somebody touched: not counted are those that are due, and those that somebody holds.

    Where no worker runs, each publish leaves a touch, so only the first ones are looked at.
    """
    row = _touches().limit(_LOOKED_AT).correlate(subscription).subquery("touches").c
    known = lane.alias("known")
    same = (known.c.subscription_id == row.subscription_id, known.c.lane == row.lane)
    counted_or_held = sa.exists().where(*same, sa.or_(known.c.due_at <= moment(), known.c.held_ordinal.is_not(None)))
    return sa.select(row.lane).where(~counted_or_held).group_by(row.lane)


def _not_due() -> sa.Select[Any]:
    leased = in_state("leased").label("leased")
    return sa.select(leased).where(_LOOSE, _HELD.due_at > moment()).order_by(_HELD.due_at)


def _lanes_not_due() -> sa.Select[Any]:
    leased = lane.c.held_ordinal.is_not(None).label("leased")
    return sa.select(leased).where(_OWN_LANE, lane.c.due_at > moment()).order_by(lane.c.due_at)


def _counted() -> sa.Select[Any]:
    columns = (
        subscription.c.name,
        sa.and_(subscription.c.status == "active", ~subscription.c.paused).label("is_served"),
        *(_of_first(some, CAP + 1).label(name) for name, some in _CLAIMABLE.items()),
        _of_first(_touches(), _LOOKED_AT).label("touches"),
        *(_of_first(some, _LOOKED_AT).label(f"{name}_looked_at") for name, some in _IN_FLIGHT.items()),
        *(_of_first(some, _LOOKED_AT, "leased").label(name) for name, some in _IN_FLIGHT.items()),
    )
    return sa.select(*columns).where(_PRESENT)


def _figures(counted: sa.FromClause) -> sa.Select[Any]:
    """The columns of a ``Backlog``, made of what was counted."""
    row = counted.c
    claimable = sa.case((row.is_served, sum(row[name] for name in _CLAIMABLE)), else_=0)
    in_flight = sum((row[name] for name in _IN_FLIGHT), sa.literal(0))
    untold = sa.and_(row.is_served, row.touches == _LOOKED_AT)
    unseen = sa.or_(*(row[f"{name}_looked_at"] == _LOOKED_AT for name in _IN_FLIGHT))
    return sa.select(
        row.name.label("subscription"),
        sa.case((claimable > CAP, CAP), else_=claimable).label("claimable"),
        sa.case((in_flight > CAP, CAP), else_=in_flight).label("in_flight"),
        sa.or_(claimable > CAP, untold).label("claimable_capped"),
        sa.or_(in_flight > CAP, unseen).label("in_flight_capped"),
    )


_OWN_LANE: Final = lane.c.subscription_id == subscription.c.id
_CLAIMABLE: Final = {"due": _due(), "due_lanes": _due_lanes(), "touched_lanes": _touched_lanes()}
_IN_FLIGHT: Final = {"leased": _not_due(), "held_lanes": _lanes_not_due()}
_COUNTED: Final = _counted()

BACKLOG_VIEW: Final = _figures(_COUNTED.subquery("counted"))
"""The columns of a ``Backlog`` for every subscription, for a view: a condition on one counts for that one alone."""
