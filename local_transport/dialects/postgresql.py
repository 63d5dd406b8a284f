"""PostgreSQL 13 and newer, through psycopg 3."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo, timeout_from_conninfo
from sqlalchemy import event
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects import postgresql_health
from local_transport.dialects.advisory import (
    HOLD_TOPOLOGY,
    OWN_TOPOLOGY,
    QUEUE_PUBLISHERS,
    SHARE_TOPOLOGY,
    SHARE_TOPOLOGY_ALONE,
    TRY_TO_SWEEP,
    publishing_locks,
)
from local_transport.dialects.arrays import Texts, TextsDumper, array_of, array_parameter
from local_transport.dialects.health import Finding, Limits
from local_transport.dialects.listening import NotifySignals
from local_transport.dialects.pipelining import Pipelined
from local_transport.dialects.port import (
    NO_TRANSACTION,
    Batch,
    Change,
    Choice,
    Columns,
    Insert,
    Plan,
    Rows,
    SharingPlan,
    Signals,
    Statement,
    wakeups_are_on,
)
from local_transport.dialects.refusals import is_refused_connect
from towpath.errors import UnknownTransport

_SQL: Final = URL.create("postgresql+psycopg").get_dialect()()
CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 30  # more than a wait for a lock and what comes after it
CANCEL_SECONDS: Final = 2
IDLE_SECONDS: Final = 5.0  # a pooled connection that was idle for longer is tested before it is used

# libpq's own. The last four end connections that the network lost, also while nobody waits for an answer.
_CONNECTION: Final[Mapping[str, Any]] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "towpath",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}

RV = TypeVar("RV")


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when its server is silent for ``answer_seconds`` while it owes an answer.

    Only the client can see that: a server that hangs does not act on its ``statement_timeout``, its system goes on
    acknowledging packets, so that no time-out of TCP ends, and a pooler may refuse to pass settings on.
    """

    answer_seconds: float = ANSWER_SECONDS

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:
        """Every statement, commit and roll-back goes through here. psycopg looks up every tenth of a second."""
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: PQGen[RV]) -> PQGen[RV]:
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif time.monotonic() - heard > self.answer_seconds:
                    raise self._given_up()
                wanted = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result

    def _given_up(self) -> psycopg.OperationalError:
        if psycopg.capabilities.has_cancel_safe():  # older libraries could hang in it
            with suppress(psycopg.Error):
                self.cancel_safe(timeout=CANCEL_SECONDS)  # where only the statement hangs, it ends
        self.close()
        return psycopg.OperationalError(
            f"no answer for {self.answer_seconds:g} s: the server or the network hangs, or the statement needs more "
            "time (answer_timeout in the URL, in seconds)"
        )


class _UnnestBatch:
    """Rows as one array for each column."""

    def __init__(self, name: str, columns: Columns) -> None:
        self._kinds = {f"{name}_{column}": kind for column, kind in columns.items()}
        arrays = [array_parameter(parameter, kind) for parameter, kind in self._kinds.items()]
        shape = [sa.column(column, kind) for column, kind in columns.items()]
        self.rows: FromClause = sa.func.unnest(*arrays).table_valued(*shape).render_derived(name=name)

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        columns = list(zip(*rows, strict=True)) or [()] * len(self._kinds)
        found = zip(self._kinds.items(), columns, strict=True)
        return {name: array_of(kind, values) for (name, kind), values in found}


def _in_one(planned: Change | Choice) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    """A change and all that follows as one statement with common table expressions."""
    change = planned if isinstance(planned, Change) else planned.change(planned.choose.cte("chosen"))
    changed = change.change.cte("changed")
    read = sa.select(changed) if change.read is None else change.read(changed)
    return read.add_cte(*(follow(changed).cte(f"then_{i}") for i, follow in enumerate(change.then)))


class _OneStatement:
    """A plan as one statement."""

    def __init__(self, planned: Change | Choice) -> None:
        self._statement = Statement(_in_one(planned), _SQL)

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        return self._statement.run(connection, parameters).all()


