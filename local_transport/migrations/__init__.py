"""Schema versions, run by alembic through ``local_transport.schema.upgrade``."""
