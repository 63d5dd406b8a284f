"""What a claim does to the deliveries that it takes, whichever way it found them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningUpdate
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.dialects.columns import Among, Later, Moment, Now
from local_transport.dialects.port import Keyed
from local_transport.tables import delivery, delivery_detail, message, subscription, topic
from towpath.backoff import Random
from towpath.settlement import Delivery, SubscriptionPolicy

MAX_CLAIM: Final = 1_000  # deliveries in one claim

SUBSCRIPTION: Final = sa.bindparam("subscription", type_=sa.Integer())
_LEASE: Final = sa.bindparam("lease", type_=sa.Float())
_MAX_ATTEMPTS: Final = sa.bindparam("max_attempts", type_=sa.Integer())


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What a claim did.

    ``deliveries`` are to be handled. ``expired`` and ``cancelled`` are leased too, without an attempt, to be discarded
    at once: time or an operator has ended them. ``ended`` are ids of those that it made dead, since their attempts were
    used up.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    expired: list[Delivery] = field(default_factory=list)
    cancelled: list[Delivery] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)

    def __add__(self, other: Claimed) -> Claimed:
        return Claimed(
            deliveries=self.deliveries + other.deliveries,
            expired=self.expired + other.expired,
            cancelled=self.cancelled + other.cancelled,
            ended=self.ended + other.ended,
        )

    @property
    def count(self) -> int:
        """How many deliveries it changed."""
        return len(self.deliveries) + len(self.expired) + len(self.cancelled) + len(self.ended)


def delivery_id(message_ordinal: int, subscription_id: int) -> str:
    """What the rest of Towpath calls a delivery."""
    return f"{message_ordinal}-{subscription_id}"


def growing_attempts(policy: SubscriptionPolicy) -> range:
    """The attempts, from 1, after which the back-off still grows; later ones wait as long as the last of these."""
    base, longest = policy.backoff.base_seconds, policy.backoff.max_seconds
    count = 1
    while count < policy.max_attempts and 0 < base * 2 ** (count - 1) < longest:
        count += 1
    return range(1, count + 1)


def claimable() -> sa.ColumnElement[bool]:
    """Whether the subscription may be claimed from now, by the policy that the claim goes by."""
    known = subscription.c
    return sa.exists().where(
        known.id == SUBSCRIPTION,
        known.revision == sa.bindparam("policy", type_=sa.BigInteger()),
        known.status == "active",
        ~known.paused,
        known.removed_at.is_(None),
    )


class Leasing:
    """Leases by one revision of a subscription's policy: the parameters, the change, and what comes back."""

    def __init__(self, applied: AppliedSubscription, random: Random) -> None:
        self._applied = applied
        self._random = random
        self._delays = growing_attempts(applied.policy)

    def parameters(self, limit: int) -> dict[str, Any]:
        """Of a claim of at most ``limit`` deliveries; each has back-offs of its own."""
        policy = self._applied.policy
        values: dict[str, Any] = {
            "subscription": self._applied.id,
            "policy": self._applied.revision,
            "limit": min(limit, MAX_CLAIM),
            "max_attempts": policy.max_attempts,
            "lease": float(policy.lease_seconds),
        }
        for attempt in self._delays:
            values[f"delay_{attempt}"] = policy.backoff.delay(attempt, self._random).total_seconds()
        return values

    def lease(self, chosen: FromClause) -> ReturningUpdate[Any]:
        """Lease the deliveries whose ordinals are in ``chosen``, or make them dead.

        A delivery past its expiry, or cancelled, is leased without an attempt, whatever attempts it had: whoever
        claimed it ends it. One whose attempts are used up becomes dead here.
        """
        mine = Among(delivery.c.message_ordinal, sa.select(chosen.c.message_ordinal).scalar_subquery())
        leased = self._lease(sa.and_(mine, delivery.c.subscription_id == SUBSCRIPTION))
        now_expired = delivery.c.expires_at <= Now()
        expired = sa.case((now_expired, sa.true()), else_=sa.false()).label("expired")
        return leased.returning(*(delivery.c[name] for name in _RETURNED), expired)

    def keyed(self, ordinals: sa.Select[Any]) -> Keyed:
        """The same in steps."""
        own = delivery.c.subscription_id == SUBSCRIPTION
        return Keyed(find=ordinals, key=delivery.c.message_ordinal, within=own, change=self._lease)

    def _lease(self, those: sa.ColumnElement[bool]) -> sa.Update:
        held = delivery.c
        over = sa.or_(held.cancel_requested, held.expires_at <= Now())
        used_up = held.attempt >= _MAX_ATTEMPTS
        last = held.attempt + 1 >= _MAX_ATTEMPTS
        ends, none = Later(Now(), _LEASE), sa.null()
        values = {
            "state": sa.case((over, "leased"), (used_up, "dead"), else_="leased"),
            "attempt": sa.case((over, held.attempt), (used_up, held.attempt), else_=held.attempt + 1),
            "lease_token": held.lease_token + 1,
            "lease_expires_at": sa.case((over, ends), (used_up, none), else_=ends),
            "due_at": sa.case((over, ends), (used_up, none), (last, ends), else_=Later(Now(), _LEASE + self._delay())),
            "ends_at": sa.case((held.cancel_requested, ends), (over, none), (used_up, none), (last, ends), else_=none),
            "dead_since": sa.case((over, none), (used_up, Now()), else_=none),
        }
        return sa.update(delivery).values(values).where(those)

    def _delay(self) -> sa.ColumnElement[float]:
        """The back-off after the attempt that a claim begins, as seconds; ``BackOff`` alone knows the rule."""
        steps = {attempt - 1: sa.bindparam(f"delay_{attempt}", type_=sa.Float()) for attempt in self._delays}
        return sa.case(steps, value=delivery.c.attempt, else_=steps[max(steps)])

    def claimed(self, rows: Iterable[Sequence[Any]]) -> Claimed:
        """What the claim did, from rows that begin with the columns of ``with_message``."""
        found = Claimed()
        subscription_id, name = self._applied.id, self._applied.policy.subscription
        lasts = timedelta(seconds=self._applied.policy.lease_seconds)
        for row in rows:
            ordinal, state, attempt, token, is_replay, is_cancelled, lane, is_expired, ends_at, *of_message = row
            message_id, body, topic_name, checkpoint = of_message[:_OF_MESSAGE]
            if state == "dead":
                found.ended.append(delivery_id(ordinal, subscription_id))
                continue
            delivery = Delivery(
                id=delivery_id(ordinal, subscription_id),
                subscription=name,
                topic=topic_name,
                attempt=attempt,
                is_replay=is_replay,
                message_id=message_id,
                body=body,
                lease_token=str(token) if lane is None else f"{token}.{lane}",
                received_at=ends_at - lasts,
                checkpoint=None if checkpoint is None else json.loads(checkpoint),
            )
            (found.cancelled if is_cancelled else found.expired if is_expired else found.deliveries).append(delivery)
        return found


