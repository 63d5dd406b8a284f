"""What differs between databases: types, the clock, locks, transactions. Nothing outside this package names one."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import URL

from local_transport.dialects.port import Dialect
from local_transport.dialects.postgresql import PostgreSql
from local_transport.dialects.sqlite import Sqlite
from towpath.errors import UnknownTransport

__all__ = ["Dialect", "dialect_of", "embedded_url"]


def dialect_of(url: URL) -> Dialect:
    """The dialect for ``url``. Raises ``UnknownTransport`` for a database, or a way to it, that is not supported."""
    match url.drivername:
        case "postgresql" | "postgresql+psycopg":
            return PostgreSql()
        case "sqlite" | "sqlite+pysqlite":
            return Sqlite()
    raise UnknownTransport(f"{url.drivername}:// is not supported; use sqlite:///file.db or postgresql://host/name")


def embedded_url(file: Path) -> str:
    """The URL of the database that lives in ``file``, for one process that need not outlive a power cut."""
    return URL.create(
        "sqlite", database=str(file.absolute()), query={"synchronous": "NORMAL", "wakeups": "off"}
    ).render_as_string()
