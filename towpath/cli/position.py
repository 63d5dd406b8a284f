"""How far a publish has come, in a small file: after a kill it goes on there, without a second copy of any message."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

import typer

from towpath.cli.output import write_whole
from towpath.errors import TowpathError
from towpath.message import Clock, RandomBytes, format_time, is_message_id, new_message_id

_VERSION: Final = 1
_SEED_BYTES: Final = 16


class CannotKeep(TowpathError):
    """The file of a position cannot be written; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """All lines up to ``lines`` are answered, and of those behind it the ones in ``answered``.

    ``digest`` is the SHA-256 of the bytes up to there. ``seed`` and ``began_at`` give each line the same message id
    every time, so that a line which was on its way when the command was killed is a duplicate, not a second message,
    where the transport detects that.
    """

    topic: str
    transport: str
    began_at: str
    seed: str
    lines: int = 0
    digest: str = hashlib.sha256().hexdigest()
    answered: tuple[int, ...] = ()

    @classmethod
    def begin(cls, topic: str, transport: str, clock: Clock, random_bytes: RandomBytes) -> Self:
        """The position before the first line."""
        seed = random_bytes(_SEED_BYTES).hex()
        return cls(topic=topic, transport=transport, began_at=format_time(clock()), seed=seed)

    @classmethod
    def load(cls, file: Path) -> Self | None:
        """The position in ``file``, if there is one. Raises ``typer.BadParameter`` for a file of anything else."""
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"--resume {file} cannot be read: {error}") from error
        try:
            return cls._read(text)
        except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
            raise typer.BadParameter(f"--resume {file} is no position of a publish; name a new file") from error

    @classmethod
    def _read(cls, text: str) -> Self:
        """Raises one of many errors for what is no position, and for one that was damaged."""
        held: dict[str, Any] = json.loads(text)
        if held.pop("towpath_publish_position") != _VERSION:
            raise ValueError
        found = cls(**(held | {"answered": tuple(held["answered"])}))
        texts = (found.topic, found.transport, found.began_at, found.seed, found.digest)
        counts = (found.lines, *found.answered)
        if not (all(type(one) is str for one in texts) and all(type(one) is int and one >= 0 for one in counts)):
            raise ValueError
        if not is_message_id(found.id_of(1)):
            raise ValueError
        return found

    def save(self, file: Path) -> None:
        """Have ``file`` hold this, durably. Raises ``CannotKeep``."""
        held = {"towpath_publish_position": _VERSION, **asdict(self)}
        try:
            write_whole(file, json.dumps(held) + "\n", durably=True)
        except OSError as error:
            raise CannotKeep(f"--resume {file} cannot be written: {error.strerror}") from error

    def id_of(self, line: int) -> str:
        """The id of the message in this line."""
        began_at = datetime.fromisoformat(self.began_at)
        drawn = hashlib.sha256(f"{self.seed}:{line}".encode()).digest()
        return new_message_id(began_at, lambda count: drawn[:count])

    def after(self, lines: int, digest: str, answered: tuple[int, ...] = ()) -> Self:
        """The position from which to go on when these are answered."""
        return replace(self, lines=lines, digest=digest, answered=answered)
