"""The topology as a person writes it: its tables, their keys, defaults and bounds. What one key may hold is said here,
what keys mean together in ``rules``.

A key's docstring is its text in the JSON Schema and in ``docs/reference/topology.md``.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from towpath import limits
from towpath.settlement import PartitionMode, SubscriptionStatus

TransportName: TypeAlias = Literal["aws", "database"]
Host: TypeAlias = Literal["lambda", "worker", "external"]
Runtime: TypeAlias = Literal["python3.11", "python3.12", "python3.13", "python3.14"]

PREFIX_NAME: Final = rf"[a-z0-9-]{{1,{limits.NAME_LENGTH}}}"
"""The pattern of a topology's and an environment's name, which begin the names of all resources."""


class Table(BaseModel):
    """One table of the file: no key but the known ones, and no value turned into another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Topic(Table):
    """What producers address."""

    transport: TransportName = "aws"
    """Where the topic lives. A topic with an Ordered subscription must be on a database."""
    max_payload_bytes: int = Field(
        default=limits.MAX_MESSAGE_BYTES, ge=limits.MIN_MESSAGE_BYTES, le=limits.MAX_MESSAGE_BYTES
    )
    """The largest message: envelope and attributes together, in bytes of UTF-8."""
    retention_days: int = Field(default=7, ge=1, le=limits.DATABASE_RETENTION_DAYS)
    """On aws: how long a message is kept, at most 14 days. On a database: how long messages and final history are
    kept; deliveries that are open or dead keep their message."""
    fifo: bool | None = None
    """Whether the SNS topic is FIFO; on aws only. By default it is when a subscription is exclusive."""
    fair: bool = False
    """Whether the partition key is sent as message group, for SQS fair queues; standard topics on aws only."""
    deduplication: bool | None = None
    """Whether publishers may give deduplication keys. By default not on aws, where it adds a DynamoDB table, and
    always on a database."""
    deduplication_ttl_seconds: int = Field(
        default=86_400, ge=limits.DEDUPLICATION_TTL_SECONDS[0], le=limits.DEDUPLICATION_TTL_SECONDS[1]
    )
    """How long a deduplication key counts when the publisher does not say."""
    external_publish: bool = False
    """Whether the topic may be published to over HTTP."""
    status: Literal["active", "disabled"] = "active"
    """A ``disabled`` topic rejects what is published to it."""


class BackOffTable(Table):
    """How long a delivery waits before its next attempt."""

    base_seconds: float = Field(default=10, ge=0, le=limits.MAX_RETRY_SECONDS)
    """The longest wait after the first attempt; it doubles with each attempt. With 0 there is no wait."""
    max_seconds: float = Field(default=900, ge=0, le=limits.MAX_RETRY_SECONDS)
    """The longest wait after any attempt. The shortest is half of the longest."""


class LambdaTable(Table):
    """The Lambda function of a subscription with host ``lambda``, and how Lambda polls its queue."""

    timeout_seconds: int = Field(default=60, ge=limits.LAMBDA_TIMEOUT_SECONDS[0], le=limits.LAMBDA_TIMEOUT_SECONDS[1])
    """The longest that an invocation may take. The queue hides a message for six times as long."""
    memory_mb: int = Field(default=512, ge=limits.LAMBDA_MEMORY_MB[0], le=limits.LAMBDA_MEMORY_MB[1])
    """Memory of the function; its processing power grows with it."""
    architecture: Literal["arm64", "x86_64"] = "arm64"
    """Instruction set of the function."""
    runtime: Runtime = "python3.13"
    """Lambda's Python."""
    maximum_concurrency: int | None = Field(
        default=None, ge=limits.ESM_MAXIMUM_CONCURRENCY[0], le=limits.ESM_MAXIMUM_CONCURRENCY[1]
    )
    """How many invocations may run at once; without it only the account's limit holds."""
    batch_size: int | None = Field(default=None, ge=1, le=limits.ESM_STANDARD_BATCH)
    """How many messages one invocation gets at most. By default 10, and 1 from a FIFO queue, which allows 10."""
    batch_window_seconds: int = Field(default=0, ge=0, le=limits.ESM_BATCH_WINDOW_SECONDS)
    """How long Lambda gathers messages for a batch; not from a FIFO queue."""
    concurrency: int | None = Field(default=None, ge=limits.LAMBDA_THREADS[0], le=limits.LAMBDA_THREADS[1])
    """Threads in one invocation. By default as many as the batch has messages, at most 10."""


