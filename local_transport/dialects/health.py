"""What a check-up of a database may find, and from when on something is worth telling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a database that a person should know: what it is, and what to do. ``code`` is for programs."""

    code: str
    problem: str
    repair: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From when on something is a finding."""

    clock_seconds: float = 5.0  # between this machine's clock and the database's
    late_seconds: float = 300.0  # after a lease's end, until which somebody should have noticed
    transaction_seconds: float = 300.0  # of a transaction that keeps dead rows from being removed
    dead_rows: int = 20_000  # in a table that has fewer live ones
    log_bytes: int = 64 * 1024 * 1024  # of what was written and not yet moved into the database's file
    free_bytes: int = 64 * 1024 * 1024  # of the file, when they are more than half of it
    letter_days: float = 7.0  # of a dead letter that nobody has looked after
