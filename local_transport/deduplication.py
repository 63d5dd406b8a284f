"""Deduplication keys: who was first, and for how long that counts.

A key that was taken and is published again within its window gives a duplicate. A repeat whose window is ``sliding``
makes the key count for its own ttl from now on, unless it counts for longer already; one whose window is ``fixed``
leaves the end where it is. The window's end is judged by the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.dialects import Dialect
from local_transport.dialects.columns import MESSAGE_ID, Later, Now
from local_transport.dialects.port import Columns
from local_transport.tables import deduplication, message
from towpath.message import DeduplicationWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyed:
    """A message just inserted that carries a deduplication key, and how long the key shall count."""

    message_id: str
    ordinal: int
    key: str
    ttl_seconds: float
    window: DeduplicationWindow


class Deduplicator:
    """Reserves deduplication keys in the transaction that publishes. The scope of a key is its topic."""

    def __init__(self, dialect: Dialect) -> None:
        first: Columns = {"key": sa.Text(), "ordinal": sa.BigInteger(), "message_id": MESSAGE_ID}
        self._keys = dialect.batch("keyed", {**first, "ttl": sa.Float(), "slides": sa.Boolean()})
        self._losers = dialect.batch("lost", {"ordinal": sa.BigInteger()})
        self._reserve = dialect.statement(self._reservation(dialect))
        losers = sa.select(self._losers.rows.c.ordinal)
        self._withdraw = dialect.statement(sa.delete(message).where(message.c.ordinal.in_(losers)))

    def settle(self, connection: Connection, topic_id: int, keyed: Sequence[Keyed]) -> Mapping[str, str]:
        """Let the first message of each key win; answers, for each that lost, the id of the message that won.

        A loser's row is removed. A rival's open transaction on a key is waited for, since only its end tells who was
        first; keys are taken in sorted order, so that two publishers never wait for each other.
        """
        rows = [
            (key, entry.ordinal, entry.message_id, entry.ttl_seconds, entry.window == "sliding")
            for key, entry in sorted(_offers(keyed).items())
        ]
        reserved = self._reserve.run(connection, self._keys.bind(rows) | {"topic": topic_id})
        winners = {row.key: row for row in reserved}
        lost = [entry for entry in keyed if winners[entry.key].message_ordinal != entry.ordinal]
        self._remove(connection, (entry.ordinal for entry in lost))
        return {entry.message_id: winners[entry.key].message_id for entry in lost}

    def _remove(self, connection: Connection, ordinals: Iterable[int]) -> None:
        rows = [(ordinal,) for ordinal in ordinals]
        if rows:
            self._withdraw.run(connection, self._losers.bind(rows))

    def _reservation(self, dialect: Dialect) -> sa.Select[object] | sa.sql.dml.UpdateBase:
        rows = self._keys.rows.c
        ends = Later(Now(), rows.ttl)
        offered = (
            sa.select(
                sa.bindparam("topic", type_=sa.Integer()), rows.key, rows.ordinal, rows.message_id, ends, rows.slides
            )
            .where(sa.true())  # SQLite takes ON CONFLICT for the ON of a join without it
            .order_by(rows.key)
        )
        names = ["topic_id", "key", "message_ordinal", "message_id", "expires_at", "slides"]
        insert = dialect.insert(deduplication).from_select(names, offered)
        held, new = deduplication.c, insert.excluded
        over = held.expires_at <= Now()
        moved = sa.or_(over, sa.and_(new.slides, held.expires_at < new.expires_at))
        kept = {
            name: sa.case((over, new[name]), else_=held[name]) for name in ("message_ordinal", "message_id", "slides")
        }
        kept["expires_at"] = sa.case((moved, new.expires_at), else_=held.expires_at)
        upsert = insert.on_conflict_do_update(index_elements=["topic_id", "key"], set_=kept)
        return upsert.returning(held.key, held.message_ordinal, held.message_id)


def _offers(keyed: Sequence[Keyed]) -> dict[str, Keyed]:
    """The first message of each key, for as long as itself, or a sliding repeat of it in the same call, asks for."""
    first: dict[str, Keyed] = {}
    for entry in keyed:
        offered = first.setdefault(entry.key, entry)
        if entry.window == "sliding" and entry.ttl_seconds > offered.ttl_seconds:
            first[entry.key] = replace(offered, ttl_seconds=entry.ttl_seconds)
    return first
