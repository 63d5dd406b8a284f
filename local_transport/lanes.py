"""Lanes: which one a partition key has, and having one looked at again."""

from __future__ import annotations

from hashlib import blake2b

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.tables import touched_lane


def lane_of(partition_key: str) -> int:
    """The lane of a partition key: 64 bits of a hash, so that two keys rarely share one, and then merely wait."""
    return int.from_bytes(blake2b(partition_key.encode(), digest_size=8).digest(), "big", signed=True)


def touch(changed: FromClause) -> UpdateBase:
    """Have the next claim look at the lanes of deliveries that were changed by somebody who does not hold them.

    ``changed`` has ``subscription_id`` and ``lane``; rows without a lane say nothing. Takes no lock, and is seen by
    claims once the transaction has committed.
    """
    row = changed.c
    lanes = sa.select(row.subscription_id, row.lane).where(row.lane.is_not(None)).distinct()
    return touched_lane.insert().from_select(["subscription_id", "lane"], lanes)
