"""What a topic and a subscription are on AWS: every attribute of every resource, with the rule that it follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, assert_never

from towpath import limits
from towpath.filters import FilterPolicy
from towpath.function_settings import FunctionSettings
from towpath.manifest import (
    AwsSubscription,
    AwsTopic,
    DeduplicationTable,
    EventSourceMapping,
    Function,
    Policy,
    Queue,
    SnsSubscription,
)
from towpath.resolve.access import external_policy, function_policy, worker_policy
from towpath.resolve.alarms import AlarmMaker, slowest_seconds
from towpath.resolve.deployment import tags
from towpath.resolve.names import Names
from towpath.settlement import SubscriptionPolicy
from towpath.topology import Host, Subscription, Topic

_DAY_SECONDS = 86_400
_HANDLER = "lambda_runtime.entry.handler"

# What a disabled subscription lets through on SNS, which is nothing: no message may have such an attribute.
_NOTHING = FilterPolicy.parse({"towpath-disabled": [{"exists": True}]})


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """All that the AWS part of one subscription is derived from."""

    name: str
    written: Subscription
    policy: SubscriptionPolicy
    topic: Topic
    host: Host
    fifo_topic: bool
    fifo_queue: bool
    batch_size: int
    threads: int
    stack_group: int


def aws_topic(names: Names, name: str, topic: Topic, *, fifo: bool) -> AwsTopic:
    """The SNS topic. A FIFO topic's throughput and deduplication are per message group, the faster way."""
    return AwsTopic(
        topic_name=names.sns_topic(name, fifo=fifo),
        fifo=fifo,
        fair=topic.fair,
        content_based_deduplication=False,
        fifo_throughput_scope="MessageGroup" if fifo else None,
        deduplication_table=_table(names.deduplication_table(name)) if topic.deduplication else None,
        tags=tags(names, topic=name),
    )


def _table(name: str) -> DeduplicationTable:
    """The ledger. DynamoDB's TTL deletes late, up to days, so it only clears up: publishers compare the time."""
    return DeduplicationTable(
        name=name,
        partition_key="deduplication_key",
        partition_key_type="S",
        ttl_attribute="expires_at",
        billing_mode="PAY_PER_REQUEST",
        point_in_time_recovery=False,
    )


def aws_subscription(names: Names, given: Given) -> AwsSubscription:
    """Queues, SNS subscription, alarms and, for host ``lambda``, the function and its event source mapping."""
    queue, dead_letters, failed = queues = _queues(names, given)
    function = _function(names, given, queue, dead_letters) if given.host == "lambda" else None
    slowest = slowest_seconds(given.policy.max_attempts, given.policy.backoff, queue.visibility_timeout_seconds)
    maker = AlarmMaker(names=names, subscription=given.name)
    return AwsSubscription(
        queue=queue,
        dead_letter_queue=dead_letters,
        delivery_failure_queue=failed,
        sns_subscription=_sns_subscription(given),
        function=function,
        event_source_mapping=_event_source_mapping(given) if function is not None else None,
        consumer_policy=_consumer_policy(names.consumer_policy(given.name), given.host, queue, dead_letters),
        alarms=maker.of_queues(queues, slowest) | (maker.of_function(function) if function is not None else {}),
        stack_group=given.stack_group,
        stack_name=names.stack(f"subscriptions-{given.stack_group}"),
        tags=tags(names, subscription=given.name),
    )


# --- Queues ----------------------------------------------------------------------------------------------------


def _queues(names: Names, given: Given) -> tuple[Queue, Queue, Queue]:
    """The subscription's queue, its dead-letter queue and the queue of deliveries that SNS could not make.

    A queue's dead-letter queue must be of its own type; an SNS subscription's, of its topic's, also where a FIFO topic
    delivers to a standard queue (Amazon SNS developer guide, "Amazon SNS dead-letter queues").
    """
    fifo = given.fifo_queue
    queue = _queue(
        names.queue(given.name, "", fifo=fifo),
        fifo=fifo,
        visibility_seconds=_visibility_seconds(given),
        retention_seconds=given.topic.retention_days * _DAY_SECONDS,
    )
    dead_letters = _set_aside(names.queue(given.name, "-dlq", fifo=fifo), given, fifo=fifo)
    failed = _set_aside(names.queue(given.name, "-failed", fifo=given.fifo_topic), given, fifo=given.fifo_topic)
    return (
        replace(queue, max_receive_count=_max_receive_count(given)),
        replace(dead_letters, redrive_allow="byQueue"),
        failed,
    )


