"""The applied topology, kept as it is by those who publish: which revision it has is told under their lock."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import Connection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from local_transport.dialects.advisory import share_topology


class SharedRevision(FunctionElement[int]):
    """The revision that is applied, 0 before the first one. Nobody applies another until the transaction ends.

    What the transaction waits for from here on, it waits for ``LOCK_SECONDS`` at most. It has to read what is committed
    by then (READ COMMITTED), or be the only one that writes.
    """

    type = sa.BigInteger()
    inherit_cache = True


def shared_revision() -> sa.ScalarSelect[int]:
    """The same, once for a statement."""
    return sa.select(SharedRevision()).scalar_subquery()


def make_shared_revision(connection: Connection) -> None:
    """Make what ``SharedRevision`` needs of a database.

    PostgreSQL: a function, since a statement sees what was committed before it began, and so before it had the lock.
    Each statement of a volatile function sees what was committed until then (PostgreSQL documentation, "Function
    Volatility Categories").
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(_FUNCTION.replace(":share", share_topology())))


def with_shared_revision(table: sa.Table) -> sa.Table:
    """``table``, the topology, which is made together with what ``SharedRevision`` needs."""

    @event.listens_for(table, "after_create")
    def _make(_made: sa.Table, connection: Connection, **_options: Any) -> None:
        make_shared_revision(connection)

    return table


_FUNCTION = """
CREATE FUNCTION towpath_shared_revision() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    applied bigint;
BEGIN
    PERFORM :share;
    SELECT revision INTO applied FROM towpath_topology;
    RETURN coalesce(applied, 0);
END $$
"""


@compiles(SharedRevision, "postgresql")
def _postgresql(_element: SharedRevision, _compiler: SQLCompiler, **_options: Any) -> str:
    return "towpath_shared_revision()"


@compiles(SharedRevision, "sqlite")
def _sqlite(_element: SharedRevision, _compiler: SQLCompiler, **_options: Any) -> str:
    return "coalesce((SELECT revision FROM towpath_topology), 0)"
