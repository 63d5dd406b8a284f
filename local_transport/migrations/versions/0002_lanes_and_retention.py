"""Lanes, expiry, retention."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, SmallInteger, String, Text

from local_transport.dialects.columns import (
    APPENDED,
    KEYED,
    Moment,
    only_where,
    set_primary_key,
    set_storage,
)

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change the tables; deliveries, history and counts stay as they are."""
    _add_expiry()
    _make_unwanted()  # while history is still keyed by message
    _key_history_by_time()
    _extend_deduplication()


def _add_expiry() -> None:
    op.add_column("towpath_delivery", Column("expires_at", Moment))
    expiring = only_where("expires_at IS NOT NULL")
    op.create_index("towpath_delivery_expiring", "towpath_delivery", ["expires_at"], **expiring)


def _make_unwanted() -> None:
    unwanted = op.create_table(
        "towpath_unwanted",
        Column("topic_id", Integer, primary_key=True, autoincrement=False),
        Column("published_at", Moment, primary_key=True),
        Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
        **KEYED,
    )
    set_storage(op.get_bind(), "towpath_unwanted", APPENDED)
    message = sa.table("towpath_message", *map(sa.column, ("topic_id", "published_at", "ordinal")))
    alone = sa.select(*message.c)
    for name in ("towpath_delivery", "towpath_history"):
        of_message = sa.table(name, sa.column("message_ordinal"))
        alone = alone.where(~sa.exists().where(of_message.c.message_ordinal == message.c.ordinal))
    op.execute(unwanted.insert().from_select(["topic_id", "published_at", "message_ordinal"], alone))


def _key_history_by_time() -> None:
    history = sa.Table(
        "towpath_history",
        sa.MetaData(),
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("finished_at", Moment, primary_key=True),
        Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
        Column("attempt", SmallInteger, nullable=False),
        Column("outcome", String(9), nullable=False),
        Column("reason", Text),
        **KEYED,
    )
    set_primary_key(op.get_bind(), history)


def _extend_deduplication() -> None:
    op.add_column("towpath_deduplication", Column("slides", Boolean, nullable=False, server_default=sa.true()))
    op.create_index("towpath_deduplication_ending", "towpath_deduplication", ["expires_at"])
