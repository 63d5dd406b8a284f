"""The names of AWS resources: readable, within each service's length, and the same for the same topology."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from towpath import limits
from towpath.errors import Mistake
from towpath.records import key_path

Kind = Literal["topics", "subscriptions"]

_OTHER = re.compile(r"[^a-z0-9]+")
_HASH_DIGITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Builds the names of one topology's resources in one environment, ``{name}-{environment}-{slug}{suffix}``.

    Too long for its service (suffix included), a name is cut and ends, before the suffix, in ``-`` and eight hex
    digits of the SHA-256 of the logical name.
    """

    topology: str
    environment: str

    def sns_topic(self, topic: str, *, fifo: bool) -> str:
        """Name of the SNS topic."""
        return self._name(topic, ".fifo" if fifo else "", limits.SNS_NAME_LENGTH)

    def deduplication_table(self, topic: str) -> str:
        """Name of the DynamoDB table that keeps the topic's deduplication keys."""
        return self._name(topic, "-dedup", limits.DYNAMODB_TABLE_NAME_LENGTH)

    def queue(self, subscription: str, role: Literal["", "-dlq", "-failed"], *, fifo: bool) -> str:
        """Name of a queue: the subscription's own, its dead letters, its failed deliveries from SNS."""
        return self._name(subscription, role + (".fifo" if fifo else ""), limits.SQS_NAME_LENGTH)

    def function(self, subscription: str) -> str:
        """Name of the Lambda function."""
        return self._name(subscription, "", limits.LAMBDA_NAME_LENGTH)

    def role(self, subscription: str) -> str:
        """Name of the function's IAM role. Roles are global to an account: two regions need two environments."""
        return self._name(subscription, "", limits.IAM_ROLE_NAME_LENGTH)

    def alarm(self, subscription: str, role: str) -> str:
        """Name of a CloudWatch alarm of the subscription."""
        return self._name(subscription, f"-{role}", limits.CLOUDWATCH_ALARM_NAME_LENGTH)

    def _name(self, logical: str, suffix: str, longest: int) -> str:
        name = f"{self.topology}-{self.environment}-{slug(logical)}"
        if len(name) + len(suffix) <= longest:
            return name + suffix
        digits = hashlib.sha256(logical.encode()).hexdigest()[:_HASH_DIGITS]
        kept = name[: longest - len(suffix) - len(digits) - 1].rstrip("-")
        return f"{kept}-{digits}{suffix}"


def slug(logical: str) -> str:
    """``logical`` in lower case, each run of other characters than a-z and 0-9 one hyphen."""
    return _OTHER.sub("-", logical.lower()).strip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """One resource's name within its kind (``SQS queue``), and the topic or subscription that it is for."""

    resource: str
    name: str
    path: tuple[Kind, str]


def collisions(named: Iterable[Named]) -> Iterator[Mistake]:
    """A mistake for each topic or subscription that would get a name which another one has: one for the two, about
    the first of the names in which they meet.
    """
    owners: dict[tuple[str, str], tuple[Kind, str]] = {}
    met: set[tuple[object, object]] = set()
    for one in sorted(named, key=lambda each: each.path):
        owner = owners.setdefault((one.resource, one.name), one.path)
        if owner != one.path and (one.path, owner) not in met:
            met.add((one.path, owner))
            problem = f"would get the {one.resource} {one.name!r}, which {owner[1]!r} gets too; rename one of them"
            yield Mistake(path=key_path(one.path), problem=problem)
