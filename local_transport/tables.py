"""The tables of the database transport. ``migrations/`` makes them; a test holds the two equal."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Float, Identity, Index, Integer, SmallInteger, String, Table, Text

from local_transport.dialects.columns import (
    APPENDED,
    BODY,
    CHURNING,
    HOT,
    KEYED,
    MESSAGE_ID,
    NUMBERED,
    ORDINAL,
    Moment,
    only_where,
    stored,
)

SCHEMA_VERSION: Final = "0002"  # the newest revision in migrations/versions
VERSION_TABLE: Final = "towpath_schema_version"

metadata: Final = sa.MetaData()

# --- The applied topology: written by apply, read often, small ---------------------------------------------------

# One row (id 1): which revision is applied, and the fingerprint of the manifest that it came from.
topology: Final = Table(
    "towpath_topology",
    metadata,
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("revision", BigInteger, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("applied_at", Moment, nullable=False),
)

# Topics and subscriptions are never deleted, only marked removed: messages and history go on naming them.
topic: Final = Table(
    "towpath_topic",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("policy", Text, nullable=False),  # the manifest's record, as JSON
    Column("revision", BigInteger, nullable=False),  # the one that changed it last
    Column("removed_at", Moment),
    **NUMBERED,
)

subscription: Final = Table(
    "towpath_subscription",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("topic_id", Integer, sa.ForeignKey("towpath_topic.id"), nullable=False),
    Column("policy", Text, nullable=False),
    Column("status", String(8), nullable=False),  # of the topology: active, paused, disabled
    Column("paused", Boolean, nullable=False, server_default=sa.false()),  # the operator's own, never set by apply
    Column("revision", BigInteger, nullable=False),
    Column("removed_at", Moment),
    **NUMBERED,
)

# --- Messages and deliveries -------------------------------------------------------------------------------------
# No foreign keys from here on: each would cost a look-up and a lock for every row.

message: Final = Table(
    "towpath_message",
    metadata,
    Column("ordinal", ORDINAL, Identity(), primary_key=True),
    Column("id", MESSAGE_ID, nullable=False),
    Column("published_at", Moment, nullable=False),
    Column("topic_id", Integer, nullable=False),
    Column("body", BODY, nullable=False),
    Index("towpath_message_id", "id", unique=True),
    **NUMBERED,
)

_LANED: Final = sa.column("lane").is_not(None)
_ORDERED: Final = sa.column("ordered", Boolean)
_IN_ORDER: Final = sa.and_(_LANED, _ORDERED)
_IN_ANY_ORDER: Final = sa.and_(_LANED, ~_ORDERED, sa.column("due_at").is_not(None))

# Open and dead deliveries only, and nothing wide: every state change makes a new version of the row.
# due_at is when a claim may take the row, pending or leased (then: the lease's end plus the back-off); null when dead.
# ends_at is the end of a lease after which the delivery does not come again, since it is on its last attempt.
# lane is the hash of the partition key in a partitioned subscription; the lane hands such rows out, not due_at alone.
# ordered tells the lanes that go by the order of publishing from those that take whatever is due.
delivery: Final = Table(
    "towpath_delivery",
    metadata,
    Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
    Column("subscription_id", Integer, primary_key=True, autoincrement=False),
    Column("lease_token", Integer, nullable=False, server_default="0"),  # counts the claims: the fence
    Column("due_at", Moment),
    Column("lease_expires_at", Moment),
    Column("ends_at", Moment),
    Column("dead_since", Moment),
    Column("lane", BigInteger),
    Column("attempt", SmallInteger, nullable=False, server_default="0"),
    Column("cancel_requested", Boolean, nullable=False, server_default=sa.false()),
    Column("is_replay", Boolean, nullable=False, server_default=sa.false()),
    Column("state", String(8), nullable=False, server_default="pending"),  # pending, leased, dead
    Column("expires_at", Moment),  # the message's own
    Column("ordered", Boolean, nullable=False, server_default=sa.false()),
    Index("towpath_delivery_due", "subscription_id", "due_at", **only_where("lane IS NULL AND due_at IS NOT NULL")),
    Index("towpath_delivery_ordered", "subscription_id", "lane", "message_ordinal", **only_where(_IN_ORDER)),
    Index(
        "towpath_delivery_exclusive",
        "subscription_id",
        "lane",
        "due_at",
        "message_ordinal",
        **only_where(_IN_ANY_ORDER),
    ),
    Index("towpath_delivery_dead", "subscription_id", "dead_since", **only_where("dead_since IS NOT NULL")),
    Index("towpath_delivery_ending", "ends_at", **only_where("ends_at IS NOT NULL")),
    Index("towpath_delivery_expiring", "expires_at", **only_where("expires_at IS NOT NULL AND dead_since IS NULL")),
    **KEYED,
)

delivery_detail: Final = Table(
    "towpath_delivery_detail",
    metadata,
    Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
    Column("subscription_id", Integer, primary_key=True, autoincrement=False),
    Column("reason", Text),  # why it is dead
    Column("failed_attempt", SmallInteger),
    Column("failed_at", Moment),
    Column("error_type", Text),
    Column("error_message", Text),
    Column("error_traceback", Text),
    Column("progress_at", Moment),
    Column("percent", Float),
    Column("note", Text),
    Column("checkpoint", Text),  # JSON
    **KEYED,
)

# One row for each busy partition key of a partitioned subscription: whoever holds the row hands out its deliveries.
# due_at is when a claim looks at the lane, while a delivery is held the end of its lease; null when a dead letter at
# the head of an ordered lane blocks it. held_ordinal is the delivery that was handed out last, until that is settled.
lane: Final = Table(
    "towpath_lane",
    metadata,
    Column("subscription_id", Integer, primary_key=True, autoincrement=False),
    Column("lane", BigInteger, primary_key=True, autoincrement=False),
    Column("due_at", Moment),
    Column("held_ordinal", BigInteger),
    Index("towpath_lane_due", "subscription_id", "due_at"),
    **KEYED,
)

# Lanes whose deliveries somebody changed without holding them: the next claim looks at them. Only ever added to, so
# that a transaction that stays open for long delays nobody.
touched_lane: Final = Table(
    "towpath_touched_lane",
    metadata,
    Column("id", ORDINAL, Identity(), primary_key=True),
    Column("subscription_id", Integer, nullable=False),
    Column("lane", BigInteger, nullable=False),
    Index("towpath_touched_lane_of", "subscription_id", "id"),
    **NUMBERED,
)

# --- What is over ------------------------------------------------------------------------------------------------

# Keyed by time within each subscription, since that is how it goes. A message goes with the history of its deliveries.
history: Final = Table(
    "towpath_history",
    metadata,
    Column("subscription_id", Integer, primary_key=True, autoincrement=False),
    Column("finished_at", Moment, primary_key=True),
    Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("outcome", String(9), nullable=False),  # completed, discarded
    Column("reason", Text),
    **KEYED,
)

# Messages that no subscription wanted, and so will have no history to go with.
unwanted: Final = Table(
    "towpath_unwanted",
    metadata,
    Column("topic_id", Integer, primary_key=True, autoincrement=False),
    Column("published_at", Moment, primary_key=True),
    Column("message_ordinal", BigInteger, primary_key=True, autoincrement=False),
    **KEYED,
)

# How many deliveries ended how, as a sum: every settled batch adds a row, the sweeper folds rows together. A counter
# that each settle updates would make all workers of a subscription wait for one row.
tally: Final = Table(
    "towpath_tally",
    metadata,
    Column("id", ORDINAL, Identity(), primary_key=True),
    Column("amount", BigInteger, nullable=False),
    Column("subscription_id", Integer, nullable=False),
    Column("outcome", String(9), nullable=False),
    **NUMBERED,
)

# --- Beside the deliveries ---------------------------------------------------------------------------------------

deduplication: Final = Table(
    "towpath_deduplication",
    metadata,
    Column("topic_id", Integer, primary_key=True, autoincrement=False),
    Column("key", String(200), primary_key=True),
    Column("message_ordinal", BigInteger, nullable=False),
    Column("message_id", MESSAGE_ID, nullable=False),  # of the message that won
    Column("expires_at", Moment, nullable=False),
    Column("slides", Boolean, nullable=False, server_default=sa.true()),
    Index("towpath_deduplication_ending", "expires_at"),
    **KEYED,
)

audit: Final = Table(
    "towpath_audit",
    metadata,
    Column("id", ORDINAL, Identity(), primary_key=True),
    Column("at", Moment, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("reason", Text),
    Column("details", Text),  # JSON
    **NUMBERED,
)

worker: Final = Table(
    "towpath_worker",
    metadata,
    Column("id", MESSAGE_ID, primary_key=True),
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("seen_at", Moment, nullable=False),
    Column("details", Text),  # JSON
)

for _table in (delivery, delivery_detail, lane, deduplication):
    stored(_table, HOT)
for _table in (message, history, unwanted):
    stored(_table, APPENDED)
for _table in (tally, touched_lane):
    stored(_table, CHURNING)
