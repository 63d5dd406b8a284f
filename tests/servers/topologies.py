"""Manifests for tests, from the topology that a test writes down."""

from collections.abc import Mapping
from typing import Any

from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology


def on_database(topics: Mapping[str, Any], subscriptions: Mapping[str, Any]) -> Manifest:
    """The resolved manifest with every topic on a database; subscriptions get a handler when they name none."""
    placed = {name: {"transport": "database", **topic} for name, topic in topics.items()}
    written = {name: {"handler": "app:handle", **subscription} for name, subscription in subscriptions.items()}
    topology = parse_topology({"name": "tests", "topics": placed, "subscriptions": written}, "the test")
    return resolve(topology, "test")