def _set_aside(name: str, given: Given, *, fifo: bool) -> Queue:
    return _queue(
        name,
        fifo=fifo,
        visibility_seconds=given.written.lease_seconds,
        retention_seconds=given.written.dead_letter_retention_days * _DAY_SECONDS,
    )


def _queue(name: str, *, fifo: bool, visibility_seconds: int, retention_seconds: int) -> Queue:
    """A queue. Its size limit is written out since the defaults of CDK and Terraform differ; a FIFO queue is in
    high-throughput mode (Amazon SQS developer guide, "High throughput for FIFO queues").
    """
    return Queue(
        name=name,
        fifo=fifo,
        visibility_timeout_seconds=visibility_seconds,
        message_retention_seconds=retention_seconds,
        maximum_message_size=limits.SQS_MESSAGE_BYTES,
        receive_wait_time_seconds=limits.SQS_LONG_POLL_SECONDS,
        sqs_managed_sse=True,
        content_based_deduplication=False,
        deduplication_scope="messageGroup" if fifo else None,
        fifo_throughput_limit="perMessageGroupId" if fifo else None,
        max_receive_count=None,
        redrive_allow=None,
    )


def _visibility_seconds(given: Given) -> int:
    """A worker holds a message for its lease. Lambda needs room for retries of a throttled invocation: six times the
    function's timeout and the batch window (AWS Lambda developer guide, "Configuring a queue to use with Lambda").
    """
    lease, function = given.written.lease_seconds, given.written.function
    if given.host != "lambda":
        return lease
    return max(lease, limits.VISIBILITY_TIMEOUT_FACTOR * function.timeout_seconds + function.batch_window_seconds)


def _max_receive_count(given: Given) -> int:
    """Towpath dead-letters at ``max_attempts`` itself, and SQS only what crashes past that; a consumer that is not
    ours has nothing but SQS to count for it.
    """
    extra = 0 if given.host == "external" else limits.REDRIVE_EXTRA
    return given.policy.max_attempts + extra


def _consumer_policy(name: str, host: Host, queue: Queue, dead_letter_queue: Queue) -> Policy | None:
    match host:
        case "lambda":
            return None
        case "worker":
            return worker_policy(name, queue, dead_letter_queue)
        case "external":
            return external_policy(name, queue)
        case _:
            assert_never(host)


def _sns_subscription(given: Given) -> SnsSubscription:
    wanted = FilterPolicy.parse(given.written.filter) if given.written.filter is not None else None
    policy = _NOTHING if given.policy.status == "disabled" else wanted
    return SnsSubscription(
        protocol="sqs",
        raw_message_delivery=True,
        filter_policy=policy.to_json() if policy is not None else None,
        filter_policy_scope="MessageAttributes",
        redrive_target="delivery_failure_queue",
    )


# --- Lambda ----------------------------------------------------------------------------------------------------


def _function(names: Names, given: Given, queue: Queue, dead_letter_queue: Queue) -> Function:
    table, name = given.written.function, names.function(given.name)
    log_group_name = f"/aws/lambda/{name}"
    settings = _settings(given)
    queue_urls: dict[str, Literal["queue", "dead_letter_queue"]] = {
        "TOWPATH_QUEUE_URL": "queue",
        "TOWPATH_DEAD_LETTER_QUEUE_URL": "dead_letter_queue",
    }
    return Function(
        name=name,
        role_name=names.role(given.name),
        log_group_name=log_group_name,
        log_retention_days=limits.LOG_RETENTION_DAYS,
        runtime=table.runtime,
        handler=_HANDLER,
        architecture=table.architecture,
        memory_mb=table.memory_mb,
        timeout_seconds=table.timeout_seconds,
        concurrency=settings.concurrency,
        alias="live",
        environment={"TOWPATH_SUBSCRIPTION": settings.to_json()},
        queue_url_environment=queue_urls,
        policy=function_policy(queue, dead_letter_queue, log_group_name),
    )


def _settings(given: Given) -> FunctionSettings:
    return FunctionSettings(
        policy=given.policy,
        fifo=given.fifo_queue,
        concurrency=given.threads,
        timeout_seconds=given.written.function.timeout_seconds,
    )


def _event_source_mapping(given: Given) -> EventSourceMapping:
    table = given.written.function
    return EventSourceMapping(
        batch_size=given.batch_size,
        batch_window_seconds=table.batch_window_seconds,
        maximum_concurrency=table.maximum_concurrency,
        function_response_types=("ReportBatchItemFailures",),
        enabled=given.policy.status == "active",
    )
