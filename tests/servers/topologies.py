"""Manifests for tests, from the topology that a test writes down."""

from collections.abc import Mapping
from typing import Any

from towpath.manifest import Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import parse_topology


def on_database(topics: Mapping[str, Any], subscriptions: Mapping[str, Any]) -> Manifest:
    """The resolved manifest with every topic on a database; subscriptions get a handler when they name none."""
    written = {name: {"handler": "app:handle", **subscription} for name, subscription in subscriptions.items()}
    topology = parse_topology({"name": "tests", "topics": dict(topics), "subscriptions": written}, "the test")
    return resolve(with_all_on_database(topology), "test")
