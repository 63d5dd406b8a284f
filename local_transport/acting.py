"""What an operator changes: dead letters come again, deliveries are dropped, those with workers are asked for.

A change is one conditional statement for each batch, fenced on each delivery's lease token: what a claim has taken, or
somebody else has changed, since it was chosen is left alone. Its entry in the audit trail is in the same transaction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.applied import TopologyReader
from local_transport.auditing import record
from local_transport.changes import CHOSEN, cancel, drop, give_back
from local_transport.connections import Database, run_again
from local_transport.details import kept_text
from local_transport.dialects.columns import Now, moment
from local_transport.dialects.port import Rows
from local_transport.leasing import delivery_id
from local_transport.pacing import Paced, Pacer
from local_transport.selecting import SOURCE, Place, conditions, has_key, in_order
from local_transport.tables import delivery, message
from towpath.errors import InvalidSelection
from towpath.message import JsonValue
from towpath.operating import Discarded, Order, Pace, Selection

_Batch = Mapping[str, Any]  # the parameters that name the deliveries of a batch, and why

_PASSES: Final = 3  # over what claims took, or workers gave back, while a discard went on


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The deliveries that a batch changed, and those whose workers it asked to let go of them."""

    done: Rows
    requested: Rows = ()

    @property
    def count(self) -> int:
        """How many that are."""
        return len(self.done) + len(self.requested)


class Actions:
    """Changes many deliveries, a batch at a time. Thread-safe."""

    def __init__(
        self, database: Database, reader: TopologyReader, due: Callable[[Collection[int]], None], pacer: Pacer
    ) -> None:
        """``due`` is told for which subscriptions something may have become claimable."""
        self._database = database
        self._reader = reader
        self._due = due
        self._pacer = pacer
        self._chosen = database.dialect.batch("chosen", CHOSEN)
        rows = self._chosen.rows
        self._give_back = database.dialect.plan(give_back(database.dialect, rows))
        self._drop = database.dialect.plan(drop(rows))
        self._cancel = database.dialect.plan(cancel(database.dialect, rows))

    def replay(self, order: Order) -> int:
        """Have the dead letters come again that are there now; answers how many.

        Raises ``InvalidSelection`` for a selection of deliveries in another state.
        """
        if order.selection.state not in (None, "dead"):
            raise InvalidSelection(
                f"only dead letters can be replayed, not deliveries that are {order.selection.state}"
            )
        dead = replace(order, selection=replace(order.selection, state="dead"))
        started = self._scalar(sa.select(Now()))
        paced = Paced(self._pacer, order.pace)
        return sum(len(made.done) for made in self._pass(dead, delivery.c.dead_since <= started, self._replayed, paced))

    def discard(self, order: Order) -> Discarded:
        """Drop what is published by now: what waits or is dead at once, what is with a worker by asking for it."""
        newest = self._scalar(sa.select(sa.func.coalesce(sa.func.max(message.c.ordinal), 0)))
        asked = sa.and_(delivery.c.cancel_requested, delivery.c.lease_expires_at > moment())
        where = sa.and_(delivery.c.message_ordinal <= newest, ~asked)
        at_once = requested = 0
        paced = Paced(self._pacer, order.pace)
        for _ in range(_PASSES):
            left = None if order.pace.most is None else order.pace.most - at_once - requested
            made = list(self._pass(replace(order, pace=replace(order.pace, most=left)), where, self._dropped, paced))
            at_once += sum(len(one.done) for one in made)
            requested += sum(len(one.requested) for one in made)
            if not any(one.done or one.requested for one in made):
                break
        return Discarded(at_once=at_once, requested=requested)

    def _scalar(self, query: sa.Select[Any]) -> Any:
        with self._database.reading() as connection:
            return connection.scalar(query)

    def _pass(
        self, order: Order, where: sa.ColumnElement[bool], change: Callable[[Connection, _Batch], _Made], paced: Paced
    ) -> Iterator[_Made]:
        """Change what the order selects of ``where``, each delivery once; answers each batch when it is durable."""
        done = 0
        after: Place | None = None
        while size := _size(order.pace, done):
            paced.wait()
            rows, after = self._choose(order.selection, where, after, size)
            if rows:
                made = self._change(order, rows, change)
                done += made.count
                paced.count(made.count)
                order.pace.changed(made.count)
                yield made
            if after is None:
                return

    def _choose(
        self, selection: Selection, where: sa.ColumnElement[bool], after: Place | None, size: int
    ) -> tuple[list[Row[Any]], Place | None]:
        """The next rows to change, and the place of the last that was looked at; ``None`` when there are no more."""
        order, begin = in_order(selection, after)
        columns = [*_KEY, *_BODY] if selection.partition_key is not None else [*_KEY]
        with self._database.reading() as connection:
            wanted = conditions(selection, self._reader.current(connection))
            query = sa.select(*columns).select_from(SOURCE).where(where, *wanted, *begin)
            rows = connection.execute(query.order_by(*order).limit(size)).all()
        last = Place.of(rows[-1], selection) if len(rows) == size else None
        return [row for row in rows if has_key(row, selection)], last

    def _change(self, order: Order, rows: Rows, change: Callable[[Connection, _Batch], _Made]) -> _Made:
        chosen = [(row.message_ordinal, row.subscription_id, row.lease_token) for row in sorted(rows, key=_by_key)]
        batch = self._chosen.bind(chosen) | {"reason": kept_text(order.warrant.reason)}
        made = run_again(lambda: self._change_once(order, batch, change))
        if made.done:
            self._due({row.subscription_id for row in made.done})
        return made

    def _change_once(self, order: Order, batch: _Batch, change: Callable[[Connection, _Batch], _Made]) -> _Made:
        with self._database.writing() as connection:
            made = change(connection, batch)
            if made.count:
                record(connection, order.warrant, order.action, _subject(order, made), _details(order, made))
            return made

    def _replayed(self, connection: Connection, batch: _Batch) -> _Made:
        return _Made(done=self._give_back.run(connection, batch))

    def _dropped(self, connection: Connection, batch: _Batch) -> _Made:
        """First what is with workers: a lease that ends in between is met by the second statement."""
        marked = self._cancel.run(connection, batch)
        gone = self._drop.run(connection, batch)
        over = {_by_key(row) for row in gone}
        return _Made(done=gone, requested=[row for row in marked if _by_key(row) not in over])


