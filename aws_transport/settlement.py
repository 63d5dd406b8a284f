"""Settling deliveries on SQS, for workers that poll and for the Lambda runtime. boto3 stays unloaded until a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from aws_transport.delivery import REPLAY_ATTRIBUTE, SqsAttribute, SqsDelivery, readable_attributes, replay_count
from aws_transport.first_use import ClientOnFirstUse
from towpath import limits
from towpath.frozen import Record
from towpath.message import Clock, utc_now
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failed,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SettleResult,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import (
        ChangeMessageVisibilityBatchRequestEntryTypeDef,
        DeleteMessageBatchRequestEntryTypeDef,
    )

    from aws_transport.dead_letter import QueueCopy

__all__ = [
    "REPLAY_ATTRIBUTE",
    "ClientOnFirstUse",
    "SqsAttribute",
    "SqsDelivery",
    "SqsSettler",
    "readable_attributes",
    "replay_count",
]

_COPY_HOLD = timedelta(seconds=60)  # long enough to send a copy and delete, with boto3's own retries
_LOST = frozenset({"InvalidIdFormat", "MessageNotInflight", "ReceiptHandleIsInvalid"})
# What SQS says in their place, as an invalid parameter: the first of FIFO handles whose time is up, the second of
# hiding a message that was deleted or received anew.
_LOST_TEXTS = ("receipt handle has expired", "does not exist or is not available for visibility timeout change")
_NO_BOTO3 = "boto3 is not installed, and calls to SQS need it; Lambda's Python has it, elsewhere install towpath[aws]"
_ItemT = TypeVar("_ItemT")


class SqsSettler(metaclass=Record):
    """Settles the deliveries of one queue: ``towpath.settlement.Settler`` on SQS.

    ``client`` gives boto3's SQS client and is asked anew for every call, so it should keep what it makes.
    ``receive_margin`` is how long before ``Delivery.received_at`` SQS may have handed the message out: a visibility
    time-out may end 12 hours after that at the latest. ``copy_hold`` is how long a message stays hidden from when its
    copy for the dead-letter queue is made, until it is deleted. Stateless, so usable from several threads.

    The receipt handle is the fence. A FIFO queue refuses one whose time is up. A standard queue refuses to change the
    visibility of a message that is not in flight, but says yes to deleting by an old handle and deletes nothing
    (Amazon SQS API reference, DeleteMessage): there a late ``complete`` cannot be told from one in time. Whether it
    refuses the old handle of a message that somebody else holds by now, AWS does not say.
    """

    client: Callable[[], SQSClient]
    queue_url: str
    dead_letter_queue_url: str
    receive_margin: timedelta = timedelta(seconds=limits.LEASE_GRACE_SECONDS)
    copy_hold: timedelta = _COPY_HOLD
    clock: Clock = utc_now

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """Delete the messages, ten to a call."""
        return self._delete([c.delivery for c in completions], "completed")

    def discard(self, discards: Sequence[Discard]) -> list[SettleResult]:
        """Delete the messages, ten to a call. SQS keeps no trace of them."""
        return self._delete([d.delivery for d in discards], "discarded")

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Hide each message for its delay, in whole seconds rounded up, and no longer than 12 h from its receive.

        It is never sent anew: that would begin its receive count again.
        """
        return self._change_visibility([(r.delivery, math.ceil(r.delay.total_seconds())) for r in retrials])

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """Make the messages visible at once. SQS keeps the receive counted as an attempt."""
        return self._change_visibility([(r.delivery, 0) for r in releases])

    def acknowledge_cancel(self, acknowledgements: Sequence[CancelAcknowledgement]) -> list[SettleResult]:
        """Nothing can be cancelled in flight on SQS, so there is never anything to acknowledge."""
        return [LeaseLost() for _ in acknowledgements]

    def extend(self, deliveries: Sequence[Delivery], lease: timedelta) -> list[SettleResult]:
        """Hide the messages for ``lease`` from now on, no longer than 12 h from their receive.

        At 12 h SQS hands a message out again, whoever holds it: the lease of one that is so old is lost.
        """
        seconds = math.ceil(lease.total_seconds())
        young = [i for i, delivery in enumerate(deliveries) if self._longest(delivery) > 0]
        hidden = self._change_visibility([(deliveries[i], seconds) for i in young])
        leased = [Settled(state="leased") if isinstance(answer, Settled) else answer for answer in hidden]
        return _with([LeaseLost() for _ in deliveries], young, leased)

    def dead_letter(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Copy the messages to the dead-letter queue with a note of why, then delete them.

        When the copy stands and the deletion fails, the message comes again: it may leave two copies, and never none.
        """
        answers = self.copy_to_dead_letter_queue(letters)
        copied = [i for i, answer in enumerate(answers) if isinstance(answer, Settled)]
        return _with(answers, copied, self._delete([letters[i].delivery for i in copied], "dead"))

    def copy_to_dead_letter_queue(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """The copying alone, for a caller whose messages are deleted for it within ``copy_hold``: Lambda.

        Each is hidden for ``copy_hold`` first: that proves the lease, so that nothing is copied which somebody else has
        or has deleted, and keeps others away meanwhile.
        """
        answers = self.extend([letter.delivery for letter in letters], self.copy_hold)
        held = [i for i, answer in enumerate(answers) if isinstance(answer, Settled)]
        return _with(answers, held, self._send_copies([letters[i] for i in held]))

    def _send_copies(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        def call(part: Sequence[QueueCopy]) -> Mapping[str, Any]:
            entries = [copy.entry(str(i)) for i, copy in enumerate(part)]
            return self.client().send_message_batch(QueueUrl=self.dead_letter_queue_url, Entries=entries)

        copies = [self._copy(letter) for letter in letters]
        return _in_batches(copies, call, Settled(state="dead"), lambda copy: copy.size_bytes)

    def _delete(
        self, deliveries: Sequence[Delivery], state: Literal["completed", "discarded", "dead"]
    ) -> list[SettleResult]:
        def call(part: Sequence[Delivery]) -> Mapping[str, Any]:
            entries: list[DeleteMessageBatchRequestEntryTypeDef] = [
                {"Id": str(i), "ReceiptHandle": d.lease_token} for i, d in enumerate(part)
            ]
            return self.client().delete_message_batch(QueueUrl=self.queue_url, Entries=entries)

        return _in_batches(deliveries, call, Settled(state=state))

    def _change_visibility(self, hidings: Sequence[tuple[Delivery, int]]) -> list[SettleResult]:
        def call(part: Sequence[tuple[Delivery, int]]) -> Mapping[str, Any]:
            entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
                {"Id": str(i), "ReceiptHandle": d.lease_token, "VisibilityTimeout": min(seconds, self._longest(d))}
                for i, (d, seconds) in enumerate(part)
            ]
            return self.client().change_message_visibility_batch(QueueUrl=self.queue_url, Entries=entries)

        return _in_batches(hidings, call, Settled(state="pending"))

    def _longest(self, delivery: Delivery) -> int:
        held = self.clock() - delivery.received_at + self.receive_margin
        return max(0, limits.SQS_MAX_VISIBILITY_SECONDS - math.ceil(held.total_seconds()))

    def _copy(self, letter: DeadLettering) -> QueueCopy:
        delivery = letter.delivery
        if not isinstance(delivery, SqsDelivery):
            raise TypeError(f"a dead letter on SQS needs an SqsDelivery, not a {type(delivery).__name__}")
        from aws_transport.dead_letter import DeadLetterNote, copy_for

        note = DeadLetterNote(
            reason=letter.reason,
            error=str(letter.failure) if letter.failure is not None else "",
            attempts=delivery.attempt,
            time=self.clock(),
            source_queue=self.queue_url.rpartition("/")[2],
            replay=delivery.replay,
        )
        return copy_for(self.dead_letter_queue_url, delivery, note)


def _with(answers: Sequence[SettleResult], places: Sequence[int], later: Sequence[SettleResult]) -> list[SettleResult]:
    newer = dict(zip(places, later, strict=True))
    return [newer.get(i, answer) for i, answer in enumerate(answers)]


def _in_batches(
    items: Sequence[_ItemT],
    call: Callable[[Sequence[_ItemT]], Mapping[str, Any]],
    done: Settled,
    size: Callable[[_ItemT], int] = lambda _: 0,
) -> list[SettleResult]:
    """``call`` for at most ten items and SQS's bytes at a time; one answer for each item, at its position."""
    return [answer for part in _batches(items, size) for answer in _answers(part, call, done)]


def _batches(items: Sequence[_ItemT], size: Callable[[_ItemT], int]) -> Iterator[list[_ItemT]]:
    batch: list[_ItemT] = []
    weight = 0
    for item in items:
        weighs = size(item)
        if batch and (len(batch) == limits.SQS_BATCH_ENTRIES or weight + weighs > limits.SQS_MESSAGE_BYTES):
            yield batch
            batch, weight = [], 0
        batch.append(item)
        weight += weighs
    if batch:
        yield batch


def _answers(
    part: Sequence[_ItemT], call: Callable[[Sequence[_ItemT]], Mapping[str, Any]], done: Settled
) -> list[SettleResult]:
    try:
        from botocore.exceptions import BotoCoreError, ClientError
    except ModuleNotFoundError:
        return [Failed(error=_NO_BOTO3)] * len(part)
    try:
        response = call(part)
    except ClientError as error:
        fault = error.response.get("Error", {})
        return [_refusal(fault.get("Code", ""), fault.get("Message", ""))] * len(part)
    except BotoCoreError as error:
        return [Failed(error=f"{type(error).__name__}: {error}")] * len(part)
    answers: dict[str, SettleResult] = {entry["Id"]: done for entry in response.get("Successful", ())}
    for entry in response.get("Failed", ()):
        answers[entry["Id"]] = _refusal(entry.get("Code", ""), entry.get("Message", ""))
    return [answers.get(str(i), Failed(error="SQS's answer leaves this message out")) for i in range(len(part))]


def _refusal(code: str, message: str) -> SettleResult:
    """A refused entry: of a delivery that is no longer held, or for another reason."""
    name = code.rpartition(".")[2]  # AWS.SimpleQueueService.MessageNotInflight, in SQS's older protocol
    invalid = name.removesuffix("Exception") == "InvalidParameterValue"
    if name in _LOST or (invalid and any(text in message for text in _LOST_TEXTS)):
        return LeaseLost()
    return Failed(error=f"SQS refused it: {name}: {message}" if message else f"SQS refused it: {name}")
