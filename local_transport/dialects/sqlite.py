"""SQLite 3.35 and newer: a file, in WAL mode."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql import visitors
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects import sqlite_health
from local_transport.dialects.columns import as_text, milliseconds
from local_transport.dialects.health import Finding, Limits
from local_transport.dialects.port import (
    LOCK_SECONDS,
    NO_TRANSACTION,
    Batch,
    Change,
    Choice,
    Columns,
    Insert,
    Keyed,
    Plan,
    Rows,
    SharingPlan,
    Signals,
    Statement,
    wakeups_are_on,
)
from local_transport.dialects.watching import FileSignals
from towpath.errors import TransportUnavailable, UnknownTransport

_SQL: Final = sqlite.dialect()
_NAMED: Final = sqlite.dialect(paramstyle="named")
_OLDEST_SQLITE: Final = (3, 35, 0)  # RETURNING
_SYNCHRONOUS: Final = ("FULL", "NORMAL")
_DEFECTS: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_MISUSE)
# A connection that was opened while its file was read-only stays so, and one whose file failed may be of no more use.
_STUCK: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_IMMEDIATE: Final = "towpath_immediate"
_BECOME_WRITER: Final = sa.delete(sa.table("towpath_topology")).where(sa.false())


class _JsonBatch:
    """Rows as one JSON array of arrays; ``only`` some of the columns, where not all are read."""

    def __init__(self, name: str, columns: Columns, only: Collection[str] | None = None) -> None:
        self._name = f"{name}_rows"
        each = sa.func.json_each(sa.bindparam(self._name, type_=sa.Text())).table_valued("value", name=f"{name}_each")
        values = [
            sa.type_coerce(sa.func.json_extract(each.c.value, sa.literal_column(f"'$[{i}]'")), kind).label(column)
            for i, (column, kind) in enumerate(columns.items())
            if only is None or column in only
        ]
        rows = sa.select(*values).select_from(each)
        # Materialized, or a join would parse every row of JSON again for every row of the other side.
        self.rows: FromClause = rows.cte(name).prefix_with("MATERIALIZED")

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        text = json.dumps([tuple(row) for row in rows], ensure_ascii=False, separators=(",", ":"), default=milliseconds)
        return {self._name: text}


class _SeveralStatements:
    """A change, then each statement that follows, in one transaction that locks out every other writer."""

    def __init__(self, planned: Change | Choice) -> None:
        self._choose: Statement | None = None
        if isinstance(planned, Change):
            change = planned
        else:
            self._chosen = _JsonBatch("chosen", _kinds(planned.choose.exported_columns))
            self._choose = Statement(planned.choose, _SQL)
            change = planned.change(self._chosen.rows)
        self._steps = _Returning(change) if change.keyed is None else _Stepwise(change, change.keyed)

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        if self._choose is None:
            return self._steps.run(connection, parameters)
        chosen = self._chosen.bind(self._choose.run(connection, parameters))
        return self._steps.run(connection, {**parameters, **chosen}, even_when_none_changed=True)


class _Returning:
    """A change that tells of the rows it changed, which go to each statement that follows."""

    def __init__(self, change: Change) -> None:
        columns = _kinds(change.change.exported_columns)
        self._changed = _JsonBatch("changed", columns)
        self._change = Statement(change.change, _SQL)
        self._then = [_reading("changed", columns, follow) for follow in change.then]
        self._read = None if change.read is None else _reading("changed", columns, change.read)

    def run(
        self, connection: Connection, parameters: Mapping[str, Any], *, even_when_none_changed: bool = False
    ) -> Rows:
        changed = self._change.run(connection, parameters).all()
        if not changed and not even_when_none_changed:
            return changed
        known = {**parameters, **self._changed.bind(changed)}
        for statement in self._then:
            statement.run(connection, known)
        return changed if self._read is None else self._read.run(connection, known).all()


class _Stepwise:
    """A change of rows whose keys are found first: only they go from one statement to the next, as one text.

    All else is read from the table, where it is after an update and before a deletion.
    """

    def __init__(self, change: Change, keyed: Keyed) -> None:
        found = keyed.find.subquery("found")
        self._find = Statement(sa.select(sa.func.json_group_array(*found.c)), _SQL)
        keys = sa.func.json_each(sa.bindparam("keys", type_=sa.Text())).table_valued("value", name="key")
        mine = sa.and_(keyed.within, keyed.key.in_(sa.select(keys.c.value)))
        changed = sa.select(*change.change.exported_columns).where(mine).cte("changed")
        steps = keyed.change(mine)
        self._deletes = isinstance(steps, sa.Delete)
        self._change = Statement(steps, _SQL)
        self._then = [Statement(follow(changed), _SQL) for follow in change.then]
        self._read = Statement(sa.select(changed) if change.read is None else change.read(changed), _SQL)

    def run(
        self, connection: Connection, parameters: Mapping[str, Any], *, even_when_none_changed: bool = False
    ) -> Rows:
        keys = self._find.run(connection, parameters).scalar_one()
        if keys == "[]" and not even_when_none_changed:
            return []
        known = {**parameters, "keys": keys}
        if not self._deletes:
            self._change.run(connection, known)
        for statement in self._then:
            statement.run(connection, known)
        rows = self._read.run(connection, known).all()
        if self._deletes:
            self._change.run(connection, known)
        return rows


class _SharingStatements:
    """A change and what follows in one transaction, which locks out every other writer.

    They go to the driver as they are: what SQLAlchemy does for each takes several times as long as a small one itself.
    """

    def __init__(self, change: Change, turn: Callable[[], AbstractContextManager[None]]) -> None:
        """``turn`` is held while this process writes."""
        self._turn = turn
        columns = _kinds(change.change.exported_columns)
        self._changed = _JsonBatch("changed", columns)
        self._change = _driver_text(change.change)
        self._then = [_driver_text(_reader("changed", columns, follow)) for follow in change.then]
        self._read = None if change.read is None else _driver_text(_reader("changed", columns, change.read))

    def run(self, engine: Engine, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        known = {name: milliseconds(v) if isinstance(v, datetime) else v for name, v in parameters.items()}
        with self._turn(), closing(engine.raw_connection()) as pooled:
            driver = cast("sqlite3.Connection", pooled.driver_connection)
            try:
                driver.execute("BEGIN IMMEDIATE")
                found = self._run(driver, known)
                driver.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    driver.rollback()
                if _is_stuck(error):
                    pooled.invalidate()
                    engine.dispose()
                if isinstance(error, sqlite3.IntegrityError):
                    return None
                raise
            return found

    def _run(self, driver: sqlite3.Connection, known: dict[str, Any]) -> list[tuple[Any, ...]]:
        changed = driver.execute(self._change, known).fetchall()
        known |= self._changed.bind(changed)
        for statement in self._then:
            driver.execute(statement, known)
        return changed if self._read is None else driver.execute(self._read, known).fetchall()


Readable = UpdateBase | sa.Select[Any] | sa.CompoundSelect[Any]


def _reader(name: str, columns: Columns, make: Callable[[FromClause], Readable]) -> Readable:
    """What ``make`` makes of a batch without the columns that it does not read.

    Each would be one more value to be found in JSON for every row.
    """
    whole = _JsonBatch(name, columns)
    known: set[Any] = set(whole.rows.c)
    read = {column.key for column in known & set(visitors.iterate(make(whole.rows)))}
    return make(_JsonBatch(name, columns, read or set(columns)).rows)


def _reading(name: str, columns: Columns, make: Callable[[FromClause], Readable]) -> Statement:
    return Statement(_reader(name, columns, make), _SQL)


def _driver_text(statement: Readable) -> str:
    return str(statement.compile(dialect=_NAMED))


def _is_stuck(error: BaseException | None) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _STUCK


def _kinds(columns: Iterable[sa.ColumnElement[Any]]) -> Columns:
    return {str(column.key): column.type for column in columns}


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
            if _is_stuck(context.original_exception):
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
        return _JsonBatch(name, columns)

    def statement(self, statement: sa.Select[Any] | UpdateBase) -> Statement:
        """The statement, made ready."""
        return Statement(statement, _SQL)

    def plan(self, change: Change | Choice) -> Plan:
        """The change, made ready."""
        return _SeveralStatements(change)

    def sharing_plan(self, change: Change) -> SharingPlan:
        """The change, made ready."""
        return _SharingStatements(change, self._turn)

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
