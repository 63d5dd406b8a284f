"""Time for a database: moved on by shifting every stored time into the past, or told by a clock that is off."""

import logging
from contextlib import closing
from datetime import timedelta

import psycopg
import sqlalchemy as sa

from local_transport import DatabaseTransport
from local_transport.connections import Database
from local_transport.dialects.columns import Later, Moment
from local_transport.tables import metadata
from towpath import connect
from towpath.message import utc_now


def advance(url: str, seconds: float) -> None:
    """Let ``seconds`` pass in the database at ``url``, for everything that it holds. Nothing has to wait."""
    with closing(Database(url)) as database:
        advance_in(database, seconds)


def advance_in(database: Database, seconds: float) -> None:
    """The same, for who has the database open and does it often."""
    with database.writing() as connection:
        for table in metadata.sorted_tables:
            moments = [column for column in table.columns if isinstance(column.type, Moment)]
            if moments:
                shifted = {column.name: Later(column, sa.literal(-float(seconds))) for column in moments}
                connection.execute(table.update().values(shifted))


def transport_with_clock(url: str, seconds: float) -> DatabaseTransport:
    """A transport on the database at ``url`` whose own clock is ``seconds`` ahead of this machine's."""
    if url.startswith("sqlite"):
        database = Database(url)
        database.go_by(lambda: utc_now() + timedelta(seconds=seconds))
        return DatabaseTransport(database, logging.getLogger("towpath.database"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS shifted")
        connection.execute(
            "CREATE OR REPLACE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
            f"$$ SELECT pg_catalog.clock_timestamp() + make_interval(secs => {float(seconds)}) $$"
        )
    path = sa.make_url(url).update_query_dict({"options": "-csearch_path=shifted,pg_catalog,public"})
    return connect(path.render_as_string(hide_password=False))
