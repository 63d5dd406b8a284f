"""Publishing: one call is one transaction, or a part of the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.applied import AppliedTopic, AppliedTopology, TopologyReader
from local_transport.checking import Checked, Draft, check, comparable, rejection
from local_transport.connections import Database, run_again
from local_transport.deduplication import Deduplicator, Keyed
from local_transport.delivering import Deliveries, LaneWriting, fan_out, ordered_lanes
from local_transport.dialects import Dialect
from local_transport.dialects.columns import MESSAGE_ID, Now
from local_transport.dialects.port import Columns
from local_transport.shortcut import BYTES, ROWS, Shortcut, way_of
from local_transport.tables import message, unwanted
from local_transport.wakeups import Wakeups
from towpath.envelope import Sources, ids_of
from towpath.errors import TransportRejected, TransportUnavailable
from towpath.message import NewMessage, PublishError, PublishResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """Results by position, and the ids of the subscriptions that got deliveries."""

    by_position: Mapping[int, PublishResult]
    subscriptions: frozenset[int]

    @property
    def results(self) -> list[PublishResult]:
        """The results in the order of the call."""
        return _in_order(self.by_position)


class DatabasePublisher:
    """Publishes to the topics that are applied to a database. Thread-safe."""

    def __init__(
        self,
        database: Database,
        reader: TopologyReader,
        sources: Sources,
        wakeups: Wakeups,
    ) -> None:
        """``wakeups`` are told of deliveries once they are visible."""
        self._database = database
        self._reader = reader
        self._sources = sources
        self._wakeups = wakeups
        self._writer = _Writer(database.dialect)
        self._shortcut = Shortcut(database)

    def publish(
        self, topic: str, messages: Sequence[NewMessage], connection: Connection | None = None
    ) -> list[PublishResult]:
        """Publish ``messages``: the valid ones become visible together, in their order, or none does.

        In a transaction of our own, trouble with the database is a ``TransportUnavailable`` in the results; then the
        messages may have been published all the same, if it came with the commit: publish again with the ids of the
        results, and what was taken is a duplicate. With ``connection`` the call is part of the caller's transaction,
        and the database's own errors are passed on, since they concern that transaction.
        """
        checked = check(self._reader.last, topic, messages, ids_of(messages, self._sources), self._sources)
        if not messages:
            return []
        if connection is not None:
            self._database.dialect.share_topology_for_caller(connection)
            written = self._write(connection, checked, self._writer.deliveries.touch_lanes)
            self._wakeups.due_at_commit(connection, written.subscriptions)
            return written.results
        return self._at_once(checked)

    def _at_once(self, checked: Checked) -> list[PublishResult]:
        """In one statement if that can be; in steps what it cannot do: ids that are taken, a topology not seen yet."""
        way = way_of(checked)
        if way is None:
            return self._in_steps(checked)
        try:
            left = run_again(lambda: self._shortcut.publish(checked, way))
        except (TransportRejected, TransportUnavailable) as error:
            return _unavailable(checked, error)
        if left is None or len(left) == len(checked.drafts):
            return self._in_steps(checked)
        self._wakeups.due(way.subscriptions)
        results = dict(checked.rejected)
        for draft in checked.drafts:
            results[draft.position] = PublishResult(
                id=draft.id, status="accepted", subscriptions=len(way.subscriptions)
            )
        if left:
            positions = [draft.position for draft in checked.drafts if draft.id in left]
            results |= zip(positions, self._in_steps(_part(checked, positions)), strict=True)
        return _in_order(results)

    def _in_steps(self, checked: Checked) -> list[PublishResult]:
        """In a transaction of several statements."""
        try:
            written = run_again(lambda: self._publish_once(checked))
        except (TransportRejected, TransportUnavailable) as error:
            return _unavailable(checked, error)
        if written.subscriptions:
            self._wakeups.due(written.subscriptions)
        return written.results

    def _publish_once(self, checked: Checked) -> _Written:
        with self._database.writing() as connection:
            self._database.dialect.share_topology(connection)
            return self._write(connection, checked, self._writer.deliveries.have_lanes)

    def publish_to(self, connection: Connection, topic: str, target: AppliedTopic, new: NewMessage) -> PublishResult:
        """Publish one message to just what ``target`` has, in a transaction of our own that shares the topology."""
        applied = AppliedTopology(revision=0, topics={topic: target}, subscriptions={})
        checked = check(applied, topic, [new], ids_of([new], self._sources), self._sources)
        if not checked.drafts:
            return checked.rejected[0]
        return self._writer.write(connection, target, checked.drafts, self._writer.deliveries.have_lanes).by_position[0]

    def _write(self, connection: Connection, checked: Checked, lanes: LaneWriting) -> _Written:
        applied = self._reader.current(connection)
        if applied.revision != checked.revision:
            checked = check(applied, checked.topic, checked.messages, checked.ids, self._sources)
        if checked.target is None or not checked.drafts:
            return _Written(by_position=checked.rejected, subscriptions=frozenset())
        written = self._writer.write(connection, checked.target, checked.drafts, lanes)
        return replace(written, by_position={**checked.rejected, **written.by_position})


def _in_order(by_position: Mapping[int, PublishResult]) -> list[PublishResult]:
    return [result for _, result in sorted(by_position.items())]


def _part(checked: Checked, positions: Sequence[int]) -> Checked:
    """The call of only the messages at ``positions``, each of which has a draft."""
    of = {draft.position: draft for draft in checked.drafts}
    return replace(
        checked,
        messages=[checked.messages[position] for position in positions],
        ids=[checked.ids[position] for position in positions],
        drafts=[replace(of[position], position=i) for i, position in enumerate(positions)],
        rejected={},
    )


def _unavailable(checked: Checked, error: TransportRejected | TransportUnavailable) -> list[PublishResult]:
    """Results when the database did not answer: only what breaks the contract is sure to be refused for good.

    What depends on the topology may be otherwise by now.
    """
    refused = isinstance(error, TransportRejected)
    fault = PublishError(code="TransportRejected" if refused else "TransportUnavailable", message=str(error))
    results = []
    for position, message_id in enumerate(checked.ids):
        known = checked.rejected.get(position)
        if known is not None and known.error is not None and known.error.code.startswith("Invalid"):
            results.append(known)
        else:
            results.append(rejection(message_id, fault))
    return results


class _Writer:
    """The statements of publishing: messages, what they repeat, deliveries."""

    def __init__(self, dialect: Dialect) -> None:
        self.deliveries: Final = Deliveries(dialect)
        self._dialect = dialect
        self._deduplicator = Deduplicator(dialect)
        new: Columns = {"position": sa.Integer(), "id": MESSAGE_ID, "body": sa.Text()}
        self._new = dialect.batch("new", new)
        self._asked = dialect.batch("asked", {"id": MESSAGE_ID})
        self._insert_messages = dialect.statement(self._message_insert(dialect))
        self._alone = dialect.batch("alone", {"ordinal": sa.BigInteger()})
        self._note_unwanted = dialect.statement(self._unwanted_insert())
        known = sa.select(message.c.id, message.c.body).where(message.c.id.in_(sa.select(self._asked.rows.c.id)))
        self._read_known = dialect.statement(known)

    def write(
        self, connection: Connection, target: AppliedTopic, drafts: Sequence[Draft], lanes: LaneWriting
    ) -> _Written:
        """Insert what is new and answer for each draft; ``lanes`` has claims look at the lanes of the deliveries."""
        self._dialect.queue_publishers(connection, ordered_lanes(target.subscriptions, drafts))
        first = {draft.id: draft for draft in reversed(drafts)}
        ordinals = self._place(connection, target.id, [draft for draft in drafts if draft is first[draft.id]])
        placed = [draft for draft in first.values() if draft.id in ordinals]
        winners = self._deduplicate(connection, target, placed, ordinals)
        accepted = [draft for draft in placed if draft.id not in winners]
        deliveries, reached = fan_out(target.subscriptions, accepted, ordinals)
        self.deliveries.insert(connection, deliveries, lanes)
        alone = [(ordinals[draft.id],) for draft in accepted if not reached[draft.position]]
        if alone:
            self._note_unwanted.run(connection, self._alone.bind(alone) | {"topic": target.id})
        results = {
            draft.position: PublishResult(id=draft.id, status="accepted", subscriptions=len(reached[draft.position]))
            for draft in accepted
        }
        repeats = [draft for draft in drafts if draft.position not in results]
        if repeats:
            known = {draft.id: draft.prepared.body for draft in placed}
            known |= self._stored_bodies(connection, {draft.id for draft in repeats} - known.keys())
            results |= {draft.position: _repeated(draft, known, winners) for draft in repeats}
        return _Written(by_position=results, subscriptions=frozenset().union(*reached.values()))

    def _place(self, connection: Connection, topic_id: int, drafts: Sequence[Draft]) -> dict[str, int]:
        """Insert the messages whose ids are not there yet, in order; answers their ordinals by id.

        A rival that is publishing the same id in an open transaction is waited for.
        """
        ordinals: dict[str, int] = {}
        for part in _parts(drafts):
            rows = [(draft.position, draft.id, draft.prepared.body) for draft in part]
            found: Iterable[Any] = self._insert_messages.run(connection, self._new.bind(rows) | {"topic": topic_id})
            ordinals |= {message_id: ordinal for ordinal, message_id in found}
        return ordinals

    def _deduplicate(
        self, connection: Connection, target: AppliedTopic, placed: Sequence[Draft], ordinals: Mapping[str, int]
    ) -> Mapping[str, str]:
        keyed = [_keyed(draft, target, ordinals) for draft in placed if draft.new.deduplication_key is not None]
        if not keyed:
            return {}
        keyed.sort(key=lambda entry: entry.ordinal)
        return self._deduplicator.settle(connection, target.id, keyed)

    def _stored_bodies(self, connection: Connection, ids: set[str]) -> dict[str, str]:
        if not ids:
            return {}
        rows = [(message_id,) for message_id in sorted(ids)]
        return {row.id: row.body for row in self._read_known.run(connection, self._asked.bind(rows))}

    def _message_insert(self, dialect: Dialect) -> sa.sql.dml.UpdateBase:
        rows = self._new.rows.c
        new = (
            sa.select(rows.id, Now(), sa.bindparam("topic", type_=sa.Integer()), rows.body)
            .where(sa.true())  # SQLite takes ON CONFLICT for the ON of a join without it
            .order_by(rows.position)  # ordinals are drawn in this order
        )
        insert = dialect.insert(message).from_select(["id", "published_at", "topic_id", "body"], new)
        own_id = sa.cast(message.c.id, sa.Text()).label("id")  # a UUID of its own would be made for each, and written
        return insert.on_conflict_do_nothing(index_elements=["id"]).returning(message.c.ordinal, own_id)

    def _unwanted_insert(self) -> sa.sql.dml.UpdateBase:
        new = sa.select(sa.bindparam("topic", type_=sa.Integer()), Now(), self._alone.rows.c.ordinal)
        return unwanted.insert().from_select(["topic_id", "published_at", "message_ordinal"], new)


def _parts(drafts: Sequence[Draft]) -> Iterator[Sequence[Draft]]:
    start = size = 0
    for i, draft in enumerate(drafts):
        if i - start == ROWS or (size and size + draft.prepared.size_bytes > BYTES):
            yield drafts[start:i]
            start, size = i, 0
        size += draft.prepared.size_bytes
    yield drafts[start:]


def _keyed(draft: Draft, target: AppliedTopic, ordinals: Mapping[str, int]) -> Keyed:
    ttl = draft.new.deduplication_ttl
    return Keyed(
        message_id=draft.id,
        ordinal=ordinals[draft.id],
        key=draft.new.deduplication_key or "",
        ttl_seconds=float(target.policy.deduplication_ttl_seconds) if ttl is None else ttl.total_seconds(),
        window=draft.new.deduplication_window,
    )


def _repeated(draft: Draft, known: Mapping[str, str], winners: Mapping[str, str]) -> PublishResult:
    """The answer for a message whose id, or whose deduplication key, came before it."""
    if comparable(known[draft.id]) == comparable(draft.prepared.body):
        return PublishResult(id=winners.get(draft.id, draft.id), status="duplicate")
    problem = f"message id {draft.id} is taken by a message with other content; publish with a new id"
    return rejection(draft.id, PublishError(code="MessageIdConflict", message=problem))
