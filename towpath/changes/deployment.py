"""What changes of a manifest as a whole mean, and of what there is in common on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from towpath.changes.differences import Difference
from towpath.changes.permissions import Resources, policies, resource_policy
from towpath.changes.phrases import always, destructive, lossy, other, safe
from towpath.changes.rules import Rule, Told, anything_else
from towpath.manifest import Manifest

_RENAMED: Final = ("manifest:name", "manifest:environment")


def _two_deployments(old: Manifest, new: Manifest, _found: Sequence[Difference]) -> Told:
    before, after = (f"{manifest.name} in {manifest.environment}" for manifest in (old, new))
    if old.aws is None and new.aws is None:
        return safe(f"is of {after} instead of {before}, which a database does not keep")
    return destructive(
        f"is of {after} instead of {before}: every resource on AWS gets another name, so all that there is would be "
        "deleted, with all messages, and made anew; compare manifests of one name and environment"
    )


def _on_aws(_old: Manifest, new: Manifest, _found: Sequence[Difference]) -> Told:
    if new.aws is None:
        return destructive("has nothing on AWS any more: policies, dashboard and all other resources there are deleted")
    return safe("has something on AWS for the first time")


MANIFEST_RULES: Final = (
    Rule(paths=("name", "environment"), tell=_two_deployments),
    Rule(paths=("aws",), tell=_on_aws),
    Rule(paths=("*",), tell=anything_else),
)


def deployment_rules(resources: Resources) -> tuple[Rule, ...]:
    """The rules of what there is in common on AWS, in a comparison whose resources are ``resources``."""
    return (
        Rule(
            paths=("access.publisher*",),
            tell=policies("publishers", lambda d: d.access.publisher, resources),
            follows=_RENAMED,
        ),
        Rule(
            paths=("access.worker*",), tell=policies("workers", lambda d: d.access.worker, resources), follows=_RENAMED
        ),
        Rule(
            paths=("access.operator*",),
            tell=policies("operators", lambda d: d.access.operator, resources),
            follows=_RENAMED,
        ),
        Rule(paths=("topic_policy*",), tell=resource_policy("every topic")),
        Rule(paths=("queue_policy*",), tell=resource_policy("every queue")),
        Rule(paths=("dead_letter_queue_policy*",), tell=resource_policy("every dead-letter queue")),
        Rule(paths=("encryption.key_policy*",), tell=resource_policy("the KMS key"), follows=_RENAMED),
        Rule(
            paths=("vpc_statements*",),
            tell=always(lossy("what the role of a function in a VPC may do there changes")),
        ),
        Rule(
            paths=("encryption.key_alias",),
            tell=other("the alias of the KMS key is", "destructive", "the one is deleted, the other made"),
            follows=_RENAMED,
        ),
        Rule(
            paths=("topics_stack_name",),
            tell=other(
                "the stack of topics is",
                "destructive",
                "CloudFormation deletes the topics in the one and makes them anew",
            ),
            follows=_RENAMED,
        ),
        Rule(paths=("dashboard*",), tell=always(safe("the dashboard changes")), follows=_RENAMED),
        Rule(paths=("tags*",), tell=always(safe("tags change")), follows=_RENAMED),
        Rule(paths=("*",), tell=anything_else),
    )
