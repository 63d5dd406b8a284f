"""Small topologies for tests of what is derived from them."""

from collections.abc import Mapping
from typing import Any

import pytest

from towpath.errors import InvalidTopology
from towpath.manifest import AwsSubscription, Deployment, Function, Manifest
from towpath.resolve import resolve
from towpath.topology import Topology, parse_topology

DATABASE = {"transport": "database"}
EXCLUSIVE = {"partition_mode": "exclusive"}


def topology(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Topology:
    """The topology ``shop``: one topic ``t`` and these subscriptions of it; host external has no handler."""
    written = {
        name: {"topic": "t", **({} if keys.get("host") == "external" else {"handler": "app:run"}), **keys}
        for name, keys in subscriptions.items()
    }
    return parse_topology({"name": "shop", "topics": {"t": dict(topic or {})}, "subscriptions": written})


def resolved(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Manifest:
    return resolve(topology(topic, **subscriptions), "prod")


def on_aws(topic: Mapping[str, Any] | None = None, **keys: Any) -> AwsSubscription:
    """The AWS part of one subscription ``s`` with these keys."""
    aws = resolved(topic, s=keys).subscriptions["s"].aws
    assert aws is not None
    return aws


def function_of(topic: Mapping[str, Any] | None = None, **keys: Any) -> Function:
    """The function of one subscription ``s`` with these keys."""
    function = on_aws(topic, **keys).function
    assert function is not None
    return function


def deployment(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Deployment:
    """What there is in common on AWS."""
    aws = resolved(topic, **subscriptions).aws
    assert aws is not None
    return aws


def refused(written: Mapping[str, Any], environment: str = "prod") -> list[str]:
    """The mistakes for which a topology that is sound by itself cannot be rendered."""
    with pytest.raises(InvalidTopology) as caught:
        resolve(parse_topology(written), environment)
    return [str(mistake) for mistake in caught.value.mistakes]
