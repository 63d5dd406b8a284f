"""The names of AWS resources: readable, within each service's length, and the same for the same topology."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Literal

from towpath import limits

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

    def consumer_policy(self, subscription: str) -> str:
        """Name of the policy for a consumer of the subscription."""
        return self._name(subscription, "-consumer", limits.IAM_POLICY_NAME_LENGTH)

    def alarm(self, subscription: str, watches: str) -> str:
        """Name of a CloudWatch alarm of the subscription."""
        return self._name(subscription, f"-{watches}", limits.CLOUDWATCH_ALARM_NAME_LENGTH)

    @property
    def prefix(self) -> str:
        """What every name begins with."""
        return f"{self.topology}-{self.environment}"

    def stack(self, holds: str) -> str:
        """Name of a CloudFormation stack, which must begin with a letter, as a topology's name need not."""
        return f"towpath-{self.prefix}-{holds}"

    def _name(self, logical: str, suffix: str, longest: int) -> str:
        name = f"{self.prefix}-{slug(logical)}"
        if len(name) + len(suffix) <= longest:
            return name + suffix
        digits = hashlib.sha256(logical.encode()).hexdigest()[:_HASH_DIGITS]
        kept = name[: longest - len(suffix) - len(digits) - 1].rstrip("-")
        return f"{kept}-{digits}{suffix}"


def slug(logical: str) -> str:
    """``logical`` in lower case, each run of other characters than a-z and 0-9 one hyphen."""
    return _OTHER.sub("-", logical.lower()).strip("-")
