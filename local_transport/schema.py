"""Which version the tables of a database have, and bringing them up to this one."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.connections import Database, upgrade_command
from local_transport.tables import SCHEMA_VERSION, VERSION_TABLE
from towpath.errors import SchemaOutdated

MIGRATIONS = Path(__file__).parent / "migrations"

# Alembic keeps the migration that is running in its modules (alembic.op, alembic.context), so a process has one at a
# time: two threads would make their tables through each other's connection, which SQLite does not survive.
_ALEMBIC: Final = threading.Lock()

_versions = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaState:
    """``installed`` is the version that the tables have, ``None`` when there are none; ``needed`` is this code's."""

    installed: str | None
    needed: str = SCHEMA_VERSION

    @property
    def current(self) -> bool:
        """Whether this code can work on these tables."""
        return self.installed == self.needed


def schema_state(database: Database) -> SchemaState:
    """Look which version the tables have. Changes nothing."""
    with database.reading() as connection:
        return SchemaState(installed=_installed(connection))


def require_current(database: Database) -> None:
    """Raise ``SchemaOutdated`` unless the tables have this code's version.

    An empty embedded database is given its tables here; two processes may do so at the same time.
    """
    state = schema_state(database)
    if state.current:
        return
    if state.installed is None and database.dialect.makes_own_schema and _is_empty(database):
        upgrade(database)
        return
    raise SchemaOutdated(_complaint(state, database.label))


def upgrade(database: Database) -> SchemaState:
    """Bring the tables up to this code's version, in one transaction; answers how they were before.

    Does nothing when they are. Raises ``SchemaOutdated`` when they are newer than this code.
    """
    with database.writing() as connection:
        database.dialect.own_topology(connection)  # one migration at a time
        before = SchemaState(installed=_installed(connection))
        if before.installed is not None and before.installed > before.needed:
            raise SchemaOutdated(_complaint(before, database.label))
        if not before.current:
            _migrate(connection)
    return before


def _installed(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(sa.select(_versions.c.version_num))


def _is_empty(database: Database) -> bool:
    with database.reading() as connection:
        names = sa.inspect(connection).get_table_names()
        return not names or VERSION_TABLE in names  # another process made them just now


def mismatch(state: SchemaState, label: str) -> tuple[str, str]:
    """What is wrong with the version of the tables at ``label``, and what to do about it, each in a few words."""
    upgrading = f"run {upgrade_command(label)}"
    if state.installed is None:
        return f"{label} has no Towpath tables", upgrading
    if state.installed > state.needed:
        problem = f"{label} has schema version {state.installed}, newer than this Towpath knows ({state.needed})"
        return problem, "install a newer towpath"
    return f"{label} has schema version {state.installed}, this Towpath needs {state.needed}", upgrading


def _complaint(state: SchemaState, label: str) -> str:
    return "; ".join(mismatch(state, label))


def _migrate(connection: Connection) -> None:
    from alembic import command  # only here: nothing else needs it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
