"""What rendering would refuse, told before there is an environment to render for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from towpath import limits
from towpath.errors import InvalidTopology, Mistake
from towpath.resolve import resolve
from towpath.topology import Topology

# Names are cut where they get too long, and then end in a hash: in the shortest environment most of them can meet, in
# the longest those that always do.
_SHORTEST: Final = "x"
_LONGEST: Final = "x" * limits.NAME_LENGTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """``mistakes`` keep the topology from being rendered, ``warnings`` only in some environments."""

    mistakes: tuple[Mistake, ...] = ()
    warnings: tuple[Mistake, ...] = ()


def foresee(topology: Topology, environments: Sequence[str] = ()) -> Foresight:
    """What ``resolve`` refuses of ``topology`` in any of ``environments``; without them, in every one that there can
    be, with a warning of what it refuses in some.

    Raises ``InvalidTopology`` when one of ``environments`` is no name.
    """
    if environments:
        found = [mistake for environment in environments for mistake in _refusals(topology, environment)]
        return Foresight(mistakes=tuple(dict.fromkeys(found)))
    often, always = _refusals(topology, _SHORTEST), {mistake.path for mistake in _refusals(topology, _LONGEST)}
    return Foresight(
        mistakes=tuple(mistake for mistake in often if mistake.path in always),
        warnings=tuple(_sometimes(mistake) for mistake in often if mistake.path not in always),
    )


def _refusals(topology: Topology, environment: str) -> tuple[Mistake, ...]:
    try:
        resolve(topology, environment)
    except InvalidTopology as error:
        if not any(mistake.path for mistake in error.mistakes):  # about the environment, not about the topology
            raise
        return error.mistakes
    return ()


def _sometimes(mistake: Mistake) -> Mistake:
    problem = f"{mistake.problem}, in an environment with a short name such as {_SHORTEST!r}"
    return replace(mistake, problem=f"{problem}; check yours with --environment")
