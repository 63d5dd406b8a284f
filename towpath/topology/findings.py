"""What is wrong in a topology, by the keys that it is about; and how that is told to the person who wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from towpath.errors import Mistake
from towpath.records import key_path

Path = tuple[str | int, ...]
LineOf = Callable[[str], int | None]  # from a path as it is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One mistake at ``path``. It only holds if the keys in ``rests_on`` say what their author meant.

    ``inside`` leads on from ``path`` into a value with a language of its own, a filter. ``doubts`` is the path of
    another key that cannot be judged while this is wrong: the one that a misspelt key stands for, or one around it.
    """

    path: Path
    problem: str
    inside: str = ""
    rests_on: tuple[Path, ...] = ()
    doubts: Path | None = None


def independent(findings: Iterable[Finding], doubtful: Iterable[Path | None]) -> Iterator[Finding]:
    """The findings that would stand if what is wrong at or above the ``doubtful`` paths were put right.

    One slip of the pen is one mistake: what merely follows from another is not reported.
    """
    heads = frozenset(doubtful)
    for finding in findings:
        if not any(path[:n] in heads for path in (finding.path, *finding.rests_on) for n in range(1, len(path) + 1)):
            yield finding


def mistakes_of(findings: Iterable[Finding], line_of: LineOf) -> list[Mistake]:
    """The findings as mistakes, in the order of the file where lines are known."""
    mistakes = [Mistake(path=_whole_path(finding), problem=finding.problem) for finding in findings]
    return placed(mistakes, line_of)


def placed(mistakes: Iterable[Mistake], line_of: LineOf) -> list[Mistake]:
    """The mistakes with the lines that they are on, in the order of the file."""
    found = [replace(mistake, line=line_of(mistake.path)) for mistake in mistakes]
    return sorted(found, key=lambda mistake: (mistake.line or 0, mistake.path))


def no_lines(_: str) -> None:
    """For documents whose lines are not known."""


def _whole_path(finding: Finding) -> str:
    path = key_path(finding.path)
    return f"{path}.{finding.inside}" if finding.inside else path


def shown(value: object) -> str:
    """A value as its author would recognise it, short."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool | str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 80 else text[:76] + '..."'
    return str(value)
