"""Which messages of a call may be sent now: none beside another one of its group or of its deduplication key."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from aws_transport.batches import Entry
from towpath import limits

_Lane = deque[Entry]


class Lanes:
    """The entries of one call that wait to be sent. Not thread-safe: one thread decides, others send.

    What must not be sent side by side shares a lane: on a FIFO topic the messages of one group, and anywhere those of
    one deduplication key. Only an entry at the head of all its lanes may go, so no batch holds two of a lane, and the
    next one of a lane goes when the answer for the one before it has come.
    """

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._lanes: dict[str, _Lane] = {}
        for entry in entries:
            for name in entry.lanes:
                self._lanes.setdefault(name, deque()).append(entry)
        self._ready = deque(entry for entry in entries if self._is_first(entry))
        self._waiting = {entry.position: entry for entry in entries}

    def batch(self) -> list[Entry]:
        """The next entries to send together: ten at most, and 256 KiB with their attributes. Empty when none may go."""
        batch: list[Entry] = []
        size = 0
        while self._ready and len(batch) < limits.SNS_BATCH_ENTRIES:
            size += self._ready[0].prepared.size_bytes
            if batch and size > limits.SNS_BATCH_BYTES:
                break
            entry = self._ready.popleft()
            del self._waiting[entry.position]
            batch.append(entry)
        return batch

    def is_ready(self) -> bool:
        """Whether any entry may be sent now."""
        return bool(self._ready)

    def taken(self, entry: Entry) -> None:
        """SNS has the entry, or need not have it: the next ones of its lanes may go."""
        self._leave(entry)

    def refused(self, entry: Entry) -> list[Entry]:
        """SNS has not taken the entry. Answers those of its group behind it, which must not be sent any more."""
        behind = list(self._lanes[entry.group_lane])[1:] if entry.group_lane is not None else []
        for one in reversed(behind):  # from the end, so that none comes to the head
            del self._waiting[one.position]
            self._leave(one)
        self._leave(entry)
        return behind

    def rest(self) -> list[Entry]:
        """All that have not been sent, taken out."""
        rest = list(self._waiting.values())
        self._waiting.clear()
        self._ready.clear()
        return rest

    def _leave(self, entry: Entry) -> None:
        heads: list[Entry] = []
        for name in entry.lanes:
            lane = self._lanes[name]
            if lane[0] is not entry:
                lane.remove(entry)
                continue
            lane.popleft()
            heads += list(lane)[:1]
        self._ready.extend(self._new(heads))

    def _new(self, heads: Iterable[Entry]) -> Iterator[Entry]:
        """Those that may go now. A head that two lanes name is one; what was sent or taken out is none."""
        for entry in {entry.position: entry for entry in heads}.values():
            if entry.position in self._waiting and self._is_first(entry):
                yield entry

    def _is_first(self, entry: Entry) -> bool:
        return all(self._lanes[name][0] is entry for name in entry.lanes)
