"""Claiming due deliveries of a subscription whose partition mode is ``none``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Row
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.applied import AppliedSubscription
from local_transport.connections import Database
from local_transport.details import ended_by_lease
from local_transport.dialects.columns import LIMIT, Later, Moment, Now, moment
from local_transport.dialects.port import Change
from local_transport.tables import delivery, delivery_detail, message, subscription, topic
from towpath.backoff import Random
from towpath.settlement import Delivery, SubscriptionPolicy

MAX_CLAIM: Final = 1_000  # deliveries in one claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """What one claim did. ``ended`` are ids of deliveries that it made dead, since their attempts were used up."""

    deliveries: list[Delivery]
    ended: list[str]


class Claims:
    """Claims one subscription's deliveries by one revision of its policy.

    The statement itself checks that the revision still holds and that nobody paused the subscription; it claims
    nothing otherwise. Being due is the only condition on a delivery: a lease that ended is due again, since claiming
    sets ``due_at`` to the lease's end plus the back-off, so that no other process has to notice the end.
    """

    def __init__(self, database: Database, applied: AppliedSubscription, random: Random) -> None:
        self._database = database
        self._applied = applied
        self._random = random
        self._delays = growing_attempts(applied.policy)
        change = Change(
            change=self._claim(),
            then=[lambda claimed: ended_by_lease(database.dialect, claimed)],
            read=_claimed_rows,
        )
        self._plan = database.dialect.plan(change)
        self._look = database.dialect.statement(sa.select(_due(sa.literal_column("1")).limit(1).exists()))

    def claim(self, limit: int) -> Claimed:
        """At most ``limit`` due deliveries, longest due first, leased from now on. Raises ``TransportUnavailable``."""
        parameters = self._parameters(min(limit, MAX_CLAIM))
        if self._database.dialect.looks_before_it_locks and not self._anything_due(parameters):
            return Claimed(deliveries=[], ended=[])
        with self._database.changing() as connection:
            rows = self._plan.run(connection, parameters)
        ended = [delivery_id(row.message_ordinal, self._applied.id) for row in rows if row.state == "dead"]
        leased = [self._delivery(row) for row in rows if row.state == "leased"]
        return Claimed(deliveries=leased, ended=ended)

    def _anything_due(self, parameters: Mapping[str, Any]) -> bool:
        with self._database.reading() as connection:
            return bool(self._look.run(connection, parameters).scalar_one())

    def _parameters(self, limit: int) -> dict[str, Any]:
        policy = self._applied.policy
        values: dict[str, Any] = {
            "subscription": self._applied.id,
            "policy": self._applied.revision,
            "limit": limit,
            "max_attempts": policy.max_attempts,
            "lease": float(policy.lease_seconds),
        }
        for attempt in self._delays:
            values[f"delay_{attempt}"] = policy.backoff.delay(attempt, self._random).total_seconds()
        return values

    def _claim(self) -> UpdateBase:
        due = (
            _due(delivery.c.message_ordinal)
            .order_by(delivery.c.due_at)
            .limit(LIMIT)
            .with_for_update(skip_locked=True, of=delivery)
            .cte("due")
        )
        held = delivery.c
        used_up = held.attempt >= sa.bindparam("max_attempts", type_=sa.Integer())
        last = held.attempt + 1 >= sa.bindparam("max_attempts", type_=sa.Integer())
        lease = sa.bindparam("lease", type_=sa.Float())
        ends, none = Later(Now(), lease), sa.null()
        values = {
            "state": sa.case((used_up, "dead"), else_="leased"),
            "attempt": sa.case((used_up, held.attempt), else_=held.attempt + 1),
            "lease_token": held.lease_token + 1,
            "lease_expires_at": sa.case((used_up, none), else_=ends),
            "due_at": sa.case((used_up, none), (last, ends), else_=Later(Now(), lease + self._delay())),
            "ends_at": sa.case((used_up, none), (last, ends), else_=none),
            "dead_since": sa.case((used_up, Now()), else_=none),
        }
        claimed = sa.update(delivery).values(values).where(held.message_ordinal == due.c.message_ordinal)
        claimed = claimed.where(held.subscription_id == sa.bindparam("subscription", type_=sa.Integer()))
        returned = ("message_ordinal", "subscription_id", "state", "attempt", "lease_token", "is_replay")
        return claimed.returning(*(held[name] for name in returned), held.lease_expires_at)

    def _delay(self) -> sa.ColumnElement[float]:
        """The back-off after the attempt that a claim begins, as seconds; ``BackOff`` alone knows the rule."""
        steps = {attempt - 1: sa.bindparam(f"delay_{attempt}", type_=sa.Float()) for attempt in self._delays}
        return sa.case(steps, value=delivery.c.attempt, else_=steps[max(steps)])

    def _delivery(self, row: Row[Any]) -> Delivery:
        policy = self._applied.policy
        return Delivery(
            id=delivery_id(row.message_ordinal, self._applied.id),
            subscription=policy.subscription,
            topic=row.topic,
            attempt=row.attempt,
            is_replay=row.is_replay,
            message_id=row.message_id,
            body=row.body,
            lease_token=str(row.lease_token),
            received_at=row.lease_expires_at - timedelta(seconds=policy.lease_seconds),
            checkpoint=None if row.checkpoint is None else json.loads(row.checkpoint),
        )


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


def _due(column: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """``column`` of the deliveries that may be claimed, if the subscription may be."""
    wanted = sa.bindparam("subscription", type_=sa.Integer())
    claimable = sa.exists().where(
        subscription.c.id == wanted,
        subscription.c.revision == sa.bindparam("policy", type_=sa.BigInteger()),
        subscription.c.status == "active",
        ~subscription.c.paused,
        subscription.c.removed_at.is_(None),
    )
    return sa.select(column).where(
        delivery.c.subscription_id == wanted, delivery.c.lane.is_(None), delivery.c.due_at <= moment(), claimable
    )


def _claimed_rows(claimed: FromClause) -> sa.Select[Any]:
    held, row = delivery_detail.c, claimed.c
    detail = sa.and_(held.message_ordinal == row.message_ordinal, held.subscription_id == row.subscription_id)
    source = (
        claimed.join(message, message.c.ordinal == row.message_ordinal)
        .join(topic, topic.c.id == message.c.topic_id)
        .outerjoin(delivery_detail, detail)
    )
    columns = (
        row.message_ordinal,
        row.state,
        row.attempt,
        row.lease_token,
        row.is_replay,
        sa.type_coerce(row.lease_expires_at, Moment()).label("lease_expires_at"),
        message.c.id.label("message_id"),
        message.c.body,
        topic.c.name.label("topic"),
        held.checkpoint,
    )
    return sa.select(*columns).select_from(source).order_by(row.message_ordinal)
