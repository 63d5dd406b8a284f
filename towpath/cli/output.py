"""What commands print: tables for people, JSON for programs, failures as one sentence."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Final, TextIO, TypeAlias

import typer
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from towpath.errors import TowpathError
from towpath.message import JsonValue

_ANY_WIDTH: Final = 1_000_000  # a pipe has no width: names stay whole for grep

# A terminal obeys these, and a handler's error can hold what somebody sent: shown as escapes, all but the tab.
CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160))}

_IN_LINES: Final = {code: shown for code, shown in CONTROLS.items() if code != ord("\n")}
_IN_JSON: Final = {code: f"\\u{code:04x}" for code in range(127, 160)}  # JSON itself escapes the others

JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


class CannotPrint(TowpathError):
    """Standard output is closed, full, or lacks a letter; the message says which."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"standard output cannot be written: {problem}")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Called while the error is handled: pass it on, where rich would end the process as if all had failed."""
        raise  # noqa: PLE0704 - rich calls this within its handler


class _StandardOutput(_Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does, and raise ``CannotPrint``."""
        with _printing():
            super().print(*objects, **options)


class _StandardError(_Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """As rich does; what cannot be told there can be told nowhere else, and must stop nothing."""
        with suppress(OSError):
            super().print(*objects, **options)


def console() -> Console:
    """Where tables and progress for people go: standard output, plain when it is no terminal or NO_COLOR is set.

    Printing raises ``CannotPrint``, and ``BrokenPipeError`` where the reader has gone.
    """
    return _StandardOutput(highlight=False, emoji=False, width=None if _has_width() else _ANY_WIDTH)


def _has_width() -> bool:
    return (sys.stdout is not None and sys.stdout.isatty()) or "COLUMNS" in os.environ


def stderr() -> Console:
    """Where failures and progress beside JSON go: nowhere, when standard error is closed or cannot be written."""
    return _StandardError(stderr=True, highlight=False, emoji=False)


@contextmanager
def _printing() -> Iterator[TextIO]:
    """Standard output, and flushed at the end: what cannot be written shows while it can be told."""
    out: TextIO | None = sys.stdout
    if out is None:
        raise CannotPrint("it is closed")
    try:
        yield out
        out.flush()
    except BrokenPipeError:
        _drop(out)
        raise
    except OSError as error:
        _drop(out)
        raise CannotPrint(error.strerror or str(error)) from error
    except UnicodeEncodeError as error:
        raise CannotPrint(f"its encoding, {error.encoding}, has no {error.object[error.start]!r}") from error


def _drop(out: TextIO) -> None:
    """Let what is still kept back for ``out`` go nowhere: Python writes it at its end, and would fail again."""
    with suppress(OSError), Path(os.devnull).open("wb") as nowhere:  # what stands in for it may have no number
        os.dup2(nowhere.fileno(), out.fileno())


@contextmanager
def telling(done: str) -> Iterator[None]:
    """Print what was done. That standard output cannot be written is no failure of what was done: it is told with
    ``done`` on standard error, and a reader who has gone wants to know nothing.
    """
    try:
        yield
    except BrokenPipeError:
        pass
    except CannotPrint as error:
        print_warning(f"{error}; {done}")


def print_json(data: JsonValue) -> None:
    """One JSON document on standard output."""
    print_document(f"{as_json(data, indent=2)}\n")


def as_json(data: JsonValue, *, indent: int | None = None) -> str:
    """``data`` as JSON, with nothing in it that a terminal would obey."""
    return json.dumps(data, indent=indent, ensure_ascii=False).translate(_IN_JSON)


def print_document(text: str) -> None:
    """A document on standard output, as it is. Raises as ``console`` says."""
    with _printing() as out:
        out.write(text)


def print_sentence(sentence: str) -> None:
    """What was done or found, for people: one line, however long, and never read as markup."""
    console().print(sentence, soft_wrap=True, markup=False)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table for people; ``None`` shows as a dash, and text is shown as it is, never as markup nor as commands to the
    terminal.

    Nothing is cut or broken: where the table is too wide for the terminal, each row is shown as a block of lines.
    """
    shown = [["-" if cell is None else _one_line(cell) for cell in row] for row in rows]
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


def _one_line(cell: object) -> str:
    return " ".join(str(cell).splitlines()).translate(CONTROLS)


def _print_blocks(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    width = max(map(cell_len, headings))
    if title is not None:
        print_sentence(f"{title}\n")
    for number, row in enumerate(rows):
        lines = [f"{set_cell_size(heading, width)}  {cell}" for heading, cell in zip(headings, row, strict=True)]
        print_sentence("\n".join(lines if number == 0 else ["", *lines]))


def write_whole(path: Path, text: str, *, durably: bool = False) -> None:
    """Have the file at ``path`` hold ``text``, or what it held before: a reader and a full disk never leave it half,
    and, ``durably``, neither does a power cut.

    What is no file, such as a pipe, is written to as it is. Raises ``OSError``.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # of a process that was killed: in a container each has the same number
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            if durably:
                file.flush()
                os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def print_failure(sentence: str, to: Console | None = None) -> None:
    """What went wrong, on standard error; ``to`` is the console of what is shown there just now.

    A failure can quote what somebody sent, or a file that anybody wrote: never as commands to the terminal.
    """
    (to or stderr()).print(Text.assemble(("error:", "bold red"), " ", sentence.translate(_IN_LINES)), soft_wrap=True)


def print_warning(sentence: str) -> None:
    """What is allowed and probably not wanted, on standard error."""
    stderr().print(Text.assemble(("warning:", "bold yellow"), " ", sentence.translate(_IN_LINES)), soft_wrap=True)