class PostgreSql:
    """PostgreSQL 13 and newer, through psycopg 3. Works behind PgBouncer in transaction mode: no session state, and no
    ``options`` at the start, which it may refuse.
    """

    makes_own_schema = False
    keeps_entries = True
    looks_before_it_locks = False

    def __init__(self) -> None:
        self._reads_committed = True  # by default, so that a statement in autocommit does too

    def engine(self, url: URL) -> Engine:
        """In the query ``prepare_threshold`` is psycopg's (``none`` turns prepared statements off), ``answer_timeout``
        is after how many seconds of silence a statement is given up, ``wakeups`` and ``listen`` are for ``signals``,
        and the rest is libpq's.
        """
        listening_url(url)  # what is wrong in it is said at once
        arguments = dict(_CONNECTION)
        if "prepare_threshold" in url.query or "listen" in url.query:  # a pooler is between, so none by default
            arguments["prepare_threshold"] = _threshold(url.query.get("prepare_threshold", "none"))
        answer_seconds = _answer_seconds(url.query.get("answer_timeout", str(ANSWER_SECONDS)))
        wanted = _libpq(url)
        _check_options(wanted)
        engine = sa.create_engine(
            wanted,
            connect_args={name: value for name, value in arguments.items() if name not in wanted.query},
            isolation_level="READ COMMITTED",  # claims skip what is locked, and look again with a fresh snapshot
            hide_parameters=True,  # errors must not carry payloads
        )
        _test_idle_connections(engine)

        @event.listens_for(engine, "handle_error")
        def _give_up(context: ExceptionContext) -> None:
            if _is_stuck(context.original_exception):
                context.is_disconnect = True  # the pool makes new connections, to where writes are taken by now

        @event.listens_for(engine, "do_connect")
        def _connect(_dialect: object, _entry: object, args: list[Any], options: dict[str, Any]) -> _BoundedConnection:
            made = _BoundedConnection.connect(*args, **options)
            made.answer_seconds = answer_seconds
            return made

        @event.listens_for(engine, "connect")
        def _prepare(connection: psycopg.Connection[Any], _entry: object) -> None:
            connection.adapters.register_dumper(Texts, TextsDumper)

        @event.listens_for(engine, "first_connect")
        def _look(connection: psycopg.Connection[tuple[str]], _entry: object) -> None:
            row = connection.execute("SHOW default_transaction_isolation").fetchone()
            self._reads_committed = row == ("read committed",)
            connection.rollback()

        return engine

    def signals(self, url: URL, engine: Engine) -> Signals | None:
        """LISTEN and NOTIFY, on the server that ``listen`` in the query names; none with ``wakeups=off``."""
        target = listening_url(url)
        if target is None:
            return None
        positional, named = engine.dialect.create_connect_args(target)

        def connect() -> psycopg.Connection[Any]:
            options = {**_CONNECTION, **named, "autocommit": True}
            return psycopg.Connection.connect(*positional, **options)

        return NotifySignals(connect)

    @contextmanager
    def changing(self, engine: Engine) -> Iterator[Connection]:
        """A connection in autocommit: a plan is one statement, so it takes one round trip."""
        with engine.connect() as connection:
            if self._reads_committed:
                yield connection.execution_options(isolation_level="AUTOCOMMIT")
                return
            with connection.begin():
                yield connection

    @contextmanager
    def reading(self, engine: Engine) -> Iterator[Connection]:
        """A connection in autocommit: every statement sees what is committed at its start."""
        with self.changing(engine) as connection:
            yield connection

    @contextmanager
    def writing(self, engine: Engine) -> Iterator[Connection]:
        """A transaction that may write."""
        with engine.begin() as connection:
            yield connection

    def batch(self, name: str, columns: Columns) -> Batch:
        """Rows as parameters."""
        return _UnnestBatch(name, columns)

    def statement(self, statement: sa.Select[Any] | UpdateBase) -> Statement:
        """The statement, made ready."""
        return Statement(statement, _SQL)

    def plan(self, change: Change | Choice) -> Plan:
        """The change, made ready."""
        return _OneStatement(change)

    def sharing_plan(self, change: Change) -> SharingPlan:
        """The change, made ready to be run in a pipeline."""
        share = SHARE_TOPOLOGY.compile(dialect=_SQL, compile_kwargs={"literal_binds": True})
        statements = (str(share), str(_in_one(change).compile(dialect=_SQL)))
        return Pipelined(statements, lambda: self._reads_committed, _is_stuck)

    def insert(self, table: sa.Table) -> Insert:
        """An insert with ON CONFLICT."""
        return postgresql.insert(table)

    def share_topology(self, connection: Connection) -> None:
        """A shared advisory lock until the transaction ends."""
        connection.execute(SHARE_TOPOLOGY)

    def share_topology_for_caller(self, connection: Connection) -> None:
        """The same lock alone. Above READ COMMITTED also a look at whether the snapshot still has what is applied:
        PostgreSQL refuses to lock a row that was changed since.
        """
        if getattr(connection.connection.dbapi_connection, "autocommit", False):
            raise ValueError(NO_TRANSACTION)
        if connection.scalar(SHARE_TOPOLOGY_ALONE) != "read committed":
            connection.execute(HOLD_TOPOLOGY)

    def queue_publishers(self, connection: Connection, lanes: Collection[tuple[int, int]]) -> None:
        """Advisory locks until the transaction ends, in sorted order."""
        if lanes:
            locks = publishing_locks(lanes)
            parameters = {"kinds": [kind for kind, _ in locks], "keys": [key for _, key in locks]}
            connection.execute(QUEUE_PUBLISHERS, parameters)

    def own_topology(self, connection: Connection) -> None:
        """The exclusive advisory lock until the transaction ends."""
        connection.execute(OWN_TOPOLOGY)

    def try_to_sweep(self, connection: Connection) -> bool:
        """Whether the sweeper's advisory lock was free."""
        return bool(connection.scalar(TRY_TO_SWEEP))

    def lacks_tables(self, error: BaseException) -> bool:
        """Undefined table or column."""
        return getattr(error, "sqlstate", None) in ("42P01", "42703")  # undefined table, undefined column

    def is_trouble(self, error: BaseException) -> bool:
        """Operational trouble."""
        sqlstate = getattr(error, "sqlstate", None)
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or sqlstate in _TROUBLE

    def is_refusal(self, error: BaseException) -> bool:
        """A connect that was refused for who asks, or for what."""
        return is_refused_connect(error)

    def is_passing(self, error: BaseException) -> bool:
        """A refusal because of another transaction."""
        return getattr(error, "sqlstate", None) in ("40001", "40P01")  # serialization failure, deadlock

    def examine_unopened(self, url: URL) -> list[Finding]:  # noqa: ARG002 - the port's
        """Nothing: connecting changes nothing."""
        return []

    def examine(self, connection: Connection, limits: Limits) -> list[Finding]:
        """Settings, dead rows, snapshots that are held open."""
        return list(postgresql_health.examine(connection, limits))


