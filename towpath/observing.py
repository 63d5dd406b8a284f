"""What a worker tells whoever counts its work: a batch of settled deliveries at a time, and how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Protocol

from towpath.frozen import Record

ENDINGS: Final = ("completed", "retried", "released", "dead", "discarded", "lease_lost", "failed")
"""What can become of a delivery in a worker's hands. ``failed`` is what the transport could not settle."""

State = Literal["running", "paused", "handler_not_found", "unsupported", "error", "draining"]


class Ended(metaclass=Record):
    """One delivery that a worker is done with. Times are in seconds.

    ``ending`` is one of ``ENDINGS``. ``duration`` is what its handler took, ``None`` where none was started. ``age`` is
    how long the message had been there (since it was published, or was to come if that is later) when its handler
    started: of first attempts alone, since a retry waits on purpose and a replay waited for a person.
    """

    ending: str
    duration: float | None = None
    age: float | None = None


class Observer(Protocol):
    """Is told of a worker's deliveries. What it raises is logged and changes nothing else."""

    def settled(self, subscription: str, topic: str, ended: Sequence[Ended]) -> None:
        """These were settled together. Called on the thread that settles, so it must not wait for anything."""


class Standing(metaclass=Record):
    """How a worker stands with one subscription. ``in_flight`` counts the deliveries in this worker's hands."""

    subscription: str
    topic: str
    state: State
    in_flight: int
