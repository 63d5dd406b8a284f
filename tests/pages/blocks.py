"""The fenced blocks of the documentation's pages, each with its kind, its place, and where its session runs."""

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        PROJECT / "README.md",
        PROJECT / "CONTRIBUTING.md",
        PROJECT / "terraform/README.md",
        *(PROJECT / "docs").rglob("*.md"),
        *(PROJECT / "examples").glob("*/README.md"),
    ]
)
PLAIN = "plain"  # a clone, and nothing else
_FENCE = re.compile(r" *```(?P<kind>\w*)")
_SITUATION = re.compile(r"<!-- run: ([a-z-]+) -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block. ``line`` is that of its fence; ``situation`` the state in which the page has its sessions run:
    the name in the last comment ``<!-- run: NAME -->`` above it.
    """

    page: Path
    kind: str
    code: str
    line: int
    situation: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page in their order. One without a kind has the kind ``""``; one that is not ended raises."""
    situation, opened, lines = PLAIN, None, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.fullmatch(line)
        if opened is not None and fence and not fence["kind"]:
            code = textwrap.dedent("".join(f"{each}\n" for each in lines))
            yield Block(page=page, kind=opened[0], code=code, line=opened[1], situation=situation)
            opened = None
        elif opened is not None:
            lines.append(line)
        elif fence:
            opened, lines = (fence["kind"], number), []
        elif found := _SITUATION.fullmatch(line.strip()):
            situation = found[1]
    if opened is not None:
        raise ValueError(f"{page}:{opened[1]}: this block has no end")


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def of_kind(*kinds: str) -> list[Block]:
    """All blocks of these kinds."""
    return [block for block in BLOCKS if block.kind in kinds]


def sessions(blocks: Iterable[Block]) -> list[tuple[Block, ...]]:
    """Blocks that one shell runs one after another: those of a page in one situation."""
    return [tuple(each) for _, each in groupby(blocks, key=lambda block: (block.page, block.situation))]
