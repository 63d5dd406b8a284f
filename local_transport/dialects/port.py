"""What Towpath asks of a database, and statements made once and run often."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, Row
from sqlalchemy.engine import Dialect as SqlDialect
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause
from sqlalchemy.types import TypeEngine

Insert = postgresql.Insert | sqlite.Insert
Rows = Sequence[Row[Any]]
Columns = Mapping[str, TypeEngine[Any]]

LOCK_SECONDS: Final = 10  # how long a transaction waits for a lock before it gives up

# --- Rows as one parameter, and changes with what follows from them ----------------------------------------------


class Batch(Protocol):
    """Rows that a statement reads from one set of parameters, however many they are: ``batch.rows.c.<name>``."""

    @property
    def rows(self) -> FromClause:
        """The rows, to select from and to join."""

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """The statement's parameters for these rows, with values in the order of the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with RETURNING, the changes that follow from the rows it returned, and what is read about them."""

    change: UpdateBase
    then: Sequence[Callable[[FromClause], UpdateBase]] = ()
    read: Callable[[FromClause], sa.Select[Any]] | None = None


class Plan(Protocol):
    """A ``Change`` made ready to run: all of it happens, or nothing."""

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        """Make the change; answers what is read, or the rows that were changed."""


class Statement:
    """A statement that takes from a mapping the parameters that it has."""

    def __init__(self, statement: sa.Select[Any] | UpdateBase, dialect: SqlDialect) -> None:
        self._statement = statement
        binds = statement.compile(dialect=dialect).binds.values()
        self._names = {bind.key for bind in binds if bind.required}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> sa.CursorResult[Any]:
        """Execute it."""
        chosen = {name: parameters[name] for name in self._names}
        return connection.execute(self._statement, chosen)


# --- What a database must do -------------------------------------------------------------------------------------


class Dialect(Protocol):
    """One kind of database."""

    makes_own_schema: bool  # an empty one is given its tables at the first connect
    looks_before_it_locks: bool  # a change locks everything, so first look whether there is anything to change

    def engine(self, url: URL) -> Engine:
        """Connections to ``url``. Raises ``UnknownTransport`` for a URL that cannot be meant."""

    def changing(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A connection that runs exactly one ``Plan``, durable at the end."""

    def reading(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A connection for statements that only read, each seeing a moment not before the last one's."""

    def writing(self, engine: Engine) -> AbstractContextManager[Connection]:
        """A transaction that may write."""

    def batch(self, name: str, columns: Columns) -> Batch:
        """Rows with these columns, as parameters that begin with ``name``."""

    def statement(self, statement: sa.Select[Any] | UpdateBase) -> Statement:
        """``statement`` made ready."""

    def plan(self, change: Change) -> Plan:
        """``change`` made ready."""

    def insert(self, table: sa.Table) -> Insert:
        """An insert that can say what to do on conflict."""

    def share_topology(self, connection: Connection) -> None:
        """Keep the applied topology as it is until the transaction ends; others may do the same.

        The transaction waits for no lock longer than ``LOCK_SECONDS`` from here on.
        """

    def share_topology_for_caller(self, connection: Connection) -> None:
        """The same in somebody else's transaction, whose settings are left alone."""

    def own_topology(self, connection: Connection) -> None:
        """Wait until nobody shares the topology and keep everybody from it until the transaction ends."""

    def try_to_sweep(self, connection: Connection) -> bool:
        """Whether this transaction is now the only one that sweeps."""

    def lacks_tables(self, error: BaseException) -> bool:
        """Whether ``error`` says that a table or column is not there."""

    def is_trouble(self, error: BaseException) -> bool:
        """Whether ``error`` tells of the server, the connection or the file, and not of a wrong statement."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the transaction was refused only because of another one and can be run again at once."""
