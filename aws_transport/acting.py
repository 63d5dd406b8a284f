"""What an operator changes on AWS: dead letters go back to their queue, or are deleted.

Each is received, changed and deleted under its receipt handle; what is received and not meant is given back. SQS has no
transactions: a replay that is cut off between sending and deleting leaves the dead letter too. On FIFO, done again
within five minutes, it sends no second copy.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.auditing import AuditLog
from aws_transport.dead_entries import DeadLetter, read_dead_letter
from aws_transport.faults import entry_error, translated
from aws_transport.looking import Pass
from aws_transport.replaying import Return, returning, waves
from towpath import limits
from towpath.errors import TransportRejected, TransportUnavailable
from towpath.manifest import Subscription
from towpath.message import Clock, PublishError
from towpath.operating import Order, Pace

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import DeleteMessageBatchRequestEntryTypeDef

_IDLE_PASSES: Final = 3  # over a queue with more than a pass can see, none of which was meant


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A queue that dead letters of one subscription lie in, and the queue that they go back to.

    ``undelivered``: SNS puts there what it could not deliver.
    """

    name: str
    subscription: Subscription
    url: str
    queue_url: str
    undelivered: bool

    def read(self, message: Any) -> DeadLetter:
        """A message received from this queue as a dead letter."""
        return read_dead_letter(self.name, self.subscription, message, undelivered=self.undelivered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions:
    """Changes many dead letters, ten at a time at most. Usable from several threads."""

    client: SQSClient
    clock: Clock
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    log: logging.Logger
    audit: AuditLog

    def replay(self, places: Sequence[Place], order: Order) -> int:
        """Send back to their queues the dead letters that are there now; answers how many."""
        return self._act(places, order, _Replay(self))

    def discard(self, places: Sequence[Place], order: Order) -> int:
        """Delete the dead letters that are there now; answers how many."""
        return self._act(places, order, _Discard(self))

    def _act(self, places: Sequence[Place], order: Order, change: _Change) -> int:
        run = _Run(order=order, began_at=self.monotonic(), started_at=self.clock())
        for place in places:
            idle = 0
            while not run.is_over() and idle < _IDLE_PASSES:
                before = run.done
                with Pass(client=self.client, url=place.url, clock=self.clock, log=self.log) as looked:
                    for messages in looked.batches(lambda: self._next(run)):
                        self._change(run, place, looked, [place.read(message) for message in messages], change)
                if looked.saw_all:
                    break
                idle = idle + 1 if run.done == before else 0
            if idle == _IDLE_PASSES:
                self.log.warning("%s holds more than can be looked at; what lies behind was not reached", place.url)
        return run.done

    def _next(self, run: _Run) -> int:
        """How many to receive next, once the rate allows it."""
        if run.is_over():
            return 0
        wait = run.wait(self.monotonic())
        if wait > 0:
            (run.order.pace.pause or self.sleep)(wait)
        return run.size()

    def _change(self, run: _Run, place: Place, looked: Pass, letters: Sequence[DeadLetter], change: _Change) -> None:
        meant = [letter for letter in letters if run.means(letter)]
        for made in change.made(place, meant):
            for letter in made.gone:
                looked.take_out(letter.id)
            if made.done:
                self.audit.record(run.order, place.name, made.done)
                run.count(made.done)
            if made.fault is not None:
                raise made.fault

    def delete(self, url: str, letters: Sequence[DeadLetter]) -> tuple[list[DeadLetter], Fault | None]:
        """Delete at most ten from the queue they lie in; answers which are gone, and what went wrong with others."""
        entries: list[DeleteMessageBatchRequestEntryTypeDef] = [
            {"Id": str(i), "ReceiptHandle": letter.receipt_handle} for i, letter in enumerate(letters)
        ]
        doing = f"delete dead letters from {url}"
        try:
            answer = self.client.delete_message_batch(QueueUrl=url, Entries=entries)
        except (BotoCoreError, ClientError) as error:
            return [], _caused(translated(error, doing), error)
        done = {entry["Id"] for entry in answer.get("Successful", ())}
        return [letter for i, letter in enumerate(letters) if str(i) in done], entry_fault(answer, doing)


Fault = TransportUnavailable | TransportRejected


@dataclass(slots=True, kw_only=True)
class _Run:
    """How far an order is carried out."""

    order: Order
    began_at: float
    started_at: datetime
    done: int = 0
    _seen: set[str] = field(default_factory=set)

    def is_over(self) -> bool:
        """Whether as many are changed as may be, or all that were named."""
        named, most = self.order.selection.delivery_ids, self.order.pace.most
        return (most is not None and self.done >= most) or (named is not None and self._seen >= set(named))

    def size(self) -> int:
        """How many may be changed next: what a second allows at most, so that a rate is kept evenly."""
        pace: Pace = self.order.pace
        size = min(pace.batch, limits.SQS_BATCH_ENTRIES)
        size = size if pace.rate is None else min(size, max(1, math.ceil(pace.rate)))
        return size if pace.most is None else min(size, pace.most - self.done)

    def wait(self, now: float) -> float:
        """Seconds until the rate allows more."""
        rate = self.order.pace.rate
        return 0.0 if rate is None else self.began_at + self.done / rate - now

    def means(self, letter: DeadLetter) -> bool:
        """Whether to change it: what is selected and was dead at the beginning, once."""
        if letter.note.time > self.started_at or letter.delivery_id in self._seen:
            return False
        return letter.meets(self.order.selection, self.started_at)

    def count(self, done: Sequence[DeadLetter]) -> None:
        """These are changed."""
        self._seen |= {letter.delivery_id for letter in done}
        self.done += len(done)
        self.order.pace.changed(len(done))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """``done``: carried out for these; ``gone``: no longer in the queue they lay in; ``fault``: what ends it here."""

    done: Sequence[DeadLetter]
    gone: Sequence[DeadLetter]
    fault: Fault | None


class _Discard:
    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def made(self, place: Place, letters: Sequence[DeadLetter]) -> Iterator[_Made]:
        if letters:
            gone, fault = self._actions.delete(place.url, letters)
            yield _Made(done=gone, gone=gone, fault=fault)


class _Replay:
    def __init__(self, actions: Actions) -> None:
        self._actions = actions

    def made(self, place: Place, letters: Sequence[DeadLetter]) -> Iterator[_Made]:
        """Group by group in order: behind one that could not be sent none of its group is, since the order ends."""
        for wave in waves([returning(letter, place.queue_url, place.url) for letter in letters]):
            sent, fault = self._send(place.queue_url, wave)
            if not sent:
                yield _Made(done=(), gone=(), fault=fault)
                continue
            gone, left_over = self._actions.delete(place.url, sent)
            yield _Made(done=sent, gone=gone, fault=fault or left_over)

    def _send(self, url: str, wave: Sequence[Return]) -> tuple[list[DeadLetter], Fault | None]:
        doing = f"send dead letters back to {url}"
        try:
            answer = self._actions.client.send_message_batch(
                QueueUrl=url, Entries=[one.copy.entry(str(i)) for i, one in enumerate(wave)]
            )
        except (BotoCoreError, ClientError) as error:
            return [], _caused(translated(error, doing), error)
        done = {entry["Id"] for entry in answer.get("Successful", ())}
        return [one.letter for i, one in enumerate(wave) if str(i) in done], entry_fault(answer, doing)


_Change = _Discard | _Replay


def entry_fault(answer: Any, doing: str) -> Fault | None:
    """The first failed entry of a batch that SQS answered, as our error; ``None`` when all went well."""
    failed = list(answer.get("Failed", ()))
    if not failed:
        return None
    first = failed[0]
    error: PublishError = entry_error(first["Code"], first.get("Message", ""), sender_fault=first["SenderFault"])
    kind = TransportUnavailable if error.retryable else TransportRejected
    count = f"{len(failed)} entries failed" if len(failed) > 1 else "an entry failed"
    return kind(f"AWS could not {doing}: {count}, {first['Code']}: {first.get('Message', '')}")


def _caused(fault: Fault, error: Exception) -> Fault:
    fault.__cause__ = error
    return fault
