"""A database of a test's own, with a topology applied, whose time can be moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from towpath.ports import Sweeper, Transport
from towpath.testing.clock import LocalClock
from towpath.testing.harnesses import harness

if TYPE_CHECKING:
    from towpath.manifest import Manifest
    from towpath.transports import Applied


class LocalDatabase(Transport, Sweeper, Protocol):
    """The database transport itself, on a SQLite file: all rules hold as they do in production.

    Its time is real, and ``advance`` moves it on: retries, delays, leases, expiry and deduplication go by it, for
    whoever uses this object. Another process that opens the file goes by its own clock.
    """

    @property
    def url(self) -> str:
        """The file's URL, for SQLAlchemy and ``towpath.connect``: what is opened by it goes by real time."""

    def advance(self, seconds: float) -> None:
        """Move time on."""

    def apply(self, manifest: Manifest) -> Applied:
        """Make its topics and subscriptions equal to ``manifest``. Raises ``ApplyRefused`` as every database does."""


class OpenDatabase(Protocol):
    """What the entry point ``database`` of the group ``towpath.harnesses`` is."""

    def __call__(self, file: Path, clock: LocalClock) -> LocalDatabase:
        """The database in ``file``, which is made when it is not there, going by ``clock``."""


def local_database(
    file: str | Path, manifest: Manifest | None = None, *, clock: LocalClock | None = None
) -> LocalDatabase:
    """Open a SQLite database in ``file`` and apply the part of ``manifest`` that is on a database to it.

    A missing file is made, and given its tables. ``clock`` is one that something else goes by too. Close it at the end,
    or use it in a ``with`` statement. Raises ``Unsupported`` when the database transport is not installed, and what
    opening and applying raise.
    """
    open_database = cast("OpenDatabase", harness("database", "the database transport", "local"))
    database = open_database(Path(file), clock if clock is not None else LocalClock())
    if manifest is not None:
        try:
            database.apply(manifest)
        except BaseException:
            database.close()
            raise
    return database
