"""One database: its connections and transactions, with foreign errors translated into Towpath's."""

from __future__ import annotations

import random as system_random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from local_transport.dialects import Dialect, dialect_of
from local_transport.dialects.columns import go_by
from local_transport.dialects.health import Finding
from local_transport.dialects.port import Signals
from towpath.backoff import Random
from towpath.errors import SchemaOutdated, TransportRejected, TransportUnavailable, UnknownTransport
from towpath.message import Clock

ResultT = TypeVar("ResultT")

_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.05


class Conflicted(TransportUnavailable):
    """A transaction was refused because of another one (deadlock, serialization); it can be run again at once."""


class Database:
    """The connections to one database. Thread-safe; not to be shared with a forked process.

    Its context managers raise ``TransportUnavailable`` for what may pass, ``TransportRejected`` when the server lets
    nobody in with this URL, ``SchemaOutdated`` when tables are missing, and let through what can only be a defect.
    """

    def __init__(self, url: str) -> None:
        self._url = _parsed(url)
        self.dialect: Dialect = dialect_of(self._url)
        self.engine: Engine = self.dialect.engine(self._url)

    def go_by(self, clock: Clock) -> None:
        """Take the time from ``clock``: for tests, before the first connection is made. Raises ``Unsupported``."""
        go_by(self.engine, clock)

    def signals(self) -> Signals | None:
        """How this process hears from others that use the database; ``None`` when the URL turns that off."""
        return self.dialect.signals(self._url, self.engine)

    def unopened_findings(self) -> list[Finding]:
        """What is to be told before the first connection is made: call it first."""
        return self.dialect.examine_unopened(self._url)

    @property
    def label(self) -> str:
        """What errors and logs call this database: never with its password."""
        return self._url.set(query={}).render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for statements that only read; each of them sees one moment."""
        with self.translated(), self.dialect.reading(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: committed at the end, rolled back when the block raises."""
        with self.translated(), self.dialect.writing(self.engine) as connection:
            yield connection

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """A connection on which exactly one ``Plan`` is run, which is durable at the end."""
        with self.translated(), self.dialect.changing(self.engine) as connection:
            yield connection

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise Towpath's errors instead of SQLAlchemy's, with the database's own words and without parameters."""
        try:
            yield
        except PoolTimeout as error:
            raise TransportUnavailable(f"{self.label}: every connection of the pool is in use") from error
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise self._translation(error.orig, error) from error
        except self.engine.dialect.loaded_dbapi.Error as error:  # from making a connection ready
            raise self._translation(error, error) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _translation(self, cause: BaseException | None, error: Exception) -> Exception:
        """What to raise for ``cause``; ``error`` itself for a defect, which is nobody's to catch."""
        if cause is None:
            return error
        text = f"{self.label}: {str(cause).strip().partition(chr(10))[0]}"
        if self.dialect.lacks_tables(cause):
            return SchemaOutdated(f"{text}; run {upgrade_command(self.label)}")
        if self.dialect.is_refusal(cause):
            return TransportRejected(text)
        if self.dialect.is_passing(cause):
            return Conflicted(text)
        lost = isinstance(error, DBAPIError) and error.connection_invalidated
        return TransportUnavailable(text) if lost or self.dialect.is_trouble(cause) else error


def run_again(transaction: Callable[[], ResultT], random: Random = system_random.random) -> ResultT:
    """Run ``transaction``, and again after a short pause while it is refused because of another one.

    Raises ``Conflicted`` when the last of three tries is refused, and what else ``transaction`` raises.
    """
    for attempt in range(1, _TRIES):
        try:
            return transaction()
        except Conflicted:
            time.sleep(random() * _PAUSE_SECONDS * attempt)
    return transaction()


def upgrade_command(label: str) -> str:
    """The command that brings the schema up, to be quoted in a sentence."""
    return f"'towpath db upgrade --database {label}'"


def _parsed(url: str) -> URL:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise UnknownTransport(
            "the URL of the database cannot be read; it looks like sqlite:///dev.db or postgresql://user@host/name"
        ) from error
    if "@" in (parsed.host or ""):  # the rest of a password, which would be shown as the host's name
        raise UnknownTransport("the URL of the database has two @; one in its password is written %40")
    return parsed
