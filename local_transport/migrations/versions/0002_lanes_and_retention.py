"""Lanes, expiry, retention."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Identity, Integer, SmallInteger, String, Text

from local_transport.dialects.columns import (
    APPENDED,
    CHURNING,
    HOT,
    KEYED,
    NUMBERED,
    ORDINAL,
    Moment,
    Now,
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
    _make_lanes()
    _index_lanes()
    _fill_lanes()


def _add_expiry() -> None:
    op.add_column("towpath_delivery", Column("expires_at", Moment))
    expiring = only_where("expires_at IS NOT NULL AND dead_since IS NULL")
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


def _make_lanes() -> None:
    op.drop_table("towpath_lane")  # nothing wrote to it
    op.create_table(
        "towpath_lane",
        Column("subscription_id", Integer, primary_key=True, autoincrement=False),
        Column("lane", BigInteger, primary_key=True, autoincrement=False),
        Column("due_at", Moment),
        Column("held_ordinal", BigInteger),
        **KEYED,
    )
    op.create_index("towpath_lane_due", "towpath_lane", ["subscription_id", "due_at"])
    op.create_table(
        "towpath_touched_lane",
        Column("id", ORDINAL, Identity(), primary_key=True),
        Column("subscription_id", Integer, nullable=False),
        Column("lane", BigInteger, nullable=False),
        **NUMBERED,
    )
    op.create_index("towpath_touched_lane_of", "towpath_touched_lane", ["subscription_id", "id"])
    set_storage(op.get_bind(), "towpath_lane", HOT)
    set_storage(op.get_bind(), "towpath_touched_lane", CHURNING)


def _index_lanes() -> None:
    table = "towpath_delivery"
    op.add_column(table, Column("ordered", Boolean, nullable=False, server_default=sa.false()))
    op.drop_index("towpath_delivery_lane", table)
    laned, ordered, waits = (
        sa.column("lane").is_not(None),
        sa.column("ordered", Boolean),
        sa.column("due_at").is_not(None),
    )
    by_place, by_time = ["subscription_id", "lane", "message_ordinal"], ["subscription_id", "lane", "due_at"]
    op.create_index("towpath_delivery_ordered", table, by_place, **only_where(sa.and_(laned, ordered)))
    in_any_order = only_where(sa.and_(laned, ~ordered, waits))
    op.create_index("towpath_delivery_exclusive", table, [*by_time, "message_ordinal"], **in_any_order)


def _fill_lanes() -> None:
    """Deliveries with partition keys, which the first version could take but not hand out, get their lanes."""
    subscription = sa.table("towpath_subscription", sa.column("id"), sa.column("policy"))
    delivery = sa.table("towpath_delivery", *map(sa.column, ("subscription_id", "lane")), sa.column("ordered", Boolean))
    lane = sa.table("towpath_lane", *map(sa.column, ("subscription_id", "lane", "due_at")))
    for row in op.get_bind().execute(sa.select(subscription)).all():
        if json.loads(row.policy)["policy"]["partition_mode"] == "ordered":
            laned = (delivery.c.subscription_id == row.id, delivery.c.lane.is_not(None))
            op.execute(delivery.update().where(*laned).values(ordered=sa.true()))
    busy = sa.select(delivery.c.subscription_id, delivery.c.lane, Now()).where(delivery.c.lane.is_not(None))
    names = ["subscription_id", "lane", "due_at"]
    op.execute(lane.insert().from_select(names, busy.group_by(delivery.c.subscription_id, delivery.c.lane)))
