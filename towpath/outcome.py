"""What a handler may say about a message: complete, retry, dead letter."""

from __future__ import annotations

from datetime import timedelta

from towpath.frozen import Record


class Complete(metaclass=Record, kw_only=False):
    """Done: the delivery never comes again. Returning ``None`` says the same."""


class Retry(metaclass=Record, kw_only=False):
    """Try again: after ``after`` (seconds or timedelta, within [0, 43,200 s]), else after the back-off.

    At the last attempt it becomes a dead letter with reason ``MaxAttemptsExceeded``.
    """

    reason: str = ""
    after: timedelta | float | None = None


class DeadLetter(metaclass=Record, kw_only=False):
    """Set the delivery aside for a person, at once; ``reason`` is what the person reads."""

    reason: str


Outcome = Complete | Retry | DeadLetter
