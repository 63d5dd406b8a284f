"""Looking at the messages of a queue: SQS shows none without receiving it, so what was only looked at is given back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.faults import translated
from towpath import limits
from towpath.message import Clock

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import ChangeMessageVisibilityBatchRequestEntryTypeDef, MessageTypeDef

HOLD_SECONDS: Final = 120  # what is looked at is hidden for so long if it cannot be given back
LOOK: Final = timedelta(seconds=20)  # looking ends well before the first message comes back by itself
_MESSAGES: Final = 10_000  # and no more bytes than that: so many a pass holds in memory
_BYTES: Final = 64 * 2**20


@dataclass(slots=True, kw_only=True)
class Pass:
    """One bounded pass over a queue: its messages, received ten at a time and held until the end of the ``with``.

    Then those that were not taken out are made visible again, whatever happened meanwhile. A pass ends when the queue
    shows no more, after 20 s, or with 10,000 messages or 64 MiB of them. Of one message group a FIFO queue shows no
    more than it puts in one answer, until these are taken out or given back.
    """

    client: SQSClient
    url: str
    clock: Clock
    log: logging.Logger
    saw_all: bool = False  # whether the queue showed no more at the end
    _held: dict[str, MessageTypeDef] = field(default_factory=dict)

    def batches(self, size: Callable[[], int] = lambda: limits.SQS_BATCH_ENTRIES) -> Iterator[list[MessageTypeDef]]:
        """New messages, as many at a time as ``size`` says; it ends where that is 0. None comes twice.

        Raises ``TransportUnavailable`` and ``TransportRejected``.
        """
        end = self.clock() + LOOK
        weight = 0
        while len(self._held) < _MESSAGES and weight < _BYTES:
            most = min(size(), limits.SQS_BATCH_ENTRIES)  # it may take a while to say
            if most <= 0 or self.clock() >= end:
                return
            messages = self._receive(most)
            if not messages:
                self.saw_all = True
                return
            new = [message for message in messages if message["MessageId"] not in self._held]
            self._held |= {message["MessageId"]: message for message in messages}  # the newest receipt handle counts
            weight += sum(len(message["Body"]) for message in new)
            if new:
                yield new

    def take_out(self, message_id: str) -> None:
        """The message is deleted, or somebody else's by now: it is not given back."""
        self._held.pop(message_id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        held = list(self._held.values())
        for start in range(0, len(held), limits.SQS_BATCH_ENTRIES):
            self._give_back(held[start : start + limits.SQS_BATCH_ENTRIES])

    def _receive(self, most: int) -> list[MessageTypeDef]:
        try:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=most,
                VisibilityTimeout=HOLD_SECONDS,
                WaitTimeSeconds=1,  # a poll without waiting asks only some of SQS's servers
                MessageSystemAttributeNames=["DeadLetterQueueSourceArn", "MessageGroupId", "SentTimestamp"],
                MessageAttributeNames=["All"],
            )
        except (BotoCoreError, ClientError) as error:
            raise translated(error, f"read the dead letters in {self.url}") from error
        return list(answer.get("Messages", ()))

    def _give_back(self, messages: Sequence[MessageTypeDef]) -> None:
        entries: list[ChangeMessageVisibilityBatchRequestEntryTypeDef] = [
            {"Id": str(i), "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
            for i, message in enumerate(messages)
        ]
        try:
            answer = self.client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            self._tell_hidden(len(messages), str(error))
            return
        failed = answer.get("Failed", ())
        if failed:
            self._tell_hidden(len(failed), f"{failed[0]['Code']}: {failed[0].get('Message', '')}")

    def _tell_hidden(self, count: int, why: str) -> None:
        told = "%d dead letters that were looked at come back in %d s by themselves: %s"
        self.log.warning(told, count, HOLD_SECONDS, why)
