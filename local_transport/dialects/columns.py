"""Column types, table options and the clock, as each database has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from operator import methodcaller
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from towpath.errors import Unsupported

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH_JULIAN_DAY: Final = 2440587.5
_DAY_SECONDS: Final = 86_400


# --- Types and options of tables ---------------------------------------------------------------------------------


class Moment(TypeDecorator[datetime]):
    """A point in time: ``timestamptz``, or whole milliseconds since 1970 where the database has no such type."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: SqlDialect) -> TypeEngine[Any]:
        """The column type."""
        return dialect.type_descriptor(sa.BigInteger() if dialect.name == "sqlite" else sa.DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: SqlDialect) -> Any:
        """From an aware datetime."""
        return value if value is None or dialect.name != "sqlite" else milliseconds(value)

    def result_processor(
        self,
        dialect: SqlDialect,
        coltype: object,  # noqa: ARG002 - SQLAlchemy's
    ) -> Callable[[Any], datetime | None]:
        """To an aware datetime in UTC. The whole processor, since there are values in every row, and calls add up."""
        return _from_milliseconds if dialect.name == "sqlite" else _in_utc


def _from_milliseconds(value: Any) -> datetime | None:
    return None if value is None else _EPOCH + int(value) * _MILLISECOND


def _in_utc(value: datetime | None) -> datetime | None:
    return value if value is None or value.tzinfo is UTC else value.astimezone(UTC)