def _by_key(row: Row[Any]) -> tuple[int, int]:
    return row.message_ordinal, row.subscription_id


def _size(pace: Pace, done: int) -> int:
    """How many to change next: what a second allows at most, so that a rate is kept evenly."""
    size = pace.batch if pace.rate is None else min(pace.batch, max(1, math.ceil(pace.rate)))
    return size if pace.most is None else min(size, pace.most - done)


def _subject(order: Order, made: _Made) -> str:
    ids = [*_ids(made.done), *_ids(made.requested)]
    return ids[0] if len(ids) == 1 else order.selection.subscription or "all subscriptions"


def _details(order: Order, made: _Made) -> Mapping[str, JsonValue]:
    selected = {name: _json(value) for name, value in asdict(order.selection).items() if value is not None}
    details: dict[str, JsonValue] = {"selection": selected, "deliveries": _ids(made.done)}
    return details | ({"requested": _ids(made.requested)} if made.requested else {})


def _json(value: object) -> JsonValue:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _ids(rows: Rows) -> list[str]:
    return [delivery_id(row.message_ordinal, row.subscription_id) for row in rows]


_KEY: Final = (
    delivery.c.message_ordinal,
    delivery.c.subscription_id,
    delivery.c.lease_token,
    delivery.c.dead_since,
)
_BODY: Final = (message.c.id.label("message_id"), message.c.body, message.c.published_at)
