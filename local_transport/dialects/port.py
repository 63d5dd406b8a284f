"""What Towpath asks of a database, and statements made once and run often."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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

from local_transport.dialects.health import Finding, Limits
from towpath.errors import UnknownTransport

Insert = postgresql.Insert | sqlite.Insert
Rows = Sequence[Row[Any]]
Columns = Mapping[str, TypeEngine[Any]]

NO_TRANSACTION: Final = (
    "connection commits every statement by itself (AUTOCOMMIT), so a call could be half visible; "
    "give one with a transaction, such as engine.begin() makes"
)
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
class Keyed:
    """A change in steps, for a database on which returning rows takes long and nobody else can change them meanwhile.

    ``find`` selects from one column the keys of the rows that a change is to meet; ``change``, without RETURNING, meets
    those whose ``key`` is among them, and that are ``within``. What follows is made before a deletion, so it must rely
    on the rows neither being gone nor being there.
    """

    find: sa.Select[Any]
    key: sa.Column[Any]
    within: sa.ColumnElement[bool]
    change: Callable[[sa.ColumnElement[bool]], sa.Update | sa.Delete]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change with RETURNING, the changes that follow from the rows it returned, and what is read about them.

    ``keyed`` is the same change in steps, where it is worth it.
    """

    change: UpdateBase
    keyed: Keyed | None = None
    then: Sequence[Callable[[FromClause], UpdateBase]] = ()
    read: Callable[[FromClause], sa.Select[Any] | sa.CompoundSelect[Any]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Rows that are chosen, and locked where a database locks rows, then a change that goes by them.

    What ``change`` makes of the chosen rows may refer to them everywhere. It is run even when none was chosen.
    """

    choose: sa.Select[Any] | sa.CompoundSelect[Any]
    change: Callable[[FromClause], Change]


class Plan(Protocol):
    """A ``Change`` or ``Choice`` made ready to run: all of it happens, or nothing."""

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        """Make the change; answers what is read, or the rows that were changed."""


class SharingPlan(Protocol):
    """A ``Change`` made ready to run by itself, as quickly as can be, while the topology is kept as it is.

    It sees everything that was committed before it had the topology's lock. Its parameters are values that the driver
    takes, and times.
    """

    def run(self, engine: Engine, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """Make the change, durable at the end; answers what is read about it, as the driver gives it.

        It waits for no lock longer than ``LOCK_SECONDS``. ``None``: it cannot be run here, or met a key that is taken,
        and nothing was done. Raises the driver's own errors, and ``TransportUnavailable``.
        """


class Statement:
    """A statement that takes from a mapping the parameters that it has."""

    def __init__(self, statement: sa.Select[Any] | sa.CompoundSelect[Any] | UpdateBase, dialect: SqlDialect) -> None:
        self._statement = statement
        binds = statement.compile(dialect=dialect).binds.values()
        self._names = {bind.key for bind in binds if bind.required}

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> sa.CursorResult[Any]:
        """Execute it."""
        chosen = {name: parameters[name] for name in self._names}
        return connection.execute(self._statement, chosen)


# --- Word between processes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """``texts`` that were announced, and whether ``anything`` else may have been committed unheard."""

    texts: tuple[str, ...] = ()
    anything: bool = False


def wakeups_are_on(url: URL) -> bool:
    """Whether ``url`` leaves wake-ups on, as it does unless it says ``wakeups=off``. Raises ``UnknownTransport``."""
    match url.query.get("wakeups", "on"):
        case "on":
            return True
        case "off":
            return False
        case other:
            raise UnknownTransport(f"wakeups must be on or off, not {other!r}")


class Signals(Protocol):
    """How the processes that use one database hear from each other that something was committed.

    One thread hears. Word can get lost, so nobody may rely on it alone.
    """

    only_while_waited_for: bool  # hearing costs something all the time, so do it only while somebody waits
    are_announced: bool  # else a commit is heard without a word

    def hear(self, seconds: float) -> Heard:
        """Wait up to ``seconds`` for word. Raises ``TransportUnavailable``; the next call begins anew.

        Whenever it begins to hear, ``anything`` may have been committed before.
        """

    def announce(self, connection: Connection, text: str) -> None:
        """Have every process hear ``text`` once the transaction of ``connection`` is committed."""

    def announce_now(self, connection: Connection, text: str) -> None:
        """Have every process hear ``text``, by a connection that is for ``reading`` and did nothing else."""

    def end(self) -> None:
        """Let ``hear`` end, now and from now on. For any thread."""

    def close(self) -> None:
        """Give up what is held open, when nobody hears any more."""


# --- What a database must do -------------------------------------------------------------------------------------


class Dialect(Protocol):
    """One kind of database."""

    makes_own_schema: bool  # an empty one is given its tables at the first connect
    keeps_entries: bool  # an index keeps what was deleted for as long as an old transaction may look at it
    looks_before_it_locks: bool  # a change locks everything, so first look whether there is anything to change

    def engine(self, url: URL) -> Engine:
        """Connections to ``url``. Raises ``UnknownTransport`` for a URL that cannot be meant."""

    def signals(self, url: URL, engine: Engine) -> Signals | None:
        """How processes hear of each other through ``engine``'s database; ``None`` when ``url`` turns that off."""

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

    def plan(self, change: Change | Choice) -> Plan:
        """``change`` made ready."""

    def sharing_plan(self, change: Change) -> SharingPlan:
        """``change`` made ready to be run by itself."""

    def insert(self, table: sa.Table) -> Insert:
        """An insert that can say what to do on conflict."""

    def share_topology(self, connection: Connection) -> None:
        """Keep the applied topology as it is until the transaction ends; others may do the same.

        The transaction waits for no lock longer than ``LOCK_SECONDS`` from here on.
        """

    def share_topology_for_caller(self, connection: Connection) -> None:
        """The same in somebody else's transaction, whose settings are left alone.

        Raises ``ValueError`` when there is none, since every statement is committed by itself, and the database's own
        error when the transaction sees a moment at which another topology was applied.
        """

    def queue_publishers(self, connection: Connection, lanes: Collection[tuple[int, int]]) -> None:
        """Wait for every open transaction that did the same with one of these lanes (subscription's id, lane), and
        have those that come wait for this one. To be called once in a transaction, before what it publishes gets its
        places.
        """

    def own_topology(self, connection: Connection) -> None:
        """Wait until nobody shares the topology and keep everybody from it until the transaction ends."""

    def try_to_sweep(self, connection: Connection) -> bool:
        """Whether this transaction is now the only one that sweeps."""

    def lacks_tables(self, error: BaseException) -> bool:
        """Whether ``error`` says that a table or column is not there."""

    def is_trouble(self, error: BaseException) -> bool:
        """Whether ``error`` tells of the server, the connection or the file, and not of a wrong statement."""

    def is_refusal(self, error: BaseException) -> bool:
        """Whether the server lets in nobody of that name, or has no such database: waiting changes nothing."""

    def is_passing(self, error: BaseException) -> bool:
        """Whether the transaction was refused only because of another one and can be run again at once."""

    def examine_unopened(self, url: URL) -> list[Finding]:
        """What is to be told of the database before it is connected to, which may change that."""

    def examine(self, connection: Connection, limits: Limits) -> list[Finding]:
        """What is to be told of the server or the file. Changes nothing."""
