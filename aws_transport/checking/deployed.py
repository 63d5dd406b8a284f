"""Where a deployment is: partition, region and account, and the ARNs that follow from a name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aws_transport.bindings import Bindings


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a deployment is."""

    partition: str
    region: str
    account: str

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource there."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def names(self, **more: str) -> Mapping[str, str]:
        """What the placeholders of the manifest's policies stand for there."""
        return {"partition": self.partition, "region": self.region, "account": self.account} | more


def place_of(arn: str) -> Place | None:
    """The place in ``arn:partition:service:region:account:resource``; ``None`` for what is no such ARN."""
    parts = arn.split(":", 5)
    if len(parts) < 6 or parts[0] != "arn" or not parts[3] or not parts[4]:
        return None
    return Place(partition=parts[1], region=parts[3], account=parts[4])


def first_place(bindings: Bindings) -> Place | None:
    """The place of the first ARN in the bindings that has one."""
    return next((place for arn in _arns(bindings) if (place := place_of(arn)) is not None), None)


def _arns(bindings: Bindings) -> Iterable[str]:
    yield from (topic.arn for topic in bindings.topics.values())
    yield from (one.queue_arn for one in bindings.subscriptions.values())
