"""What the records of a manifest must say together. ``resolve`` makes it so; a manifest edited by hand may not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from towpath.errors import Mistake, did_you_mean
from towpath.manifest.named import meetings, resource_names
from towpath.records import key_path

if TYPE_CHECKING:
    from towpath.manifest.aws import AwsSubscription, AwsTopic
    from towpath.manifest.document import Manifest, Subscription, Topic


def contradictions(manifest: Manifest) -> Iterator[Mistake]:
    """Every place where records contradict each other, so that no reader need meet one."""
    anything_on_aws = any(topic.transport == "aws" for topic in manifest.topics.values())
    why = f"{'a' if anything_on_aws else 'no'} topic is on aws"
    yield from _present("aws", manifest.aws, why, wanted=anything_on_aws)
    for name, topic in manifest.topics.items():
        yield from _of_topic(topic, key_path(("topics", name)))
    for name, subscription in manifest.subscriptions.items():
        path, read = key_path(("subscriptions", name)), manifest.topics.get(subscription.topic)
        if read is None:
            hint = did_you_mean(subscription.topic, manifest.topics)
            yield Mistake(path=f"{path}.topic", problem=f"names no topic of this manifest{hint}")
        else:
            yield from _of_subscription(subscription, read, path)
    yield from _twice(manifest)


def _of_topic(topic: Topic, path: str) -> Iterator[Mistake]:
    why = f'transport is "{topic.transport}"'
    yield from _present(f"{path}.aws", topic.aws, why, wanted=topic.transport == "aws")
    if topic.aws is not None:
        yield from _suffix(f"{path}.aws.topic_name", topic.aws.topic_name, fifo=topic.aws.fifo)


def _of_subscription(subscription: Subscription, topic: Topic, path: str) -> Iterator[Mistake]:
    if subscription.transport != topic.transport:
        yield Mistake(path=f"{path}.transport", problem=f'must be its topic\'s, "{topic.transport}"')
        return
    on_aws, external = topic.transport == "aws", subscription.host == "external"
    yield from _present(f"{path}.aws", subscription.aws, f'transport is "{topic.transport}"', wanted=on_aws)
    yield from _present(f"{path}.handler", subscription.handler, f'host is "{subscription.host}"', wanted=not external)
    if not on_aws and subscription.host != "worker":
        yield Mistake(path=f"{path}.host", problem='must be "worker" on a database')
    if on_aws and subscription.partition_mode == "ordered":
        problem = 'must not be "ordered" on aws, which cannot keep that order; put the topic on a database'
        yield Mistake(path=f"{path}.partition_mode", problem=problem)
    elif on_aws and subscription.aws is not None and topic.aws is not None:
        yield from _of_queues(subscription, subscription.aws, topic.aws, f"{path}.aws")
        yield from _of_function(subscription, subscription.aws, f"{path}.aws")


def _of_queues(subscription: Subscription, aws: AwsSubscription, topic: AwsTopic, path: str) -> Iterator[Mistake]:
    """A FIFO queue makes a subscription exclusive; SNS delivers to one from FIFO topics only; a dead-letter queue is of
    its queue's type, and the queue of failed deliveries of its topic's.
    """
    exclusive = subscription.partition_mode == "exclusive"
    if exclusive and not topic.fifo:
        problem = "is true of an exclusive subscription, and SNS delivers to a FIFO queue from a FIFO topic only"
        yield Mistake(path=f"{path}.queue.fifo", problem=problem)
        return
    queues = (
        ("queue", aws.queue, exclusive, f'for a subscription in partition mode "{subscription.partition_mode}"'),
        ("dead_letter_queue", aws.dead_letter_queue, exclusive, "as its queue is"),
        ("delivery_failure_queue", aws.delivery_failure_queue, topic.fifo, "as its topic is"),
    )
    for role, queue, fifo, why in queues:
        if queue.fifo is not fifo:
            yield Mistake(path=f"{path}.{role}.fifo", problem=f"must be {'true' if fifo else 'false'}, {why}")
        else:
            yield from _suffix(f"{path}.{role}.name", queue.name, fifo=fifo)


def _of_function(subscription: Subscription, aws: AwsSubscription, path: str) -> Iterator[Mistake]:
    on_lambda = subscription.host == "lambda"
    mapping, why = aws.event_source_mapping, f'host is "{subscription.host}"'
    yield from _present(f"{path}.function", aws.function, why, wanted=on_lambda)
    yield from _present(f"{path}.event_source_mapping", mapping, why, wanted=on_lambda)
    yield from _present(f"{path}.consumer_policy", aws.consumer_policy, why, wanted=not on_lambda)
    if aws.function is not None and aws.queue.visibility_timeout_seconds < aws.function.timeout_seconds:
        problem = (
            f"must be at least the function's timeout, {aws.function.timeout_seconds}, or Lambda refuses the queue"
        )
        yield Mistake(path=f"{path}.queue.visibility_timeout_seconds", problem=problem)
    if mapping is not None and mapping.enabled is not (subscription.status == "active"):
        problem = f"must be true exactly when the subscription is active, and it is {subscription.status}"
        yield Mistake(path=f"{path}.event_source_mapping.enabled", problem=problem)


def _present(path: str, part: object, why: str, *, wanted: bool) -> Iterator[Mistake]:
    if (part is not None) is not wanted:
        yield Mistake(path=path, problem=f"must {'not ' if wanted else ''}be null, since {why}")


def _suffix(path: str, name: str, *, fifo: bool) -> Iterator[Mistake]:
    if name.endswith(".fifo") is not fifo:
        problem = 'must end in ".fifo", as FIFO names do' if fifo else 'must not end in ".fifo", as only FIFO names do'
        yield Mistake(path=path, problem=problem)


def _twice(manifest: Manifest) -> Iterator[Mistake]:
    for one, first in meetings(resource_names(manifest)):
        named = f"the {one.resource} {one.name!r}"
        yield Mistake(path=key_path(one.path), problem=f"is {named}, as is {key_path(first.path)}")
