"""Settling on Lambda: what the function itself has to tell SQS, since Lambda deletes what is not reported as failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, assert_never

from lambda_runtime.records import Slot
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Decision,
    Discard,
    Failed,
    Forfeit,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    SettleResult,
)


class FunctionSettler(Protocol):
    """What a function settles with: ``SqsSettler``, or what stands in for it where there is no SQS."""

    @property
    def client(self) -> Callable[[], object]:
        """Makes the client at the first call."""

    def complete(self, completions: Sequence[Completion]) -> list[SettleResult]:
        """Delete messages."""

    def retry(self, retrials: Sequence[Retrial]) -> list[SettleResult]:
        """Hide messages for their delays."""

    def release(self, releases: Sequence[Release]) -> list[SettleResult]:
        """Make messages visible at once."""

    def copy_to_dead_letter_queue(self, letters: Sequence[DeadLettering]) -> list[SettleResult]:
        """Set messages aside; they are deleted by Lambda."""


_DONE: Final = frozenset({"completed", "discarded", "dead"})  # Lambda deletes these and must leave all else
COMPLETED: Final = Settled(state="completed")


def is_done(result: SettleResult) -> bool:
    """Whether the delivery never comes again, once Lambda has its answer."""
    return isinstance(result, Settled) and result.state in _DONE


def settled(decision: Decision, settler: FunctionSettler) -> SettleResult:
    """Make ``decision`` true as far as Lambda does not.

    Whatever breaks has failed, so that it is logged beside the handler's own error and does not hide that.
    """
    try:
        return _settled(decision, settler)
    except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
        return _broken(error)


def _settled(decision: Decision, settler: FunctionSettler) -> SettleResult:
    match decision:
        case Completion():
            return COMPLETED
        case Discard():
            return Settled(state="discarded")
        case Retrial():
            return settler.retry([decision])[0]
        case DeadLettering():
            return settler.copy_to_dead_letter_queue([decision])[0]
        case Release():
            return settler.release([decision])[0]
        case Forfeit() | CancelAcknowledgement():  # nothing on SQS asks for the latter
            return LeaseLost()
        case _:
            assert_never(decision)


def released(slots: Sequence[Slot], settler: FunctionSettler) -> list[SettleResult]:
    """Make deliveries visible at once. Whatever breaks has failed: passed on it would fail the whole invocation."""
    try:
        return settler.release([Release(delivery=slot.delivery) for slot in slots])
    except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
        return [_broken(error)] * len(slots)


def deleted(slots: Sequence[Slot], settler: FunctionSettler) -> list[SettleResult]:
    """Delete deliveries that are done, without Lambda. Whatever breaks has failed."""
    try:
        return settler.complete([Completion(delivery=slot.delivery) for slot in slots])
    except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
        return [_broken(error)] * len(slots)


def hidden(retrials: Sequence[Retrial], settler: FunctionSettler) -> list[SettleResult]:
    """Hide deliveries for their delays. Whatever breaks has failed."""
    try:
        return settler.retry(retrials)
    except Exception as error:  # noqa: BLE001 - a client that cannot be made raises what it likes
        return [_broken(error)] * len(retrials)


def errors(results: Sequence[SettleResult]) -> list[str]:
    """What went wrong, each once."""
    return sorted({result.error for result in results if isinstance(result, Failed)})


def _broken(error: Exception) -> Failed:
    return Failed(error=f"{type(error).__name__}: {error}")
