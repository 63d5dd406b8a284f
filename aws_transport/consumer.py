"""Consuming from SQS by long polling: for workers outside Lambda."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.delivery import sqs_attributes
from aws_transport.faults import translated
from aws_transport.polling import Polling
from aws_transport.settlement import SqsDelivery, SqsSettler, readable_attributes, replay_count
from towpath import limits
from towpath.errors import TransportRejected, TransportUnavailable
from towpath.message import Clock, RandomBytes
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Release,
    Retrial,
    Settled,
    SettleResult,
    SubscriptionPolicy,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef, ReceiveMessageRequestTypeDef


_SHORT_POLL: Final = timedelta(seconds=2)  # a stop can wait for the end of one
_BRIEF_HOLD: Final = timedelta(seconds=10)  # of what a longer one brings, until it is known that somebody is there


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsConsumer:
    """``towpath.ports.Consumer`` on one queue. Several threads may share one.

    ``rules`` gives the policy that holds now.

    A poll on its way cannot be called back, and SQS may hand out messages for it although nobody listens any more. So
    one of more than 2 s, which a stop leaves behind, hides what it brings for 10 s only, and for a whole lease by a
    call of its own once it is here: what nobody is there to take comes again soon.
    """

    client: SQSClient
    rules: Callable[[], SubscriptionPolicy]
    fifo: bool
    settler: SqsSettler
    clock: Clock
    random_bytes: RandomBytes = os.urandom
    polling: Polling = field(default_factory=Polling)

    @property
    def policy(self) -> SubscriptionPolicy:
        """The policy that holds now."""
        return self.rules()

    def receive(self, limit: int, wait: timedelta) -> list[Delivery]:
        """One long poll of at most ``wait``, in whole seconds rounded up (20 s is SQS's most), for at most ``limit``
        deliveries (10 is SQS's most). Nothing after ``stop_receiving``; nothing from a subscription that the manifest
        has paused or disabled, as Lambda gets nothing from it.

        A FIFO queue is asked for one message at a time: more of a group in one answer would be handled beside each
        other. When the long poll brings one, others are polled for side by side without waiting, as long as they
        bring some: while one of a group is in flight, SQS gives no other of it, so each is of another group. Raises
        ``TransportUnavailable`` for what may pass, ``TransportRejected`` for a right or a queue that is missing.
        """
        if self.policy.status != "active":
            self.polling.wait(min(wait, _SHORT_POLL).total_seconds())  # it may be another one then
            return []
        if self.polling.is_stopped:
            return []
        most = min(limit, limits.SQS_BATCH_ENTRIES)
        return list(self._receive_groups(most, wait) if self.fifo else self._first(most, wait))

    def _first(self, most: int, wait: timedelta) -> list[SqsDelivery]:
        lease = timedelta(seconds=self.policy.lease_seconds)
        if wait <= _SHORT_POLL:
            return self._poll(most, wait, lease)
        hold = min(lease, _BRIEF_HOLD)
        found = self.polling.poll(lambda: self._poll(most, wait, hold), self._give_back)
        if hold == lease or not found:
            return list(found)
        answers = self.settler.extend(found, lease)
        return [one for one, answer in zip(found, answers, strict=True) if isinstance(answer, Settled)]

    def _give_back(self, deliveries: Sequence[SqsDelivery]) -> None:
        self.settler.release([Release(delivery=delivery) for delivery in deliveries])

    def _receive_groups(self, most: int, wait: timedelta) -> list[SqsDelivery]:
        received = found = self._first(1, wait)
        while found and (wave := min(2 * len(found), most - len(received))) > 0 and not self.polling.is_stopped:
            with ThreadPoolExecutor(wave, thread_name_prefix="towpath-receive") as pool:
                found = [one for polled in pool.map(self._poll_for_more, range(wave)) for one in polled]
            received = received + found
            if len(found) < wave:  # no more groups that are free
                break
        return received

    def _poll_for_more(self, _: int) -> list[SqsDelivery]:
        """One more, at once. A fault here would lose what others have brought, and the next receive meets it too."""
        try:
            return self._poll(1, timedelta(0), timedelta(seconds=self.policy.lease_seconds))
        except (TransportUnavailable, TransportRejected):
            return []

    def _poll(self, most: int, wait: timedelta, hold: timedelta) -> list[SqsDelivery]:
        """One call; what it brings is hidden for ``hold``.

        On a FIFO queue boto3's repeats of it, after an answer that did not come, get the same message: else it, and its
        group with it, would wait until its visibility ends (Amazon SQS API reference, ReceiveMessage).
        """
        request: ReceiveMessageRequestTypeDef = {
            "QueueUrl": self.settler.queue_url,
            "MaxNumberOfMessages": most,
            "WaitTimeSeconds": min(math.ceil(wait.total_seconds()), limits.SQS_LONG_POLL_SECONDS),
            "VisibilityTimeout": int(hold.total_seconds()),
            "MessageSystemAttributeNames": ["ApproximateReceiveCount", "MessageGroupId"],
            "MessageAttributeNames": ["All"],
        }
        if self.fifo:
            request["ReceiveRequestAttemptId"] = self.random_bytes(16).hex()
        try:
            answer = self.client.receive_message(**request)
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
        """Have a receive that waits end: one of up to 2 s by itself, a longer one at once. What its poll yet brings,
        for 20 s at most, is given back as long as this process lives; else it comes again within 10 s.
        """
        self.polling.stop()

    def close(self) -> None:
        """Receive nothing more. Nothing else is held open: the clients are the transport's."""
        self.polling.stop()

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
