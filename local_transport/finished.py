"""Lists of deliveries that are over, as long as their history is kept: of each subscription the last first.

History is keyed by subscription and time, and a list goes backwards through that key. So it is quick where most of what
it passes is meant; to find a few discarded ones it reads past the completed ones between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Self

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.applied import AppliedTopology
from local_transport.dialects.columns import Moment, as_shown
from local_transport.leasing import delivery_id
from local_transport.selecting import delivery_key, has_key, names_key, of_age, partition_key, subscription_id
from local_transport.tables import history, message, subscription, topic
from towpath.errors import InvalidSelection
from towpath.message import is_message_id
from towpath.operating import DeliveryEntry, Page, Selection

STATES: Final = ("completed", "discarded")

_ROWS: Final = 200  # in one look, so that a list of any length needs only so much memory for what it skips
_KEY: Final = (history.c.subscription_id, history.c.finished_at, history.c.message_ordinal)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A place in the list: the key of history."""

    subscription_id: int
    finished_at: datetime
    ordinal: int

    @property
    def cursor(self) -> str:
        return f"{self.finished_at.isoformat()}~{delivery_id(self.ordinal, self.subscription_id)}"

    @classmethod
    def of(cls, row: Row[Any]) -> Self:
        return cls(subscription_id=row.subscription_id, finished_at=row.finished_at, ordinal=row.message_ordinal)

    @classmethod
    def read(cls, cursor: str) -> Self:
        finished_at, tilde, key = cursor.partition("~")
        try:
            at = datetime.fromisoformat(finished_at)
            ordinal, owner = delivery_key(key)
        except (InvalidSelection, ValueError) as error:
            raise _no_cursor(cursor) from error
        if not tilde or at.tzinfo is None:
            raise _no_cursor(cursor)
        return cls(subscription_id=owner, finished_at=at.astimezone(UTC), ordinal=ordinal)


def _no_cursor(cursor: str) -> InvalidSelection:
    return InvalidSelection(f"{cursor!r} is no cursor of this list; take the one that its last page gave")


def deliveries(
    connection: Connection, applied: AppliedTopology, selection: Selection, limit: int, cursor: str | None
) -> Page[DeliveryEntry]:
    """At most ``limit`` of the selected deliveries, which are completed or discarded.

    Raises ``InvalidSelection`` for a condition about errors, which history does not keep, and as
    ``towpath.ports.Operator`` says.
    """
    taken: list[Row[Any]] = []
    for row in _rows(connection, applied, selection, limit, cursor):
        if len(taken) == limit:
            return Page(entries=tuple(map(_entry, taken)), cursor=_Place.of(taken[-1]).cursor)
        taken.append(row)
    return Page(entries=tuple(map(_entry, taken)))


def _rows(
    connection: Connection, applied: AppliedTopology, selection: Selection, limit: int, cursor: str | None
) -> Iterator[Row[Any]]:
    after = None if cursor is None else _Place.read(cursor)
    wanted = list(_conditions(selection, applied))
    most = min(limit + 1, _ROWS)
    while True:
        begin = [] if after is None else [_before(after)]
        query = _LIST.where(*wanted, *begin).order_by(*(column.desc() for column in _KEY)).limit(most)
        rows = connection.execute(query).all()
        yield from (row for row in rows if has_key(row, selection))
        if len(rows) < most:
            return
        after = _Place.of(rows[-1])


def _before(place: _Place) -> sa.ColumnElement[bool]:
    at = (sa.literal(place.subscription_id), sa.literal(place.finished_at, Moment()), sa.literal(place.ordinal))
    return sa.tuple_(*_KEY) < sa.tuple_(*at)


def _conditions(selection: Selection, applied: AppliedTopology) -> Iterator[sa.ColumnElement[bool]]:
    row = history.c
    if selection.error_type is not None:
        raise InvalidSelection(f"of deliveries that are {selection.state} no error is kept; leave that condition out")
    yield row.outcome == selection.state
    if selection.subscription is not None:
        yield row.subscription_id == subscription_id(selection.subscription, applied)
    if selection.delivery_ids is not None:
        keys = [delivery_key(text) for text in selection.delivery_ids]
        yield sa.tuple_(row.message_ordinal, row.subscription_id).in_(keys)
        yield row.subscription_id.in_({owner for _, owner in keys})  # where the key of history begins
    if selection.message_id is not None:
        if not is_message_id(selection.message_id):
            raise InvalidSelection(f"message id {selection.message_id!r} is not a UUID in lower-case text")
        yield message.c.id == selection.message_id
    if selection.reason is not None:
        yield row.reason == selection.reason
    yield from of_age(row.finished_at, selection)
    if selection.partition_key is not None:
        yield names_key(selection.partition_key)


def _list() -> sa.Select[Any]:
    row = history.c
    source = (
        history.join(message, message.c.ordinal == row.message_ordinal)
        .join(subscription, subscription.c.id == row.subscription_id)
        .join(topic, topic.c.id == subscription.c.topic_id)
    )
    columns = (
        *row,
        message.c.id.label("message_id"),
        message.c.body,
        message.c.published_at,
        topic.c.name.label("topic"),
        subscription.c.name.label("subscription"),
    )
    return sa.select(*columns).select_from(source)


_LIST: Final = _list()


def _entry(row: Row[Any]) -> DeliveryEntry:
    return DeliveryEntry(
        delivery_id=delivery_id(row.message_ordinal, row.subscription_id),
        subscription=row.subscription,
        topic=row.topic,
        message_id=str(row.message_id),
        partition_key=partition_key(row),
        state=row.outcome,
        attempt=row.attempt,
        is_replay=False,
        cancel_requested=False,
        published_at=row.published_at,
        due_at=None,
        lease_expires_at=None,
        dead_since=None,
        finished_at=row.finished_at,
        expires_at=None,
        waits_for=None,
        reason=row.reason or "",
        error="",
        percent=None,
        note="",
        body=as_shown(row.body),
    )
