"""Replaying a dead letter with another payload: a new message for its subscription, in the dead letter's stead."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.applied import AppliedTopic, TopologyReader
from local_transport.auditing import record
from local_transport.changes import CHOSEN, drop
from local_transport.connections import Database, run_again
from local_transport.details import kept_text
from local_transport.dialects.columns import Now
from local_transport.publishing import DatabasePublisher
from local_transport.selecting import delivery_key
from local_transport.tables import delivery, message, subscription
from towpath.envelope import Origin, decode
from towpath.errors import DeliveryNotFound, InvalidEdit, InvalidEnvelope, UnsupportedSchema
from towpath.message import JsonValue, Message
from towpath.operating import Warrant, edited

_DEAD_LETTER: Final = (
    sa.select(
        delivery.c.message_ordinal,
        delivery.c.subscription_id,
        delivery.c.lease_token,
        message.c.id.label("message_id"),
        message.c.body,
        message.c.published_at,
        subscription.c.name.label("subscription"),
        sa.select(Now()).scalar_subquery().label("now"),
    )
    .join_from(delivery, message, message.c.ordinal == delivery.c.message_ordinal)
    .join(subscription, subscription.c.id == delivery.c.subscription_id)
    .where(delivery.c.state == "dead")
)


class Editor:
    """Replays edited dead letters. Thread-safe."""

    def __init__(
        self,
        database: Database,
        reader: TopologyReader,
        publisher: DatabasePublisher,
        due: Callable[[Collection[int]], None],
    ) -> None:
        """``due`` is told for which subscription something may have become claimable."""
        self._database = database
        self._reader = reader
        self._publisher = publisher
        self._due = due
        self._chosen = database.dialect.batch("chosen", CHOSEN)
        self._drop = database.dialect.plan(drop(self._chosen.rows))

    def replay(self, delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """Publish the new message and discard the dead letter, in one transaction; answers the new message's id."""
        ordinal, subscription_id = delivery_key(delivery_id)
        wanted = _DEAD_LETTER.where(
            delivery.c.message_ordinal == ordinal, delivery.c.subscription_id == subscription_id
        )
        new_id = run_again(lambda: self._replay_once(delivery_id, wanted, payload, warrant))
        self._due([subscription_id])
        return new_id

    def _replay_once(self, delivery_id: str, wanted: sa.Select[Any], payload: JsonValue, warrant: Warrant) -> str:
        with self._database.writing() as connection:
            self._database.dialect.share_topology(connection)
            row = connection.execute(wanted).one_or_none()
            if row is None:
                raise DeliveryNotFound(delivery_id, "dead letter")
            new_id = self._published(connection, row, payload)
            self._discard(connection, delivery_id, row, warrant)
            details = {"message": str(row.message_id), "new_message": new_id}
            record(connection, warrant, "replay edited", delivery_id, details)
            return new_id

    def _published(self, connection: Connection, row: Row[Any], payload: JsonValue) -> str:
        applied = self._reader.current(connection)
        target = applied.subscriptions[row.subscription]
        topic = applied.topics[target.policy.topic]
        alone = AppliedTopic(
            id=topic.id,
            policy=replace(topic.policy, status="active"),
            subscriptions=(replace(target, filter=None),),
        )
        new = edited(_decoded(row), payload, row.now)
        result = self._publisher.publish_to(connection, target.policy.topic, alone, new)
        if result.error is not None:
            raise InvalidEdit(result.error.code, result.error.message)
        return str(result.id)

    def _discard(self, connection: Connection, delivery_id: str, row: Row[Any], warrant: Warrant) -> None:
        chosen = self._chosen.bind([(row.message_ordinal, row.subscription_id, row.lease_token)])
        if not self._drop.run(connection, chosen | {"reason": kept_text(warrant.reason)}):
            raise DeliveryNotFound(delivery_id, "dead letter")  # somebody else was quicker: nothing is published


def _decoded(row: Row[Any]) -> Message[JsonValue]:
    try:
        return decode(row.body, Origin(message_id=str(row.message_id), topic="", received_at=row.published_at))
    except (InvalidEnvelope, UnsupportedSchema) as error:
        raise InvalidEdit(type(error).__name__, f"its envelope cannot be read: {error}") from error
