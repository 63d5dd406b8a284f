"""Sending batches side by side: ever fewer to a service that has enough, none to one that does not answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Final

from aws_transport.batches import Entry
from aws_transport.lanes import Lanes
from towpath.message import PublishError, PublishResult

PARALLEL_BATCHES: Final = 8
_FAILURES: Final = 3  # calls in a row; boto3 has made each of them three times by then, with a back-off of its own

Results = Mapping[int, PublishResult]  # by the entry's position


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of the entries of a batch. ``unavailable`` says that the service took none of them for now."""

    results: Results
    unavailable: bool = False


@dataclass(slots=True)
class Flow:
    """How many batches may be on their way at once: half as many after each that failed, one more after each that
    did not, and none once several have failed in a row. What is left is the caller's to send later.
    """

    most: int = PARALLEL_BATCHES
    allowed: int = PARALLEL_BATCHES
    failures: int = 0

    def told(self, sent: Sent) -> None:
        """Count the answer for one batch."""
        if sent.unavailable:
            self.failures += 1
            self.allowed = max(1, self.allowed // 2)
        else:
            self.failures = 0
            self.allowed = min(self.most, self.allowed + 1)

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be sent."""
        return self.failures >= _FAILURES


def send_all(lanes: Lanes, send: Callable[[Sequence[Entry]], Sent]) -> dict[int, PublishResult]:
    """``send`` all entries of ``lanes`` in batches, on several threads; one result for each, by its position.

    Each is sent once. Behind one that was not taken those of its group are rejected unsent, and so is all that is left
    when the service does not answer.
    """
    results: dict[int, PublishResult] = {}
    flow = Flow()
    running: dict[Future[Sent], list[Entry]] = {}
    with ThreadPoolExecutor(flow.most, thread_name_prefix="towpath-publish") as pool:
        while True:
            while not flow.stopped and len(running) < flow.allowed and (batch := lanes.batch()):
                if not running and not lanes.is_ready():  # nothing to do meanwhile: no thread is needed
                    results |= _answered(lanes, flow, batch, send(batch))
                else:
                    running[pool.submit(send, batch)] = batch
            if not running:
                break
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                results |= _answered(lanes, flow, running.pop(future), future.result())
    return results | _unsent(lanes.rest(), "it did not take the calls before it")


def _answered(lanes: Lanes, flow: Flow, batch: Sequence[Entry], sent: Sent) -> dict[int, PublishResult]:
    flow.told(sent)
    results = dict(sent.results)
    for entry in batch:
        error = results[entry.position].error
        if error is None:
            lanes.taken(entry)
        else:
            results |= _unsent(lanes.refused(entry), f"an earlier message of its key was rejected ({error.code})")
    return results


def _unsent(entries: Sequence[Entry], why: str) -> dict[int, PublishResult]:
    return dict(_rejections(entries, PublishError(code="TransportUnavailable", message=f"not sent to SNS: {why}")))


def _rejections(entries: Sequence[Entry], error: PublishError) -> Iterator[tuple[int, PublishResult]]:
    for entry in entries:
        yield entry.position, PublishResult(id=entry.prepared.message.id, status="rejected", error=error)
