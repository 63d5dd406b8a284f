"""What of a SQLite file is not good for a work queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.dialects.health import Finding, Limits

_VERSIONS: Final = slice(18, 20)  # of the header: how the file is written and read; 2 is WAL (SQLite file format, 1.3)
_WAL: Final = b"\x02\x02"


def examine_file(file: Path) -> Iterator[Finding]:
    """What the file tells before it is opened, which would put that right."""
    with file.open("rb") as opened:
        header = opened.read(_VERSIONS.stop)
    if len(header) == _VERSIONS.stop and header[_VERSIONS] != _WAL:
        yield Finding(
            code="journal",
            problem="the file was not in WAL mode, in which readers and the writer do not wait for each other",
            repair="nothing for now, opening it has turned that on; find out what turned it off (PRAGMA journal_mode)",
        )


def examine(connection: Connection, file: Path, limits: Limits) -> Iterator[Finding]:
    """Space that is not given back, and a log that cannot be emptied."""
    log = Path(f"{file}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > limits.log_bytes:
        yield Finding(
            code="bloat",
            problem=f"the write-ahead log has {size / 2**20:,.0f} MiB: somebody has been reading without an end, so it "
            "cannot be moved into the file, and every read has to look through it",
            repair="end the program that holds a read transaction open; the log is emptied after the next writes",
        )
    pages, free, page = (_pragma(connection, name) for name in ("page_count", "freelist_count", "page_size"))
    if free * page > limits.free_bytes and 2 * free > pages:
        yield Finding(
            code="bloat",
            problem=f"{free * page / 2**20:,.0f} MiB of the file are free: it was larger once",
            repair="nothing, it is used again; to give it back to the disk stop the workers and run VACUUM",
        )


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(sa.text(f"PRAGMA {name}")).scalar_one())
