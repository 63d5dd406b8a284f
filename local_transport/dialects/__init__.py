"""What differs between databases: types, the clock, locks, transactions. Nothing outside this package names one."""

from __future__ import annotations

from sqlalchemy.engine import URL

from local_transport.dialects.port import Dialect
from local_transport.dialects.postgresql import PostgreSql
from local_transport.dialects.sqlite import Sqlite
from towpath.errors import UnknownTransport

__all__ = ["Dialect", "dialect_of"]


def dialect_of(url: URL) -> Dialect:
    """The dialect for ``url``. Raises ``UnknownTransport`` for a database, or a way to it, that is not supported."""
    match url.drivername:
        case "postgresql" | "postgresql+psycopg":
            return PostgreSql()
        case "sqlite" | "sqlite+pysqlite":
            return Sqlite()
    raise UnknownTransport(f"{url.drivername}:// is not supported; use sqlite:///file.db or postgresql://host/name")
