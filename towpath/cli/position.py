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
from towpath.message import Clock, RandomBytes, format_time, new_message_id

_VERSION: Final = 1
_SEED_BYTES: Final = 16


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
            held: dict[str, Any] = json.loads(text)
            if held.pop("towpath_publish_position") != _VERSION:
                raise ValueError
            return cls(**(held | {"answered": tuple(held["answered"])}))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise typer.BadParameter(f"--resume {file} is no position of a publish; name a new file") from error

    def save(self, file: Path) -> None:
        """Have ``file`` hold this, durably. Raises ``typer.BadParameter`` when it cannot be written."""
        held = {"towpath_publish_position": _VERSION, **asdict(self)}
        try:
            write_whole(file, json.dumps(held) + "\n", durably=True)
        except OSError as error:
            raise typer.BadParameter(f"--resume {file} cannot be written: {error.strerror}") from error

    def id_of(self, line: int) -> str:
        """The id of the message in this line."""
        began_at = datetime.fromisoformat(self.began_at)
        drawn = hashlib.sha256(f"{self.seed}:{line}".encode()).digest()
        return new_message_id(began_at, lambda count: drawn[:count])

    def after(self, lines: int, digest: str, answered: tuple[int, ...] = ()) -> Self:
        """The position from which to go on when these are answered."""
        return replace(self, lines=lines, digest=digest, answered=answered)
