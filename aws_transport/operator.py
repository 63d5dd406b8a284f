"""Looking after subscriptions on SQS: how they stand, and what their dead-letter queues hold."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.bindings import SubscriptionBinding
from aws_transport.dead_letter import NOTE_ATTRIBUTE, DeadLetterNote, read_note
from aws_transport.faults import translated
from aws_transport.not_built import NotBuilt
from towpath import limits
from towpath.envelope import Origin, decode
from towpath.errors import InvalidEnvelope, SubscriptionNotFound, Unsupported, UnsupportedSchema
from towpath.manifest import Subscription
from towpath.message import Clock
from towpath.operating import DeadLetterEntry, Page, SubscriptionStats

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import ChangeMessageVisibilityBatchRequestEntryTypeDef, MessageTypeDef

_HOLD_SECONDS: Final = 30  # what is looked at is hidden for so long if it cannot be given back
_LOOK: Final = timedelta(seconds=20)  # looking ends well before the first message comes back by itself
_COUNTS: Final = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
_IN_FLIGHT: Final = "ApproximateNumberOfMessagesNotVisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsOperator(NotBuilt):
    """``towpath.ports.Operator`` on SQS. Covers every subscription on AWS, whatever its host."""

    subscriptions: Mapping[str, Subscription]
    bindings: Mapping[str, SubscriptionBinding]
    client: SQSClient
    clock: Clock
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("towpath.aws"))

    def stats(self) -> list[SubscriptionStats]:
        """Every subscription that is deployed, by name. SQS's counts are approximate.

        SQS does not tell a delivery that waits for its next attempt from one in a worker's hands: both are hidden, and
        counted as ``leased``. It keeps no count of what was completed or discarded, and CloudWatch alone knows ages.
        """
        unbound = sorted(self.subscriptions.keys() - self.bindings.keys())
        if unbound:
            self.log.warning("left out, since they have no bindings: %s", ", ".join(unbound))
        return [self._stats(name) for name in sorted(self.subscriptions.keys() & self.bindings.keys())]

    def dead_letters(self, subscription: str, limit: int, cursor: str | None = None) -> Page[DeadLetterEntry]:
        """At most ``limit`` dead letters, those set aside first before the others, of those that SQS shows.

        Messages are received to be looked at and given back at the end: until then, or for 30 s when giving back
        fails, nobody else sees them. A pass ends after 20 s, with what it has seen. Of one FIFO group SQS shows no more
        than it puts in one answer. Raises ``SubscriptionNotFound``, ``TransportUnavailable``, ``TransportRejected``,
        and ``Unsupported`` for a ``cursor``.
        """
        if cursor is not None:
            raise Unsupported(
                "SQS has no list of dead letters that goes on where another one ended; ask for more at once"
            )
        known = self.subscriptions.get(subscription)
        binding = self.bindings.get(subscription)
        if known is None or binding is None:
            deployed = ", ".join(sorted(self.subscriptions.keys() & self.bindings.keys())) or "none"
            raise SubscriptionNotFound(subscription, f"manifest and bindings have {deployed}")
        with self._given_back(binding.dead_letter_queue_url) as seen:
            self._look(binding.dead_letter_queue_url, limit, seen)
            entries = [_entry(subscription, known, message) for message in seen.values()]
        return Page(entries=tuple(sorted(entries, key=lambda entry: (entry.dead_since, entry.delivery_id))))

    def _stats(self, name: str) -> SubscriptionStats:
        binding = self.bindings[name]
        queue, dead = self._counts(binding.queue_url), self._counts(binding.dead_letter_queue_url)
        return SubscriptionStats(
            subscription=name,
            topic=self.subscriptions[name].topic,
            pending=sum(queue[count] for count in _COUNTS),
            leased=queue[_IN_FLIGHT],
            dead=sum(dead.values()),
            completed=None,
            discarded=None,
            oldest_pending=None,
            status=self.subscriptions[name].status,
        )

    def _counts(self, url: str) -> dict[str, int]:
        try:
            answer = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=[*_COUNTS, _IN_FLIGHT])
        except (BotoCoreError, ClientError) as error:
            raise translated(error, f"count the messages of {url}") from error
        return {count: int(answer["Attributes"].get(count, "0")) for count in (*_COUNTS, _IN_FLIGHT)}

    def _look(self, url: str, limit: int, seen: dict[str, MessageTypeDef]) -> None:
        """Add messages to ``seen``, by id, until there are ``limit``, no more come, or the time is over."""
        end = self.clock() + _LOOK
        while len(seen) < limit and self.clock() < end:
            try:
                answer = self.client.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=min(limits.SQS_BATCH_ENTRIES, limit - len(seen)),
                    VisibilityTimeout=_HOLD_SECONDS,
                    WaitTimeSeconds=1,  # a poll without waiting asks only some of SQS's servers
                    MessageSystemAttributeNames=["DeadLetterQueueSourceArn", "SentTimestamp"],
                    MessageAttributeNames=[NOTE_ATTRIBUTE],
                )
            except (BotoCoreError, ClientError) as error:
                raise translated(error, f"read the dead letters in {url}") from error
            if not answer.get("Messages"):
                return
            seen |= {message["MessageId"]: message for message in answer["Messages"]}

    @contextmanager
    def _given_back(self, url: str) -> Iterator[dict[str, MessageTypeDef]]:
        """A place for messages that are only looked at: all in it are made visible again at the end."""
        seen: dict[str, MessageTypeDef] = {}
        try:
            yield seen
        finally:
            held = list(seen.values())
            for start in range(0, len(held), limits.SQS_BATCH_ENTRIES):
                self._give_back(url, held[start : start + limits.SQS_BATCH_ENTRIES])

    def _give_back(self, url: str, messages: Sequence[MessageTypeDef]) -> None:
        entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
            {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            for i, message in enumerate(messages)
        ]
        try:
            self.client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            self.log.warning(
                "dead letters that were looked at come back in %d s by themselves: %s", _HOLD_SECONDS, error
            )


def _entry(name: str, subscription: Subscription, message: MessageTypeDef) -> DeadLetterEntry:
    note = _note(subscription, message)
    return DeadLetterEntry(
        delivery_id=message["MessageId"],
        subscription=name,
        message_id=_message_id(message, subscription.topic),
        reason=note.reason,
        error=note.error,
        attempts=note.attempts,
        dead_since=note.time,
        body=message["Body"],
    )


def _note(subscription: Subscription, message: MessageTypeDef) -> DeadLetterNote:
    """The note that the message carries, or what can be said of one that came without.

    SQS itself sets a message aside that was received too often, unchanged; its sending time is then the only one known.
    """
    system = message.get("Attributes", {})
    attribute = message.get("MessageAttributes", {}).get(NOTE_ATTRIBUTE)
    note = read_note(attribute.get("StringValue", "")) if attribute is not None else None
    if note is not None:
        return note
    source = system.get("DeadLetterQueueSourceArn", "").rpartition(":")[2]
    receives = subscription.aws.queue.max_receive_count if subscription.aws is not None else None
    return DeadLetterNote(
        reason="MaxReceivesExceeded" if source else "Unknown",
        error=f"SQS set it aside after {receives} receives, none of which settled it" if source else "it has no note",
        attempts=(receives or 0) if source else 0,
        time=datetime.fromtimestamp(int(system.get("SentTimestamp", "0")) / 1000, UTC),
        source_queue=source,
    )


def _message_id(message: MessageTypeDef, topic: str) -> str:
    """The message's own id where the body is an envelope, else SQS's."""
    origin = Origin(message_id=message["MessageId"], topic=topic, received_at=datetime.fromtimestamp(0, UTC))
    try:
        return decode(message["Body"], origin).id
    except (InvalidEnvelope, UnsupportedSchema):
        return message["MessageId"]
