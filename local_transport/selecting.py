"""A selection of deliveries as conditions of a query, and places in a list that a cursor can name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.engine import Row

from local_transport.applied import AppliedTopology, unknown_subscription
from local_transport.dialects.columns import Later, Moment, moment
from local_transport.lanes import lane_of
from local_transport.tables import delivery, delivery_detail, message
from towpath.envelope import Origin, decode
from towpath.errors import InvalidEnvelope, InvalidSelection, UnsupportedSchema
from towpath.message import is_message_id
from towpath.operating import DeliveryState, Selection

_LARGEST: Final = (2**63 - 1, 2**31 - 1)
_LONGEST: Final = 100  # of a delivery's id as text, zeros in front with it; Python refuses to read much longer numbers
_DETAIL_OF: Final = sa.and_(
    delivery_detail.c.message_ordinal == delivery.c.message_ordinal,
    delivery_detail.c.subscription_id == delivery.c.subscription_id,
)

# Deliveries with their messages and details. Outer joins, which a database leaves out where nothing asks for them.
SOURCE: Final = delivery.outerjoin(message, message.c.ordinal == delivery.c.message_ordinal).outerjoin(
    delivery_detail, _DETAIL_OF
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A delivery's place in a list; ``dead_since`` where the list is of dead letters alone."""

    ordinal: int
    subscription_id: int
    dead_since: datetime | None

    @property
    def cursor(self) -> str:
        """The place as text."""
        since = "" if self.dead_since is None else f"{self.dead_since.isoformat()}~"
        return f"{since}{self.ordinal}-{self.subscription_id}"

    @classmethod
    def of(cls, row: Row[Any], selection: Selection) -> Self:
        """The place of a row that has the columns of ``in_order``."""
        since = row.dead_since if selection.state == "dead" else None
        return cls(ordinal=row.message_ordinal, subscription_id=row.subscription_id, dead_since=since)

    @classmethod
    def read(cls, cursor: str, selection: Selection) -> Self:
        """The place that ``cursor`` names; raises ``InvalidSelection`` for a cursor of another list."""
        since, _, key = cursor.rpartition("~")
        problem = f"{cursor!r} is no cursor of this list; take the one that its last page gave"
        try:
            ordinal, subscription_id = delivery_key(key)
            dead_since = datetime.fromisoformat(since) if since else None
            if dead_since is not None and dead_since.tzinfo is not None:
                dead_since = dead_since.astimezone(UTC)
        except (InvalidSelection, ValueError, OverflowError) as error:
            raise InvalidSelection(problem) from error
        if (dead_since is None) == (selection.state == "dead") or (dead_since and dead_since.tzinfo is None):
            raise InvalidSelection(problem)
        return cls(ordinal=ordinal, subscription_id=subscription_id, dead_since=dead_since)


def delivery_key(text: str) -> tuple[int, int]:
    """The ordinal and the subscription's id of a delivery's id. Raises ``InvalidSelection``."""
    ordinal, _, subscription_id = text.partition("-")
    if len(text) <= _LONGEST and text.isascii() and ordinal.isdecimal() and subscription_id.isdecimal():
        key = int(ordinal), int(subscription_id)
        if key[0] <= _LARGEST[0] and key[1] <= _LARGEST[1]:
            return key
    raise InvalidSelection(f"{text!r} is no delivery's id; 'towpath deliveries list' shows them")


def conditions(selection: Selection, applied: AppliedTopology) -> Iterator[sa.ColumnElement[bool]]:
    """What rows of ``SOURCE`` have to meet. Of a partition key it may let through others: ``has_key`` is sure."""
    if selection.subscription is not None:
        yield delivery.c.subscription_id == subscription_id(selection.subscription, applied)
    if selection.state is not None:
        yield in_state(selection.state)
    if selection.delivery_ids is not None:
        keys = [delivery_key(text) for text in selection.delivery_ids]
        yield sa.tuple_(delivery.c.message_ordinal, delivery.c.subscription_id).in_(keys)
    if selection.message_id is not None:
        if not is_message_id(selection.message_id):
            raise InvalidSelection(f"message id {selection.message_id!r} is not a UUID in lower-case text")
        yield message.c.id == selection.message_id
    if selection.reason is not None:
        yield delivery_detail.c.reason == selection.reason
    if selection.error_type is not None:
        yield delivery_detail.c.error_type == selection.error_type
    yield from _ages(selection)
    if selection.partition_key is not None:
        yield from _keyed(selection.partition_key)


