"""SQLite 3.35 and newer: a file, in WAL mode."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import UpdateBase

from local_transport.dialects import sqlite_health
from local_transport.dialects.columns import as_text
from local_transport.dialects.health import Finding, Limits
from local_transport.dialects.port import (
    LOCK_SECONDS,
    NO_TRANSACTION,
    Batch,
    Change,
    Choice,
    Columns,
    Insert,
    Plan,
    SharingPlan,
    Signals,
    Statement,
    wakeups_are_on,
)
from local_transport.dialects.sqlite_plans import SQL, JsonBatch, SeveralStatements, SharingStatements, is_stuck
from local_transport.dialects.watching import FileSignals
from towpath.errors import TransportUnavailable, UnknownTransport

_OLDEST_SQLITE: Final = (3, 35, 0)  # RETURNING
_SYNCHRONOUS: Final = ("FULL", "NORMAL")
_DEFECTS: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE)
_IMMEDIATE: Final = "towpath_immediate"
_BECOME_WRITER: Final = sa.delete(sa.table("towpath_topology")).where(sa.false())


class Sqlite:
    """SQLite 3.35 and newer, a file in WAL mode. One writer at a time: every writing transaction begins as one."""

    makes_own_schema = True
    keeps_entries = False
    looks_before_it_locks = True

    def __init__(self) -> None:
        self._writer = threading.Lock()  # threads of one process take turns; SQLite alone would have them poll

    def engine(self, url: URL) -> Engine:
        """``synchronous`` in the query is FULL (default) or NORMAL, which can lose the last commits at a power cut;
        ``wakeups`` is for ``signals``.
        """
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise UnknownTransport(f"SQLite {sqlite3.sqlite_version} is too old; Towpath needs 3.35 or newer")
        synchronous = str(url.query.get("synchronous", "FULL")).upper()
        if set(url.query) - {"synchronous", "wakeups"} or synchronous not in _SYNCHRONOUS:
            raise UnknownTransport("a SQLite URL takes no options but synchronous=FULL or NORMAL, and wakeups=off")
        if url.host or url.username:
            raise UnknownTransport(
                "a SQLite URL names a file, with three slashes, and neither host nor user: sqlite:///dev.db"
            )
        wakeups_are_on(url)  # what is wrong in it is said at once
        _check_file(url)
        engine = sa.create_engine(url.set(drivername="sqlite", query={}), hide_parameters=True)

        @event.listens_for(engine, "connect")
        def _prepare(connection: sqlite3.Connection, _entry: object) -> None:
            connection.isolation_level = None  # the module begins nothing by itself; _begin does
            connection.text_factory = as_text  # the module's own fails at corrupt text, and its error shows the text
            _set_pragmas(connection, synchronous)

        _watch_file(engine, Path(str(url.database)).absolute())  # from here on the file is there

        @event.listens_for(engine, "handle_error")
        def _give_up(context: ExceptionContext) -> None:
            if is_stuck(context.original_exception):
                context.is_disconnect = True  # the pool makes new connections

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            mode = " IMMEDIATE" if connection.get_execution_options().get(_IMMEDIATE) else ""
            connection.exec_driver_sql(f"BEGIN{mode}")

        return engine

    def signals(self, url: URL, engine: Engine) -> Signals | None:
        """The file's count of commits; none with ``wakeups=off``."""
        if not wakeups_are_on(url):
            return None
        file = Path(str(url.database)).absolute()
        known = _identity(file)

        def connect() -> sqlite3.Connection:
            pooled = engine.raw_connection()
            found: Any = pooled.driver_connection
            pooled.detach()  # it tells of others' commits only, so nobody else may use it
            return cast("sqlite3.Connection", found)

        return FileSignals(connect, lambda: _identity(file) == known)

    @contextmanager
    def changing(self, engine: Engine) -> Iterator[Connection]:
        """A writing transaction, since a plan is several statements."""
        with self.writing(engine) as connection:
            yield connection

    @contextmanager
    def reading(self, engine: Engine) -> Iterator[Connection]:
        """A transaction that takes no lock."""
        with engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, engine: Engine) -> Iterator[Connection]:
        """A transaction that begins as the writer: BEGIN IMMEDIATE."""
        immediate = {_IMMEDIATE: True}
        with self._turn(), engine.connect() as connection, connection.execution_options(**immediate).begin():
            yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._writer.acquire(timeout=LOCK_SECONDS):
            raise TransportUnavailable("another thread of this process is writing to the database for too long")
        try:
            yield
        finally:
            self._writer.release()

    def batch(self, name: str, columns: Columns) -> Batch:
        """Rows as parameters."""
        return JsonBatch(name, columns)

    def statement(self, statement: sa.Select[Any] | UpdateBase) -> Statement:
        """The statement, made ready."""
        return Statement(statement, SQL)

    def plan(self, change: Change | Choice) -> Plan:
        """The change, made ready."""
        return SeveralStatements(change)

    def sharing_plan(self, change: Change) -> SharingPlan:
        """The change, made ready."""
        return SharingStatements(change, self._turn)

    def insert(self, table: sa.Table) -> Insert:
        """An insert with ON CONFLICT."""
        return sqlite.insert(table)

    def share_topology(self, connection: Connection) -> None:
        """Nothing to do: a writing transaction is alone."""

    def share_topology_for_caller(self, connection: Connection) -> None:
        """A statement that changes nothing makes the transaction the writer before it reads what is applied."""
        connection.execute(_BECOME_WRITER)
        if not getattr(connection.connection.dbapi_connection, "in_transaction", True):
            raise ValueError(NO_TRANSACTION)

    def queue_publishers(self, connection: Connection, lanes: Collection[tuple[int, int]]) -> None:
        """Nothing to do: once it writes a transaction is alone."""

    def own_topology(self, connection: Connection) -> None:
        """Nothing to do: a writing transaction is alone."""

    def try_to_sweep(self, connection: Connection) -> bool:  # noqa: ARG002 - the port's
        """Always: a writing transaction is alone."""
        return True

    def lacks_tables(self, error: BaseException) -> bool:
        """No such table or column."""
        return str(error).startswith(("no such table", "no such column"))

    def is_trouble(self, error: BaseException) -> bool:
        """Operational trouble."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)
        return code & 0xFF not in _DEFECTS  # the low byte is the primary result code

    def is_refusal(self, error: BaseException) -> bool:  # noqa: ARG002 - the port's
        """Never: there is nobody who lets in or not."""
        return False

    def is_passing(self, error: BaseException) -> bool:  # noqa: ARG002 - the port's
        """Never: the busy time-out has waited already."""
        return False

    def examine_unopened(self, url: URL) -> list[Finding]:
        """Whether the file is in WAL mode, which connecting turns on."""
        file = Path(str(url.database))
        return list(sqlite_health.examine_file(file)) if file.exists() else []

    def examine(self, connection: Connection, limits: Limits) -> list[Finding]:
        """Space, and a log that cannot be emptied."""
        return list(sqlite_health.examine(connection, Path(str(connection.engine.url.database)), limits))


def _check_file(url: URL) -> None:
    if url.host or not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        raise UnknownTransport(
            "a SQLite URL names a file: sqlite:///dev.db (in this folder) or sqlite:////var/lib/dev.db (anywhere)"
        )
    folder = Path(url.database).absolute().parent
    if not folder.is_dir():
        raise TransportUnavailable(f"the folder {folder} of the database does not exist; make it first")


def _watch_file(engine: Engine, file: Path) -> None:
    """Have the pool give up connections to a file that is no longer the one at its path.

    SQLite itself goes on writing into a file that nobody will find again, makes an empty one in its place, or takes
    the log of the one file for that of the other.
    """
    known: set[tuple[int, int] | None] = set()

    @event.listens_for(engine, "do_connect")
    def _refuse(_dialect: object, _entry: object, _args: object, _options: object) -> None:
        if known and _identity(file) not in known:
            problem = f"the file {file} of the database is gone, or another one is in its place"
            raise TransportUnavailable(f"{problem}; put it back, or connect anew")

    @event.listens_for(engine, "connect")
    def _note(_connection: object, entry: ConnectionPoolEntry) -> None:
        entry.info["file"] = _identity(file)
        known.add(entry.info["file"])

    @event.listens_for(engine, "checkout")
    def _compare(_connection: object, entry: ConnectionPoolEntry, _proxy: object) -> None:
        if entry.info["file"] != _identity(file):
            raise DisconnectionError("the connection's file is no longer at its path")  # the pool makes another


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - for every transaction, and Path.stat takes longer
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _set_pragmas(connection: sqlite3.Connection, synchronous: str) -> None:
    connection.execute(f"PRAGMA busy_timeout = {LOCK_SECONDS * 1000}")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA foreign_keys = ON")
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        _turn_wal_on(connection)


def _turn_wal_on(connection: sqlite3.Connection) -> None:
    """WAL is a property of the file. SQLite does not wait for others here, whatever the busy time-out says."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
