"""Dead letters as they lie in queues: what is known of each, and whether a selection means it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aws_transport.dead_letter import NOTE_ATTRIBUTE, DeadLetterNote, read_note
from aws_transport.delivery import SqsAttribute, readable_attributes, replay_count, sqs_attributes
from towpath.envelope import Origin, decode
from towpath.errors import InvalidEnvelope, InvalidSelection, UnsupportedSchema
from towpath.manifest import Subscription
from towpath.message import JsonValue, Message
from towpath.operating import DeadLetterEntry, DeliveryEntry, Selection

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message on a dead-letter queue, or (``undelivered``) among those that SNS could not deliver. ``id`` is SQS's id
    of it there.
    """

    subscription: str
    topic: str
    id: str
    receipt_handle: str
    body: str
    attributes: Mapping[str, SqsAttribute]
    group_id: str | None
    sent_at: datetime
    note: DeadLetterNote
    undelivered: bool

    @property
    def delivery_id(self) -> str:
        """What an operator calls it: its subscription's name, and SQS's id."""
        return f"{self.subscription}/{self.id}"

    @property
    def replays(self) -> int:
        """How often it was replayed before it came here."""
        return max(self.note.replay, replay_count(self.attributes))

    def message(self) -> Message[JsonValue]:
        """The message in it; a foreign one too. Raises ``InvalidEnvelope`` and ``UnsupportedSchema``."""
        attributes = readable_attributes(self.attributes)
        origin = Origin(message_id=self.id, topic=self.topic, received_at=self.sent_at, attributes=attributes)
        return decode(self.body, origin)

    def meets(self, selection: Selection, now: datetime) -> bool:
        """Whether the selection means it. A message's id may be the envelope's, or SQS's for what has none."""
        age = now - self.note.time
        return (
            (selection.delivery_ids is None or self.delivery_id in selection.delivery_ids)
            and selection.reason in (None, self.note.reason)
            and selection.error_type in (None, self.note.error.partition(":")[0])
            and (selection.older_than is None or age >= selection.older_than)
            and (selection.newer_than is None or age < selection.newer_than)
            and self._is_of_message(selection)
        )

    def entry(self) -> DeadLetterEntry:
        """It in the words of an operator's list of dead letters."""
        message = self._readable()
        return DeadLetterEntry(
            delivery_id=self.delivery_id,
            subscription=self.subscription,
            message_id=self.id if message is None else message.id,
            reason=self.note.reason,
            error=self.note.error,
            attempts=self.note.attempts,
            dead_since=self.note.time,
            body=self.body,
        )

    def delivery_entry(self) -> DeliveryEntry:
        """It in the words of an operator's list of deliveries."""
        message = self._readable()
        return DeliveryEntry(
            delivery_id=self.delivery_id,
            subscription=self.subscription,
            topic=self.topic,
            message_id=self.id if message is None else message.id,
            partition_key=None if message is None else message.partition_key,
            state="dead",
            attempt=self.note.attempts,
            is_replay=self.replays > 0,
            cancel_requested=False,
            published_at=self.sent_at if message is None else message.published_at,
            due_at=None,
            lease_expires_at=None,
            dead_since=self.note.time,
            expires_at=None if message is None else message.expires_at,
            waits_for=None,
            reason=self.note.reason,
            error=self.note.error,
            percent=None,
            note="",
            body=self.body,
        )

    def _is_of_message(self, selection: Selection) -> bool:
        if selection.message_id is None and selection.partition_key is None:
            return True
        message = self._readable()
        message_id = self.id if message is None else message.id
        key = None if message is None else message.partition_key
        return selection.message_id in (None, message_id) and selection.partition_key in (None, key)

    def _readable(self) -> Message[JsonValue] | None:
        try:
            return self.message()
        except (InvalidEnvelope, UnsupportedSchema):
            return None


def subscription_of(delivery_id: str) -> str:
    """The subscription that a dead letter's id names. Raises ``InvalidSelection`` for what is no such id."""
    name, slash, message_id = delivery_id.rpartition("/")
    if not (name and slash and message_id):
        listed = "'towpath dead-letters list' shows them"
        raise InvalidSelection(f"{delivery_id!r} is no dead letter's id on AWS; {listed}")
    return name


def read_dead_letter(
    name: str, subscription: Subscription, message: MessageTypeDef, *, undelivered: bool
) -> DeadLetter:
    """A received message as a dead letter. ``undelivered``: it comes from the queue of what SNS could not deliver."""
    system = message.get("Attributes", {})
    attributes = sqs_attributes(message.get("MessageAttributes", {}))
    sent_at = datetime.fromtimestamp(int(system.get("SentTimestamp", "0")) / 1000, UTC)
    note = _undelivered_note(attributes, sent_at) if undelivered else _note(subscription, message, attributes, sent_at)
    return DeadLetter(
        subscription=name,
        topic=subscription.topic,
        id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        body=message["Body"],
        attributes=attributes,
        group_id=system.get("MessageGroupId"),
        sent_at=sent_at,
        note=note,
        undelivered=undelivered,
    )


def _undelivered_note(attributes: Mapping[str, SqsAttribute], sent_at: datetime) -> DeadLetterNote:
    """What can be said of a message that SNS put aside; in some cases it says why in attributes of its own."""
    told = [str(attributes[name].value) for name in ("ErrorCode", "ErrorMessage") if name in attributes]
    return DeadLetterNote(
        reason="DeliveryFailed",
        error=": ".join(told) or "SNS could not deliver it to the subscription's queue",
        attempts=0,
        time=sent_at,
        source_queue="",
    )


def _note(
    subscription: Subscription, message: MessageTypeDef, attributes: Mapping[str, SqsAttribute], sent_at: datetime
) -> DeadLetterNote:
    """The note that the message carries, or what can be said of one that came without.

    SQS itself sets a message aside that was received too often, unchanged; its sending time is then the only one known.
    """
    carried = attributes.get(NOTE_ATTRIBUTE)
    note = read_note(str(carried.value)) if carried is not None else None
    if note is not None:
        return note
    source = message.get("Attributes", {}).get("DeadLetterQueueSourceArn", "").rpartition(":")[2]
    receives = subscription.aws.queue.max_receive_count if subscription.aws is not None else None
    return DeadLetterNote(
        reason="MaxReceivesExceeded" if source else "Unknown",
        error=f"SQS set it aside after {receives} receives, none of which settled it" if source else "it has no note",
        attempts=(receives or 0) if source else 0,
        time=sent_at,
        source_queue=source,
    )
