"""The names that a manifest gives to resources, each with the topic or subscription that it is for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from towpath.manifest.aws import AwsSubscription
    from towpath.manifest.document import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One resource's name, unique within its kind (``SQS queue``). ``path`` leads to it, past what it is for."""

    resource: str
    name: str
    path: tuple[str, ...]

    @property
    def owner(self) -> tuple[Literal["topics", "subscriptions"], str]:
        """What it is for: a topic or a subscription, by its name."""
        return ("topics" if self.path[0] == "topics" else "subscriptions"), self.path[1]


def resource_names(manifest: Manifest) -> Iterator[Named]:
    """The names of all resources of topics and subscriptions on AWS, in the order of the manifest."""
    for name, topic in manifest.topics.items():
        if topic.aws is None:
            continue
        path = ("topics", name, "aws")
        yield Named(resource="SNS topic", name=topic.aws.topic_name, path=(*path, "topic_name"))
        table = topic.aws.deduplication_table
        if table is not None:
            yield Named(resource="DynamoDB table", name=table.name, path=(*path, "deduplication_table", "name"))
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is not None:
            yield from _of_subscription(subscription.aws, ("subscriptions", name, "aws"))


def meetings(named: Iterable[Named]) -> Iterator[tuple[Named, Named]]:
    """Every name that another resource of its kind has already, with the first one that has it."""
    first: dict[tuple[str, str], Named] = {}
    for one in named:
        other = first.setdefault((one.resource, one.name), one)
        if other is not one:
            yield one, other


def _of_subscription(aws: AwsSubscription, path: tuple[str, ...]) -> Iterator[Named]:
    yield Named(resource="SQS queue", name=aws.queue.name, path=(*path, "queue", "name"))
    yield Named(resource="SQS queue", name=aws.dead_letter_queue.name, path=(*path, "dead_letter_queue", "name"))
    failed = aws.delivery_failure_queue.name
    yield Named(resource="SQS queue", name=failed, path=(*path, "delivery_failure_queue", "name"))
    for watches, alarm in aws.alarms.items():
        yield Named(resource="CloudWatch alarm", name=alarm.name, path=(*path, "alarms", watches, "name"))
    if aws.function is not None:
        yield Named(resource="Lambda function", name=aws.function.name, path=(*path, "function", "name"))
        yield Named(resource="IAM role", name=aws.function.role_name, path=(*path, "function", "role_name"))
