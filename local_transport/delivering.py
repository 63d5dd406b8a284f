"""Making deliveries of what is published, and having claims look at their lanes."""

from __future__ import annotations

from collections import defaultdict
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
from local_transport.dialects.columns import Among, Moment, Now, moment
from local_transport.dialects.port import Change, Choice, Columns
from local_transport.lanes import lane_of, touch
from local_transport.tables import delivery, lane

_ROWS: Final = 5_000  # in one statement
_SUBSCRIPTION: Final = sa.bindparam("subscription", type_=sa.Integer())

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
        wanting = [s for s in subscriptions if wants(s, draft)]
        reached[draft.position] = [s.id for s in wanting]
        deliveries += [_delivery(draft, ordinals[draft.id], s) for s in wanting]
    return deliveries, reached


def ordered_lanes(subscriptions: Sequence[AppliedSubscription], drafts: Iterable[Draft]) -> set[Lane]:
    """The lanes in which these drafts need their places in the order of commits."""
    ordered = [s for s in subscriptions if s.policy.partition_mode == "ordered"]
    if not ordered:
        return set()
    keyed = [draft for draft in drafts if draft.prepared.message.partition_key is not None]
    return {(s.id, lane_of(_key(draft) or "")) for draft in keyed for s in ordered if wants(s, draft)}


def wants(subscription: AppliedSubscription, draft: Draft) -> bool:
    """Whether the subscription gets the message, by its filter."""
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
        wanted: Columns = {"lane": sa.BigInteger(), "ordered": sa.Boolean(), "due": Moment()}
        self._to = dialect.batch("to", columns)
        self._insert = dialect.statement(self._insertion())
        self._touched = dialect.batch("touched", key)
        self._touch = dialect.statement(touch(self._touched.rows))
        self._wanted = dialect.batch("wanted", wanted)
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
        by_subscription = _first_due(deliveries)
        for subscription_id, missing in sorted(by_subscription.items()):
            while missing:
                for start in range(0, len(lanes := sorted(missing)), _ROWS):
                    wanted = [(lane, *missing[lane]) for lane in lanes[start : start + _ROWS]]
                    parameters = self._wanted.bind(wanted) | {"subscription": subscription_id}
                    for row in self._have.run(connection, parameters):
                        del missing[row.lane]  # what is left was made or removed at this very moment

    def _insertion(self) -> UpdateBase:
        rows = self._to.rows.c
        due = sa.case((rows.due > moment(), rows.due), else_=Now())
        new = sa.select(rows.ordinal, rows.subscription, rows.lane, rows.ordered, due, rows.expires)
        names = ["message_ordinal", "subscription_id", "lane", "ordered", "due_at", "expires_at"]
        return delivery.insert().from_select(names, new)

    def _present(self) -> sa.Select[Any]:
        """The lanes that are there, held in a way that keeps neither claims nor settles from them."""
        rows = self._wanted.rows
        sleeps = sa.and_(~rows.c.ordered, lane.c.held_ordinal.is_(None), lane.c.due_at > moment())
        earlier = sa.or_(rows.c.due.is_(None), lane.c.due_at > rows.c.due)
        found = sa.select(lane.c.subscription_id, lane.c.lane, sa.and_(sleeps, earlier).label("sleeps"))
        mine = (lane.c.subscription_id == _SUBSCRIPTION, Among(lane.c.lane, sa.select(rows.c.lane).scalar_subquery()))
        found = found.select_from(rows.join(lane, lane.c.lane == rows.c.lane)).where(*mine).order_by(lane.c.lane)
        return found.with_for_update(read=True, key_share=True, of=lane)

    def _making(self, dialect: Dialect, found: FromClause) -> Change:
        rows = self._wanted.rows.c
        due = sa.case((rows.due > moment(), rows.due), else_=Now())
        new = sa.select(_SUBSCRIPTION, rows.lane, due).where(rows.lane.not_in(sa.select(found.c.lane)))
        insert = dialect.insert(lane).from_select(["subscription_id", "lane", "due_at"], new.order_by(rows.lane))
        made = insert.on_conflict_do_nothing(index_elements=["subscription_id", "lane"])
        sleeping = sa.select(found.c.subscription_id, found.c.lane).where(found.c.sleeps)
        return Change(
            change=made.returning(lane.c.lane),
            then=[lambda _made: touch(sleeping.subquery("sleeping"))],
            read=lambda made: sa.union_all(sa.select(found.c.lane), sa.select(made.c.lane)),
        )


def _first_due(deliveries: Iterable[NewDelivery]) -> dict[int, dict[int, tuple[bool, datetime | None]]]:
    """For each subscription and lane the mode, and when the first is due: in ordered lanes the one in front."""
    first: dict[int, dict[int, tuple[bool, datetime | None]]] = defaultdict(dict)
    for new in deliveries:
        if new.lane is None:
            continue
        lanes = first[new.subscription_id]
        known = lanes.setdefault(new.lane, (new.ordered, new.due))[1]
        if not new.ordered and known is not None and (new.due is None or new.due < known):
            lanes[new.lane] = (False, new.due)
    return first
