"""Making deliveries of what is published, and having claims look at their lanes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.checking import Draft
from local_transport.dialects import Dialect
from local_transport.dialects.columns import Moment, Now, moment
from local_transport.dialects.port import Change, Choice, Columns
from local_transport.lanes import lane_of, touch
from local_transport.tables import delivery, lane

_ROWS: Final = 5_000  # in one statement
_LANE_KEY: Final = ("subscription_id", "lane")

Lane = tuple[int, int]  # the subscription's id, and the hash of the key


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A delivery to be inserted. ``lane`` is there for keyed ones of partitioned subscriptions, ``due`` if delayed."""

    message_ordinal: int
    subscription_id: int
    lane: int | None
    ordered: bool
    due: datetime | None
    expires: datetime | None


def fan_out(
    subscriptions: Sequence[AppliedSubscription], accepted: Iterable[Draft], ordinals: Mapping[str, int]
) -> tuple[list[NewDelivery], Mapping[int, list[int]]]:
    """The deliveries of ``accepted``, in order, and the ids of the subscriptions of each message, by its position."""
    deliveries: list[NewDelivery] = []
    reached: dict[int, list[int]] = {}
    for draft in sorted(accepted, key=lambda draft: draft.position):
        wanting = [s for s in subscriptions if _wants(s, draft)]
        reached[draft.position] = [s.id for s in wanting]
        deliveries += [_delivery(draft, ordinals[draft.id], s) for s in wanting]
    return deliveries, reached


def ordered_lanes(subscriptions: Sequence[AppliedSubscription], drafts: Iterable[Draft]) -> set[Lane]:
    """The lanes in which these drafts need their places in the order of commits."""
    ordered = [s for s in subscriptions if s.policy.partition_mode == "ordered"]
    if not ordered:
        return set()
    keyed = [draft for draft in drafts if draft.prepared.message.partition_key is not None]
    return {(s.id, lane_of(_key(draft) or "")) for draft in keyed for s in ordered if _wants(s, draft)}


def _wants(subscription: AppliedSubscription, draft: Draft) -> bool:
    return subscription.filter is None or subscription.filter.matches(draft.prepared.message.attributes)


def _key(draft: Draft) -> str | None:
    return draft.prepared.message.partition_key


def _delivery(draft: Draft, ordinal: int, subscription: AppliedSubscription) -> NewDelivery:
    key = _key(draft) if subscription.is_partitioned else None
    return NewDelivery(
        message_ordinal=ordinal,
        subscription_id=subscription.id,
        lane=None if key is None else lane_of(key),
        ordered=key is not None and subscription.policy.partition_mode == "ordered",
        due=draft.new.deliver_after,
        expires=draft.new.expires_at,
    )


class LaneWriting(Protocol):
    """Has claims look at the lanes of deliveries that were just inserted, once they are visible."""

    def __call__(self, connection: Connection, deliveries: Sequence[NewDelivery]) -> None:
        """In the transaction that inserted them."""


