"""What topics and subscriptions are on AWS: every attribute of every resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from towpath.manifest.policies import Access, Encryption, Policy, ResourceStatement, Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicationTable:
    """The DynamoDB table that keeps a topic's deduplication keys. What it holds may be lost without lasting harm."""

    name: str
    """Name of the table."""
    partition_key: Literal["deduplication_key"]
    """The one attribute of its primary key."""
    partition_key_type: Literal["S"]
    """Text, as DynamoDB calls it."""
    ttl_attribute: Literal["expires_at"]
    """The number, in seconds since 1970, after which DynamoDB may delete an item."""
    billing_mode: Literal["PAY_PER_REQUEST"]
    """Paid by request, with no capacity to plan."""
    point_in_time_recovery: Literal[False]
    """No backups: an old ledger would suppress what it should let through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsTopic:
    """The SNS topic, and the ledger of deduplication keys where the topic has one."""

    topic_name: str
    """Name of the SNS topic."""
    fifo: bool
    """Whether it is a FIFO topic."""
    fair: bool
    """Whether publishers send the partition key as message group of a standard topic, for SQS fair queues."""
    content_based_deduplication: Literal[False]
    """Never: publishers say the deduplication id. Only set on a FIFO topic."""
    fifo_throughput_scope: Literal["MessageGroup"] | None
    """Throughput and deduplication by message group; null on a standard topic."""
    deduplication_table: DeduplicationTable | None
    """The ledger; null when the topic takes no deduplication keys."""
    tags: dict[str, str]
    """Tags of the topic and its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One SQS queue, with every attribute that matters set."""

    name: str
    """Name of the queue."""
    fifo: bool
    """Whether it is a FIFO queue."""
    visibility_timeout_seconds: int
    """How long a received message is hidden."""
    message_retention_seconds: int
    """How long a message is kept."""
    maximum_message_size: int
    """In bytes; written out since the defaults of CDK and Terraform differ."""
    receive_wait_time_seconds: int
    """Long polling."""
    sqs_managed_sse: bool
    """SSE-SQS, unless the deployment encrypts with a KMS key."""
    content_based_deduplication: Literal[False]
    """Never: senders say the deduplication id. Only set on a FIFO queue."""
    deduplication_scope: Literal["messageGroup"] | None
    """For high throughput; null on a standard queue."""
    fifo_throughput_limit: Literal["perMessageGroupId"] | None
    """For high throughput; null on a standard queue."""
    max_receive_count: int | None
    """Receives after which SQS moves a message to the dead-letter queue; null where there is none."""
    redrive_allow: Literal["byQueue"] | None
    """On a dead-letter queue: only its own queue may move messages there; null, unset, elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnsSubscription:
    """How SNS delivers to the queue."""

    protocol: Literal["sqs"]
    """Delivery to SQS."""
    raw_message_delivery: Literal[True]
    """The body is the message itself, with its attributes beside it."""
    filter_policy: str | None
    """Canonical JSON text, as the API takes it; null when everything is wanted."""
    filter_policy_scope: Literal["MessageAttributes"]
    """Filters look at attributes, never at the body. Only set with a policy."""
    redrive_target: Literal["delivery_failure_queue"]
    """The queue that gets what SNS cannot deliver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """The Lambda function of a subscription with host ``lambda``."""

    name: str
    """Name of the function."""
    role_name: str
    """Name of its IAM role, which Lambda alone may take. Roles are global to an account."""
    log_group_name: str
    """Its log group, made by the deployment so that its retention holds."""
    log_retention_days: int
    """How long logs are kept, unless the deployment says otherwise."""
    runtime: str
    """Lambda's identifier of the Python."""
    handler: str
    """Entry point within the zip."""
    architecture: Literal["arm64", "x86_64"]
    """Instruction set."""
    memory_mb: int
    """Memory; processing power grows with it."""
    timeout_seconds: int
    """The longest an invocation may take."""
    concurrency: int
    """Threads in one invocation."""
    alias: Literal["live"]
    """The alias that the event source mapping invokes."""
    environment: dict[str, str]
    """Variables with their text."""
    queue_url_environment: dict[str, Literal["queue", "dead_letter_queue"]]
    """Variables that get a queue's URL, which only a deployment knows."""
    policy: Policy
    """What the role allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSourceMapping:
    """How Lambda polls the queue."""

    batch_size: int
    """Messages to an invocation, at most."""
    batch_window_seconds: int
    """How long Lambda gathers a batch."""
    maximum_concurrency: int | None
    """Invocations at once; null when only the account's limit holds."""
    function_response_types: tuple[Literal["ReportBatchItemFailures"], ...]
    """The function answers message by message."""
    enabled: bool
    """Whether Lambda polls: exactly when the subscription is active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One CloudWatch alarm. Whom it tells is the deployment's to say."""

    name: str
    """Name of the alarm."""
    description: str
    """What it means and what to do."""
    namespace: str
    """Namespace of the metric."""
    metric_name: str
    """The metric."""
    dimensions: dict[str, str]
    """Of what: the queue or the function."""
    statistic: Literal["Sum", "Maximum", "Average"]
    """How a period's values become one."""
    comparison: Literal["GreaterThanThreshold", "GreaterThanOrEqualToThreshold"]
    """When the value is bad."""
    threshold: int
    """What it is compared with."""
    period_seconds: int
    """Length of a period."""
    evaluation_periods: int
    """Bad periods in a row that raise the alarm."""
    treat_missing_data: Literal["notBreaching"]
    """No data is no alarm: an idle queue has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSubscription:
    """Everything that a subscription has on AWS. Function and mapping are there for host ``lambda`` only."""

    queue: Queue
    """Its queue."""
    dead_letter_queue: Queue
    """What could not be handled."""
    delivery_failure_queue: Queue
    """What SNS could not deliver to the queue."""
    sns_subscription: SnsSubscription
    """How SNS delivers."""
    function: Function | None
    """The function; null for other hosts."""
    event_source_mapping: EventSourceMapping | None
    """How Lambda polls; null for other hosts."""
    consumer_policy: Policy | None
    """What a consumer of this queue alone needs, a worker or an external one; null for host ``lambda``."""
    alarms: dict[str, Alarm]
    """Alarms by what they watch."""
    stack_group: int
    """Which of the stacks of subscriptions it is in, where CloudFormation deploys."""
    stack_name: str
    """Name of that stack."""
    tags: dict[str, str]
    """Tags of all its resources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Widget:
    """One metric of every subscription that has it, side by side."""

    title: str
    """Its heading."""
    namespace: str
    """Namespace of the metric."""
    metric_name: str
    """The metric."""
    dimension: str
    """Name of the metric's dimension."""
    statistic: Literal["Sum", "Maximum"]
    """How a period's values become one."""
    period_seconds: int
    """Length of a period."""
    series: dict[str, str]
    """Subscription, the label, to the dimension's value."""
    x: int
    """Its column, of 24."""
    y: int
    """Its row."""
    width: int
    """In columns."""
    height: int
    """In rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """The CloudWatch dashboard of the deployment. Dashboards are global to an account."""

    name: str
    """Name of the dashboard."""
    widgets: tuple[Widget, ...]
    """What it shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What topics and subscriptions on AWS have in common."""

    topics_stack_name: str
    """Name of the stack of topics, where CloudFormation deploys."""
    topic_policy: tuple[ResourceStatement, ...]
    """Policy of every topic."""
    queue_policy: tuple[ResourceStatement, ...]
    """Policy of every subscription's queue and delivery-failure queue."""
    dead_letter_queue_policy: tuple[ResourceStatement, ...]
    """Policy of every dead-letter queue."""
    vpc_statements: tuple[Statement, ...]
    """What each function's role allows besides, in a deployment that puts functions into a VPC."""
    encryption: Encryption
    """For a deployment that encrypts with a KMS key."""
    access: Access
    """Policies for people and programs outside the functions."""
    dashboard: Dashboard
    """The dashboard."""
    tags: dict[str, str]
    """Tags of what belongs to no one topic or subscription."""
