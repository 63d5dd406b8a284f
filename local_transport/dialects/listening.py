"""Word between the processes that use one PostgreSQL database: LISTEN on a connection of its own, and NOTIFY."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.dialects.port import Heard
from towpath.errors import TransportUnavailable

_CHANNEL: Final = "towpath"

Connect = Callable[[], "psycopg.Connection[Any]"]


class NotifySignals:
    """LISTEN and NOTIFY. One thread hears, any may announce."""

    only_while_waited_for = False  # a connection that listens must be read, or the server's queue fills up
    are_announced = True

    def __init__(self, connect: Connect) -> None:
        """``connect`` opens a connection to the server itself, in autocommit."""
        self._connect = connect
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._wake, self._woken = socket.socketpair()

    def hear(self, seconds: float) -> Heard:
        """What was announced since the last call; connects first where needed, and waits for a first word."""
        try:
            if self._connection is None:
                self._listen()
                return Heard(anything=True)
            return Heard(texts=self._texts(self._connection) or self._wait(self._connection, seconds))
        except psycopg.Error as error:
            self._hang_up()
            text = str(error).strip().partition("\n")[0]
            raise TransportUnavailable(f"the listening connection is lost: {text}") from error

    def announce(self, connection: Connection, text: str) -> None:
        """NOTIFY, at the commit of the transaction."""
        connection.execute(_NOTIFY, {"text": text})

    def announce_now(self, connection: Connection, text: str) -> None:
        """NOTIFY, at a commit that does not wait for the disk: it would be written to be forgotten."""
        connection.execute(_NOTIFY_NOW, {"text": text})

    def end(self) -> None:
        """Let ``hear`` end, now and from now on. For any thread."""
        with self._lock:
            if not self._ended:
                self._ended = True
                self._wake.close()  # seen by the other end

    def close(self) -> None:
        """Close the connection. By the thread that hears, or when it has ended."""
        self.end()
        self._hang_up()
        self._woken.close()

    def _listen(self) -> None:
        connection = self._connect()
        try:
            connection.execute(f"LISTEN {_CHANNEL}")
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _wait(self, connection: psycopg.Connection[Any], seconds: float) -> tuple[str, ...]:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.pgconn.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            ready = selector.select(seconds)
        return self._texts(connection) if ready and not self._ended else ()

    def _texts(self, connection: psycopg.Connection[Any]) -> tuple[str, ...]:
        connection.pgconn.consume_input()
        texts = []
        while (notice := connection.pgconn.notifies()) is not None:
            texts.append(notice.extra.decode())
        return tuple(texts)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


_NOTIFYING: Final = sa.func.pg_notify(_CHANNEL, sa.bindparam("text", type_=sa.Text()))
_NOTIFY: Final = sa.select(_NOTIFYING)
_NOTIFY_NOW: Final = sa.select(sa.func.set_config("synchronous_commit", "off", sa.true()), _NOTIFYING)  # in this order
