"""IAM policies as data. A renderer replaces their placeholders and changes nothing else.

``${partition}``, ``${region}`` and ``${account}`` stand for where the manifest is deployed, ``${key_arn}`` for the KMS
key of a deployment that has one, ``${topic_arn}`` and ``${queue_arn}`` for the topic and the queue that a resource's
own policy is made for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of an identity's policy. It allows, without a condition."""

    sid: str
    """Its name within the policy: letters and digits."""
    actions: tuple[str, ...]
    """What is allowed, sorted."""
    resources: tuple[str, ...]
    """ARNs with placeholders, sorted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceStatement:
    """One statement of a resource's own policy."""

    sid: str
    """Its name within the policy: letters and digits."""
    effect: Literal["Allow", "Deny"]
    """Whether it allows or denies."""
    principals: dict[str, tuple[str, ...]]
    """Who it is about: ``AWS`` or ``Service`` to names; ``*`` is everybody."""
    actions: tuple[str, ...]
    """What is allowed or denied, sorted."""
    resources: tuple[str, ...]
    """ARNs with placeholders; in a key's policy ``*``, which is the key."""
    conditions: dict[str, dict[str, tuple[str, ...]]]
    """Operator to condition key to values; empty when there is no condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """An identity's policy, within the size that IAM allows wherever it is deployed."""

    name: str
    """Name of the policy."""
    statements: tuple[Statement, ...]
    """What it allows in every deployment."""
    key_statements: tuple[Statement, ...]
    """What it allows besides in a deployment that encrypts with a KMS key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The policies of people and programs outside the functions: for each as many as IAM's size limit asks for.

    Empty where there is nothing to allow. Whoever takes a role is given all policies of its list.
    """

    publisher: tuple[Policy, ...]
    """Publish to every topic, and use the deduplication tables."""
    worker: tuple[Policy, ...]
    """Handle the deliveries of every subscription with host ``worker``."""
    operator: tuple[Policy, ...]
    """Look at every queue, take out what failed, and send it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """What a KMS key needs that encrypts the topics and queues. Without a key nothing of it is used."""

    key_alias: str
    """Alias of a key that the deployment makes."""
    key_policy: tuple[ResourceStatement, ...]
    """The key's policy: what a key made elsewhere must allow too."""
    key_rotation: Literal[True]
    """KMS makes new key material every year."""
    deletion_window_days: int
    """How long a deleted key can be brought back."""
    data_key_reuse_seconds: int
    """How long SQS uses a data key again before it asks KMS."""
