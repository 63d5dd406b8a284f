"""Word between the processes that use one SQLite file: it counts the commits of others, which costs little to read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from local_transport.dialects.port import Heard
from towpath.errors import TransportUnavailable

_TICK_SECONDS: Final = 0.01

Connect = Callable[[], sqlite3.Connection]


class FileSignals:
    """``PRAGMA data_version`` of one connection, which changes when another one commits, of whatever process."""

    only_while_waited_for = True
    are_announced = False

    def __init__(self, connect: Connect, is_in_place: Callable[[], bool]) -> None:
        """``is_in_place`` says whether the file is still the one that ``connect`` opens."""
        self._connect = connect
        self._is_in_place = is_in_place
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._ended = False

    def hear(self, seconds: float) -> Heard:
        """Whether anybody committed since the last call; waits for it."""
        until = time.monotonic() + seconds
        try:
            if not self._is_in_place():
                raise TransportUnavailable("the file of the database is gone, or another one is in its place")
            if self._connection is None:
                self._connection = self._connect()
            while True:
                if self._changed(self._connection):
                    return Heard(anything=True)
                if self._ended or time.monotonic() >= until:
                    return Heard()
                time.sleep(_TICK_SECONDS)  # half of what it costs to wait for an event
        except (sqlite3.Error, SQLAlchemyError, TransportUnavailable) as error:
            self._hang_up()
            raise TransportUnavailable(f"the database file cannot be watched: {error}") from error

    def announce(self, connection: Connection, text: str) -> None:
        """Nothing to do: the commit itself is seen."""

    def announce_now(self, connection: Connection, text: str) -> None:
        """Nothing to do either."""

    def end(self) -> None:
        """Let ``hear`` end, now and from now on. For any thread."""
        self._ended = True

    def close(self) -> None:
        """Close the connection. By the thread that hears, or when it has ended."""
        self.end()
        self._hang_up()

    def _changed(self, connection: sqlite3.Connection) -> bool:
        ((version,),) = connection.execute("PRAGMA data_version").fetchall()
        changed: bool = version != self._version
        self._version = version
        return changed

    def _hang_up(self) -> None:
        self._version = -1
        if self._connection is not None:
            self._connection.close()
            self._connection = None
