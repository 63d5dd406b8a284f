"""What was seen on AWS. A look has three ends: it is there, it is not there, or nobody could look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Attributes: TypeAlias = Mapping[str, str]  # as SNS and SQS give them: every value is text


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Generic[T]):
    """It is there, and this is how."""

    value: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """AWS says that it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Nobody could look: ``action`` is what AWS did not do, ``why`` its answer, ``denied`` that rights were missing."""

    action: str
    why: str
    denied: bool


Look: TypeAlias = Seen[T] | Missing | Unseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A DynamoDB table. ``ttl`` is its TimeToLiveDescription."""

    description: Mapping[str, Any]
    ttl: Look[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFacts:
    """A function as its alias has it. ``reserved`` is its reserved concurrency, ``None`` where it has none."""

    configuration: Look[Mapping[str, Any]]
    alias: Look[Mapping[str, Any]]
    newest_version: Look[str]
    reserved: Look[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic; ``table`` is ``None`` where it should have none."""

    attributes: Look[Attributes]
    table: Look[Table] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionFacts:
    """A subscription's resources; ``function`` is ``None`` where it should have none.

    ``delivery`` is the SNS subscription of its queue to its topic, ``mappings`` all event source mappings that poll
    its queue, whoever made them.
    """

    queue: Look[Attributes]
    dead_letter_queue: Look[Attributes]
    delivery_failure_queue: Look[Attributes]
    delivery: Look[Attributes]
    mappings: Look[tuple[Mapping[str, Any], ...]]
    function: FunctionFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was looked at, by the manifest's names; of what the bindings lack there is nothing.

    ``keys`` are the KMS keys that topics and queues name, by that name: their KeyMetadata.
    """

    topics: Mapping[str, TopicFacts]
    subscriptions: Mapping[str, SubscriptionFacts]
    keys: Mapping[str, Look[Mapping[str, Any]]] = field(default_factory=dict)