def _is_stuck(error: BaseException) -> bool:
    """Whether the connection is of no use although it is open: its server takes no writes any more."""
    return getattr(error, "sqlstate", None) == _READ_ONLY


_READ_ONLY: Final = "25006"  # a server that lost its role, and kept its connections
_TROUBLE: Final = (_READ_ONLY, "42501")  # insufficient privilege

_OWN: Final = ("prepare_threshold", "answer_timeout", "wakeups", "listen")  # of the query; the rest is libpq's


def _libpq(url: URL) -> URL:
    return url.set(drivername="postgresql+psycopg").difference_update_query(_OWN)


def _check_options(url: URL) -> None:
    """Raise ``UnknownTransport`` for what libpq cannot take, which would fail each connect."""
    own = f"{', '.join(_OWN[:-1])} and {_OWN[-1]}"
    try:
        _, options = _SQL.create_connect_args(url)  # "host" may come several times: the servers to try in turn
        for name, value in options.items():
            make_conninfo(**{name: value})
        timeout_from_conninfo(dict(options))
    except (ArgumentError, psycopg.ProgrammingError) as error:
        problem = f"the URL of the database cannot be used: {str(error).strip()}"
        raise UnknownTransport(f"{problem}; a PostgreSQL URL takes libpq's parameters, and {own}") from error


def listening_url(url: URL) -> URL | None:
    """Where to listen for ``url``: what ``listen`` in its query names, with the rest as in ``url`` itself.

    ``None`` when wake-ups are off. Raises ``UnknownTransport`` for a value that cannot be meant.
    """
    if not wakeups_are_on(url):
        return None
    given = url.query.get("listen")
    if given is None:
        return _libpq(url)
    try:
        server = sa.make_url(given) if isinstance(given, str) else None
    except (ArgumentError, ValueError):
        server = None
    if server is None or server.get_backend_name() != "postgresql":
        raise UnknownTransport("listen must be the URL of the server itself, such as postgresql://host:5432")
    is_named, has_user = server.host is not None, server.username is not None
    return URL.create(
        "postgresql+psycopg",
        username=server.username if has_user else url.username,
        password=server.password if has_user else url.password,
        host=server.host if is_named else url.host,
        port=server.port if is_named or server.port is not None else url.port,
        database=server.database or url.database,
        query=_libpq(url.update_query_dict(server.query)).query,
    )


def _threshold(text: str | tuple[str, ...]) -> int | None:
    if text == "none":
        return None
    if isinstance(text, str) and text.isdecimal():
        return int(text)
    raise UnknownTransport(f"prepare_threshold must be a number of executions or 'none', not {text!r}")


def _answer_seconds(text: str | tuple[str, ...]) -> int:
    if isinstance(text, str) and text.isdecimal() and int(text) > 0:
        return int(text)
    raise UnknownTransport(f"answer_timeout must be a number of seconds, not {text!r}")


def _test_idle_connections(engine: Engine) -> None:
    """Have the pool replace connections that died while nobody used them, without a round trip for the busy ones."""

    @event.listens_for(engine, "checkin")
    def _note(_connection: object, entry: ConnectionPoolEntry) -> None:
        entry.info["idle_since"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def _test(connection: Any, entry: ConnectionPoolEntry, _proxy: object) -> None:
        idle_since = entry.info.get("idle_since")
        if idle_since is None or time.monotonic() - idle_since < IDLE_SECONDS:
            return
        limit = connection.answer_seconds
        connection.answer_seconds = min(limit, CONNECT_SECONDS)  # as long as a new connection may take
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError("the idle connection is gone") from error  # the pool makes another
        finally:
            connection.answer_seconds = limit