class Deliveries:
    """The statements that insert deliveries and see to their lanes. Thread-safe."""

    def __init__(self, dialect: Dialect) -> None:
        columns: Columns = {
            "ordinal": sa.BigInteger(),
            "subscription": sa.Integer(),
            "lane": sa.BigInteger(),
            "ordered": sa.Boolean(),
            "due": Moment(),
            "expires": Moment(),
        }
        key: Columns = {"subscription_id": sa.Integer(), "lane": sa.BigInteger()}
        self._to = dialect.batch("to", columns)
        self._insert = dialect.statement(self._insertion())
        self._touched = dialect.batch("touched", key)
        self._touch = dialect.statement(touch(self._touched.rows))
        self._wanted = dialect.batch("wanted", {**key, "ordered": sa.Boolean(), "due": Moment()})
        self._have = dialect.plan(Choice(choose=self._present(), change=lambda found: self._making(dialect, found)))

    def insert(self, connection: Connection, deliveries: Sequence[NewDelivery], lanes: LaneWriting) -> None:
        """Insert them, and have their lanes looked at by ``lanes``."""
        for start in range(0, len(deliveries), _ROWS):
            part = deliveries[start : start + _ROWS]
            rows = [(d.message_ordinal, d.subscription_id, d.lane, d.ordered, d.due, d.expires) for d in part]
            self._insert.run(connection, self._to.bind(rows))
        lanes(connection, [d for d in deliveries if d.lane is not None])

    def touch_lanes(self, connection: Connection, deliveries: Sequence[NewDelivery]) -> None:
        """For somebody's own transaction, which may stay open for long: it waits for nobody and holds nobody up."""
        rows = sorted({(d.subscription_id, d.lane) for d in deliveries if d.lane is not None})
        for start in range(0, len(rows), _ROWS):
            self._touch.run(connection, self._touched.bind(rows[start : start + _ROWS]))

    def have_lanes(self, connection: Connection, deliveries: Sequence[NewDelivery]) -> None:
        """For a short transaction: make the lanes that are missing, and hold the others until it ends.

        A lane that is held so can neither be removed nor put off, so that it is looked at when the transaction has
        ended. One that was put off already is touched.
        """
        missing = _first_due(deliveries)
        while missing:
            for start in range(0, len(rows := sorted(missing)), _ROWS):
                wanted = [(*key, *missing[key]) for key in rows[start : start + _ROWS]]
                found = self._have.run(connection, self._wanted.bind(wanted))
                for row in found:
                    del missing[row.subscription_id, row.lane]  # what is left was made or removed this very moment

    def _insertion(self) -> UpdateBase:
        rows = self._to.rows.c
        due = sa.case((rows.due > moment(), rows.due), else_=Now())
        new = sa.select(rows.ordinal, rows.subscription, rows.lane, rows.ordered, due, rows.expires)
        names = ["message_ordinal", "subscription_id", "lane", "ordered", "due_at", "expires_at"]
        return delivery.insert().from_select(names, new)

    def _present(self) -> sa.Select[Any]:
        """The lanes that are there, held in a way that keeps neither claims nor settles from them."""
        rows = self._wanted.rows
        same = sa.and_(lane.c.subscription_id == rows.c.subscription_id, lane.c.lane == rows.c.lane)
        sleeps = sa.and_(~rows.c.ordered, lane.c.held_ordinal.is_(None), lane.c.due_at > moment())
        earlier = sa.or_(rows.c.due.is_(None), lane.c.due_at > rows.c.due)
        found = sa.select(*(lane.c[name] for name in _LANE_KEY), sa.and_(sleeps, earlier).label("sleeps"))
        found = found.select_from(rows.join(lane, same)).order_by(lane.c.subscription_id, lane.c.lane)
        return found.with_for_update(read=True, key_share=True, of=lane)

    def _making(self, dialect: Dialect, found: FromClause) -> Change:
        rows = self._wanted.rows.c
        known = sa.exists().where(found.c.subscription_id == rows.subscription_id, found.c.lane == rows.lane)
        due = sa.case((rows.due > moment(), rows.due), else_=Now())
        new = sa.select(rows.subscription_id, rows.lane, due).where(~known).order_by(rows.subscription_id, rows.lane)
        insert = dialect.insert(lane).from_select([*_LANE_KEY, "due_at"], new)
        made = insert.on_conflict_do_nothing(index_elements=list(_LANE_KEY))
        return Change(
            change=made.returning(lane.c.subscription_id, lane.c.lane),
            then=[lambda _made: touch(sa.select(found).where(found.c.sleeps).subquery("sleeping"))],
            read=lambda made: sa.union_all(
                sa.select(*(found.c[name] for name in _LANE_KEY)), sa.select(*(made.c[name] for name in _LANE_KEY))
            ),
        )


def _first_due(deliveries: Iterable[NewDelivery]) -> dict[Lane, tuple[bool, datetime | None]]:
    """For each lane its mode and when the first of these deliveries is due: in ordered lanes the first in line."""
    first: dict[Lane, tuple[bool, datetime | None]] = {}
    for new in deliveries:
        if new.lane is None:
            continue
        key = new.subscription_id, new.lane
        known = first.setdefault(key, (new.ordered, new.due))[1]
        if not new.ordered and known is not None and (new.due is None or new.due < known):
            first[key] = (False, new.due)
    return first
