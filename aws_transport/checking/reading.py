"""Looks at what a deployment made, and changes nothing. Every look ends with an answer, whatever AWS says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.bindings import Bindings, SubscriptionBinding
from aws_transport.checking.facts import (
    Attributes,
    Facts,
    FunctionFacts,
    Look,
    Missing,
    Seen,
    SubscriptionFacts,
    Table,
    TopicFacts,
    Unseen,
)
from aws_transport.checking.keys import used_keys
from aws_transport.checking.pacing import Pacer
from aws_transport.faults import code_of, explained
from towpath.manifest import AwsSubscription, AwsTopic, Function, Manifest

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sns import SNSClient
    from mypy_boto3_sqs import SQSClient

T = TypeVar("T")

# That the thing is not there, in the words of the services: API references of Amazon SNS, Amazon SQS, AWS Lambda,
# Amazon DynamoDB and AWS KMS, each action's errors.
_GONE: Final = frozenset(
    {"NotFound", "NotFoundException", "NonExistentQueue", "QueueDoesNotExist", "ResourceNotFoundException"}
)
_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError", "UnauthorizedOperation"})
_AT_ONCE: Final = 8


class KeysClient(Protocol):
    """What is asked of AWS KMS."""

    def describe_key(self, *, KeyId: str) -> Mapping[str, Any]:  # noqa: N803 - boto3's name
        """AWS KMS API reference, DescribeKey."""


class TablesClient(Protocol):
    """What is asked of Amazon DynamoDB."""

    def describe_table(self, *, TableName: str) -> Mapping[str, Any]:  # noqa: N803 - boto3's name
        """Amazon DynamoDB API reference, DescribeTable."""

    def describe_time_to_live(self, *, TableName: str) -> Mapping[str, Any]:  # noqa: N803 - boto3's name
        """Amazon DynamoDB API reference, DescribeTimeToLive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The clients of the services that are looked at. boto3's clients may be used from several threads."""

    sns: SNSClient
    sqs: SQSClient
    functions: LambdaClient
    tables: TablesClient
    keys: KeysClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Reads the facts about what ``bindings`` name and ``manifest`` describes, several at once, at the pacer's pace."""

    services: Services
    pacer: Pacer

    def read(self, manifest: Manifest, bindings: Bindings) -> Facts:
        """All facts. Nothing is raised for what AWS refuses: a look that failed says so in its place."""
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="towpath-look") as pool:
            topics = {
                name: pool.submit(self._topic, topic.aws, bindings.topics[name].arn)
                for name, topic in manifest.topics.items()
                if topic.aws is not None and name in bindings.topics
            }
            delivered = self._deliveries(pool, manifest, bindings)
            subscriptions = {
                name: pool.submit(self._subscription, subscription.aws, bindings.subscriptions[name])
                for name, subscription in manifest.subscriptions.items()
                if subscription.aws is not None and name in bindings.subscriptions
            }
            facts = Facts(
                topics=_results(topics),
                subscriptions={
                    name: replace(one.result(), delivery=delivered[name].result())
                    for name, one in subscriptions.items()
                },
            )
            return replace(facts, keys=_results({key: pool.submit(self._key, key) for key in used_keys(facts)}))

    def _topic(self, wanted: AwsTopic, arn: str) -> TopicFacts:
        sns = self.services.sns
        attributes: Look[Attributes] = self._look(
            "sns:GetTopicAttributes", lambda: sns.get_topic_attributes(TopicArn=arn)["Attributes"]
        )
        table = wanted.deduplication_table
        return TopicFacts(attributes=attributes, table=None if table is None else self._table(table.name))

    def _table(self, name: str) -> Look[Table]:
        tables = self.services.tables
        described: Look[Mapping[str, Any]] = self._look(
            "dynamodb:DescribeTable", lambda: tables.describe_table(TableName=name)["Table"]
        )
        if not isinstance(described, Seen):
            return described
        ttl: Look[Mapping[str, Any]] = self._look(
            "dynamodb:DescribeTimeToLive",
            lambda: tables.describe_time_to_live(TableName=name)["TimeToLiveDescription"],
        )
        return Seen(value=Table(description=described.value, ttl=ttl))

    # --- How SNS delivers ----------------------------------------------------------------------------------------

    def _deliveries(
        self, pool: ThreadPoolExecutor, manifest: Manifest, bindings: Bindings
    ) -> Mapping[str, Future[Look[Attributes]]]:
        """By subscription. Each topic's SNS subscriptions are listed once, however many of them are ours."""
        listed = {name: pool.submit(self._subscribed, topic.arn) for name, topic in bindings.topics.items()}
        by_topic = _results(listed)
        nothing: Look[Mapping[str, str]] = Missing()
        return {
            name: pool.submit(
                self._delivery, by_topic.get(manifest.subscriptions[name].topic, nothing), binding.queue_arn
            )
            for name, binding in bindings.subscriptions.items()
            if name in manifest.subscriptions
        }

    def _subscribed(self, topic_arn: str) -> Look[Mapping[str, str]]:
        """The ARNs of a topic's SNS subscriptions by what they deliver to."""

        def listed() -> Mapping[str, str]:
            pages = self.services.sns.get_paginator("list_subscriptions_by_topic")
            return {
                one["Endpoint"]: one["SubscriptionArn"]
                for page in self._paced(pages.paginate(TopicArn=topic_arn))
                for one in page["Subscriptions"]
            }

        return self._look("sns:ListSubscriptionsByTopic", listed)

    def _delivery(self, subscribed: Look[Mapping[str, str]], queue_arn: str) -> Look[Attributes]:
        if not isinstance(subscribed, Seen):
            return subscribed
        arn = subscribed.value.get(queue_arn)
        if arn is None:
            return Missing()
        if not arn.startswith("arn:"):  # "PendingConfirmation" stands in its place
            return Seen(value={"SubscriptionArn": arn})
        sns = self.services.sns
        return self._look(
            "sns:GetSubscriptionAttributes", lambda: sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"]
        )

    # --- Queues and functions ------------------------------------------------------------------------------------

    def _subscription(self, wanted: AwsSubscription, binding: SubscriptionBinding) -> SubscriptionFacts:
        return SubscriptionFacts(
            queue=self._queue(binding.queue_url),
            dead_letter_queue=self._queue(binding.dead_letter_queue_url),
            delivery_failure_queue=self._queue(binding.delivery_failure_queue_url),
            delivery=Missing(),  # seen with its topic
            mappings=self._mappings(binding.queue_arn),
            function=None if wanted.function is None else self._function(wanted.function),
        )

    def _queue(self, url: str) -> Look[Attributes]:
        sqs = self.services.sqs

        def attributes() -> Attributes:
            answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            return {str(name): value for name, value in answer.items()}

        return self._look("sqs:GetQueueAttributes", attributes)

    def _mappings(self, queue_arn: str) -> Look[tuple[Mapping[str, Any], ...]]:
        def listed() -> tuple[Mapping[str, Any], ...]:
            pages = self.services.functions.get_paginator("list_event_source_mappings")
            paged = self._paced(pages.paginate(EventSourceArn=queue_arn))
            return tuple(one for page in paged for one in page["EventSourceMappings"])

        return self._look("lambda:ListEventSourceMappings", listed)

    def _function(self, wanted: Function) -> FunctionFacts:
        functions, name, alias = self.services.functions, wanted.name, wanted.alias

        def newest() -> str:
            pages = functions.get_paginator("list_versions_by_function").paginate(FunctionName=name)
            numbers = [one["Version"] for page in self._paced(pages) for one in page["Versions"]]
            return str(max((int(number) for number in numbers if number.isdigit()), default="none"))

        named: Look[Mapping[str, Any]] = self._look(
            "lambda:GetAlias", lambda: functions.get_alias(FunctionName=name, Name=alias)
        )
        version = str(named.value["FunctionVersion"]) if isinstance(named, Seen) else alias
        return FunctionFacts(
            configuration=self._look(
                "lambda:GetFunctionConfiguration",
                lambda: functions.get_function_configuration(FunctionName=name, Qualifier=version),
            ),
            alias=named,
            newest_version=self._look("lambda:ListVersionsByFunction", newest),
            reserved=self._look(
                "lambda:GetFunctionConcurrency",
                lambda: functions.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions"),
            ),
        )

    def _key(self, key: str) -> Look[Mapping[str, Any]]:
        keys = self.services.keys
        return self._look("kms:DescribeKey", lambda: keys.describe_key(KeyId=key)["KeyMetadata"])

    # --- Asking --------------------------------------------------------------------------------------------------

    def _look(self, action: str, ask: Callable[[], T]) -> Look[T]:
        """One look. ``action`` is the right that it needs."""
        self.pacer.wait()
        try:
            return Seen(value=ask())
        except ClientError as error:
            if code_of(error) in _GONE:
                return Missing()
            return Unseen(action=action, why=explained(error), denied=code_of(error) in _DENIED)
        except BotoCoreError as error:
            return Unseen(action=action, why=explained(error), denied=False)

    def _paced(self, pages: Iterable[T]) -> Iterable[T]:
        """The pages, each from the second on when it is its turn."""
        for page in pages:
            yield page
            self.pacer.wait()


def _results(futures: Mapping[str, Future[T]]) -> dict[str, T]:
    return {name: future.result() for name, future in futures.items()}
