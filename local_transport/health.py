"""A check-up of a database: its clock, leases that nobody ended, stuck lanes, dead letters, the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.connections import Database
from local_transport.dialects.columns import Later, Now, moment
from local_transport.dialects.health import Finding, Limits
from local_transport.lanes import touch
from local_transport.tables import delivery, lane, subscription, touched_lane
from towpath.message import utc_now

_COUNTED: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckUp:
    """Looks a database over. ``clock`` is this machine's, which workers log by."""

    database: Database
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], datetime] = utc_now

    def findings(self) -> list[Finding]:
        """Everything worth telling, what concerns deliveries first. Changes nothing; the tables must be current."""
        with self.database.reading() as connection:
            return [
                *self._clock(connection),
                *_leases(connection, self.limits),
                *_lanes(connection),
                *_dead_letters(connection, self.limits),
                *self.database.dialect.examine(connection, self.limits),
            ]

    def _clock(self, connection: Connection) -> Iterator[Finding]:
        """The difference is judged from the middle of the question, and by no less than what that took."""
        asked = self.clock()
        told: datetime = connection.execute(sa.select(Now())).scalar_one()
        answered = self.clock()
        took = answered - asked
        ahead = (told - (asked + took / 2)).total_seconds()
        if abs(ahead) - took.total_seconds() / 2 > self.limits.clock_seconds:
            side = "ahead of" if ahead > 0 else "behind"
            yield Finding(
                code="clock",
                problem=f"the database's clock is {abs(ahead):,.0f} s {side} this machine's; leases, delays and expiry "
                "go by the database's, so they are right, but times in logs and published_at do not fit together",
                repair="keep both in step by NTP",
            )


def wake_lanes(database: Database) -> int:
    """Have claims look at every lane that ``stuck`` deliveries are in; answers how many deliveries that are."""
    with database.writing() as connection:
        found = _stuck().subquery("stuck_now")
        count = int(connection.execute(sa.select(sa.func.count()).select_from(found)).scalar_one())
        connection.execute(touch(_stuck().cte("stuck")))
        return count


# --- Leases ------------------------------------------------------------------------------------------------------


def _leases(connection: Connection, limits: Limits) -> Iterator[Finding]:
    held = delivery.c
    late = Later(moment(), sa.literal(-limits.late_seconds, sa.Float()))
    minutes = f"{limits.late_seconds / 60:,.0f} minutes"
    unswept = _count(connection, sa.select(held.message_ordinal).where(held.ends_at <= late, held.state == "leased"))
    if unswept:
        yield Finding(
            code="sweep",
            problem=f"the leases of {unswept} deliveries on their last attempt, or cancelled, ended more than "
            f"{minutes} ago, and no sweep has ended them",
            repair="run a worker on this database: each sweeps once a minute ('towpath work')",
        )
    served = sa.and_(subscription.c.status == "active", ~subscription.c.paused, subscription.c.removed_at.is_(None))
    over = sa.and_(held.state == "leased", held.due_at <= late, held.ends_at.is_(None), held.lease_expires_at <= late)
    waiting = sa.select(subscription.c.name, sa.func.count().label("count")).where(served, over)
    of_served = waiting.join_from(subscription, delivery, held.subscription_id == subscription.c.id)
    for row in connection.execute(of_served.group_by(subscription.c.name).order_by(subscription.c.name)):
        yield Finding(
            code="leases",
            problem=f"the leases of {row.count} deliveries of {row.name!r} ended more than {minutes} ago, and no "
            "worker has taken them up again",
            repair=f"run a worker, or more of them: towpath work {row.name}",
        )


# --- Lanes -------------------------------------------------------------------------------------------------------


def _lanes(connection: Connection) -> Iterator[Finding]:
    stuck = _count(connection, _stuck())
    if stuck:
        yield Finding(
            code="lanes",
            problem=f"{stuck} deliveries wait in lanes that no claim will look at, which must not be",
            repair="'towpath db check --wake-lanes' has claims look at them; please report it",
        )


def _stuck() -> sa.Select[Any]:
    """Open deliveries in lanes that have no row, or a row that is blocked although no dead letter is at its head."""
    held, row, touch_of = delivery.c, lane.c, touched_lane.c
    first = delivery.alias("first")
    in_line = (first.c.subscription_id == held.subscription_id, first.c.lane == held.lane, first.c.ordered)
    head = sa.select(first.c.state).where(*in_line).order_by(first.c.message_ordinal).limit(1).scalar_subquery()
    same = (row.subscription_id == held.subscription_id, row.lane == held.lane)
    looked_at = sa.exists().where(*same, row.due_at.is_not(None))
    blocked = sa.exists().where(*same, row.due_at.is_(None))
    touched = sa.exists().where(touch_of.subscription_id == held.subscription_id, touch_of.lane == held.lane)
    rightly_blocked = sa.and_(held.ordered, blocked, head == "dead")
    waits = sa.select(held.subscription_id, held.lane).where(held.lane.is_not(None), held.due_at.is_not(None))
    return waits.where(~looked_at, ~touched, ~rightly_blocked)


# --- Dead letters ------------------------------------------------------------------------------------------------


def _dead_letters(connection: Connection, limits: Limits) -> Iterator[Finding]:
    held = delivery.c
    own = (held.subscription_id == subscription.c.id, held.dead_since.is_not(None))
    oldest = sa.select(sa.func.min(held.dead_since)).where(*own).correlate(subscription).scalar_subquery()
    query = sa.select(
        subscription.c.id,
        subscription.c.name,
        subscription.c.policy,
        oldest.label("oldest"),
        sa.select(Now()).scalar_subquery().label("now"),
    )
    for row in connection.execute(query.order_by(subscription.c.name)).all():
        if row.oldest is None:
            continue
        kept = timedelta(days=int(json.loads(row.policy)["dead_letter_retention_days"]))
        age: timedelta = row.now - row.oldest
        if age > min(timedelta(days=limits.letter_days), kept / 2):
            letters = _count(connection, sa.select(held.message_ordinal).where(held.subscription_id == row.id, own[1]))
            yield _forgotten(row.name, letters, age, kept - age)


def _forgotten(name: str, letters: str, age: timedelta, left: timedelta) -> Finding:
    goes = "is removed by the next sweep" if left <= timedelta(0) else f"is removed in {left.days} days"
    return Finding(
        code="dead-letters",
        problem=f"{name!r} has {letters} dead letters, the oldest for {age.days} days; it {goes}",
        repair=f"look at them (towpath dead-letters list {name}), then replay or discard them",
    )


def _count(connection: Connection, query: sa.Select[Any]) -> str:
    """How many rows there are, in words; empty when there are none. Counts to 1,000."""
    some = query.limit(_COUNTED + 1).subquery()
    count = int(connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one())
    return "" if count == 0 else f"more than {_COUNTED:,}" if count > _COUNTED else f"{count:,}"
