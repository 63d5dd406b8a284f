"""Where in an index of due times a claim starts, so that it does not walk over entries of what is long gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from local_transport.dialects import Dialect

BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

_SHARE: Final = 20  # a walk from the beginning takes at most a twentieth of the time
_LONGEST_SECONDS: Final = 60.0  # and is made at least so often


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A walk over an index of due times: from ``start`` on, begun at ``began`` on the monotonic clock."""

    start: datetime
    began: float

    @property
    def is_whole(self) -> bool:
        """Whether it leaves nothing out."""
        return self.start == BEGINNING


class Front:
    """Remembers the earliest due time that the last claim found. Thread-safe: a race costs a longer walk at most.

    PostgreSQL keeps the index entries of deleted rows as long as any transaction that began before may look at them,
    and a claim would walk over all of them. Due times are set to the present or later, so what is due comes after
    what was claimed, except for what became visible late: a transaction that stayed open, a lock that was skipped.
    For that a walk starts from the beginning every so often, the rarer the longer it takes.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._start = BEGINNING
        self._whole_at = 0.0

    def walk(self) -> Walk:
        """The next walk: from the front, or from the beginning when it is time for that."""
        now = self._monotonic()
        return Walk(start=BEGINNING if now >= self._whole_at else self._start, began=now)

    def whole_walk(self) -> Walk:
        """A walk from the beginning."""
        return Walk(start=BEGINNING, began=self._monotonic())

    def walked(self, walk: Walk, first: datetime | None) -> None:
        """``walk`` has ended, and the first that it found was due at ``first``."""
        if walk.is_whole:
            now = self._monotonic()
            self._whole_at = now + min((now - walk.began) * _SHARE, _LONGEST_SECONDS)
        if first is not None:
            self._start = first


class NoFront(Front):
    """For databases that leave nothing behind: every walk is whole."""

    def walk(self) -> Walk:
        """From the beginning."""
        return self.whole_walk()


def front_for(dialect: Dialect, monotonic: Callable[[], float]) -> Front:
    """The front of a claim on such a database."""
    return Front(monotonic) if dialect.keeps_entries else NoFront(monotonic)
