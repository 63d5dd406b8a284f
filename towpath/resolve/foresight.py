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
# the longest those that always do. What grows with names, policies, is largest in the longest.
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
    short, long = _refusals(topology, _SHORTEST), _refusals(topology, _LONGEST)
    in_short, in_long = ({mistake.path for mistake in found} for found in (short, long))
    return Foresight(
        mistakes=tuple(mistake for mistake in short if mistake.path in in_long),
        warnings=(
            *(
                _sometimes(mistake, f"short name such as {_SHORTEST!r}")
                for mistake in short
                if mistake.path not in in_long
            ),
            *(_sometimes(mistake, "long name") for mistake in long if mistake.path not in in_short),
        ),
    )


def _refusals(topology: Topology, environment: str) -> tuple[Mistake, ...]:
    try:
        resolve(topology, environment)
    except InvalidTopology as error:
        if not any(mistake.path for mistake in error.mistakes):  # about the environment, not about the topology
            raise
        return error.mistakes
    return ()


def _sometimes(mistake: Mistake, when: str) -> Mistake:
    problem = f"{mistake.problem}, in an environment with a {when}; check yours with --environment"
    return replace(mistake, problem=problem)
