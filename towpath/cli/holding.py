"""A file that says how far something has come belongs to one process at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import typer

from towpath.errors import TowpathError


class InUse(TowpathError):
    """Another process is going by the same file."""


@contextmanager
def held(file: Path, what: str) -> Iterator[None]:
    """No other process holds ``file`` meanwhile. The system lets go of it too when the process is killed.

    The lock is on an empty file beside it, ``.NAME.lock``, since ``file`` itself is replaced as a whole again and
    again. Raises ``InUse``, where ``what`` is what another process is doing; ``typer.BadParameter`` where no such file
    can be.
    """
    target = file.resolve()
    beside = target.with_name(f".{target.name}.lock")
    try:
        lock = _locked(beside)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from error
    if lock is None:
        raise InUse(f"another process is {what} with {file} just now; wait for its end, or name another file")
    with lock:
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)


def _locked(beside: Path) -> BinaryIO | None:
    """The file, locked; ``None`` when another process has it. One that was removed meanwhile locks nothing out."""
    while True:
        lock = beside.open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        except BaseException:
            lock.close()
            raise
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock.fileno()), beside.stat()):
                return lock
        lock.close()