class Subscription(Table):
    """One consumer's stream of a topic."""

    topic: str
    """The topic that it takes its messages from, one of the file."""
    handler: str | None = None
    """Import path of the handler, as ``package.module:function``. Required, except with host ``external``, where it
    has no place."""
    host: Host | None = None
    """What runs the handler. By default ``lambda`` on aws and ``worker`` on a database, which has no other.
    ``external`` is a consumer that is not ours: it gets a queue and permissions only."""
    partition_mode: PartitionMode = "none"
    """``exclusive``: one delivery of a partition key at a time. ``ordered``: in order too, on a database only."""
    filter: dict[str, Any] | None = None
    """Which messages it wants, as an Amazon SNS filter policy over attributes; without it all."""
    status: SubscriptionStatus = "active"
    """``paused``: gets deliveries and hands none out. ``disabled``: gets none, on aws through a filter that nothing
    passes."""
    max_attempts: int = Field(default=5, ge=limits.MAX_ATTEMPTS[0], le=limits.MAX_ATTEMPTS[1])
    """How often a delivery is tried before it becomes a dead letter."""
    backoff: BackOffTable = BackOffTable()
    """The wait between attempts."""
    lease_seconds: int = Field(default=60, ge=limits.LEASE_SECONDS[0], le=limits.LEASE_SECONDS[1])
    """How long a worker holds a delivery without renewing. On Lambda the least time that the queue hides it."""
    heartbeat: Literal["auto", "manual"] = "auto"
    """``auto`` renews the lease while the handler runs, ``manual`` only when the handler says so."""
    max_processing_seconds: float | None = Field(default=None, gt=0, le=limits.MAX_PROCESSING_SECONDS)
    """When a running handler is asked to stop: on Lambda at most the function's timeout, in a worker on aws at most
    43,200, on a database at most thirty days."""
    accept_foreign: bool = True
    """Whether bodies that are no Towpath envelope are handled; otherwise they become dead letters."""
    dead_letter_retention_days: int = Field(default=14, ge=1, le=limits.DATABASE_RETENTION_DAYS)
    """How long a dead letter is kept: at most 14 days on aws."""
    function: LambdaTable = Field(default=LambdaTable(), alias="lambda")
    """The function of host ``lambda``; says nothing with another host."""


class Topology(Table):
    """Topics and subscriptions, checked one by one and together. Made by ``parse_topology`` and ``load_topology``."""

    name: str
    """The beginning of every resource's name: 1 to 20 of a-z, 0-9 and -."""
    topics: dict[str, Topic] = Field(default_factory=dict)
    """The topics by name, in words of a-z and 0-9 joined by single ``.``, ``-`` or ``_``; one table for each."""
    subscriptions: dict[str, Subscription] = Field(default_factory=dict)
    """The subscriptions by name, in the form of topic names; one table for each."""

    def transport_of(self, subscription: Subscription) -> TransportName:
        """The transport of its topic; aws, the default, where there is no such topic."""
        topic = self.topics.get(subscription.topic)
        return topic.transport if topic is not None else "aws"

    def host_of(self, subscription: Subscription) -> Host:
        """Its host as written, or the default of its transport."""
        if subscription.host is not None:
            return subscription.host
        return "lambda" if self.transport_of(subscription) == "aws" else "worker"

    def is_fifo(self, topic_name: str) -> bool:
        """Whether this is a FIFO topic of SNS: on aws, and said to be or with an exclusive subscription."""
        topic = self.topics.get(topic_name)
        if topic is None or topic.transport != "aws":
            return False
        readers = (s for s in self.subscriptions.values() if s.topic == topic_name)
        return topic.fifo is True or any(reader.partition_mode == "exclusive" for reader in readers)

    def has_fifo_queue(self, subscription: Subscription) -> bool:
        """Whether it reads from a FIFO queue. ``none`` does not, whatever the topic: SNS allows it, and a FIFO
        queue would make it exclusive unasked.
        """
        return subscription.partition_mode != "none" and self.is_fifo(subscription.topic)

    def batch_size_of(self, subscription: Subscription) -> int:
        """How many messages its function gets at most: as written, else 10, and 1 from a FIFO queue, where messages
        returned behind a failed one would use up receives.
        """
        if subscription.function.batch_size is not None:
            return subscription.function.batch_size
        return 1 if self.has_fifo_queue(subscription) else limits.SQS_BATCH_ENTRIES

    def threads_of(self, subscription: Subscription) -> int:
        """How many messages of a batch its function handles at a time: as written, else all of up to ten."""
        if subscription.function.concurrency is not None:
            return subscription.function.concurrency
        return min(limits.DEFAULT_LAMBDA_THREADS, self.batch_size_of(subscription))
