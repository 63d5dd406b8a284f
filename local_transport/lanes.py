"""Lanes: one row for each busy partition key of a partitioned subscription.

Whoever holds the row of a lane, which is locked for one short statement, hands out its deliveries or settles the one
that is out. A lane's ``due_at`` is when a claim looks at it: to look too often is harmless, never to look is not. So
it is put off, or the row removed, only by ``Lanes``: under the row's full lock, which it does not
get while a publisher holds the lane, and by a second statement, which sees everything committed until then.

Who changes deliveries without holding their lane (an operator, a publisher in somebody's open transaction) says so
with ``touch``. Locks are taken in this order by all: lanes in sorted order, then deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import Insert, UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.connections import Database
from local_transport.dialects import Dialect
from local_transport.dialects.columns import Among, Now, moment
from local_transport.dialects.port import Change, Plan, Rows
from local_transport.tables import delivery, lane, touched_lane
from towpath.errors import TransportRejected, TransportUnavailable

LaneMode = Literal["exclusive", "ordered"]
_MODES: Final[tuple[LaneMode, ...]] = get_args(LaneMode)

_LANE_KEY: Final = ("subscription_id", "lane")
_SUBSCRIPTION: Final = sa.bindparam("subscription", type_=sa.Integer())
_TOUCHED: Final = 1_000  # rows taken at once


def lane_of(partition_key: str) -> int:
    """The lane of a partition key: 64 bits of a hash, so that two keys rarely share one, and then merely wait."""
    return int.from_bytes(blake2b(partition_key.encode(), digest_size=8).digest(), "big", signed=True)


def touch(rows: FromClause) -> Insert:
    """Have the next claim look at the lanes of ``rows`` (``subscription_id``, ``lane``; no lane is left out).

    To be run in the transaction that changed their deliveries, in whatever way: it waits for nobody, and nobody waits
    for that transaction.
    """
    source = sa.select(rows.c.subscription_id, rows.c.lane).where(rows.c.lane.is_not(None))
    return touched_lane.insert().from_select(list(_LANE_KEY), source.distinct())


def is_touched(subscription_id: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Whether any lane of the subscription was touched and not looked at since."""
    return sa.exists().where(touched_lane.c.subscription_id == subscription_id)


# --- Which delivery of a lane is next ----------------------------------------------------------------------------


def in_lane(mode: LaneMode, of: FromClause) -> list[sa.ColumnElement[bool]]:
    """The deliveries of the lane in ``of`` that are in its way or to be handed out: open ones, and ordered dead ones.

    Each mode has an index over exactly these, in the order in which they are handed out.
    """
    held = delivery.c
    same = [held.subscription_id == of.c.subscription_id, held.lane == of.c.lane]
    if mode == "ordered":
        return [*same, held.ordered]
    return [*same, ~held.ordered, held.due_at.is_not(None)]


def first_in_lane(
    mode: LaneMode, column: sa.ColumnElement[Any], where: Iterable[sa.ColumnElement[bool]]
) -> sa.Select[Any]:
    """``column`` of the first delivery: in ordered lanes by its place, in exclusive lanes by its due time."""
    held = delivery.c
    order = [held.message_ordinal] if mode == "ordered" else [held.due_at, held.message_ordinal]
    return sa.select(column).where(*where).order_by(*order).limit(1)


def next_due(mode: LaneMode, of: FromClause) -> sa.ScalarSelect[int]:
    """The ordinal of the delivery to hand out, its row locked; null when there is none now.

    Exclusive: the first that is due; those in back-off do not hold their key. Ordered: the head, if it is due: one that
    is dead or waits holds its key.
    """
    held = delivery.c
    if mode == "ordered":
        if_due = sa.case((held.due_at <= moment(), held.message_ordinal))
        found = first_in_lane(mode, if_due, in_lane(mode, of))
    else:
        found = first_in_lane(mode, held.message_ordinal, [*in_lane(mode, of), held.due_at <= moment()])
    return found.with_for_update(key_share=True, of=delivery).scalar_subquery()


def other_is_due(changed: FromClause) -> sa.Exists:
    """Whether the exclusive lane of a changed delivery has another that is due."""
    others = (delivery.c.due_at <= moment(), delivery.c.message_ordinal != changed.c.message_ordinal)
    return sa.exists().where(*in_lane("exclusive", changed), *others)


def follower_is_due(gone: FromClause) -> sa.ColumnElement[bool]:
    """Whether the delivery behind the head that is gone from an ordered lane is due."""
    behind = [*in_lane("ordered", gone), delivery.c.message_ordinal > gone.c.message_ordinal]
    is_due = first_in_lane("ordered", delivery.c.due_at <= moment(), behind).scalar_subquery()
    return sa.func.coalesce(is_due, sa.false())


# --- Lanes that may have nothing to hand out ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptied:
    """Lanes of one subscription that seem to have nothing due now."""

    subscription_id: int
    mode: LaneMode
    lanes: Sequence[int]


