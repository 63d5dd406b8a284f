"""The topology that is applied to a database: how it is stored, and read back once for each revision."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.tables import subscription, topic, topology
from towpath.errors import InvalidManifest, SubscriptionNotFound, did_you_mean
from towpath.filters import FilterPolicy
from towpath.manifest import Manifest
from towpath.records import read_json_record
from towpath.settlement import SubscriptionPolicy

_REVISION = sa.select(topology.c.revision, topology.c.fingerprint)
_TOPICS = sa.select(topic.c.id, topic.c.name, topic.c.policy).where(topic.c.removed_at.is_(None))
_PAUSED = sa.select(subscription.c.name).where(subscription.c.removed_at.is_(None), subscription.c.paused)
_SUBSCRIPTIONS = sa.select(subscription).where(subscription.c.removed_at.is_(None)).order_by(subscription.c.id)


# --- As it is stored ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicy:
    """What a topic's row says of it."""

    status: Literal["active", "disabled"]
    max_payload_bytes: int
    retention_days: int
    deduplication_ttl_seconds: int
    external_publish: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSubscription:
    """What a subscription's row says of it."""

    policy: SubscriptionPolicy
    filter_policy: dict[str, tuple[Any, ...]] | None
    dead_letter_retention_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The part of a manifest that a database keeps: records by name."""

    topics: Mapping[str, TopicPolicy]
    subscriptions: Mapping[str, StoredSubscription]

    def fingerprint(self) -> str:
        """Equal for manifests that mean the same to a database."""
        return hashlib.sha256(stored_text(self).encode()).hexdigest()


def desired(manifest: Manifest) -> Desired:
    """The topics that ``manifest`` puts on a database, and their subscriptions."""
    topics = {
        name: TopicPolicy(
            status=found.status,
            max_payload_bytes=found.max_payload_bytes,
            retention_days=found.retention_days,
            deduplication_ttl_seconds=found.deduplication.ttl_seconds,
            external_publish=found.external_publish,
        )
        for name, found in manifest.topics.items()
        if found.transport == "database"
    }
    subscriptions = {
        name: StoredSubscription(
            policy=found.policy(name),
            filter_policy=found.filter_policy,
            dead_letter_retention_days=found.dead_letter_retention_days,
        )
        for name, found in manifest.subscriptions.items()
        if found.transport == "database"
    }
    return Desired(topics=topics, subscriptions=subscriptions)


def stored_text(record: TopicPolicy | StoredSubscription | Desired) -> str:
    """The record as canonical JSON: equal records give equal text."""
    return json.dumps(asdict(record), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


# --- As it is used -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedSubscription:
    """A subscription with its row's id, and the revision that changed it last. No ``filter`` wants everything."""

    id: int
    revision: int
    policy: SubscriptionPolicy
    filter: FilterPolicy | None

    @property
    def is_partitioned(self) -> bool:
        """Whether deliveries with a partition key are handed out one at a time for each key."""
        return self.policy.partition_mode != "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTopic:
    """A topic with its row's id, and the subscriptions that get its messages: all but the disabled."""

    id: int
    policy: TopicPolicy
    subscriptions: tuple[AppliedSubscription, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedTopology:
    """One revision of a database's topics and subscriptions, by name. Revision 0 is before the first ``apply``."""

    revision: int
    topics: Mapping[str, AppliedTopic]
    subscriptions: Mapping[str, AppliedSubscription]


def unknown_subscription(name: str, known: Iterable[str]) -> SubscriptionNotFound:
    """The error about a subscription that is not applied, with those that are."""
    names = sorted(known)
    repair = did_you_mean(name, names) or "; is it new? 'towpath manifest render', then 'towpath apply'"
    return SubscriptionNotFound(name, f"this database has {', '.join(names) or 'none'}{repair}")


class TopologyReader:
    """Reads the applied topology, each revision once. Thread-safe."""

    def __init__(self) -> None:
        self._last = AppliedTopology(revision=0, topics={}, subscriptions={})

    @property
    def last(self) -> AppliedTopology:
        """What was read last; it may be outdated."""
        return self._last

    def fingerprint(self, connection: Connection) -> str:
        """The fingerprint of what is applied now, read even where the rest cannot be; empty before the first apply."""
        row = connection.execute(_REVISION).one_or_none()
        return "" if row is None else str(row.fingerprint)

    def paused(self, connection: Connection) -> list[str]:
        """The names of the subscriptions that an operator paused, as it is now."""
        return list(connection.scalars(_PAUSED))

    def current(self, connection: Connection) -> AppliedTopology:
        """What is applied now, as ``connection`` sees it; ``InvalidManifest`` when this version cannot read that."""
        row = connection.execute(_REVISION).one_or_none()
        revision = 0 if row is None else row.revision
        last = self._last
        if revision != last.revision:
            last = _read(connection, revision)
            self._last = last
        return last


def _read(connection: Connection, revision: int) -> AppliedTopology:
    topics = connection.execute(_TOPICS).all()
    by_name: dict[str, AppliedSubscription] = {}
    by_topic: dict[int, list[AppliedSubscription]] = defaultdict(list)
    for row in connection.execute(_SUBSCRIPTIONS):
        stored = read_json_record(StoredSubscription, row.policy, InvalidManifest, _subject("subscription", row.name))
        found = AppliedSubscription(id=row.id, revision=row.revision, policy=stored.policy, filter=_compiled(stored))
        by_name[row.name] = found
        by_topic[row.topic_id].append(found)
    return AppliedTopology(
        revision=revision,
        topics={
            row.name: AppliedTopic(
                id=row.id,
                policy=read_json_record(TopicPolicy, row.policy, InvalidManifest, _subject("topic", row.name)),
                subscriptions=_receiving(by_topic[row.id]),
            )
            for row in topics
        },
        subscriptions=by_name,
    )


def _subject(kind: str, name: str) -> str:
    return f"the {kind} {name!r}, applied by another version of Towpath (run 'towpath apply' with this one),"


def _receiving(found: Iterable[AppliedSubscription]) -> tuple[AppliedSubscription, ...]:
    return tuple(s for s in found if s.policy.status != "disabled")


def _compiled(stored: StoredSubscription) -> FilterPolicy | None:
    return None if stored.filter_policy is None else FilterPolicy.parse(stored.filter_policy)