class _AnyText(TypeDecorator[str]):
    """Text of SQLite, where a text column holds whatever was written: bytes that are not UTF-8 become surrogates."""

    impl = sa.Text
    cache_ok = True

    def process_result_value(self, value: Any, dialect: SqlDialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        """Text, also of a BLOB."""
        return as_text(value) if isinstance(value, bytes) else value


as_text: Final[Callable[[bytes], str]] = methodcaller("decode", "utf-8", "surrogateescape")
"""The text in UTF-8 that some bytes should be. ``decode`` of an envelope refuses what is none.

Without Python code of its own: it is called for every text that is read.
"""


def as_shown(text: str) -> str:
    """``text`` that can be printed: bytes that are not UTF-8 as ``\\xff``."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def milliseconds(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - _EPOCH) // _MILLISECOND


ORDINAL: Final[TypeEngine[Any]] = sa.BigInteger().with_variant(
    sa.Integer(), "sqlite"
)  # SQLite: only INTEGER is the row's own key
BODY: Final[TypeEngine[Any]] = sa.Text().with_variant(_AnyText(), "sqlite")
MESSAGE_ID: Final[TypeEngine[Any]] = sa.Text().with_variant(sa.Uuid(as_uuid=False), "postgresql")

KEYED: Final[Mapping[str, Any]] = {"sqlite_with_rowid": False}  # stored by its primary key
NUMBERED: Final[Mapping[str, Any]] = {"sqlite_autoincrement": True}  # no number is used twice

# Rows of hot tables live shortly, so their dead versions must go soon: after 1 % instead of 20 %, and without pauses.
CHURNING: Final[Mapping[str, float]] = {
    "autovacuum_vacuum_scale_factor": 0.01,
    "autovacuum_vacuum_threshold": 500,
    "autovacuum_analyze_scale_factor": 0.05,
    "autovacuum_vacuum_cost_delay": 0,
}
HOT: Final[Mapping[str, float]] = {**CHURNING, "fillfactor": 85}
APPENDED: Final[Mapping[str, float]] = {"autovacuum_vacuum_scale_factor": 0.05, "autovacuum_vacuum_cost_delay": 0}


def set_storage(connection: Connection, table: str, settings: Mapping[str, float]) -> None:
    """Give ``table`` these storage settings, on a database that has such."""
    if connection.dialect.name == "postgresql":
        listed = ", ".join(f"{name} = {value}" for name, value in settings.items())
        connection.execute(sa.text(f"ALTER TABLE {table} SET ({listed})"))


def set_primary_key(connection: Connection, table: sa.Table) -> None:
    """Give the table of this name the primary key that ``table`` has; its rows stay."""
    if connection.dialect.name == "postgresql":
        listed = ", ".join(column.name for column in table.primary_key)
        connection.execute(sa.text(f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey, ADD PRIMARY KEY ({listed})"))
        return
    before = f"{table}_before"
    connection.execute(sa.text(f"ALTER TABLE {table} RENAME TO {before}"))
    table.create(connection)
    columns: list[sa.ColumnClause[Any]] = [sa.column(column.name) for column in table.columns]
    rows = sa.select(*columns).select_from(sa.table(before))
    connection.execute(table.insert().from_select([column.name for column in columns], rows))
    connection.execute(sa.text(f"DROP TABLE {before}"))


def stored(table: sa.Table, settings: Mapping[str, float]) -> sa.Table:
    """``table``, which is given these storage settings when it is made."""

    @event.listens_for(table, "after_create")
    def _set(made: sa.Table, connection: Connection, **_options: Any) -> None:
        set_storage(connection, made.name, settings)

    return table


def only_where(condition: str | sa.ColumnElement[bool]) -> dict[str, Any]:
    """Options of an index over the rows that meet ``condition`` alone."""
    clause = sa.text(condition) if isinstance(condition, str) else condition
    return {"postgresql_where": clause, "sqlite_where": clause}


# How many rows at most, in the statement's text: a server that plans a prepared statement for any values takes a
# parameter here for a tenth of the table, and then reads the whole table.
LIMIT: Final = sa.bindparam("limit", type_=sa.Integer(), literal_execute=True)


class Among(FunctionElement[bool]):
    """``Among(column, select)``: whether the column is one of a few values, each of which is looked up in its index.

    PostgreSQL would rather read a whole table of some thousand rows than join it with a few rows by its index.
    """

    type = sa.Boolean()
    inherit_cache = True


@compiles(Among, "postgresql")
def _among_postgresql(element: Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = ANY (ARRAY{values})"


@compiles(Among, "sqlite")
def _among_sqlite(element: Among, compiler: SQLCompiler, **options: Any) -> str:
    column, values = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} IN {values}"


class Only(FunctionElement[bool]):
    """``Only(column, value)``: equality, for an order that begins with the column.

    Told of an equality, PostgreSQL leaves the column out of the order, and may walk an index of the rest of it past the
    rows of all other values.
    """

    type = sa.Boolean()
    inherit_cache = True


@compiles(Only, "postgresql")
def _only_postgresql(element: Only, compiler: SQLCompiler, **options: Any) -> str:
    column, value = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = ANY (ARRAY[{value}])"


@compiles(Only, "sqlite")
def _only_sqlite(element: Only, compiler: SQLCompiler, **options: Any) -> str:
    column, value = (compiler.process(clause, **options) for clause in element.clauses)
    return f"{column} = {value}"


# --- The database's clock ----------------------------------------------------------------------------------------


class Now(FunctionElement[datetime]):
    """The time of the database at this moment, not at the start of the transaction."""

    type = Moment()
    inherit_cache = True


class Later(FunctionElement[datetime]):
    """A moment plus seconds: ``Later(moment, seconds)``."""

    type = Moment()
    inherit_cache = True


def moment() -> sa.ScalarSelect[datetime]:
    """The time, once for the statement. Conditions need this form: PostgreSQL uses no index for a value that could be
    another for every row, as ``clock_timestamp()`` could.
    """
    return sa.select(Now()).scalar_subquery()


@compiles(Now, "postgresql")
def _now_postgresql(_element: Now, _compiler: SQLCompiler, **_options: Any) -> str:
    return "clock_timestamp()"


@compiles(Now, "sqlite")
def _now_sqlite(_element: Now, _compiler: SQLCompiler, **_options: Any) -> str:
    return f"CAST(ROUND((julianday('now') - {_EPOCH_JULIAN_DAY}) * {_DAY_SECONDS * 1000}) AS INTEGER)"


@compiles(Later, "postgresql")
def _later_postgresql(element: Later, compiler: SQLCompiler, **options: Any) -> str:
    start, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({start} + make_interval(secs => CAST({seconds} AS double precision)))"


@compiles(Later, "sqlite")
def _later_sqlite(element: Later, compiler: SQLCompiler, **options: Any) -> str:
    start, seconds = (compiler.process(clause, **options) for clause in element.clauses)
    return f"({start} + CAST(ROUND(({seconds}) * 1000) AS INTEGER))"


def go_by(engine: Engine, clock: Callable[[], datetime]) -> None:
    """Have ``Now`` be what ``clock`` says, on every connection that ``engine`` makes from here on: for tests.

    Raises ``Unsupported`` for a database whose clock is a server's.
    """
    if engine.dialect.name != "sqlite":
        raise Unsupported("only the time of SQLite can be moved: another database goes by its server's clock")

    @event.listens_for(engine, "connect")
    def _tell(connection: sqlite3.Connection, _entry: object) -> None:
        connection.create_function("julianday", 1, lambda _now: clock().timestamp() / _DAY_SECONDS + _EPOCH_JULIAN_DAY)
