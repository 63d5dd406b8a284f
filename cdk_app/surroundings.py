"""What the resources of one stack have around them: its encryption, tags and removal policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import CfnResource, CfnTag, RemovalPolicy

from cdk_app.inputs import Inputs
from towpath.manifest import Deployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The KMS key that encrypts topics and queues."""

    arn: str
    data_key_reuse_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every resource needs to know. ``key`` is None where SQS encrypts by itself."""

    deployment: Deployment
    inputs: Inputs
    key: Key | None

    def tags(self, own: Mapping[str, str]) -> list[CfnTag]:
        """The deployment's tags and the manifest's ``own``, which win, sorted by their keys."""
        return [CfnTag(key=key, value=value) for key, value in sorted({**self.inputs.tags, **own}.items())]

    def keep(self, resource: CfnResource) -> None:
        """Let ``resource``, which holds what would be missed, outlive its place in the stack; or not, as is said."""
        policy = RemovalPolicy.RETAIN if self.inputs.removal_policy == "retain" else RemovalPolicy.DESTROY
        resource.apply_removal_policy(policy)
