"""Claiming from a partitioned subscription: one delivery of each lane that is due, and what has no key beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.claims import Claims, due_deliveries
from local_transport.connections import Database
from local_transport.details import ended_by_lease
from local_transport.dialects.columns import LIMIT, Among, Later, Moment, Now, moment
from local_transport.dialects.port import Change, Choice, Rows
from local_transport.front import Front, Walk, front_for
from local_transport.lanes import Emptied, LaneMode, Lanes, TouchedLanes, is_touched, next_due
from local_transport.leasing import SUBSCRIPTION, Claimed, Leasing, claimable, first_due, with_message
from local_transport.tables import lane
from towpath.backoff import Random

_FRONT: Final = sa.bindparam("lane_front", type_=Moment())
_AGAIN_SECONDS: Final = 0.1  # when a lane is looked at again that had nothing due and could not be set right


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What a look at the lanes brought: deliveries, how many lanes had none, or are due after all, and what else there
    is to do.
    """

    claimed: Claimed
    emptied: int
    freed: int
    touched: bool
    unlaned: bool


class PartitionedClaims:
    """Claims from the lanes of one subscription, and its deliveries without a key like those of mode ``none``.

    While both have more than is asked for they take turns, so that neither starves. Thread-safe.
    """

    def __init__(
        self,
        database: Database,
        applied: AppliedSubscription,
        random: Random,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unlaned = Claims(database, applied, random, monotonic)
        own_front = front_for(database.dialect, monotonic)
        self._lanes = LaneClaims(database, applied, Leasing(applied, random), self._unlaned.front, own_front)
        self._touched = TouchedLanes(database)
        self._id = applied.id
        self._unlaned_first = False

    def claim(self, limit: int) -> Claimed:
        """At most ``limit`` deliveries, leased from now on, no two of one key. Raises ``TransportUnavailable``.

        What became visible after others that were due later may be left out for a while.
        """
        return self._claim(limit, self._lanes.claim, self._unlaned.claim)

    def claim_all(self, limit: int) -> Claimed:
        """The same, and nothing is left out."""
        return self._claim(limit, self._lanes.claim_all, self._unlaned.claim_all)

    def _claim(
        self, limit: int, from_lanes: Callable[[int], _Found], from_unlaned: Callable[[int], Claimed]
    ) -> Claimed:
        claimed = Claimed()
        if self._unlaned_first:
            self._unlaned_first = False
            claimed += from_unlaned(limit)
        while claimed.count < limit:
            found = from_lanes(limit - claimed.count)
            claimed += found.claimed
            woken = self._touched.waken(self._id) if found.touched else 0
            if found.unlaned and claimed.count < limit:
                claimed += from_unlaned(limit - claimed.count)
            elif found.unlaned:
                self._unlaned_first = True
            if not (found.freed or woken or found.emptied):
                break
        return claimed


class LaneClaims:
    """Claims the next delivery of each due lane, in one statement. Thread-safe.

    It locks the lanes that are due longest and that nobody else locks, looks up the next delivery of each, leases it,
    and has its lane due again at the end of the lease. A lane without a delivery to hand out is set right afterwards.
    """

    def __init__(
        self, database: Database, applied: AppliedSubscription, leasing: Leasing, unlaned: Front, front: Front
    ) -> None:
        """``unlaned`` is the front of the claims beside it, ``front`` is its own."""
        self._database = database
        self._id = applied.id
        self._mode: LaneMode = "ordered" if applied.policy.partition_mode == "ordered" else "exclusive"
        self._leasing = leasing
        self._unlaned_front, self._front = unlaned, front
        self._lanes = Lanes(database)
        self._plan = database.dialect.plan(Choice(choose=self._due_lanes(), change=self._leasing_of))
        self._look = database.dialect.statement(sa.select(sa.or_(_due().exists(), *_others())))

    def claim(self, limit: int) -> _Found:
        """From at most ``limit`` lanes. Raises ``TransportUnavailable``.

        What became due late may be left out for a while.
        """
        return self._claim(limit, self._front.walk(), self._unlaned_front.walk())

    def claim_all(self, limit: int) -> _Found:
        """The same, and nothing is left out."""
        return self._claim(limit, self._front.whole_walk(), self._unlaned_front.whole_walk())

    def _claim(self, limit: int, walk: Walk, beside: Walk) -> _Found:
        parameters = self._leasing.parameters(limit) | {"lane_front": walk.start, "front": beside.start}
        if self._database.dialect.looks_before_it_locks and not self._anything_to_do(parameters):
            return _NOTHING
        rows, freed = self._lanes.change(self._plan, parameters, self._emptied)
        self._front.walked(walk, first_due(rows))
        return _Found(
            emptied=len(self._emptied(rows).lanes),
            claimed=self._leasing.claimed([row for row in rows if row.state is not None]),
            freed=freed,
            touched=rows[0].touched,
            unlaned=rows[0].unlaned,
        )

    def _anything_to_do(self, parameters: Mapping[str, Any]) -> bool:
        with self._database.reading() as connection:
            return bool(self._look.run(connection, parameters).scalar_one())

    def _emptied(self, rows: Rows) -> Emptied:
        empty = [row.chosen_lane for row in rows if row.chosen_lane is not None and row.state is None]
        return Emptied(subscription_id=self._id, mode=self._mode, lanes=empty)

    def _due_lanes(self) -> sa.Select[Any]:
        """The lanes that are due longest, locked, each with the ordinal of its next delivery where there is one."""
        due = _due(lane.c.subscription_id, lane.c.lane, lane.c.due_at).order_by(lane.c.due_at).limit(LIMIT)
        locked = due.with_for_update(skip_locked=True, key_share=True, of=lane).cte("due_lanes")
        ordinal = next_due(self._mode, locked).label("message_ordinal")
        return sa.select(locked.c.subscription_id, locked.c.lane, locked.c.due_at, ordinal)

    def _leasing_of(self, chosen: FromClause) -> Change:
        dialect, ordinal = self._database.dialect, chosen.c.message_ordinal
        return Change(
            change=self._leasing.lease(chosen),
            keyed=self._leasing.keyed(sa.select(ordinal).where(ordinal.is_not(None))),
            then=[lambda leased: ended_by_lease(dialect, leased), lambda leased: self._moved(chosen, leased)],
            read=lambda leased: _rows(chosen, leased),
        )

    def _moved(self, chosen: FromClause, leased: FromClause) -> UpdateBase:
        """The lanes, held until the lease ends. Behind what became dead an exclusive lane goes on, an ordered waits.

        One that had nothing due will soon be looked at again, should nobody be able to set it right.
        """
        own = (chosen.c.lane, *(leased.c[name] for name in _OF_LEASE))
        same = leased.c.message_ordinal == chosen.c.message_ordinal
        moved = sa.select(*own).select_from(chosen.outerjoin(leased, same)).subquery("moved").c
        after_dead = sa.null() if self._mode == "ordered" else Now()
        due = sa.case(
            (moved.state == "leased", sa.type_coerce(moved.lease_expires_at, Moment())),
            (moved.state == "dead", after_dead),
            else_=Later(Now(), sa.literal(_AGAIN_SECONDS)),
        )
        held = sa.case((moved.state == "leased", moved.message_ordinal), else_=sa.null())
        mine = (lane.c.subscription_id == SUBSCRIPTION, Among(lane.c.lane, sa.select(chosen.c.lane).scalar_subquery()))
        return sa.update(lane).values(due_at=due, held_ordinal=held).where(*mine, lane.c.lane == moved.lane)


def _due(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """``columns`` of the lanes that a claim may look at, from the front on, if the subscription may be claimed from."""
    own = (lane.c.subscription_id == SUBSCRIPTION, lane.c.due_at >= _FRONT, lane.c.due_at <= moment())
    return sa.select(*columns or [sa.literal_column("1")]).where(*own, claimable())


def _others() -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Whether any lane was touched, and whether any delivery without a lane is due."""
    return is_touched(SUBSCRIPTION), due_deliveries(sa.literal_column("1")).exists()


def _rows(chosen: FromClause, leased: FromClause) -> sa.Select[Any]:
    """A row for each chosen lane, with its delivery where it had one; at least one, for what is said of the others."""
    touched, unlaned = _others()
    others = sa.select(touched.label("touched"), unlaned.label("unlaned")).subquery("others")
    same = leased.c.message_ordinal == chosen.c.message_ordinal
    source = others.outerjoin(chosen, sa.true()).outerjoin(leased, same)
    joined, columns = with_message(leased, source)
    of_lane = (chosen.c.lane.label("chosen_lane"), sa.type_coerce(chosen.c.due_at, Moment()).label("was_due_at"))
    return sa.select(*columns, *others.c, *of_lane).select_from(joined).order_by(leased.c.message_ordinal)


_OF_LEASE: Final = ("state", "lease_expires_at", "message_ordinal")
_NOTHING: Final = _Found(claimed=Claimed(), emptied=0, freed=0, touched=False, unlaned=False)
