"""Lists of open and dead deliveries, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.applied import AppliedTopology
from local_transport.dialects.columns import Now, as_shown
from local_transport.leasing import delivery_id
from local_transport.selecting import SOURCE, Place, conditions, has_key, in_order, partition_key
from local_transport.tables import delivery, delivery_detail, lane, message, subscription, topic
from towpath.operating import DeadLetterEntry, DeliveryEntry, DeliveryState, Page, Selection, WaitsFor

_ROWS: Final = 200  # in one look, so that a list of any length needs only so much memory for what it skips


def deliveries(
    connection: Connection, applied: AppliedTopology, selection: Selection, limit: int, cursor: str | None
) -> Page[DeliveryEntry]:
    """At most ``limit`` of the selected deliveries. Raises as ``towpath.ports.Operator`` says."""
    rows, following = _page(_rows(connection, applied, selection, limit, cursor), selection, limit)
    return Page(entries=tuple(_entry(row) for row in rows), cursor=following)


def dead_letters(
    connection: Connection, applied: AppliedTopology, subscription_name: str | None, limit: int, cursor: str | None
) -> Page[DeadLetterEntry]:
    """At most ``limit`` dead letters of a subscription, or of all, those dead for longest first."""
    selection = Selection(subscription=subscription_name, state="dead")
    rows, following = _page(_rows(connection, applied, selection, limit, cursor), selection, limit)
    return Page(entries=tuple(_dead_letter(row) for row in rows), cursor=following)


def _page(rows: Iterator[Row[Any]], selection: Selection, limit: int) -> tuple[list[Row[Any]], str | None]:
    """The rows of a page, and the cursor of the one that follows if there is any."""
    taken: list[Row[Any]] = []
    for row in rows:
        if len(taken) == limit:
            return taken, Place.of(taken[-1], selection).cursor
        taken.append(row)
    return taken, None


def _rows(
    connection: Connection, applied: AppliedTopology, selection: Selection, limit: int, cursor: str | None
) -> Iterator[Row[Any]]:
    after = None if cursor is None else Place.read(cursor, selection)
    wanted = list(conditions(selection, applied))
    most = min(limit + 1, _ROWS)
    while True:
        order, begin = in_order(selection, after)
        rows = connection.execute(_LIST.where(*wanted, *begin).order_by(*order).limit(most)).all()
        yield from (row for row in rows if has_key(row, selection))
        if len(rows) < most:
            return
        after = Place.of(rows[-1], selection)


def _list() -> sa.Select[Any]:
    held, first = delivery.c, delivery.alias("first")
    same_lane = (first.c.subscription_id == held.subscription_id, first.c.lane == held.lane)
    in_line = sa.and_(*same_lane, first.c.lane.is_not(None), first.c.ordered)
    heads = sa.select(first.c.message_ordinal, first.c.state).where(in_line).order_by(first.c.message_ordinal).limit(1)
    source = (
        SOURCE.join(subscription, subscription.c.id == held.subscription_id)
        .join(topic, topic.c.id == subscription.c.topic_id)
        .outerjoin(lane, sa.and_(lane.c.subscription_id == held.subscription_id, lane.c.lane == held.lane))
    )
    columns = (
        *(column for column in delivery.c if column.name not in ("lease_token", "ends_at")),
        *(column for column in delivery_detail.c if column.name not in held),
        message.c.id.label("message_id"),
        message.c.body,
        message.c.published_at,
        topic.c.name.label("topic"),
        subscription.c.name.label("subscription"),
        sa.or_(subscription.c.paused, subscription.c.status != "active").label("stopped"),
        lane.c.due_at.label("lane_due_at"),
        lane.c.held_ordinal,
        heads.with_only_columns(first.c.message_ordinal).scalar_subquery().label("head_ordinal"),
        heads.with_only_columns(first.c.state).scalar_subquery().label("head_state"),
        sa.select(Now()).scalar_subquery().label("now"),
    )
    return sa.select(*columns).select_from(source)


_LIST: Final = _list()


def _entry(row: Row[Any]) -> DeliveryEntry:
    state = _state(row)
    return DeliveryEntry(
        delivery_id=delivery_id(row.message_ordinal, row.subscription_id),
        subscription=row.subscription,
        topic=row.topic,
        message_id=str(row.message_id),
        partition_key=partition_key(row),
        state=state,
        attempt=row.attempt,
        is_replay=row.is_replay,
        cancel_requested=row.cancel_requested,
        published_at=row.published_at,
        due_at=row.due_at,
        lease_expires_at=row.lease_expires_at,
        dead_since=row.dead_since,
        expires_at=row.expires_at,
        waits_for=_waits_for(row) if state == "pending" else None,
        reason=row.reason or "",
        error=_error(row),
        percent=row.percent,
        note=row.note or "",
        body=as_shown(row.body),
    )


def _dead_letter(row: Row[Any]) -> DeadLetterEntry:
    return DeadLetterEntry(
        delivery_id=delivery_id(row.message_ordinal, row.subscription_id),
        subscription=row.subscription,
        message_id=str(row.message_id),
        reason=row.reason or "",
        error=_error(row),
        attempts=row.attempt,
        dead_since=row.dead_since,
        body=as_shown(row.body),
    )


def _state(row: Row[Any]) -> DeliveryState:
    if row.dead_since is not None:
        return "dead"
    return "leased" if _is_running(row.lease_expires_at, row.now) else "pending"


def _is_running(until: datetime | None, now: datetime) -> bool:
    return until is not None and until > now


def _waits_for(row: Row[Any]) -> WaitsFor:
    if row.stopped:
        return "resume"
    if row.lane is not None:
        if row.ordered and row.head_ordinal != row.message_ordinal and row.head_state == "dead":
            return "key_blocked"
        if row.held_ordinal not in (None, row.message_ordinal) and _is_running(row.lane_due_at, row.now):
            return "key_in_flight"
        if row.ordered and row.head_ordinal != row.message_ordinal:
            return "key_order"
    return "time" if _is_running(row.due_at, row.now) else "worker"


def _error(row: Row[Any]) -> str:
    """The last error: type and message in the first line, then the traceback."""
    if row.error_type is None:
        return ""
    sentence = f"{row.error_type}: {row.error_message}" if row.error_message else row.error_type
    return f"{sentence}\n{row.error_traceback}" if row.error_traceback else str(sentence)
