"""What a handler may say about a message: complete, retry, dead letter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Complete:
    """Done: the delivery never comes again. Returning ``None`` says the same."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again: after ``after`` (seconds or timedelta, within [0, 43,200 s]), else after the back-off.

    At the last attempt it becomes a dead letter with reason ``MaxAttemptsExceeded``.
    """

    reason: str = ""
    after: timedelta | float | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Set the delivery aside for a person, at once; ``reason`` is what the person reads."""

    reason: str


Outcome = Complete | Retry | DeadLetter