class Lanes:
    """Changes that may leave lanes with nothing due, and setting such lanes right afterwards. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rules = {mode: _Tidying(database.dialect, mode) for mode in _MODES}

    def change(self, plan: Plan, parameters: Mapping[str, Any], emptied: Callable[[Rows], Emptied]) -> tuple[Rows, int]:
        """Run ``plan``, then put off, block or remove the lanes that it ``emptied``, or make them due once more.

        Answers what the plan does, and how many lanes are due. Where a change keeps all others from writing both is
        one transaction. Else it takes a second one, since a lane is judged by what is committed while it is locked.
        """
        alone = self._database.dialect.looks_before_it_locks
        due = 0
        with self._database.changing() as connection:
            rows = plan.run(connection, parameters)
            empty = emptied(rows)
            if alone and empty.lanes:
                due = self._rules[empty.mode].tidy(connection, empty)
        if empty.lanes and not alone:
            due = self._tidy(empty)
        return rows, due

    def _tidy(self, emptied: Emptied) -> int:
        """Should that fail, the lanes are due, and the next claim sees to them."""
        try:
            with self._database.writing() as connection:
                return self._rules[emptied.mode].tidy(connection, emptied)
        except (TransportRejected, TransportUnavailable):
            return 0


class _Tidying:
    """The statements that set lanes of one mode right."""

    def __init__(self, dialect: Dialect, mode: LaneMode) -> None:
        self._asked = dialect.batch("asked", {"lane": sa.BigInteger()})
        self._lock = dialect.statement(self._locking())
        self._remove = dialect.statement(self._removal(mode))
        self._put_off = dialect.statement(self._putting_off(mode))

    def tidy(self, connection: Connection, emptied: Emptied) -> int:
        """Set right each lane that nobody locks; answers how many are due now.

        One that is locked stays as it is, so that a claim looks at it: a publisher is about to add to it.
        """
        of = {"subscription": emptied.subscription_id}
        asked = self._asked.bind([(lane,) for lane in sorted(emptied.lanes)])
        locked = [(row.lane,) for row in self._lock.run(connection, asked | of)]
        if not locked:
            return 0
        mine = self._asked.bind(locked) | of
        removed = len(self._remove.run(connection, mine).all())
        if removed == len(locked):
            return 0
        return sum(row.is_due for row in self._put_off.run(connection, mine))

    def _locking(self) -> sa.Select[Any]:
        """Not those that a claim has taken meanwhile."""
        free = sa.or_(lane.c.held_ordinal.is_(None), lane.c.due_at <= moment())
        found = sa.select(lane.c.lane).where(self._mine(), free).order_by(lane.c.lane)
        return found.with_for_update(skip_locked=True, of=lane)

    def _mine(self) -> sa.ColumnElement[bool]:
        wanted = Among(lane.c.lane, sa.select(self._asked.rows.c.lane).scalar_subquery())
        return sa.and_(lane.c.subscription_id == _SUBSCRIPTION, wanted)

    def _removal(self, mode: LaneMode) -> UpdateBase:
        left = sa.exists().where(*in_lane(mode, lane))
        return sa.delete(lane).where(self._mine(), ~left).returning(lane.c.lane)

    def _putting_off(self, mode: LaneMode) -> UpdateBase:
        first = first_in_lane(mode, delivery.c.due_at, in_lane(mode, lane)).scalar_subquery()
        due = sa.case((first <= moment(), Now()), else_=first)  # to the present: in turn with the others
        is_due = sa.case((lane.c.due_at <= Now(), 1), else_=0).label("is_due")
        return sa.update(lane).values(due_at=due, held_ordinal=None).where(self._mine()).returning(is_due)


class TouchedLanes:
    """Makes touched lanes due, and makes those that are missing. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._plan = database.dialect.plan(Change(change=self._take(), then=[self._waken]))

    def waken(self, subscription_id: int) -> int:
        """Do so for the lanes touched first; answers how many touches that were. Raises ``TransportUnavailable``."""
        parameters = {"subscription": subscription_id}
        with self._database.changing() as connection:
            return len(self._plan.run(connection, parameters))

    def _take(self) -> UpdateBase:
        first = (
            sa.select(touched_lane.c.id)
            .where(touched_lane.c.subscription_id == _SUBSCRIPTION)
            .order_by(touched_lane.c.id)
            .limit(sa.literal(_TOUCHED, literal_execute=True))
            .with_for_update(skip_locked=True)
        )
        taken = sa.delete(touched_lane).where(touched_lane.c.id.in_(first))
        return taken.returning(touched_lane.c.subscription_id, touched_lane.c.lane)

    def _waken(self, taken: FromClause) -> UpdateBase:
        """A lane that is held is left alone: whoever settles its delivery sees what was added."""
        lanes = sa.select(taken.c.subscription_id, taken.c.lane, Now()).where(sa.true())
        lanes = lanes.group_by(taken.c.subscription_id, taken.c.lane).order_by(taken.c.lane)
        insert = self._database.dialect.insert(lane).from_select([*_LANE_KEY, "due_at"], lanes)
        sleeps = sa.or_(lane.c.due_at.is_(None), lane.c.due_at > Now())
        return insert.on_conflict_do_update(
            index_elements=list(_LANE_KEY),
            set_={"due_at": insert.excluded.due_at},
            where=sa.and_(lane.c.held_ordinal.is_(None), sleeps),
        )
