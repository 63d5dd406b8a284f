"""Exporting dead letters: JSON Lines of any number in bounded memory, and no half file that looks like a whole one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import typer

from towpath.cli.again import command_again
from towpath.cli.entries import entry_json
from towpath.cli.holding import held
from towpath.cli.interrupts import Interrupted, Interrupts, interruptible
from towpath.cli.output import CannotPrint, as_json, print_document, write_whole
from towpath.cli.progress import progress
from towpath.errors import TowpathError
from towpath.operating import DeliveryEntry, Operator, Page, Selection

_PAGE: Final = 500
_ANEW: Final = "remove it and the file that ends in .partial, and begin anew"


class CannotExport(TowpathError):
    """What was exported could not be written; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reached:
    """How far an export has come: so many ``entries``, in so many ``bytes`` of its file, and where the next page is."""

    cursor: str | None
    entries: int = 0
    bytes: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether it can have been written by an export."""
        counts = (self.entries, self.bytes)
        return type(self.cursor) is str and all(type(one) is int and one >= 0 for one in counts)


class Export:
    """The dead letters that ``selection`` means, to ``output``, or to standard output without one.

    A file is NAME.partial until it is complete. NAME.position says how much of it is sound, and where to go on.
    """

    def __init__(self, selection: Selection, output: Path | None, cursor: str | None, place: str) -> None:
        """``place`` names the transport. Raises ``typer.BadParameter`` for a selection of deliveries that are no dead
        letters.
        """
        if selection.state not in (None, "dead"):
            raise typer.BadParameter("this command is for deliveries that are dead")
        given = {name: value for name, value in asdict(selection).items() if value is not None}
        self._selection = Selection(**(given | {"state": "dead"}))
        self._asked = {name: str(value) for name, value in given.items()} | {"transport": place}
        self._output = output
        self._reached = _Reached(cursor=cursor)
        self._resumed = False

    @contextmanager
    def begun(self, *, resume: bool) -> Iterator[None]:
        """The files are this process's meanwhile, and are such that ``run`` can go on.

        Raises ``typer.BadParameter`` for one that would be written over, or is none to go on with; ``InUse``.
        """
        if self._output is None:
            yield
            return
        with held(self._output, "exporting"):
            self._look(self._output, resume=resume)
            yield

    def _look(self, output: Path, *, resume: bool) -> None:
        self._resumed = resume
        partial, position = self._partial, self._position
        if output.exists():
            raise typer.BadParameter(f"{output} is there already; name a file that is not")
        if resume:
            self._reached = self._read(position)
            if self._reached.bytes > (partial.stat().st_size if partial.exists() else 0):
                raise typer.BadParameter(f"{partial} lacks some of what {position.name} tells of; {_ANEW}")
        elif partial.exists():
            told = f"{partial} is of an export that has not ended"
            raise typer.BadParameter(f"{told}; go on with --resume, or remove it and {position.name}")
        else:
            position.unlink(missing_ok=True)  # of an export whose file was removed

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
            except BrokenPipeError:
                raise
            except (OSError, CannotPrint) as error:
                problem = f"{self._partial}: {error.strerror}" if isinstance(error, OSError) else str(error)
                raise CannotExport(f"{problem}; nothing is lost: {self._told()}") from error
        return self._reached.entries

    def _to_file(self, operator: Operator, interrupts: Interrupts, output: Path) -> None:
        with self._partial.open("r+b" if self._partial.exists() else "w+b") as file:
            file.truncate(self._reached.bytes)
            file.seek(self._reached.bytes)
            self._pages(operator, interrupts, file)
        if output.exists():
            raise CannotExport(f"{output} has come meanwhile, and is left alone; all is in {self._partial}")
        self._partial.replace(output)
        self._position.unlink(missing_ok=True)

    def _pages(self, operator: Operator, interrupts: Interrupts, file: BinaryIO | None) -> None:
        with progress("dead letters exported", enabled=file is not None) as live:
            is_over = False
            while not is_over:
                try:
                    with interrupts.step():
                        page = operator.deliveries(self._selection, _PAGE, self._reached.cursor)
                        self._write(page, file)
                        is_over = page.cursor is None
                except Interrupted:
                    if not is_over:  # else it ends anyway, and there is nothing to go on with
                        raise
                live.advance(len(page))

    def _write(self, page: Page[DeliveryEntry], file: BinaryIO | None) -> None:
        text = "".join(f"{as_json(entry_json(entry))}\n" for entry in page)
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
        written = {"towpath_export_position": 1, "selection": self._asked, **asdict(self._reached)}
        write_whole(self._position, json.dumps(written) + "\n", durably=True)

    def _read(self, position: Path) -> _Reached:
        try:
            told = position.read_text(encoding="utf-8")
        except FileNotFoundError:
            return self._reached  # it ended before the first page was whole
        except (OSError, ValueError) as error:
            raise typer.BadParameter(f"{position} cannot be read: {error}") from error
        try:
            written: dict[str, Any] = json.loads(told)
            reached = _Reached(cursor=written["cursor"], entries=written["entries"], bytes=written["bytes"])
            asked = dict(written["selection"])
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise typer.BadParameter(f"{position} is no position of an export; {_ANEW}") from error
        if asked != self._asked:
            raise typer.BadParameter(f"{position} is of an export with other conditions, or from elsewhere: {asked}")
        if not reached.is_sound:
            raise typer.BadParameter(f"{position} is no position of an export; {_ANEW}")
        return reached

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
