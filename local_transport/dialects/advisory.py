"""PostgreSQL's advisory locks, as Towpath uses them: all end with their transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum
from hashlib import blake2b
from typing import Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from local_transport.dialects.port import LOCK_SECONDS

_SPACE: Final = 0x746F77  # the first half of Towpath's lock keys, "tow"
_LANES_SPACE: Final = 0x746F78  # the same for the lanes of a subscription, whose id is the second half
_TOPOLOGY, _SWEEP = 1, 2

# The lock wait is bounded for this transaction alone; the target list of a SELECT is evaluated from left to right.
_BOUNDED_WAIT: Final = sa.func.set_config("lock_timeout", f"{LOCK_SECONDS}s", sa.true())
SHARE_TOPOLOGY: Final = sa.select(_BOUNDED_WAIT, sa.func.pg_advisory_xact_lock_shared(_SPACE, _TOPOLOGY))
SHARE_TOPOLOGY_ALONE: Final = sa.select(
    sa.func.current_setting("transaction_isolation"), sa.func.pg_advisory_xact_lock_shared(_SPACE, _TOPOLOGY)
)
HOLD_TOPOLOGY: Final = sa.select(sa.literal(1)).select_from(sa.table("towpath_topology")).with_for_update(read=True)
OWN_TOPOLOGY: Final = sa.select(_BOUNDED_WAIT, sa.func.pg_advisory_xact_lock(_SPACE, _TOPOLOGY))
TRY_TO_SWEEP: Final = sa.select(sa.func.pg_try_advisory_xact_lock(_SPACE, _SWEEP))


# --- Publishers of one lane, one after another -------------------------------------------------------------------

_MOST_LANES: Final = 128  # of one subscription in one transaction: the server has room for some thousands of locks


class _Kind(IntEnum):
    """What a lock of a publisher keeps from others, in the order in which they are taken."""

    SOME_LANES = 0  # shared: whoever locks all lanes of the subscription
    ALL_LANES = 1  # everybody else who publishes to the subscription
    ONE_LANE = 2  # whoever publishes to the lane


def publishing_locks(lanes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Kind and key of the locks for these lanes (subscription's id, lane), in the order in which all take them.

    One lock for each lane, or one for all lanes of a subscription where that would be too many.
    """
    by_subscription: dict[int, set[int]] = defaultdict(set)
    for subscription_id, lane in lanes:
        by_subscription[subscription_id].add(lane)
    locks: list[tuple[int, int]] = []
    for subscription_id, own in by_subscription.items():
        if len(own) > _MOST_LANES:
            locks.append((_Kind.ALL_LANES, subscription_id))
            continue
        locks.append((_Kind.SOME_LANES, subscription_id))
        locks += [(_Kind.ONE_LANE, _lane_key(subscription_id, lane)) for lane in own]
    return sorted(locks, key=_place)


def _place(lock: tuple[int, int]) -> tuple[bool, int]:
    """Locks of subscriptions by their ids, then those of lanes."""
    kind, key = lock
    return kind == _Kind.ONE_LANE, key


def _lane_key(subscription_id: int, lane: int) -> int:
    """64 bits: lock keys of this size are apart from those of two halves."""
    digest = blake2b(f"towpath lane {subscription_id} {lane}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _queue_publishers() -> sa.Select[tuple[None]]:
    arrays = (
        sa.bindparam("kinds", type_=postgresql.ARRAY(sa.Integer())),
        sa.bindparam("keys", type_=postgresql.ARRAY(sa.BigInteger())),
    )
    shape = (sa.column("kind", sa.Integer()), sa.column("key", sa.BigInteger()))
    wanted = sa.func.unnest(*arrays).table_valued(*shape).render_derived(name="wanted").c  # a row at a time, in order
    of_subscription = (sa.literal(_LANES_SPACE, sa.Integer()), sa.cast(wanted.key, sa.Integer()))
    taken = sa.case(
        (wanted.kind == int(_Kind.SOME_LANES), sa.func.pg_advisory_xact_lock_shared(*of_subscription)),
        (wanted.kind == int(_Kind.ALL_LANES), sa.func.pg_advisory_xact_lock(*of_subscription)),
        else_=sa.func.pg_advisory_xact_lock(wanted.key),
    )
    return sa.select(taken)


QUEUE_PUBLISHERS: Final = _queue_publishers()
