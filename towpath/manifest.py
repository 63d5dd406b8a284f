"""The manifest: the topology with every default and every derived value written out."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from towpath.backoff import BackOff
from towpath.errors import InvalidManifest, Mistake
from towpath.records import read_json_record
from towpath.settlement import PartitionMode, SubscriptionPolicy, SubscriptionStatus

TransportName = Literal["aws", "database"]
Host = Literal["lambda", "worker", "external"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Whether a topic takes deduplication keys, and for how long a key counts by default."""

    enabled: bool
    ttl_seconds: int


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
class Topic:
    """What producers address."""

    transport: TransportName
    status: Literal["active", "disabled"]
    max_payload_bytes: int
    retention_days: int
    external_publish: bool
    deduplication: Deduplication
    aws: AwsTopic | None


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
class Statement:
    """One IAM statement. Resources and conditions may hold ``${partition}``, ``${region}``, ``${account}``."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: dict[str, dict[str, tuple[str, ...]]] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One consumer's stream of a topic. ``filter_policy`` is null when everything is wanted."""

    topic: str
    transport: TransportName
    handler: str | None
    host: Host
    partition_mode: PartitionMode
    filter_policy: dict[str, tuple[Any, ...]] | None
    status: SubscriptionStatus
    max_attempts: int
    backoff: BackOff
    lease_seconds: int
    heartbeat: Literal["auto", "manual"]
    max_processing_seconds: float | None
    accept_foreign: bool
    dead_letter_retention_days: int
    aws: AwsSubscription | None

    def policy(self, name: str) -> SubscriptionPolicy:
        """The part that a worker or a function needs to handle this subscription's deliveries."""
        return SubscriptionPolicy(
            subscription=name,
            topic=self.topic,
            handler=self.handler,
            partition_mode=self.partition_mode,
            status=self.status,
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            lease_seconds=self.lease_seconds,
            heartbeat=self.heartbeat,
            max_processing_seconds=self.max_processing_seconds,
            accept_foreign=self.accept_foreign,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The policies of people and programs outside the functions."""

    publisher: tuple[Statement, ...]
    worker: tuple[Statement, ...]
    operator: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A resolved topology for one environment. Everything else reads this and decides nothing."""

    manifest_version: Literal[1]
    name: str
    environment: str
    topics: dict[str, Topic]
    subscriptions: dict[str, Subscription]
    access: Access

    def to_json(self) -> str:
        """Canonical text: sorted keys, no time stamp, so that it changes only when the topology does."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read a manifest strictly. Raises ``InvalidManifest`` with every mistake."""
        return read_json_record(Manifest, text, InvalidManifest, "the manifest")

    @staticmethod
    def load(path: str | Path) -> Manifest:
        """Read the manifest in the file ``path``. Raises ``InvalidManifest``, also when it is a topology."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            problem = f"cannot be read: {error.strerror}; 'towpath manifest render' writes it"
            raise InvalidManifest(str(path), [Mistake(path="", problem=problem)]) from error
        except UnicodeDecodeError as error:
            raise InvalidManifest(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error
        if _is_topology(Path(path), text):
            problem = f"is a topology; its manifest is wanted, write it with 'towpath manifest render {path} -e NAME'"
            raise InvalidManifest(str(path), [Mistake(path="", problem=problem)])
        return Manifest.from_json(text)


def _is_topology(path: Path, text: str) -> bool:
    if path.suffix == ".toml":
        return True
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "topics" in document and "manifest_version" not in document
