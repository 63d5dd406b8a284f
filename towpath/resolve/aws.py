"""What a topic and a subscription are on AWS: every attribute of every resource, with the rule that it follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from towpath import limits
from towpath.filters import FilterPolicy
from towpath.function_settings import FunctionSettings
from towpath.manifest import (
    AwsSubscription,
    AwsTopic,
    EventSourceMapping,
    Function,
    Queue,
    SnsSubscription,
    Statement,
)
from towpath.resolve.access import external_statements, function_statements, worker_statements
from towpath.resolve.alarms import function_alarms, queue_alarms, slowest_seconds
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
    stack_group: int


def aws_topic(names: Names, name: str, topic: Topic, *, fifo: bool) -> AwsTopic:
    """The SNS topic. A FIFO topic's throughput and deduplication are per message group, the faster way."""
    return AwsTopic(
        topic_name=names.sns_topic(name, fifo=fifo),
        fifo=fifo,
        fair=topic.fair,
        fifo_throughput_scope="MessageGroup" if fifo else None,
        deduplication_table_name=names.deduplication_table(name) if topic.deduplication else None,
    )


def aws_subscription(names: Names, given: Given) -> AwsSubscription:
    """Queues, SNS subscription, alarms and, for host ``lambda``, the function and its event source mapping."""
    queue, dead_letters, failed = queues = _queues(names, given)
    function = _function(names, given, queue, dead_letters) if given.host == "lambda" else None
    slowest = slowest_seconds(given.policy.max_attempts, given.policy.backoff, queue.visibility_timeout_seconds)
    alarms = queue_alarms(names, given.name, queues, slowest)
    if function is not None:
        alarms += function_alarms(names, given.name, function)
    return AwsSubscription(
        queue=queue,
        dead_letter_queue=dead_letters,
        delivery_failure_queue=failed,
        sns_subscription=_sns_subscription(given),
        function=function,
        event_source_mapping=_event_source_mapping(given) if function is not None else None,
        consumer_statements=_consumer_statements(given, queue, dead_letters),
        alarms=tuple(alarms),
        stack_group=given.stack_group,
    )


# --- Queues ----------------------------------------------------------------------------------------------------


def _queues(names: Names, given: Given) -> tuple[Queue, Queue, Queue]:
    """The subscription's queue, its dead-letter queue and the queue of deliveries that SNS could not make.

    A queue's dead-letter queue must be of its own type; an SNS subscription's, of its topic's (Amazon SNS developer
    guide, "Amazon SNS dead-letter queues").
    """
    written, fifo = given.written, given.fifo_queue
    kept_seconds = written.dead_letter_retention_days * _DAY_SECONDS
    return (
        _queue(
            names.queue(given.name, "", fifo=fifo),
            fifo=fifo,
            visibility_seconds=_visibility_seconds(given),
            retention_seconds=given.topic.retention_days * _DAY_SECONDS,
            max_receive_count=_max_receive_count(given),
        ),
        _set_aside(names.queue(given.name, "-dlq", fifo=fifo), given, kept_seconds, fifo=fifo),
        _set_aside(
            names.queue(given.name, "-failed", fifo=given.fifo_topic), given, kept_seconds, fifo=given.fifo_topic
        ),
    )


def _set_aside(name: str, given: Given, retention_seconds: int, *, fifo: bool) -> Queue:
    return _queue(
        name,
        fifo=fifo,
        visibility_seconds=given.written.lease_seconds,
        retention_seconds=retention_seconds,
        max_receive_count=None,
    )


def _queue(
    name: str, *, fifo: bool, visibility_seconds: int, retention_seconds: int, max_receive_count: int | None
) -> Queue:
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
        deduplication_scope="messageGroup" if fifo else None,
        fifo_throughput_limit="perMessageGroupId" if fifo else None,
        max_receive_count=max_receive_count,
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


def _consumer_statements(given: Given, queue: Queue, dead_letter_queue: Queue) -> tuple[Statement, ...]:
    match given.host:
        case "lambda":
            return ()
        case "worker":
            return worker_statements(queue, dead_letter_queue)
        case "external":
            return external_statements(queue)
        case _:
            assert_never(given.host)


def _sns_subscription(given: Given) -> SnsSubscription:
    wanted = FilterPolicy.parse(given.written.filter) if given.written.filter is not None else None
    policy = _NOTHING if given.policy.status == "disabled" else wanted
    return SnsSubscription(
        raw_message_delivery=True,
        filter_policy=policy.to_json() if policy is not None else None,
        filter_policy_scope="MessageAttributes",
    )


# --- Lambda ----------------------------------------------------------------------------------------------------


def _function(names: Names, given: Given, queue: Queue, dead_letter_queue: Queue) -> Function:
    table = given.written.function
    name = names.function(given.name)
    log_group_name = f"/aws/lambda/{name}"
    queue_urls: dict[str, Literal["queue", "dead_letter_queue"]] = {
        "TOWPATH_QUEUE_URL": "queue",
        "TOWPATH_DEAD_LETTER_QUEUE_URL": "dead_letter_queue",
    }
    return Function(
        name=name,
        role_name=names.role(given.name),
        log_group_name=log_group_name,
        runtime=table.runtime,
        handler=_HANDLER,
        architecture=table.architecture,
        memory_mb=table.memory_mb,
        timeout_seconds=table.timeout_seconds,
        alias="live",
        environment={"TOWPATH_SUBSCRIPTION": _settings(given).to_json()},
        queue_url_environment=queue_urls,
        statements=function_statements(queue, dead_letter_queue, log_group_name),
    )


def _settings(given: Given) -> FunctionSettings:
    table = given.written.function
    threads = table.concurrency if table.concurrency is not None else min(10, _batch_size(given))
    return FunctionSettings(
        policy=given.policy,
        fifo=given.fifo_queue,
        concurrency=threads,
        timeout_seconds=table.timeout_seconds,
    )


def _event_source_mapping(given: Given) -> EventSourceMapping:
    table = given.written.function
    return EventSourceMapping(
        batch_size=_batch_size(given),
        batch_window_seconds=table.batch_window_seconds,
        maximum_concurrency=table.maximum_concurrency,
        function_response_types=("ReportBatchItemFailures",),
        enabled=given.policy.status == "active",
    )


def _batch_size(given: Given) -> int:
    """A FIFO batch of one by default: messages returned behind a failed one would use up receives."""
    if given.written.function.batch_size is not None:
        return given.written.function.batch_size
    return 1 if given.fifo_queue else 10
