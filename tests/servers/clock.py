"""Moving time for a database: every stored time is shifted into the past, which is as if the clock had moved on."""

import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.dialects.columns import Later, Moment
from local_transport.tables import metadata


def advance(url: str, seconds: float) -> None:
    """Let ``seconds`` pass in the database at ``url``, for everything that it holds. Nothing has to wait."""
    database = Database(url)
    with database.writing() as connection:
        for table in metadata.sorted_tables:
            moments = [column for column in table.columns if isinstance(column.type, Moment)]
            if moments:
                shifted = {column.name: Later(column, sa.literal(-float(seconds))) for column in moments}
                connection.execute(table.update().values(shifted))
    database.close()
