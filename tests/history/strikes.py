"""What befalls a run, and when: drawn from the seed alone, so that a run can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

Kind = Literal["kill", "stall", "drain", "disconnect", "restart", "lock"]
ON_SERVERS: dict[Kind, int] = {"kill": 5, "stall": 5, "drain": 3, "disconnect": 2, "restart": 1}
ON_FILES: dict[Kind, int] = {"kill": 5, "stall": 2, "drain": 3, "lock": 2}  # who is stalled may keep all from writing
FIRST: tuple[Kind, ...] = ("kill", "stall", "disconnect", "drain", "lock")  # once each, however short the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """Of ``kind``; ``pause`` is how long before it, 0 to 1 of the longest, ``share`` (0 to 1) chooses whom, ``seconds``
    is how long it lasts.
    """

    pause: float
    kind: Kind
    share: float
    seconds: float


def strikes(random: Random, weights: dict[Kind, int], lease_seconds: float) -> Iterator[Strike]:
    """Without end. A stall lasts longer than a lease and the back-off that follows it, mostly."""
    first = [kind for kind in FIRST if kind in weights]
    random.shuffle(first)
    while True:
        kind = first.pop() if first else random.choices(list(weights), list(weights.values()))[0]
        longest = {"stall": (0.9 * lease_seconds, 2.2 * lease_seconds + 2), "lock": (0.3, 2.0)}.get(kind, (0.1, 1.5))
        yield Strike(pause=random.random(), kind=kind, share=random.random(), seconds=random.uniform(*longest))
