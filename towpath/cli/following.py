"""How far JSON Lines have been published, and how to go on with the rest of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from towpath.cli.again import command_again
from towpath.cli.given import Numbered
from towpath.cli.lines import Lines
from towpath.cli.position import CannotKeep, Position


class Unfollowed:
    """Of messages that are no lines, it is only known which are on their way."""

    def sending(self, chunk: Sequence[Numbered]) -> None:
        """See ``Follower``."""

    def answered(self, chunk: Sequence[Numbered], left: Sequence[int]) -> None:
        """See ``Follower``."""

    def told(self) -> str:
        """What whoever interrupts is told."""
        return "the rest is not published"


class Followed:
    """Follows the lines, and keeps a ``Position`` of them in the file ``resume`` where one is given."""

    def __init__(self, lines: Lines, from_line: int) -> None:
        """Goes on with line ``from_line``."""
        self._lines = lines
        self._position: Position | None = None
        self._file: Path | None = None
        self._next = from_line
        self._behind = 0
        self._under_way = 0
        lines.skip(from_line - 1)

    def keep(self, file: Path, begun: Position) -> None:
        """Go on at the position in ``file``, and keep it there; without one begin at ``begun``.

        Raises ``typer.BadParameter`` for a position of something else.
        """
        found = Position.load(file)
        self._position, self._file = found or begun, file
        if found is None:
            try:
                begun.save(file)  # before the first message: the ids of all are made from it
            except CannotKeep as error:
                raise typer.BadParameter(str(error)) from error
            return
        if (found.topic, found.transport) != (begun.topic, begun.transport):
            raise typer.BadParameter(f"--resume {file} is of a publish to {found.topic!r} on {found.transport!r}")
        self._lines.skip(found.lines)
        if self._lines.number != found.lines or self._lines.digest != found.digest:
            told = f"the {found.lines:,} lines that are published were others; remove the file to publish them all"
            raise typer.BadParameter(f"--resume {file} is of another file: {told}")
        self._next = found.lines + 1

    def of(self, messages: Iterator[Numbered]) -> Iterator[Numbered]:
        """Those that are not answered yet, under the ids that the position gives them."""
        position = self._position
        if position is None:
            return messages
        answered = set(position.answered)
        return (_with_id(one, position) for one in messages if one.line not in answered)

    def sending(self, chunk: Sequence[Numbered]) -> None:
        """See ``Follower``."""
        self._under_way = len(chunk)

    def answered(self, chunk: Sequence[Numbered], left: Sequence[int]) -> None:
        """See ``Follower``."""
        self._under_way = 0
        self._next = chunk[left[0]].line if left else self._lines.number + 1
        self._behind = len(chunk) - left[0] - len(left) if left else 0
        if self._position is None or self._file is None:
            return
        if left:
            done = (one.line for place, one in enumerate(chunk) if place not in set(left))
            answered = (*self._position.answered, *done)
            self._position = self._position.after(self._position.lines, self._position.digest, answered)
        else:
            self._position = self._position.after(self._lines.number, self._lines.digest)
        self._position.save(self._file)

    def told(self) -> str:
        """Up to where all is answered, and the command that goes on."""
        behind = f", and so are {self._behind:,} lines behind it" if self._behind else ""
        if self._file is None:
            command = command_again("--from-line", str(self._next), without="--from-line")
            behind += ", which this command publishes again (--resume would not)" if behind else ""
        else:
            command = command_again()
        doubt = f"; {self._under_way} more were on their way, and may be published" if self._under_way else ""
        again = f"go on with: {command}"
        return f"all is answered before line {self._next}{behind}{doubt}; {again}"


def _with_id(one: Numbered, position: Position) -> Numbered:
    return one.under(one.message.id or position.id_of(one.line))
