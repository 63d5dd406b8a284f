"""Publishing any number of messages in calls of a hundred: answers, failures, how far it has come, where it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Protocol

from towpath.cli.given import Numbered
from towpath.cli.interrupts import Interrupts
from towpath.cli.output import CannotPrint, as_json, print_document
from towpath.cli.progress import Progress
from towpath.errors import TowpathError
from towpath.message import JsonValue, PublishResult
from towpath.ports import Publisher

_CALL_SIZE: Final = 100
_PAUSES: Final = (1.0, 2.0, 4.0)  # seconds, before what did not go through is tried again

# Faults that have nothing to do with the message: the next one would meet them too.
_OF_THE_TOPIC: Final = frozenset({"TopicNotFound", "TopicDisabled", "TopicUnbound"})
_PASSING: Final = frozenset({"TransportUnavailable", "DeduplicationPending"})


class Stopped(TowpathError):
    """No further line was published, since the next would fail as the last ones did."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """How many messages ended how; ``unwanted`` of those accepted go to no subscription."""

    accepted: int = 0
    duplicate: int = 0
    rejected: int = 0
    unwanted: int = 0

    def add(self, result: PublishResult) -> None:
        """Count one answer."""
        setattr(self, result.status, getattr(self, result.status) + 1)
        self.unwanted += result.subscriptions == 0

    def __str__(self) -> str:
        unwanted = ""
        if self.unwanted:
            count = "" if self.unwanted == self.accepted else f"{self.unwanted} "
            unwanted = f" ({count}for no subscription: there is none whose filter matches)"
        return f"{self.accepted} accepted{unwanted}, {self.duplicate} duplicate, {self.rejected} rejected"

    def done(self) -> str:
        """What was done, for when nothing more can be printed."""
        return "1 message was published" if self.accepted == 1 else f"{self.accepted} messages were published"


class Follower(Protocol):
    """Is told how far it has come."""

    def sending(self, chunk: Sequence[Numbered]) -> None:
        """These are on their way now."""

    def answered(self, chunk: Sequence[Numbered], left: Sequence[int]) -> None:
        """They are answered for good, but for those at the places ``left``, which did not go through."""

    def told(self) -> str:
        """How to go on, for whoever interrupts."""


class Results:
    """Every answer as JSON, in one array that is printed as it grows. What cannot be printed stops no publishing."""

    def __init__(self) -> None:
        self._fault: CannotPrint | BrokenPipeError | None = None
        self._begun = False

    def add(self, results: Sequence[PublishResult]) -> None:
        """Print these."""
        if results:
            self._print(",\n".join(f"  {as_json(_as_json(one))}" for one in results))

    def end(self) -> None:
        """Print the end. Raises what printing met, now or before."""
        if self._fault is None:
            print_document("\n]\n" if self._begun else "[]\n")
            return
        raise self._fault

    def _print(self, text: str) -> None:
        if self._fault is not None:
            return
        try:
            print_document(f"{',' if self._begun else '['}\n{text}")
            self._begun = True
        except (CannotPrint, BrokenPipeError) as error:
            self._fault = error


def _as_json(result: PublishResult) -> JsonValue:
    error = result.error
    return {
        "id": result.id,
        "status": result.status,
        "error": None
        if error is None
        else {"code": error.code, "message": error.message, "retryable": error.retryable},
        "subscriptions": result.subscriptions,
    }


@dataclass(slots=True, kw_only=True)
class Sending:
    """Publishes messages to one topic. ``results`` are printed where there are any to print."""

    publisher: Publisher
    topic: str
    results: Results | None
    follower: Follower
    interrupts: Interrupts
    tally: Tally = field(default_factory=Tally)
    sleep: Callable[[float], None] = time.sleep

    def run(self, messages: Iterator[Numbered], live: Progress, *, of_lines: bool) -> None:
        """Publish them all. A bad message holds up no other.

        ``of_lines``: what does not go through for a reason of the transport's is tried again; then, and when it is the
        topic's reason, ``Stopped`` is raised, since every later line would fail like it. A signal ends it after the
        call that is on its way (``Interrupted``).
        """
        while chunk := list(islice(messages, _CALL_SIZE)):
            with self.interrupts.step():
                self.follower.sending(chunk)
                results = self._answers(chunk)
                left = self._tried_again(chunk, results) if of_lines else []
                self._tell(chunk, results, left, live)
                self.follower.answered(chunk, left)
            if left:
                error = results[left[0]].error
                told = "" if error is None else f"{error.code}: {error.message}"
                raise Stopped(f"{chunk[left[0]].source}{told}")

    def _answers(self, chunk: Sequence[Numbered]) -> list[PublishResult]:
        """One result for each line: a line that is no JSON is rejected here and does not hold up the others."""
        readable = [numbered.message for numbered in chunk if numbered.fault is None]
        published = iter(self.publisher.publish(self.topic, readable) if readable else [])
        return [
            next(published)
            if numbered.fault is None
            else PublishResult(id=None, status="rejected", error=numbered.fault)
            for numbered in chunk
        ]

    def _tried_again(self, chunk: Sequence[Numbered], results: list[PublishResult]) -> list[int]:
        """The places of what did not go through, after some more tries, whose answers are put into ``results``."""
        for pause in _PAUSES:
            left = _left(results, _PASSING)
            if not left or self.interrupts.received:
                break
            self.sleep(pause)
            for place, result in zip(left, self._answers([_again(chunk[i], results[i]) for i in left]), strict=True):
                results[place] = result
        return _left(results, _PASSING | _OF_THE_TOPIC)

    def _tell(
        self, chunk: Sequence[Numbered], results: Sequence[PublishResult], left: Sequence[int], live: Progress
    ) -> None:
        answered = [place for place in range(len(chunk)) if place not in set(left)]
        for place in answered:
            error = results[place].error
            self.tally.add(results[place])
            if error is not None:
                live.fail(f"{chunk[place].source}{error.code}: {error.message}")
        if self.results is not None:
            self.results.add([results[place] for place in answered])
        live.advance(len(answered), chunk[-1].read or None)


def _left(results: Sequence[PublishResult], codes: frozenset[str]) -> list[int]:
    return [i for i, result in enumerate(results) if result.error is not None and result.error.code in codes]


def _again(numbered: Numbered, result: PublishResult) -> Numbered:
    """The message under the id that it had: what arrived all the same is a duplicate then."""
    return numbered if result.id is None else numbered.under(result.id)
