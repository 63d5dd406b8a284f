"""Replaying a dead letter with another payload: a new message for its queue, in the dead letter's stead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.acting import Actions, Place, entry_fault
from aws_transport.batches import group_id
from aws_transport.dead_entries import DeadLetter
from aws_transport.dead_letter import QueueCopy, is_fifo
from aws_transport.faults import translated
from aws_transport.looking import Pass
from towpath.envelope import Prepared, Sources, prepare
from towpath.errors import DeliveryNotFound, InvalidEdit, InvalidEnvelope, UnsupportedSchema
from towpath.manifest import Topic
from towpath.message import JsonValue, Message, PublishError
from towpath.operating import Order, Pace, Selection, Warrant, edited

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Editor:
    """Replays edited dead letters of one topic's subscriptions."""

    actions: Actions
    topic: Topic
    sources: Sources

    def replay(self, places: Sequence[Place], delivery_id: str, payload: JsonValue, warrant: Warrant) -> str:
        """Send the edited message to the subscription's queue, then delete the dead letter; answers its new id.

        When the deletion fails that is raised, and the dead letter stays beside the new message.
        """
        for place in places:
            with Pass(
                client=self.actions.client, url=place.url, clock=self.sources.clock, log=self.actions.log
            ) as looked:
                letters = (place.read(message) for messages in looked.batches() for message in messages)
                found = next((letter for letter in letters if letter.delivery_id == delivery_id), None)
                if found is not None:
                    return self._replace(place, looked, found, payload, warrant)
        raise DeliveryNotFound(delivery_id, "dead letter")

    def _replace(self, place: Place, looked: Pass, letter: DeadLetter, payload: JsonValue, warrant: Warrant) -> str:
        new = edited(_decoded(letter), payload, self.sources.clock())
        prepared = prepare(place.subscription.topic, new, self.topic.max_payload_bytes, self.sources)
        if isinstance(prepared, PublishError):
            raise InvalidEdit(prepared.code, prepared.message)
        self._send(place.queue_url, prepared)
        new_id = prepared.message.id
        selection = Selection(subscription=place.name, delivery_ids=(letter.delivery_id,))
        order = Order(action="replay edited", selection=selection, warrant=warrant, pace=Pace())
        self.actions.audit.record(order, place.name, [letter], new_message=new_id)
        gone, fault = self.actions.delete(place.url, [letter])
        for one in gone:
            looked.take_out(one.id)
        if fault is not None:
            raise fault
        return new_id

    def _send(self, queue_url: str, prepared: Prepared) -> None:
        doing = f"send an edited dead letter to {queue_url}"
        message, fifo = prepared.message, is_fifo(queue_url)
        keyed = fifo or (self.topic.aws is not None and self.topic.aws.fair)
        key = message.partition_key or (message.id if fifo else None)
        copy = QueueCopy(
            body=prepared.body,
            attributes={},
            group_id=group_id(key) if keyed and key is not None else None,
            deduplication_id=message.id if fifo else None,
        )
        try:
            answer = self.actions.client.send_message_batch(QueueUrl=queue_url, Entries=[copy.entry("0")])
        except (BotoCoreError, ClientError) as error:
            raise translated(error, doing) from error
        fault = entry_fault(answer, doing)
        if fault is not None:
            raise fault


def _decoded(letter: DeadLetter) -> Message[JsonValue]:
    try:
        return letter.message()
    except (InvalidEnvelope, UnsupportedSchema) as error:
        raise InvalidEdit(type(error).__name__, f"its envelope cannot be read: {error}") from error
