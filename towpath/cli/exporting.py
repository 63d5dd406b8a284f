"""Exporting dead letters: JSON Lines of any number in bounded memory, and no half file that looks like a whole one."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import typer

from towpath.cli.again import command_again
from towpath.cli.entries import entry_json
from towpath.cli.interrupts import Interrupted, Interrupts, interruptible
from towpath.cli.output import CannotPrint, print_document, write_whole
from towpath.cli.progress import progress
from towpath.errors import TowpathError
from towpath.operating import DeliveryEntry, Operator, Page, Selection

_PAGE: Final = 500


class CannotExport(TowpathError):
    """What was exported could not be written; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """How far an export has come: so many ``entries``, in so many ``bytes`` of its file, and where the next page is."""

    cursor: str | None
    entries: int = 0
    bytes: int = 0


class Export:
    """The dead letters that ``selection`` means, to ``output``, or to standard output without one.

    A file is NAME.partial until it is complete. NAME.position says how much of it is sound, and where to go on.
    """

    def __init__(self, selection: Selection, output: Path | None, cursor: str | None) -> None:
        """Raises ``typer.BadParameter`` for a selection of deliveries that are no dead letters."""
        if selection.state not in (None, "dead"):
            raise typer.BadParameter("this command is for deliveries that are dead")
        given = {name: value for name, value in asdict(selection).items() if value is not None}
        self._selection = Selection(**(given | {"state": "dead"}))
        self._asked = {name: str(value) for name, value in given.items()}
        self._output = output
        self._reached = _Reached(cursor=cursor)
        self._resumed = False

    def begin(self, *, resume: bool) -> None:
        """Look at what files there are. Raises ``typer.BadParameter`` for one that would be written over."""
        if self._output is None:
            return
        self._resumed = resume
        partial, position = self._partial, self._position
        if self._output.exists():
            raise typer.BadParameter(f"{self._output} is there already; name a file that is not")
        if resume:
            self._reached = self._read(position)
        elif partial.exists():
            told = f"{partial} is of an export that has not ended"
            raise typer.BadParameter(f"{told}; go on with --resume, or remove it and {position.name}")

    def run(self, operator: Operator) -> int:
        """Export page by page; answers how many are exported, those of before included.

        Raises ``CannotExport``, and ``Interrupted`` after the page under way.
        """
        with interruptible() as interrupts:
            try:
                if self._output is None:
                    self._pages(operator, interrupts, None)
                else:
                    self._to_file(operator, interrupts, self._output)
            except Interrupted as interrupt:
                raise interrupt.saying(self._told()) from interrupt
            except (OSError, CannotPrint) as error:
                if isinstance(error, BrokenPipeError):
                    raise
                raise CannotExport(f"{error}; nothing is lost: {self._told()}") from error
        return self._reached.entries

    def _to_file(self, operator: Operator, interrupts: Interrupts, output: Path) -> None:
        with self._partial.open("r+b" if self._partial.exists() else "w+b") as file:
            file.truncate(self._reached.bytes)
            file.seek(self._reached.bytes)
            self._pages(operator, interrupts, file)
        self._partial.replace(output)
        self._position.unlink(missing_ok=True)

    def _pages(self, operator: Operator, interrupts: Interrupts, file: BinaryIO | None) -> None:
        with progress("dead letters exported", enabled=file is not None) as live:
            while True:
                with interrupts.step():
                    page = operator.deliveries(self._selection, _PAGE, self._reached.cursor)
                    self._write(page, file)
                live.advance(len(page))
                if page.cursor is None:
                    return

    def _write(self, page: Page[DeliveryEntry], file: BinaryIO | None) -> None:
        text = "".join(f"{json.dumps(entry_json(entry), ensure_ascii=False)}\n" for entry in page)
        encoded = text.encode(errors="surrogatepass")
        if file is None:
            print_document(text)
        else:
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())
        self._reached = _Reached(
            cursor=page.cursor,
            entries=self._reached.entries + len(page),
            bytes=self._reached.bytes + len(encoded),
        )
        if file is not None and page.cursor is not None:
            self._save()

    def _save(self) -> None:
        held = {"towpath_export_position": 1, "selection": self._asked, **asdict(self._reached)}
        write_whole(self._position, json.dumps(held) + "\n", durably=True)

    def _read(self, position: Path) -> _Reached:
        try:
            held: dict[str, Any] = json.loads(position.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return self._reached  # it ended before the first page was whole
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{position} cannot be read: {error}") from error
        if held.get("selection") != self._asked:
            raise typer.BadParameter(f"{position} is of an export with other conditions: {held.get('selection')}")
        return _Reached(cursor=held["cursor"], entries=held["entries"], bytes=held["bytes"])

    def _told(self) -> str:
        more: tuple[str, ...] = ("--resume",)
        if self._output is None:
            more = () if self._reached.cursor is None else ("--cursor", self._reached.cursor)
        elif self._resumed:
            more = ()
        command = command_again(*more, without="--cursor" if more else None)
        return f"{self._reached.entries:,} dead letters are exported; go on with: {command}"

    @property
    def _partial(self) -> Path:
        return self._beside(".partial")

    @property
    def _position(self) -> Path:
        return self._beside(".position")

    def _beside(self, ending: str) -> Path:
        output = self._output or Path()
        return output.with_name(f"{output.name}{ending}")
