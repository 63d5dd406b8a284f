"""The paths of keys that several rules speak of."""

from __future__ import annotations

from towpath.settlement import PartitionMode
from towpath.topology.findings import Path
from towpath.topology.models import Subscription, Topology


def topic_key(topic: str, key: str) -> Path:
    """The path of a topic's key."""
    return ("topics", topic, key)


def key_of(subscription: str, *keys: str) -> Path:
    """The path of a subscription's key, or of a key in one of its tables."""
    return ("subscriptions", subscription, *keys)


def transport_keys(name: str, subscription: Subscription) -> tuple[Path, ...]:
    """The keys that say which transport a subscription is on."""
    return (key_of(name, "topic"), topic_key(subscription.topic, "transport"))


def mode_keys(subscriptions: list[str]) -> tuple[Path, ...]:
    """The keys that say that these subscriptions read their topic in their partition mode."""
    return tuple(key_of(name, key) for name in subscriptions for key in ("partition_mode", "topic"))


def readers(topology: Topology, topic: str, mode: PartitionMode) -> list[str]:
    """The topic's subscriptions of this partition mode."""
    return [name for name, s in topology.subscriptions.items() if s.topic == topic and s.partition_mode == mode]
