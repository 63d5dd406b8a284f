"""Towpath on a database: SQLite embedded, PostgreSQL for production."""

from local_transport.transport import DatabaseTransport, open_transport

__all__ = ["DatabaseTransport", "open_transport"]
