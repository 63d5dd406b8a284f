"""The first schema."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Float, Identity, Integer, SmallInteger, String, Text

from local_transport.dialects.columns import (
    APPENDED,
    CHURNING,
    HOT,
    KEYED,
    MESSAGE_ID,
    NUMBERED,
    ORDINAL,
    Moment,
    only_where,
    set_storage,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    _make_topology()
    _make_message()
    _make_delivery()
    _make_lane()
    _make_finished()
    _make_others()
    _set_storage()


def _make_topology() -> None:
    op.create_table(
        "towpath_topology",
        Column("id", SmallInteger, primary_key=True, autoincrement=False),
        Column("revision", BigInteger, nullable=False),
        Column("fingerprint", Text, nullable=False),
        Column("applied_at", Moment, nullable=False),
    )
    op.create_table(
        "towpath_topic",
        Column("id", Integer, Identity(), primary_key=True),
        Column("name", Text, nullable=False, unique=True),
        Column("policy", Text, nullable=False),
        Column("revision", BigInteger, nullable=False),
        Column("removed_at", Moment),
        **NUMBERED,
    )
    op.create_table(
        "towpath_subscription",
        Column("id", Integer, Identity(), primary_key=True),
        Column("name", Text, nullable=False, unique=True),
        Column("topic_id", Integer, sa.ForeignKey("towpath_topic.id"), nullable=False),
        Column("policy", Text, nullable=False),
        Column("status", String(8), nullable=False),
        Column("paused", Boolean, nullable=False, server_default=sa.false()),
        Column("revision", BigInteger, nullable=False),
        Column("removed_at", Moment),
        **NUMBERED,
    )


def _make_message() -> None:
    op.create_table(
        "towpath_message",
        Column("ordinal", ORDINAL, Identity(), primary_key=True),
        Column("id", MESSAGE_ID, nullable=False),
        Column("published_at", Moment, nullable=False),
        Column("topic_id", Integer, nullable=False),
        Column("body", Text, nullable=False),
        **NUMBERED,
    )
    op.create_index("towpath_message_id", "towpath_message", ["id"], unique=True)


def _make_delivery() -> None:
    op.create_table(
        "towpath_delivery",
        Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("lease_token", Integer, nullable=False, server_default="0"),
        Column("due_at", Moment),
        Column("lease_expires_at", Moment),
        Column("ends_at", Moment),
        Column("dead_since", Moment),
        Column("lane", BigInteger),
        Column("attempt", SmallInteger, nullable=False, server_default="0"),
        Column("cancel_requested", Boolean, nullable=False, server_default=sa.false()),
        Column("is_replay", Boolean, nullable=False, server_default=sa.false()),
        Column("state", String(8), nullable=False, server_default="pending"),
        **KEYED,
    )
    due, laned = "lane IS NULL AND due_at IS NOT NULL", "lane IS NOT NULL"
    dead, ending = "dead_since IS NOT NULL", "ends_at IS NOT NULL"
    table = "towpath_delivery"
    op.create_index("towpath_delivery_due", table, ["subscription_id", "due_at"], **only_where(due))
    op.create_index("towpath_delivery_lane", table, ["subscription_id", "lane", "message_ordinal"], **only_where(laned))
    op.create_index("towpath_delivery_dead", table, ["subscription_id", "dead_since"], **only_where(dead))
    op.create_index("towpath_delivery_ending", table, ["ends_at"], **only_where(ending))
    op.create_table(
        "towpath_delivery_detail",
        Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("reason", Text),
        Column("failed_attempt", SmallInteger),
        Column("failed_at", Moment),
        Column("error_type", Text),
        Column("error_message", Text),
        Column("error_traceback", Text),
        Column("progress_at", Moment),
        Column("percent", Float),
        Column("note", Text),
        Column("checkpoint", Text),
        **KEYED,
    )


def _make_lane() -> None:
    op.create_table(
        "towpath_lane",
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("lane", BigInteger, primary_key=True, autoincrement=False),
        Column("due_at", Moment),
        Column("finished_ordinal", BigInteger, nullable=False, server_default="0"),
        Column("lease_token", Integer, nullable=False, server_default="0"),
        Column("state", String(8), nullable=False, server_default="free"),
        **KEYED,
    )
    op.create_index("towpath_lane_due", "towpath_lane", ["subscription_id", "due_at"])


def _make_finished() -> None:
    op.create_table(
        "towpath_history",
        Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("finished_at", Moment, nullable=False),
        Column("attempt", SmallInteger, nullable=False),
        Column("outcome", String(9), nullable=False),
        Column("reason", Text),
        **KEYED,
    )
    op.create_table(
        "towpath_tally",
        Column("id", ORDINAL, Identity(), primary_key=True),
        Column("amount", BigInteger, nullable=False),
        Column("subscription_id", Integer, nullable=False),
        Column("outcome", String(9), nullable=False),
        **NUMBERED,
    )


def _make_others() -> None:
    op.create_table(
        "towpath_deduplication",
        Column("topic_id", Integer, primary_key=True, autoincrement=False),
        Column("key", String(200), primary_key=True),
        Column("message_ordinal", BigInteger, nullable=False),
        Column("message_id", MESSAGE_ID, nullable=False),
        Column("expires_at", Moment, nullable=False),
        **KEYED,
    )
    op.create_table(
        "towpath_audit",
        Column("id", ORDINAL, Identity(), primary_key=True),
        Column("at", Moment, nullable=False),
        Column("actor", Text, nullable=False),
        Column("action", Text, nullable=False),
        Column("subject", Text, nullable=False),
        Column("reason", Text),
        Column("details", Text),
        **NUMBERED,
    )
    op.create_table(
        "towpath_worker",
        Column("id", MESSAGE_ID, primary_key=True),
        Column("host", Text, nullable=False),
        Column("process", Integer, nullable=False),
        Column("started_at", Moment, nullable=False),
        Column("seen_at", Moment, nullable=False),
        Column("details", Text),
    )


def _set_storage() -> None:
    connection = op.get_bind()
    for table in ("towpath_delivery", "towpath_delivery_detail", "towpath_lane", "towpath_deduplication"):
        set_storage(connection, table, HOT)
    for table in ("towpath_message", "towpath_history"):
        set_storage(connection, table, APPENDED)
    set_storage(connection, "towpath_tally", CHURNING)
