"""The KMS key of a deployment that makes one."""

from __future__ import annotations

from aws_cdk import aws_kms as kms
from constructs import Construct

from cdk_app.inputs import Inputs
from cdk_app.placeholders import resource_policy
from cdk_app.surroundings import Key, Surroundings
from towpath.manifest import Deployment, Manifest


def key_of(scope: Construct, manifest: Manifest, deployment: Deployment, inputs: Inputs) -> Key | None:
    """The key that the deployment names, or one made here; None for SSE-SQS."""
    arn = inputs.kms_key_arn
    if inputs.create_kms_key:
        description = f"Topics and queues of {manifest.name}, {manifest.environment}"
        arn = _made(scope, description, deployment, inputs)
    if arn is None:
        return None
    return Key(arn=arn, data_key_reuse_seconds=deployment.encryption.data_key_reuse_seconds)


def _made(scope: Construct, description: str, deployment: Deployment, inputs: Inputs) -> str:
    encryption, around = deployment.encryption, Surroundings(deployment=deployment, inputs=inputs, key=None)
    key = kms.CfnKey(
        scope,
        "Key",
        description=description,
        key_policy=resource_policy(encryption.key_policy),
        enable_key_rotation=encryption.key_rotation,
        pending_window_in_days=encryption.deletion_window_days,
        tags=around.tags(deployment.tags),
    )
    around.keep(key)
    kms.CfnAlias(scope, "KeyAlias", alias_name=encryption.key_alias, target_key_id=key.ref)
    return key.attr_arn