def in_state(state: DeliveryState) -> sa.ColumnElement[bool]:
    """Whether a delivery counts as being in ``state``: a lease whose time is over is none.

    Raises ``InvalidSelection`` for deliveries that are over, which are kept elsewhere.
    """
    held = delivery.c
    over = sa.or_(held.lease_expires_at.is_(None), held.lease_expires_at <= moment())
    match state:
        case "dead":
            return held.dead_since.is_not(None)
        case "leased":
            return sa.and_(held.state == "leased", ~over)
        case "pending":
            return sa.or_(held.state == "pending", sa.and_(held.state == "leased", over))
        case "completed" | "discarded":
            raise InvalidSelection(f"deliveries that are {state} are over; they can be looked at and not be changed")


def in_order(selection: Selection, after: Place | None) -> tuple[list[sa.Column[Any]], list[sa.ColumnElement[bool]]]:
    """The columns that a list of ``selection`` is ordered by, and the conditions for what comes ``after`` a place."""
    held = delivery.c
    key: list[sa.Column[Any]] = [held.message_ordinal, held.subscription_id]
    if selection.state != "dead":
        return key, [] if after is None else [sa.tuple_(*key) > (after.ordinal, after.subscription_id)]
    order = [held.dead_since, *key]
    if after is None:
        return order, []
    since = sa.literal(after.dead_since, Moment())
    place = sa.tuple_(since, sa.literal(after.ordinal), sa.literal(after.subscription_id))
    # The first condition says nothing that the second does not, but an index can begin there.
    return order, [held.dead_since >= since, sa.tuple_(*order) > place]


def partition_key(row: Row[Any]) -> str | None:
    """The partition key in the body of a row that has its message's columns; ``None`` also for an unreadable body."""
    origin = Origin(message_id=str(row.message_id), topic="", received_at=row.published_at)
    try:
        return decode(row.body, origin).partition_key
    except (InvalidEnvelope, UnsupportedSchema):
        return None


def has_key(row: Row[Any], selection: Selection) -> bool:
    """Whether the row's message has the selected partition key, if one is selected."""
    return selection.partition_key is None or partition_key(row) == selection.partition_key


def subscription_id(name: str, applied: AppliedTopology) -> int:
    """The id of the subscription ``name``. Raises ``SubscriptionNotFound``."""
    if name not in applied.subscriptions:
        raise unknown_subscription(name, applied.subscriptions)
    return applied.subscriptions[name].id


def _ages(selection: Selection) -> Iterator[sa.ColumnElement[bool]]:
    dead = selection.state == "dead"
    since = delivery.c.dead_since if dead else sa.func.coalesce(delivery.c.dead_since, message.c.published_at)
    yield from of_age(since, selection)


def of_age(since: sa.ColumnElement[Any], selection: Selection) -> Iterator[sa.ColumnElement[bool]]:
    """The conditions of age, counted from ``since``."""
    if selection.older_than is not None:
        yield since <= _ago(selection.older_than)
    if selection.newer_than is not None:
        yield since > _ago(selection.newer_than)


def _ago(age: timedelta) -> sa.ColumnElement[datetime]:
    return Later(moment(), sa.literal(-age.total_seconds(), sa.Float()))


def _keyed(key: str) -> Iterator[sa.ColumnElement[bool]]:
    """The lane where there is one, and what the envelope holds."""
    yield sa.or_(delivery.c.lane == lane_of(key), delivery.c.lane.is_(None))
    yield names_key(key)


def names_key(key: str) -> sa.ColumnElement[bool]:
    """Whether a message's envelope has the text of this partition key: it is canonical JSON, so that is known."""
    return message.c.body.contains(f'"partition_key":{json.dumps(key, ensure_ascii=False)}', autoescape=True)
