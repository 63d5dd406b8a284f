"""What one batch of a sweep is asked to do, and what it did."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal, Protocol

from sqlalchemy.engine import Connection

from local_transport.dialects import Dialect
from local_transport.dialects.port import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a batch did: ``count`` rows settled or removed; ``is_full`` when there may be more to do.

    ``deliveries`` are those that ended, with key, attempt and lane; ``state`` is what they are now, and ``reason`` why.
    """

    count: int
    is_full: bool
    deliveries: Rows = ()
    state: Literal["dead", "discarded"] = "discarded"
    reason: str = ""
    level: int = logging.INFO


class Step(Protocol):
    """One kind of housekeeping."""

    def batch(self, connection: Connection) -> Swept:
        """Do a part of bounded size of what is due, in the caller's transaction. Waits for no lock on a delivery."""


class Retained(Step, Protocol):
    """Housekeeping of what is kept for a time."""

    def __init__(self, dialect: Dialect) -> None:
        """Its statements are the dialect's."""

    def overdue(self, connection: Connection) -> int:
        """How many rows are kept for longer than they should be."""
