"""How a change is told: rules that put differences into words, and which difference explains which."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias

from towpath.changes.differences import ABSENT, Difference, Path

Impact = Literal["destructive", "lossy", "safe"]
Kind = Literal["manifest", "topic", "subscription", "aws"]

IMPACTS: Final[tuple[Impact, ...]] = ("destructive", "lossy", "safe")
"""From the worst on. Destructive: something that runs is deleted, perhaps to be made anew. Lossy: messages, attempts or
a protection may be lost. Safe: neither.
"""

_SHOWN_LENGTH: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a rule says of the differences that it speaks of."""

    impact: Impact
    sentence: str


# A rule gets the records before and after, and those of their differences that it speaks of.
Teller: TypeAlias = Callable[[Any, Any, Sequence[Difference]], Told]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Tells of the differences at ``paths``, patterns of dotted paths within a record, all in one sentence.

    ``follows`` are places whose change explains these: where one of them differs too, nothing more is said. A place in
    another record begins with ``topic:`` or ``manifest:``.
    """

    paths: tuple[str, ...]
    tell: Teller
    follows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A record that is in both manifests, with what differs in it. ``within`` are the records that it depends on."""

    kind: Kind
    name: str
    start: Path
    old: Any
    new: Any
    found: Mapping[Path, Difference]
    rules: Sequence[Rule]
    within: Mapping[str, Compared]

    def rule_for(self, path: Path) -> Rule:
        """The first rule that speaks of ``path``; the last one speaks of everything."""
        return next(rule for rule in self.rules if any(_matches(path, pattern) for pattern in rule.paths))

    def cause_of(self, path: Path) -> tuple[Compared, Path]:
        """The place whose change explains the one at ``path``: that itself, unless it follows from another."""
        for follows in self.rule_for(path).follows:
            where, _, pattern = follows.rpartition(":")
            record = self.within.get(where) if where else self
            for other in record.found if record is not None else ():
                if record is not None and (record, other) != (self, path) and _matches(other, pattern):
                    return record.cause_of(other)
        return self, path


def _matches(path: Path, pattern: str) -> bool:
    return fnmatchcase(".".join(path), pattern)


def anything_else(_old: object, _new: object, found: Sequence[Difference]) -> Told:
    """What is said of differences that no other rule speaks of. Nobody knows what they mean, so they are lossy."""
    told = [f"{'.'.join(d.path)} is {shown(d.new)} instead of {shown(d.old)}" for d in found]
    return Told(impact="lossy", sentence=", ".join(told))


def shown(value: object) -> str:
    """A value of a manifest, short."""
    if value is ABSENT:
        return "nothing"
    plain = asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
    text = json.dumps(plain, ensure_ascii=False, default=asdict)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}..."
