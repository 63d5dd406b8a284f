"""The partition keys that have deliveries, and what each of them waits for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.applied import AppliedSubscription
from local_transport.dialects.columns import Now
from local_transport.leasing import delivery_id
from local_transport.selecting import partition_key
from local_transport.tables import delivery, delivery_detail, lane, message, touched_lane
from towpath.errors import InvalidSelection
from towpath.message import format_time
from towpath.operating import Page, PartitionEntry, PartitionState

_COUNTED: Final = 1_000  # deliveries of one key
_ROWS: Final = 200  # lanes in one look


def partitions(
    connection: Connection, applied: AppliedSubscription, limit: int, cursor: str | None, state: PartitionState | None
) -> Page[PartitionEntry]:
    """At most ``limit`` keys, or of those in ``state``. A subscription that is not partitioned has none."""
    entries: list[PartitionEntry] = []
    last = ""
    for row in _rows(connection, applied, None if cursor is None else _lane(cursor)):
        entry = _entry(row, applied)
        if state not in (None, entry.state):
            continue
        if len(entries) == limit:
            return Page(entries=tuple(entries), cursor=last)
        entries.append(entry)
        last = str(row.lane)
    return Page(entries=tuple(entries))


def _rows(connection: Connection, applied: AppliedSubscription, after: int | None) -> Iterator[Row[Any]]:
    query = _list(applied.policy.partition_mode == "ordered")
    place = sa.literal_column("key.lane", sa.BigInteger())
    while True:
        begin = query if after is None else query.where(place > after)
        rows = connection.execute(begin.order_by(place).limit(_ROWS), {"subscription": applied.id}).all()
        yield from (row for row in rows if row.message_ordinal is not None)
        if len(rows) < _ROWS:
            return
        after = rows[-1].lane


def _lane(cursor: str) -> int:
    try:
        return int(cursor)
    except ValueError as error:
        raise InvalidSelection(f"{cursor!r} is no cursor of partitions; take the one of the last page") from error


def _keys() -> sa.Subquery:
    """The lanes, and those that were touched before there is a row for them."""
    wanted = sa.bindparam("subscription", type_=sa.Integer())
    names = ("subscription_id", "lane", "due_at", "held_ordinal")
    made = sa.select(*(lane.c[name] for name in names)).where(lane.c.subscription_id == wanted)
    row = touched_lane.c
    known = sa.exists().where(lane.c.subscription_id == row.subscription_id, lane.c.lane == row.lane)
    nothing = (sa.cast(sa.null(), lane.c.due_at.type), sa.cast(sa.null(), lane.c.held_ordinal.type))
    unmade = sa.select(row.subscription_id, row.lane, *nothing).where(row.subscription_id == wanted, ~known)
    return sa.union_all(made, unmade.distinct()).subquery("key")


def _list(ordered: bool) -> sa.Select[Any]:  # noqa: FBT001 - which of two queries
    key, waits, detail = _keys(), delivery.alias("waits"), delivery_detail.c
    of_key = (waits.c.subscription_id == key.c.subscription_id, waits.c.lane == key.c.lane, waits.c.lane.is_not(None))
    in_line = (waits.c.ordered,) if ordered else (~waits.c.ordered, waits.c.due_at.is_not(None))
    first = (waits.c.message_ordinal,) if ordered else (waits.c.due_at, waits.c.message_ordinal)
    line = sa.select(waits.c.message_ordinal).where(*of_key, *in_line).correlate(key)
    held = sa.select(waits.c.message_ordinal).where(*of_key, waits.c.message_ordinal == key.c.held_ordinal)
    head = sa.func.coalesce(held.correlate(key).scalar_subquery(), line.order_by(*first).limit(1).scalar_subquery())
    counted = sa.select(sa.func.count()).select_from(line.limit(_COUNTED).subquery()).scalar_subquery()
    source = (
        key.outerjoin(
            delivery,
            sa.and_(delivery.c.subscription_id == key.c.subscription_id, delivery.c.message_ordinal == head),
        )
        .outerjoin(message, message.c.ordinal == delivery.c.message_ordinal)
        .outerjoin(
            delivery_detail,
            sa.and_(
                detail.message_ordinal == delivery.c.message_ordinal,
                detail.subscription_id == delivery.c.subscription_id,
            ),
        )
    )
    columns = (
        key.c.lane,
        delivery.c.message_ordinal,
        delivery.c.subscription_id,
        delivery.c.state,
        delivery.c.due_at,
        delivery.c.dead_since,
        delivery.c.lease_expires_at,
        delivery.c.cancel_requested,
        delivery.c.attempt,
        message.c.id.label("message_id"),
        message.c.body,
        message.c.published_at,
        detail.reason,
        detail.error_type,
        counted.label("waiting"),
        sa.select(Now()).scalar_subquery().label("now"),
    )
    return sa.select(*columns).select_from(source)


def _entry(row: Row[Any], applied: AppliedSubscription) -> PartitionEntry:
    state, reason, since = _standing(row)
    return PartitionEntry(
        subscription=applied.policy.subscription,
        partition_key=partition_key(row),
        state=state,
        reason=reason,
        head=delivery_id(row.message_ordinal, row.subscription_id),
        since=since,
        waiting=row.waiting,
    )


def _standing(row: Row[Any]) -> tuple[PartitionState, str, datetime | None]:
    """The key's state, why it is so, and since when where that is known."""
    if row.state == "leased" and row.lease_expires_at > row.now:
        cancelled = ", cancelled: its worker is to let go of it" if row.cancel_requested else ""
        return "in_flight", f"attempt {row.attempt}, leased until {format_time(row.lease_expires_at)}{cancelled}", None
    if row.state == "dead":
        return "blocked", f"a dead letter is at its head: {row.reason or 'no reason was given'}", row.dead_since
    if row.due_at is not None and row.due_at > row.now:
        why = f"is tried again after {row.error_type}" if row.error_type else "is delayed"
        return "blocked", f"its next delivery {why} until {format_time(row.due_at)}", None
    return "idle", "its next delivery waits for a worker", row.due_at
