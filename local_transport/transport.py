"""The database transport: everything that travels through one database."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Self

from sqlalchemy.engine import Connection

from local_transport.acting import Actions
from local_transport.applied import TopologyReader, desired
from local_transport.applying import apply
from local_transport.auditing import record
from local_transport.connections import Database
from local_transport.consumer import DatabaseConsumer, Means
from local_transport.editing import Editor
from local_transport.operating import DatabaseOperator
from local_transport.pacing import Pacer
from local_transport.publishing import DatabasePublisher
from local_transport.purging import Purging
from local_transport.schema import require_current
from local_transport.settles import Settles
from local_transport.sweeping import Sweep
from local_transport.wakeups import Wakeups
from towpath.envelope import Sources
from towpath.manifest import Manifest
from towpath.message import Clock, JsonValue, NewMessage, PublishResult, utc_now
from towpath.operating import Warrant
from towpath.ports import Capability, Consumer, Operator
from towpath.settlement import SubscriptionPolicy
from towpath.transports import Applied, Options
from towpath.validation import require_messages

CAPABILITIES: Final[frozenset[Capability]] = frozenset(
    {
        "cancel_in_flight",
        "cancel_pending",
        "delay",
        "detects_duplicate_id",
        "exact_backlog",
        "expired_lease_backs_off",
        "expires_leases_itself",
        "counts_completions",
        "keeps_progress",
        "list_partitions",
        "ordered",
        "pause_at_once",
        "receive_ends_at_stop",
        "release_refunds_attempt",
    }
)


class DatabaseTransport:
    """Topics and subscriptions in a database. Thread-safe; a forked process opens its own.

    Besides ``Transport`` it is a ``TopologyStore``, a ``Sweeper`` and an ``AuditTrail``.
    """

    def __init__(self, database: Database, log: logging.Logger, clock: Clock = utc_now) -> None:
        """``database`` must have this version's tables; closing the transport closes it. ``clock`` dates messages."""
        self._database = database
        self._log = log
        self._reader = TopologyReader()
        self._wakeups = Wakeups(database, log, os.urandom)
        sources = Sources(clock=clock, random_bytes=os.urandom)
        self._publisher = DatabasePublisher(database, self._reader, sources, self._wakeups)
        self._sweep = Sweep(database, self._wakeups.due, log, Pacer())

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What a database can do."""
        return CAPABILITIES

    def publish(
        self, topic: str, messages: Sequence[NewMessage], *, connection: object | None = None
    ) -> list[PublishResult]:
        """Publish in one transaction: the valid messages become visible together, in order, or none does.

        ``connection``, a SQLAlchemy Connection or Session of this database, makes it a part of the caller's
        transaction; the database's own errors are passed on then. Raises ``TypeError`` for anything else, and
        ``ValueError`` for one that commits every statement by itself.
        """
        require_messages(messages)
        enlisted = None if connection is None else _connection_of(connection, self._database)
        return self._publisher.publish(topic, messages, enlisted)

    def policies(self) -> Mapping[str, SubscriptionPolicy]:
        """The subscriptions that are applied now; one that an operator paused has the status ``paused``.

        Raises ``TransportUnavailable``.
        """
        with self._database.reading() as connection:
            applied = self._reader.current(connection)
            paused = self._reader.paused(connection)
        found = {name: one.policy for name, one in sorted(applied.subscriptions.items())}
        stopped = {name: replace(found[name], status="paused") for name in paused if name in found}
        return found | {name: policy for name, policy in stopped.items() if found[name].status == "active"}

    def consumer(self, subscription: str) -> Consumer:
        """A consumer; raises ``SubscriptionNotFound``."""
        means = Means(
            database=self._database,
            reader=self._reader,
            settles=self._settles,
            wakeups=self._wakeups,
            log=self._log,
        )
        return DatabaseConsumer(means, subscription)

    @cached_property
    def _settles(self) -> Settles:
        """Made with the first consumer: whoever publishes or operates needs none, and to make them ready takes time."""
        return Settles(self._database)

    def operator(self) -> Operator:
        """What an operator sees and may do. Each has statements of its own: keep it for as long as it is used."""
        due = self._wakeups.due
        return DatabaseOperator(
            database=self._database,
            reader=self._reader,
            actions=Actions(self._database, self._reader, due, Pacer()),
            editor=Editor(self._database, self._reader, self._publisher, due),
            due=due,
        )

    def record_audit(self, warrant: Warrant, action: str, subject: str, details: Mapping[str, JsonValue]) -> None:
        """Add an entry to the audit trail, of something that was done on another transport."""
        with self._database.writing() as connection:
            record(connection, warrant, action, subject, details)

    def apply(self, manifest: Manifest) -> Applied:
        """Make topics and subscriptions equal to ``manifest``, in one transaction.

        Raises ``ApplyRefused``, with nothing changed, when deliveries would be lost or change their partition mode.
        """
        return apply(self._database, manifest)

    def sweep(self) -> int:
        """End deliveries whose time is over, and remove what was kept for long enough, until nothing is due.

        Answers how many rows that were; 0 while another process sweeps. Raises ``TransportUnavailable``.
        """
        return self._sweep.run()

    def purging(self) -> Purging:
        """Retention now, and what it would remove."""
        return Purging(database=self._database, due=self._wakeups.due, pacer=Pacer())

    def close(self) -> None:
        """Close every connection."""
        self._wakeups.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def warn_of_difference(self, manifest: Manifest) -> None:
        """Log one warning when ``manifest`` says something else than what is applied."""
        wanted = desired(manifest)
        with self._database.reading() as connection:
            applied = self._reader.fingerprint(connection)
        if not wanted.topics:
            repair = "it has no topic on a database; render it with 'towpath manifest render --all-on database'"
        elif wanted.fingerprint() != applied:
            repair = f"run 'towpath apply --database {self._database.label}' to apply it"
        else:
            return
        self._log.warning("the manifest is not what is applied to %s: %s", self._database.label, repair)


def open_transport(url: str, options: Options) -> DatabaseTransport:
    """Open the database at ``url``: ``sqlite:///dev.db`` or ``postgresql://user@host/name``.

    An empty SQLite file is given its tables. Raises ``UnknownTransport`` for a URL that cannot be meant,
    ``TransportUnavailable`` when the database does not answer, ``TransportRejected`` when it lets nobody in with this
    URL, ``SchemaOutdated`` when its tables are missing or of another version.
    """
    database = Database(url)
    try:
        require_current(database)
        transport = DatabaseTransport(database, logging.getLogger("towpath.database"))
        if options.manifest is not None:
            transport.warn_of_difference(options.manifest)
    except BaseException:
        database.close()
        raise
    return transport


def _connection_of(given: object, database: Database) -> Connection:
    connection = _enlisted(given)
    kind = (connection.dialect.name, connection.dialect.driver)
    own = (database.engine.dialect.name, database.engine.dialect.driver)
    if kind != own:
        raise TypeError(f"connection is one of {'+'.join(kind)}, and {database.label} is reached by {'+'.join(own)}")
    return connection


def _enlisted(given: object) -> Connection:
    if isinstance(given, Connection):
        return given
    from sqlalchemy.orm import Session, scoped_session  # only a caller that has one has paid for this import

    if isinstance(given, Session | scoped_session):
        return given.connection()
    kind = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
    raise TypeError(
        f"connection must be a SQLAlchemy Connection or Session, not a {kind}; "
        "open one with sqlalchemy.create_engine(...).begin() or sqlalchemy.orm.Session(engine)"
    )
