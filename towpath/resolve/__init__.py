"""From the topology to the manifest: every default and every derived value, decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from towpath import limits
from towpath.backoff import BackOff
from towpath.errors import InvalidTopology, Mistake
from towpath.filters import FilterPolicy
from towpath.manifest import Deduplication, Function, Manifest
from towpath.manifest import Subscription as ResolvedSubscription
from towpath.manifest import Topic as ResolvedTopic
from towpath.records import key_path
from towpath.resolve.access import access
from towpath.resolve.aws import Given, aws_subscription, aws_topic
from towpath.resolve.names import Named, Names, collisions
from towpath.settlement import SubscriptionPolicy
from towpath.topology import Subscription, Topology, is_prefix_name

__all__ = ["resolve", "with_all_on_database"]

# Room that a queue's URL takes beside its name: https://sqs.{region}.amazonaws.com.cn/{account}/, generously.
_QUEUE_URL_BYTES = 80


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

    Raises ``InvalidTopology`` when the environment is no name, when two resources would get the same name, or when
    a function's settings do not fit into its environment.
    """
    if not is_prefix_name(environment):
        problem = f"must be 1 to {limits.NAME_LENGTH} of a-z, 0-9 and -, not {environment!r}"
        raise InvalidTopology("the environment's name", [Mistake(path="", problem=problem)])
    names = Names(topology=topology.name, environment=environment)
    topics = {name: _topic(names, name, topology) for name in topology.topics}
    subscriptions = _subscriptions(names, topology)
    on_aws = {name: s.aws for name, s in subscriptions.items() if s.aws is not None}
    manifest = Manifest(
        manifest_version=limits.MANIFEST_VERSION,
        name=topology.name,
        environment=environment,
        topics=topics,
        subscriptions=subscriptions,
        access=access(
            [topic.aws for topic in topics.values() if topic.aws is not None],
            [aws for name, aws in on_aws.items() if subscriptions[name].host == "worker"],
            on_aws.values(),
        ),
    )
    mistakes = [*collisions(_all_names(manifest)), *_too_large_environments(manifest)]
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
    """Every subscription. Those on aws are given to stacks in the order of the file, twenty to each: a new one at
    the end moves no other.
    """
    on_aws = [name for name, s in topology.subscriptions.items() if topology.transport_of(s) == "aws"]
    groups = {name: position // limits.SUBSCRIPTIONS_PER_STACK for position, name in enumerate(on_aws)}
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


def _all_names(manifest: Manifest) -> Iterator[Named]:
    for name, topic in manifest.topics.items():
        if topic.aws is not None:
            yield Named(resource="SNS topic", name=topic.aws.topic_name, path=("topics", name))
            if topic.aws.deduplication_table_name is not None:
                table = topic.aws.deduplication_table_name
                yield Named(resource="DynamoDB table", name=table, path=("topics", name))
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is None:
            continue
        aws = subscription.aws
        for queue in (aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue):
            yield Named(resource="SQS queue", name=queue.name, path=("subscriptions", name))
        for alarm in aws.alarms:
            yield Named(resource="CloudWatch alarm", name=alarm.name, path=("subscriptions", name))
        if aws.function is not None:
            yield Named(resource="Lambda function", name=aws.function.name, path=("subscriptions", name))


def _too_large_environments(manifest: Manifest) -> Iterator[Mistake]:
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is not None and subscription.aws.function is not None:
            size = _environment_bytes(subscription.aws.function)
            if size > limits.LAMBDA_ENVIRONMENT_BYTES:
                problem = (
                    f"needs {size:,} bytes of environment variables in Lambda, which allows "
                    f"{limits.LAMBDA_ENVIRONMENT_BYTES:,}; shorten the handler's path"
                )
                yield Mistake(path=key_path(("subscriptions", name)), problem=problem)


def _environment_bytes(function: Function) -> int:
    """Names and values of all variables together, with the longest URLs that the queues can get."""
    texts = sum(len(name.encode()) + len(text.encode()) for name, text in function.environment.items())
    longest_url = _QUEUE_URL_BYTES + limits.SQS_NAME_LENGTH
    return texts + sum(len(name) + longest_url for name in function.queue_url_environment)
