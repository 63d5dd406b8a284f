"""How alembic runs the migrations: on the connection, and in the transaction, of its caller."""

from __future__ import annotations

from alembic import context

from local_transport.tables import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
