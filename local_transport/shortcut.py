"""The short way to publish: a whole call as one statement, where all its messages go the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.checking import Checked, Draft
from local_transport.connections import Database
from local_transport.delivering import wants
from local_transport.dialects.columns import MESSAGE_ID, Moment, Now, moment
from local_transport.dialects.port import Change
from local_transport.tables import delivery, message, topology

ROWS: Final = 1_000  # messages in one statement, and
BYTES: Final = 4_000_000  # of bodies, so that a call of any size needs only so much memory at once
_DELIVERIES: Final = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Where every message of a call goes, and when: to ids of a topic and of one subscription or more, in no lane."""

    topic: int
    subscriptions: tuple[int, ...]
    due: datetime | None
    expires: datetime | None


def way_of(checked: Checked) -> Way | None:
    """The way of all drafts of a call; ``None`` where they need more than to be inserted with equal deliveries."""
    target, drafts = checked.target, checked.drafts
    if target is None or not drafts or len(drafts) > ROWS or not _are_simple(drafts):
        return None
    if any(s.is_partitioned for s in target.subscriptions) and any(d.new.partition_key is not None for d in drafts):
        return None
    wanting = _wanted_alike(target.subscriptions, drafts)
    if not wanting or len(wanting) * len(drafts) > _DELIVERIES:
        return None
    first = drafts[0].new
    return Way(topic=target.id, subscriptions=wanting, due=first.deliver_after, expires=first.expires_at)


def _are_simple(drafts: Sequence[Draft]) -> bool:
    """Whether none has a deduplication key, all have times alike and ids of their own, and it is not too much."""
    due, expires = drafts[0].new.deliver_after, drafts[0].new.expires_at
    for draft in drafts:
        new = draft.new
        if new.deduplication_key is not None or new.deliver_after != due or new.expires_at != expires:
            return False
    return (
        len({draft.id for draft in drafts}) == len(drafts)
        and sum(draft.prepared.size_bytes for draft in drafts) <= BYTES
    )


def _wanted_alike(subscriptions: Sequence[AppliedSubscription], drafts: Sequence[Draft]) -> tuple[int, ...]:
    """The subscriptions that want every draft; none where there is one that wants some of them only."""
    filtered = [s for s in subscriptions if s.filter is not None]
    first = [s for s in subscriptions if wants(s, drafts[0])]
    if filtered:
        wanting = [s for s in first if s.filter is not None]
        if any([s for s in filtered if wants(s, draft)] != wanting for draft in drafts[1:]):
            return ()
    return tuple(s.id for s in first)


class Shortcut:
    """The statement. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        dialect = database.dialect
        self._new = dialect.batch("new", {"position": sa.Integer(), "id": MESSAGE_ID, "body": sa.Text()})
        self._to = dialect.batch("to", {"subscription": sa.Integer()})
        insert, of_new_ids = self._message_insert(may_be_taken=True), self._message_insert(may_be_taken=False)
        then = [self._delivery_insert]
        self._insert = dialect.sharing_plan(Change(change=insert, then=then, read=self._left))
        self._insert_new_ids = dialect.sharing_plan(Change(change=of_new_ids, then=then, read=self._left))

    def publish(self, checked: Checked, way: Way) -> set[str] | None:
        """Publish the drafts, which go ``way``, in a transaction of our own; answers the ids that were not new.

        All of them are answered, and nothing is done, where another revision of the topology is applied. ``None``:
        there is no such way here, and nothing was done.
        """
        rows = [(draft.position, draft.id, draft.prepared.body) for draft in checked.drafts]
        parameters = self._new.bind(rows) | self._to.bind([(subscription,) for subscription in way.subscriptions])
        parameters |= {"topic": way.topic, "revision": checked.revision, "count": len(rows)}
        parameters |= {"due": way.due, "expires": way.expires}
        ids_are_new = all(draft.new.id is None for draft in checked.drafts)  # then a conflict is not looked for
        plan = self._insert_new_ids if ids_are_new else self._insert
        with self._database.translated():
            left = plan.run(self._database.engine, parameters)
        return None if left is None else {message_id for (message_id,) in left}

    def _message_insert(self, *, may_be_taken: bool) -> UpdateBase:
        rows = self._new.rows.c
        new = (
            sa.select(rows.id, Now(), sa.bindparam("topic", type_=sa.Integer()), rows.body)
            .where(sa.select(topology.c.revision).scalar_subquery() == sa.bindparam("revision", type_=sa.BigInteger()))
            .order_by(rows.position)  # ordinals are drawn in this order
        )
        insert = self._database.dialect.insert(message).from_select(["id", "published_at", "topic_id", "body"], new)
        if may_be_taken:
            insert = insert.on_conflict_do_nothing(index_elements=["id"])
        return insert.returning(message.c.ordinal, message.c.id)

    def _delivery_insert(self, placed: FromClause) -> UpdateBase:
        given = sa.bindparam("due", type_=Moment())
        due = sa.case((given > moment(), given), else_=Now())
        new = sa.select(placed.c.ordinal, self._to.rows.c.subscription, due, sa.bindparam("expires", type_=Moment()))
        new = new.select_from(placed.join(self._to.rows, sa.true()))
        return delivery.insert().from_select(["message_ordinal", "subscription_id", "due_at", "expires_at"], new)

    def _left(self, placed: FromClause) -> sa.Select[Any]:
        rows = self._new.rows.c
        some = sa.select(sa.func.count()).select_from(placed).scalar_subquery() < sa.bindparam(
            "count", type_=sa.Integer()
        )
        left = rows.id.not_in(sa.select(placed.c.id))
        return sa.select(sa.cast(rows.id, sa.Text()).label("id")).where(some, left)
