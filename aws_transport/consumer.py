"""Consuming from SQS by long polling: for workers outside Lambda."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.faults import translated
from aws_transport.settlement import SqsAttribute, SqsDelivery, SqsSettler, readable_attributes, replay_count
from towpath import limits
from towpath.message import Clock
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Release,
    Retrial,
    SettleResult,
    SubscriptionPolicy,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageAttributeValueOutputTypeDef, MessageTypeDef


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsConsumer:
    """``towpath.ports.Consumer`` on one queue. Keeps no state, so several threads may share one."""

    client: SQSClient
    policy: SubscriptionPolicy
    fifo: bool
    settler: SqsSettler
    clock: Clock

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        """One long poll of at most ``wait`` (20 s is SQS's most) for at most ``limit`` deliveries (10 is SQS's most).

        A FIFO queue hands out one at a time: more of a group in one answer would be handled beside each other. Raises
        ``TransportUnavailable`` for what may pass, ``TransportRejected`` for a right or a queue that is missing.
        """
        most = 1 if self.fifo else limits.SQS_BATCH_ENTRIES
        try:
            answer = self.client.receive_message(
                QueueUrl=self.settler.queue_url,
                MaxNumberOfMessages=min(limit, most),
                WaitTimeSeconds=min(int(wait.total_seconds()), limits.SQS_LONG_POLL_SECONDS),
                VisibilityTimeout=self.policy.lease_seconds,
                MessageSystemAttributeNames=["ApproximateReceiveCount", "MessageGroupId"],
                MessageAttributeNames=["All"],
            )
        except (BotoCoreError, ClientError) as error:
            raise translated(error, f"receive from {self.settler.queue_url}") from error
        return [self._delivery(message) for message in answer.get("Messages", ())]

    def extend(self, extensions: Sequence[Extension]) -> list[SettleResult]:
        """Hide the messages for another lease, no longer than 12 h from their receive. SQS keeps no progress."""
        lease = timedelta(seconds=self.policy.lease_seconds)
        return self.settler.extend([extension.delivery for extension in extensions], lease)

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """See ``SqsSettler``, as for all that follow."""
        return self.settler.complete(completions)

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Hide each for its delay. SQS keeps no last error."""
        return self.settler.retry(retrials)

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Copy each to the dead-letter queue with a note, then delete it."""
        return self.settler.dead_letter(letters)

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        """Delete the messages."""
        return self.settler.discard(discards)

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """Make the messages visible at once; the receive stays counted."""
        return self.settler.release(releases)

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        """Nothing can be cancelled in flight on SQS, so there is never anything to acknowledge."""
        return self.settler.acknowledge_cancel(acknowledgements)

    def stop_receiving(self) -> None:
        """Nothing to do: a poll that is on its way cannot be called back."""

    def close(self) -> None:
        """Nothing is held open: the clients are the transport's."""

    def _delivery(self, message: MessageTypeDef) -> SqsDelivery:
        system = message.get("Attributes", {})
        attributes = sqs_attributes(message.get("MessageAttributes", {}))
        replay = replay_count(attributes)
        return SqsDelivery(
            id=message["MessageId"],
            subscription=self.policy.subscription,
            topic=self.policy.topic,
            attempt=int(system.get("ApproximateReceiveCount", "1")),
            is_replay=replay > 0,
            message_id=message["MessageId"],
            body=message["Body"],
            attributes=readable_attributes(attributes),
            lease_token=message["ReceiptHandle"],
            received_at=self.clock(),
            group_id=system.get("MessageGroupId"),
            replay=replay,
            sqs_attributes=attributes,
        )


def sqs_attributes(received: Mapping[str, MessageAttributeValueOutputTypeDef]) -> dict[str, SqsAttribute]:
    """Message attributes as boto3 gives them."""
    return {
        name: SqsAttribute(data_type=value["DataType"], value=value.get("StringValue", value.get("BinaryValue", b"")))
        for name, value in received.items()
    }
