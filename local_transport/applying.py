"""Making a database's topics and subscriptions equal to a manifest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.applied import Desired, desired, stored_text
from local_transport.connections import Database
from local_transport.dialects.columns import Now
from local_transport.tables import delivery, lane, subscription, topic, topology, touched_lane
from towpath.errors import ApplyRefused
from towpath.filters import FilterPolicy
from towpath.manifest import Manifest
from towpath.transports import Applied


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """A row of topic or subscription: the policy's text, ``None`` while it is removed."""

    id: int
    policy: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Differences:
    """Names, of topics or of subscriptions."""

    added: list[str]
    changed: list[str]
    removed: list[str]

    def any(self) -> bool:
        """Whether there is something to do."""
        return bool(self.added or self.changed or self.removed)


def apply(database: Database, manifest: Manifest) -> Applied:
    """Make topics and subscriptions equal to ``manifest``, in one transaction; the revision rises when one changes.

    Nobody publishes meanwhile. Raises ``ApplyRefused`` with every reason, and changes nothing, when a subscription
    with deliveries would go or change its partition mode, or when the manifest has no topic for a database.
    """
    wanted = desired(manifest)
    if not wanted.topics:
        raise ApplyRefused(
            ["it has no topic on a database; render it with 'towpath manifest render --all-on database'"]
        )
    for found in wanted.subscriptions.values():
        if found.filter_policy is not None:
            FilterPolicy.parse(found.filter_policy)  # a policy that no publisher could evaluate is refused here
    with database.writing() as connection:
        database.dialect.own_topology(connection)
        return _apply(database, connection, wanted)


def _apply(database: Database, connection: Connection, wanted: Desired) -> Applied:
    topics, subscriptions = _stored(connection, topic), _stored(connection, subscription)
    topic_changes = _differences(topics, {name: stored_text(record) for name, record in wanted.topics.items()})
    changes = _differences(subscriptions, {name: stored_text(record) for name, record in wanted.subscriptions.items()})
    reasons = list(_reasons(connection, subscriptions, changes, wanted))
    if reasons:
        raise ApplyRefused(reasons)
    if topic_changes.any() or changes.any():
        revision = _next_revision(database, connection, wanted.fingerprint())
        _write_topics(connection, wanted, topics, topic_changes, revision)
        _write_subscriptions(connection, wanted, subscriptions, changes, revision)
        _clear_lanes(connection, [subscriptions[name].id for name in (*changes.changed, *changes.removed)])
    return Applied(
        added=(*topic_changes.added, *changes.added),
        changed=(*topic_changes.changed, *changes.changed),
        removed=(*topic_changes.removed, *changes.removed),
    )


def _stored(connection: Connection, table: sa.Table) -> dict[str, _Stored]:
    rows = connection.execute(sa.select(table.c.id, table.c.name, table.c.policy, table.c.removed_at))
    return {row.name: _Stored(id=row.id, policy=row.policy if row.removed_at is None else None) for row in rows}


def _differences(stored: Mapping[str, _Stored], wanted: Mapping[str, str]) -> _Differences:
    present = {name: row.policy for name, row in stored.items() if row.policy is not None}
    return _Differences(
        added=sorted(wanted.keys() - present.keys()),
        changed=sorted(name for name, text in wanted.items() if name in present and present[name] != text),
        removed=sorted(present.keys() - wanted.keys()),
    )


# --- What must not happen ----------------------------------------------------------------------------------------


def _reasons(
    connection: Connection, stored: Mapping[str, _Stored], changes: _Differences, wanted: Desired
) -> Iterator[str]:
    for name in changes.removed:
        count = _deliveries(connection, stored[name].id)
        if count:
            yield f"subscription {name!r} would go with {count}; let workers finish and settle its dead letters first"
    for name in changes.changed:
        before, after = _partition_mode(stored[name]), wanted.subscriptions[name].policy.partition_mode
        count = _deliveries(connection, stored[name].id) if before != after else ""
        if count:
            yield (
                f"subscription {name!r} would change its partition mode from {before} to {after} with {count}; "
                "let workers finish and settle its dead letters first, or make a new subscription"
            )


def _partition_mode(stored: _Stored) -> str:
    """Read from the text alone: applying must work on what another version of Towpath has applied."""
    return str(json.loads(stored.policy or "{}")["policy"]["partition_mode"])


def _deliveries(connection: Connection, subscription_id: int) -> str:
    """How many deliveries there are, in words; empty when there are none."""
    dead = delivery.c.state == "dead"
    counts = sa.select(sa.func.count().filter(~dead), sa.func.count().filter(dead)).where(
        delivery.c.subscription_id == subscription_id
    )
    found_open, found_dead = connection.execute(counts).one()
    parts = [f"{count} {noun}" for count, noun in ((found_open, "open"), (found_dead, "dead")) if count]
    return f"{' and '.join(parts)} deliveries" if parts else ""


# --- Writing -----------------------------------------------------------------------------------------------------


def _next_revision(database: Database, connection: Connection, fingerprint: str) -> int:
    insert = database.dialect.insert(topology).values(id=1, revision=1, fingerprint=fingerprint, applied_at=Now())
    again = {"revision": topology.c.revision + 1, "fingerprint": fingerprint, "applied_at": Now()}
    statement = insert.on_conflict_do_update(index_elements=["id"], set_=again).returning(topology.c.revision)
    return int(connection.execute(statement).scalar_one())


def _write_topics(
    connection: Connection, wanted: Desired, stored: Mapping[str, _Stored], changes: _Differences, revision: int
) -> None:
    for name in (*changes.added, *changes.changed):
        _write(connection, topic, stored, name, {"policy": stored_text(wanted.topics[name]), "revision": revision})
    _remove(connection, topic, changes.removed, revision)


def _write_subscriptions(
    connection: Connection, wanted: Desired, stored: Mapping[str, _Stored], changes: _Differences, revision: int
) -> None:
    topics = _stored(connection, topic)
    for name in (*changes.added, *changes.changed):
        record = wanted.subscriptions[name]
        values = {
            "policy": stored_text(record),
            "topic_id": topics[record.policy.topic].id,
            "status": record.policy.status,
            "revision": revision,
        }
        _write(connection, subscription, stored, name, values)
    _remove(connection, subscription, changes.removed, revision)


def _write(
    connection: Connection, table: sa.Table, stored: Mapping[str, _Stored], name: str, values: Mapping[str, object]
) -> None:
    if name in stored:  # also one that was removed: its row, and what history says of it, lives on
        connection.execute(table.update().where(table.c.name == name).values(removed_at=None, **values))
    else:
        connection.execute(table.insert().values(name=name, **values))


def _clear_lanes(connection: Connection, subscription_ids: list[int]) -> None:
    """Remove what is left of lanes that have no delivery: the subscription may have none from now on, or others."""
    for table in (lane, touched_lane):
        own = table.c.subscription_id.in_(subscription_ids)
        busy = sa.exists().where(delivery.c.subscription_id == table.c.subscription_id)
        connection.execute(sa.delete(table).where(own, ~busy))


def _remove(connection: Connection, table: sa.Table, names: list[str], revision: int) -> None:
    if names:
        gone = table.update().where(table.c.name.in_(names))
        connection.execute(gone.values(removed_at=Now(), revision=revision))
