"""Checks a history: ``check`` answers every promise that was broken.

Nothing is a violation but what the records prove. That one thing was before another is taken from the order of
question and answer, or from the database's own times; what a killed process did not record may have happened or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from tests.history import ending_checks, lease_checks, publishing_checks
from tests.history.events import History
from tests.history.view import View, Violation

CHECKS: Final[Sequence[Callable[[View], Iterator[Violation]]]] = (
    publishing_checks.lost,
    publishing_checks.stuck,
    publishing_checks.doubled,
    publishing_checks.torn,
    publishing_checks.repeated,
    publishing_checks.misplaced,
    lease_checks.overlapping,
    lease_checks.renewed_together,
    lease_checks.stale,
    lease_checks.settled_twice,
    lease_checks.tokens_and_attempts,
    lease_checks.handlers,
    ending_checks.out_of_order,
    ending_checks.ended_twice,
    ending_checks.forgotten,
    ending_checks.unaccounted,
    ending_checks.cancelled,
    ending_checks.faulty,
)


def check(history: History) -> list[Violation]:
    """Every violation that the history proves; none when it is as it should be."""
    view = View(history)
    return [violation for rule in CHECKS for violation in rule(view)]
