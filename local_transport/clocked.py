"""A database whose time a test can move: the entry point ``database`` of ``towpath.testing``."""

from __future__ import annotations

import logging
from pathlib import Path

from local_transport.connections import Database
from local_transport.dialects import embedded_url
from local_transport.schema import require_current
from local_transport.transport import DatabaseTransport
from towpath.testing import LocalClock, LocalDatabase


class ClockedDatabase(DatabaseTransport):
    """The database transport, going by ``clock`` in place of the database's own."""

    def __init__(self, database: Database, log: logging.Logger, clock: LocalClock) -> None:
        database.go_by(clock.now)
        require_current(database)
        super().__init__(database, log, clock.now)
        self._clock = clock

    @property
    def url(self) -> str:
        """The database's URL."""
        return self._database.label

    def advance(self, seconds: float) -> None:
        """Move time on."""
        self._clock.advance(seconds)


def open_clocked(file: Path, clock: LocalClock) -> LocalDatabase:
    """The embedded database in ``file``, which is given its tables when it is empty.

    Raises ``TransportUnavailable`` when the file cannot be opened, ``SchemaOutdated`` when its tables are of another
    version.
    """
    database = Database(embedded_url(file))
    try:
        return ClockedDatabase(database, logging.getLogger("towpath.database"), clock)
    except BaseException:
        database.close()
        raise
