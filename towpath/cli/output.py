"""What commands print: tables for people, JSON for programs, failures as one sentence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from towpath.message import JsonValue

_PIPED_WIDTH: Final = 500  # a pipe has no width: names stay whole for grep

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def console() -> Console:
    """Where tables and progress for people go: standard output, plain when it is no terminal or NO_COLOR is set."""
    return Console(file=sys.stdout, highlight=False, emoji=False, width=None if _has_width() else _PIPED_WIDTH)


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def stderr() -> Console:
    """Where failures and progress beside JSON go."""
    return Console(file=sys.stderr, highlight=False, emoji=False)


def print_json(data: JsonValue) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def print_document(text: str) -> None:
    """A document on standard output, as it is."""
    sys.stdout.write(text)


def print_sentence(sentence: str) -> None:
    """What was done or found, for people: one line, however long, and never read as markup."""
    console().print(sentence, soft_wrap=True, markup=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table for people; ``None`` shows as a dash, and text is shown as it is, never as markup."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")  # a name that is cut short names nothing
    for row in rows:
        table.add_row(*("-" if cell is None else Text(str(cell)) for cell in row))
    console().print(table)


def print_failure(sentence: str) -> None:
    """What went wrong, on standard error."""
    stderr().print(Text.assemble(("error:", "bold red"), " ", sentence), soft_wrap=True)
