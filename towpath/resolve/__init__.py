"""From the topology to the manifest: every default and every derived value, decided here and nowhere else."""

from __future__ import annotations

from towpath import limits
from towpath.backoff import BackOff
from towpath.errors import InvalidTopology, Mistake
from towpath.filters import FilterPolicy
from towpath.manifest import Deduplication, Manifest
from towpath.manifest import Subscription as ResolvedSubscription
from towpath.manifest import Topic as ResolvedTopic
from towpath.resolve.aws import Given, aws_subscription, aws_topic
from towpath.resolve.bounds import beyond_bounds
from towpath.resolve.deployment import deployment
from towpath.resolve.names import Names
from towpath.resolve.stacks import stack_groups
from towpath.settlement import SubscriptionPolicy
from towpath.topology import Subscription, Topology, is_prefix_name

__all__ = ["resolve", "with_all_on_database"]


def with_all_on_database(topology: Topology) -> Topology:
    """The same topology with every topic on a database: for development and on-premises use.

    What speaks of SNS goes. Workers run every handler, and external subscriptions stay away with their consumers.
    """
    on_database = {"transport": "database", "fifo": None, "fair": False, "deduplication": None}
    ours = {name: s for name, s in topology.subscriptions.items() if topology.host_of(s) != "external"}
    return topology.model_copy(
        update={
            "topics": {name: topic.model_copy(update=on_database) for name, topic in topology.topics.items()},
            "subscriptions": {name: s.model_copy(update={"host": "worker"}) for name, s in ours.items()},
        }
    )


def resolve(topology: Topology, environment: str) -> Manifest:
    """The manifest of ``topology`` in ``environment``: a pure function, equal arguments give equal manifests.

    Raises ``InvalidTopology`` with every mistake when the environment is no name, when two resources would get the same
    name, or when AWS's limits allow no such functions, policies, stacks or dashboard.
    """
    if not is_prefix_name(environment):
        problem = f"must be 1 to {limits.NAME_LENGTH} of a-z, 0-9 and -, not {environment!r}"
        raise InvalidTopology("the environment's name", [Mistake(path="", problem=problem)])
    names = Names(topology=topology.name, environment=environment)
    topics = {name: _topic(names, name, topology) for name in topology.topics}
    subscriptions = _subscriptions(names, topology)
    topics_on_aws = [topic.aws for topic in topics.values() if topic.aws is not None]
    manifest = Manifest(
        manifest_version=limits.MANIFEST_VERSION,
        name=topology.name,
        environment=environment,
        topics=topics,
        subscriptions=subscriptions,
        aws=deployment(names, topics_on_aws, subscriptions) if topics_on_aws else None,
    )
    mistakes = list(beyond_bounds(manifest))
    if mistakes:
        raise InvalidTopology(f"the topology {topology.name!r} in environment {environment!r}", mistakes)
    return manifest


def _topic(names: Names, name: str, topology: Topology) -> ResolvedTopic:
    topic = topology.topics[name]
    on_aws = topic.transport == "aws"
    return ResolvedTopic(
        transport=topic.transport,
        status=topic.status,
        max_payload_bytes=topic.max_payload_bytes,
        retention_days=topic.retention_days,
        external_publish=topic.external_publish,
        deduplication=Deduplication(
            enabled=bool(topic.deduplication) or not on_aws, ttl_seconds=topic.deduplication_ttl_seconds
        ),
        aws=aws_topic(names, name, topic, fifo=topology.is_fifo(name)) if on_aws else None,
    )


def _subscriptions(names: Names, topology: Topology) -> dict[str, ResolvedSubscription]:
    groups = stack_groups(name for name, s in topology.subscriptions.items() if topology.transport_of(s) == "aws")
    return {name: _subscription(names, name, topology, groups.get(name)) for name in topology.subscriptions}


def _subscription(names: Names, name: str, topology: Topology, stack_group: int | None) -> ResolvedSubscription:
    written = topology.subscriptions[name]
    topic, host, policy = topology.topics[written.topic], topology.host_of(written), _policy(name, written)
    aws = None
    if stack_group is not None:
        given = Given(
            name=name,
            written=written,
            policy=policy,
            topic=topic,
            host=host,
            fifo_topic=topology.is_fifo(written.topic),
            fifo_queue=topology.has_fifo_queue(written),
            batch_size=topology.batch_size_of(written),
            threads=topology.threads_of(written),
            stack_group=stack_group,
        )
        aws = aws_subscription(names, given)
    return ResolvedSubscription(
        topic=written.topic,
        transport=topic.transport,
        handler=policy.handler,
        host=host,
        partition_mode=policy.partition_mode,
        filter_policy=dict(FilterPolicy.parse(written.filter).keys) if written.filter is not None else None,
        status=policy.status,
        max_attempts=policy.max_attempts,
        backoff=policy.backoff,
        lease_seconds=policy.lease_seconds,
        heartbeat=policy.heartbeat,
        max_processing_seconds=policy.max_processing_seconds,
        accept_foreign=policy.accept_foreign,
        dead_letter_retention_days=written.dead_letter_retention_days,
        aws=aws,
    )


def _policy(name: str, written: Subscription) -> SubscriptionPolicy:
    longest = written.max_processing_seconds
    return SubscriptionPolicy(
        subscription=name,
        topic=written.topic,
        handler=written.handler,
        partition_mode=written.partition_mode,
        status=written.status,
        max_attempts=written.max_attempts,
        backoff=BackOff(
            base_seconds=_plain(written.backoff.base_seconds), max_seconds=_plain(written.backoff.max_seconds)
        ),
        lease_seconds=written.lease_seconds,
        heartbeat=written.heartbeat,
        max_processing_seconds=None if longest is None else _plain(longest),
        accept_foreign=written.accept_foreign,
    )


def _plain(seconds: float) -> float:
    """Whole seconds as ``10`` in JSON, not ``10.0``, whichever way they were written."""
    return int(seconds) if float(seconds).is_integer() else seconds
