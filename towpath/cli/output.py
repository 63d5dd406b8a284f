"""What commands print: tables for people, JSON for programs, failures as one sentence."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, TypeAlias

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from towpath.message import JsonValue

_ANY_WIDTH: Final = 1_000_000  # a pipe has no width: names stay whole for grep

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def console() -> Console:
    """Where tables and progress for people go: standard output, plain when it is no terminal or NO_COLOR is set."""
    return Console(file=sys.stdout, highlight=False, emoji=False, width=None if _has_width() else _ANY_WIDTH)


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
    """A table for people; ``None`` shows as a dash, and text is shown as it is, never as markup.

    Nothing is cut or broken: where the table is too wide for the terminal, each row is shown as a block of lines.
    """
    shown = [["-" if cell is None else " ".join(str(cell).splitlines()) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for row in shown:
        table.add_row(*map(Text, row))
    to = console()
    unlimited = to.options.update(max_width=_ANY_WIDTH)
    if not shown or to.measure(table, options=unlimited).maximum <= to.width:
        to.print(table)
    else:
        _print_blocks(headings, shown, title)


def _print_blocks(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    width = max(map(cell_len, headings))
    if title is not None:
        print_sentence(f"{title}\n")
    for number, row in enumerate(rows):
        lines = [f"{set_cell_size(heading, width)}  {cell}" for heading, cell in zip(headings, row, strict=True)]
        print_sentence("\n".join(lines if number == 0 else ["", *lines]))


def print_failure(sentence: str, to: Console | None = None) -> None:
    """What went wrong, on standard error; ``to`` is the console of what is shown there just now."""
    (to or stderr()).print(Text.assemble(("error:", "bold red"), " ", sentence), soft_wrap=True)


def print_warning(sentence: str) -> None:
    """What is allowed and probably not wanted, on standard error."""
    stderr().print(Text.assemble(("warning:", "bold yellow"), " ", sentence), soft_wrap=True)
