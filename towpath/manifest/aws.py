"""What topics and subscriptions are on AWS: every attribute of every resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from towpath.manifest.policies import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsTopic:
    """The SNS topic, and the ledger table where the topic has one."""

    topic_name: str
    fifo: bool
    fair: bool
    content_based_deduplication: Literal[False] = False
    fifo_throughput_scope: Literal["MessageGroup"] | None
    deduplication_table_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One SQS queue, with every attribute that matters set."""

    name: str
    fifo: bool
    visibility_timeout_seconds: int
    message_retention_seconds: int
    maximum_message_size: int
    receive_wait_time_seconds: int
    sqs_managed_sse: bool
    content_based_deduplication: Literal[False] = False
    deduplication_scope: Literal["messageGroup"] | None
    fifo_throughput_limit: Literal["perMessageGroupId"] | None
    max_receive_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsSubscription:
    """How SNS delivers to the queue. ``filter_policy`` is canonical JSON text, as the API takes it."""

    raw_message_delivery: Literal[True]
    filter_policy: str | None
    filter_policy_scope: Literal["MessageAttributes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """The Lambda function. ``environment`` maps names to text, ``queue_url_environment`` to which queue's URL."""

    name: str
    role_name: str
    log_group_name: str
    runtime: str
    handler: str
    architecture: Literal["arm64", "x86_64"]
    memory_mb: int
    timeout_seconds: int
    alias: Literal["live"]
    environment: dict[str, str]
    queue_url_environment: dict[str, Literal["queue", "dead_letter_queue"]]
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSourceMapping:
    """How Lambda polls the queue."""

    batch_size: int
    batch_window_seconds: int
    maximum_concurrency: int | None
    function_response_types: tuple[Literal["ReportBatchItemFailures"], ...]
    enabled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One CloudWatch alarm."""

    name: str
    namespace: str
    metric_name: str
    dimensions: dict[str, str]
    statistic: Literal["Sum", "Maximum", "Average"]
    comparison: Literal["GreaterThanThreshold", "GreaterThanOrEqualToThreshold"]
    threshold: float
    period_seconds: int
    evaluation_periods: int
    treat_missing_data: Literal["notBreaching"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSubscription:
    """Everything that a subscription has on AWS. Function and mapping are there for host ``lambda``.

    ``consumer_statements`` are what a consumer of this queue alone needs, for the other hosts: a worker its queue
    and its dead letters, an external consumer its queue.
    """

    queue: Queue
    dead_letter_queue: Queue
    delivery_failure_queue: Queue
    sns_subscription: SnsSubscription
    function: Function | None
    event_source_mapping: EventSourceMapping | None
    consumer_statements: tuple[Statement, ...]
    alarms: tuple[Alarm, ...]
    stack_group: int