_RETURNED: Final = (
    "message_ordinal",
    "subscription_id",
    "state",
    "attempt",
    "lease_token",
    "is_replay",
    "cancel_requested",
    "lane",
    "lease_expires_at",
)
_OF_MESSAGE: Final = 4  # columns of ``with_message`` that are not the delivery's own


def first_due(rows: Iterable[Sequence[Any]]) -> datetime | None:
    """The earliest time at which rows that end with one were due; ``None`` when none of them has it."""
    return min(filter(None, map(itemgetter(-1), rows)), default=None)


def with_message(leased: FromClause, source: FromClause) -> tuple[FromClause, list[sa.ColumnElement[Any]]]:
    """``source``, which contains ``leased``, joined with what a delivery needs beside its row, and all the columns."""
    held, row = delivery_detail.c, leased.c
    detail = sa.and_(held.message_ordinal == row.message_ordinal, held.subscription_id == row.subscription_id)
    joined = (
        source.outerjoin(message, message.c.ordinal == row.message_ordinal)
        .outerjoin(topic, topic.c.id == message.c.topic_id)
        .outerjoin(delivery_detail, detail)
    )
    ends = sa.type_coerce(row.lease_expires_at, Moment()).label("lease_expires_at")
    own = [row[name] for name in (*_RETURNED[:-1], "expired") if name != "subscription_id"]
    message_id = sa.cast(message.c.id, sa.Text())  # a UUID of its own would be made for each, and written as text then
    of_message = [message_id.label("message_id"), message.c.body, topic.c.name.label("topic")]
    return joined, [*own, ends, *of_message, held.checkpoint]
