"""Messages that go back from a dead-letter queue to their subscription's queue: what is sent, and in which batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aws_transport.dead_entries import DeadLetter
from aws_transport.dead_letter import QueueCopy, attribute_bytes, is_fifo
from aws_transport.delivery import REPLAY_ATTRIBUTE, RESERVED_PREFIX, SqsAttribute
from towpath import limits
from towpath.envelope import is_foreign

_OF_SNS = frozenset({"ErrorCode", "ErrorMessage", "RequestID"})  # what SNS may add to what it could not deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """A dead letter, and the copy of it that goes back."""

    letter: DeadLetter
    copy: QueueCopy

    @property
    def ordered_group(self) -> str | None:
        """What it must not overtake others of: its message group, on a FIFO queue."""
        return None if self.copy.deduplication_id is None else self.copy.group_id


def returning(letter: DeadLetter, queue_url: str, source_url: str) -> Return:
    """``letter``, which lies in ``source_url``, as it goes back to the queue at ``queue_url``.

    It keeps its message group, unless it comes from a FIFO queue to a standard one, to which SNS would not pass it on
    either. The count of its replays is carried in an attribute, and is in its deduplication id: with the bare id SQS
    would swallow a message that is replayed twice within five minutes; with this one it swallows only a replay that is
    done again since it was cut off before the dead letter was deleted.
    """
    fifo = is_fifo(queue_url)
    keeps_group = fifo or not is_fifo(source_url)
    count = letter.replays + 1
    copy = QueueCopy(
        body=letter.body,
        attributes=_carried(letter, count),
        group_id=(letter.group_id if keeps_group else None) or (letter.id if fifo else None),
        deduplication_id=f"{letter.id}:replay:{count}" if fifo else None,
    )
    return Return(letter=letter, copy=copy)


def _carried(letter: DeadLetter, count: int) -> dict[str, SqsAttribute]:
    """A foreign message's own attributes, and the count of replays where ten attributes and 256 KiB leave it room."""
    carried: dict[str, SqsAttribute] = {}
    if is_foreign(letter.body):
        left_out = _OF_SNS if letter.undelivered else frozenset()
        carried = {
            name: attribute
            for name, attribute in letter.attributes.items()
            if not name.startswith(RESERVED_PREFIX) and name not in left_out
        }
    replay = SqsAttribute(data_type="Number", value=str(count))
    size = len(letter.body.encode()) + sum(attribute_bytes(*pair) for pair in carried.items())
    fits = size + attribute_bytes(REPLAY_ATTRIBUTE, replay) <= limits.SQS_MESSAGE_BYTES
    return carried | ({REPLAY_ATTRIBUTE: replay} if fits and len(carried) < limits.SQS_ATTRIBUTES else {})


def waves(returns: Sequence[Return]) -> Iterator[list[Return]]:
    """In batches that SQS takes, none with two of one FIFO group: of these the later one waits for the answer for
    the earlier one. Nothing has to be sent that a caller does not ask for any more.
    """
    left = list(returns)
    while left:
        wave: list[Return] = []
        passed: list[Return] = []
        size = 0
        groups: set[str] = set()
        for one in left:
            full = len(wave) == limits.SQS_BATCH_ENTRIES or size + one.copy.size_bytes > limits.SQS_MESSAGE_BYTES
            if (wave and full) or one.ordered_group in groups:
                passed.append(one)
            else:
                wave.append(one)
                size += one.copy.size_bytes
            if one.ordered_group is not None:
                groups.add(one.ordered_group)
        yield wave
        left = passed
