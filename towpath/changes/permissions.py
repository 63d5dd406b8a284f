"""What changes in who may do what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from towpath.changes.differences import Difference
from towpath.changes.rules import Teller, Told
from towpath.manifest import Manifest, Policy, Statement, resource_names

Permission: TypeAlias = tuple[str, str]  # action and resource


_SERVICES: Final = {"SQS queue": "sqs", "SNS topic": "sns", "DynamoDB table": "dynamodb", "Lambda function": "logs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What there is before and after, by service and name, to tell what comes or goes from what stays."""

    before: frozenset[tuple[str, str]]
    after: frozenset[tuple[str, str]]

    @staticmethod
    def of(old: Manifest, new: Manifest) -> Resources:
        """Those of two manifests. A function is known to policies by its log."""
        before, after = (
            frozenset((_SERVICES.get(named.resource, ""), named.name) for named in resource_names(manifest))
            for manifest in (old, new)
        )
        return Resources(before=before, after=after)

    def stays(self, resource: str) -> bool:
        """Whether the ARN ``resource`` is of something that neither comes nor goes, or of no one thing."""
        known = _service(resource), _name(resource)
        return (known in self.before) is (known in self.after)


def policies(whose: str, of: Callable[[Any], Iterable[Policy]], resources: Resources) -> Teller:
    """Tells what the policies of a record allow more and less. What comes or goes with its resource is safe, and with
    it the use of a key.
    """

    def tell(old: Any, new: Any, _: Sequence[Difference]) -> Told:
        before, after = tuple(of(old)), tuple(of(new))
        gained, lost = _gained_and_lost(before, after, lambda policy: policy.statements)
        if not gained and not lost:
            gained, lost = _gained_and_lost(before, after, lambda policy: policy.key_statements)
        to_give, gone = _others(after, before), _others(before, after)
        parts = [
            *([f"may also {_listed(gained)}"] if gained else []),
            *([f"may no longer {_listed(lost)}"] if lost else []),
            *([f"need the policy {to_give}"] if to_give else []),
            *([f"lose the policy {gone}"] if gone else []),
        ]
        risky = any(resources.stays(resource) for _, resource in (*gained, *lost)) or (gone and not lost)
        told = f"{whose} {', '.join(parts) or 'may do the same, in other statements'}"
        return Told(impact="lossy" if risky else "safe", sentence=told)

    return tell


def _gained_and_lost(
    before: Iterable[Policy], after: Iterable[Policy], statements: Callable[[Policy], Iterable[Statement]]
) -> tuple[list[Permission], list[Permission]]:
    old, new = (
        {
            (action, resource)
            for policy in side
            for statement in statements(policy)
            for action in statement.actions
            for resource in statement.resources
        }
        for side in (before, after)
    )
    return sorted(new - old), sorted(old - new)


def _others(some: Iterable[Policy], known: Iterable[Policy]) -> str:
    names = {policy.name for policy in known}
    return ", ".join(policy.name for policy in some if policy.name not in names)


def resource_policy(of: str) -> Teller:
    """Tells of a resource's own policy: whoever is let in or kept out, it is lossy."""

    def tell(_old: Any, _new: Any, found: Sequence[Difference]) -> Told:
        places = dict.fromkeys(".".join(difference.path) for difference in found)
        sentence = f"the policy of {of} changes ({', '.join(places)}): others may use it, or some no longer"
        return Told(impact="lossy", sentence=sentence)

    return tell


def _listed(permissions: Sequence[Permission]) -> str:
    action, resource = permissions[0]
    more = f" and {len(permissions) - 1:,} more" if len(permissions) > 1 else ""
    return f"{action} on {_name(resource)}{more}"


def _service(resource: str) -> str:
    return resource.split(":")[2] if resource.startswith("arn:") else ""


def _name(resource: str) -> str:
    """The last part of an ARN: the name of a queue, topic, table, or of the function whose log it is."""
    return resource.removesuffix(":*").replace("/", ":").rpartition(":")[2]
