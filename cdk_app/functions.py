"""A subscription's Lambda function: role, log, code, alias, and the mapping by which Lambda polls its queue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from cdk_app.artifacts import Artifact, ImageArtifact, S3Artifact, ZipArtifact, code_sha256
from cdk_app.placeholders import identity_policy
from cdk_app.queues import Queues
from cdk_app.surroundings import Surroundings
from towpath.manifest import AwsSubscription, EventSourceMapping, Function

_TRUST: Final = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The function and the alias that the mapping invokes."""

    function: lambda_.CfnFunction
    alias: lambda_.CfnAlias


def make_function(
    scope: Construct, name: str, aws: AwsSubscription, queues: Queues, around: Surroundings
) -> Deployed | None:
    """Function and mapping of the subscription ``name`` within ``scope``; None where another host runs its handler."""
    if aws.function is None or aws.event_source_mapping is None:
        return None
    artifact = around.inputs.artifacts[name]
    maker = _Maker(scope=scope, name=name, tags=aws.tags, function=aws.function, around=around)
    function = maker.made(queues, artifact)
    alias = maker.alias(function, artifact, aws)
    _make_mapping(scope, aws.event_source_mapping, queues, alias, around.tags(aws.tags))
    return Deployed(function=function, alias=alias)


def _make_mapping(
    scope: Construct, mapping: EventSourceMapping, queues: Queues, alias: lambda_.CfnAlias, tags: list[Any]
) -> None:
    scaling = None
    if mapping.maximum_concurrency is not None:
        scaling = lambda_.CfnEventSourceMapping.ScalingConfigProperty(maximum_concurrency=mapping.maximum_concurrency)
    lambda_.CfnEventSourceMapping(
        scope,
        "EventSourceMapping",
        function_name=alias.ref,
        event_source_arn=queues.queue.attr_arn,
        batch_size=mapping.batch_size,
        maximum_batching_window_in_seconds=mapping.batch_window_seconds,
        scaling_config=scaling,
        function_response_types=list(mapping.function_response_types),
        enabled=mapping.enabled,
        tags=tags,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    scope: Construct
    name: str
    tags: Mapping[str, str]
    function: Function
    around: Surroundings

    def made(self, queues: Queues, artifact: Artifact) -> lambda_.CfnFunction:
        """The function, with its role and its log group, which must be there before it writes."""
        written, inputs = self.function, self.around.inputs
        urls = {"queue": queues.queue.ref, "dead_letter_queue": queues.dead_letter_queue.ref}
        variables = {
            **inputs.function_environment.get(self.name, {}),
            **written.environment,
            **{key: urls[which] for key, which in written.queue_url_environment.items()},
        }
        function = lambda_.CfnFunction(
            self.scope,
            "Function",
            function_name=written.name,
            role=self._role().attr_arn,
            architectures=[written.architecture],
            memory_size=written.memory_mb,
            timeout=written.timeout_seconds,
            environment=lambda_.CfnFunction.EnvironmentProperty(variables=variables),
            reserved_concurrent_executions=inputs.reserved_concurrency.get(self.name),
            vpc_config=self._vpc_config(),
            logging_config=lambda_.CfnFunction.LoggingConfigProperty(
                log_format="Text",  # as the runtime writes it, which is JSON already
                log_group=written.log_group_name,
            ),
            tags=self.around.tags(self.tags),
            **self._package(artifact),
        )
        function.add_resource_dependency(self._log_group())
        return function

    def alias(self, function: lambda_.CfnFunction, artifact: Artifact, aws: AwsSubscription) -> lambda_.CfnAlias:
        """The alias, on a version that is published anew whenever code or settings change. Older versions stay, so
        that the alias can be set back to one.
        """
        name = self.function.name  # a reference to a function that changes would be a replacement to LocalStack
        version = lambda_.CfnVersion(
            self.scope,
            f"Version{self._fingerprint(artifact, aws)}",
            function_name=name,
            code_sha256=code_sha256(artifact),
        )
        version.add_resource_dependency(function)
        version.apply_removal_policy(RemovalPolicy.RETAIN)
        return lambda_.CfnAlias(
            self.scope,
            "Alias",
            name=self.function.alias,
            function_name=name,
            function_version=version.attr_version,
        )

    def _fingerprint(self, artifact: Artifact, aws: AwsSubscription) -> str:
        """Changes exactly when Lambda would publish another version: it refuses a second one of the same."""
        written, vpc = self.function, self.around.inputs.vpc
        facts = {
            "code": artifact.content,
            "environment": [written.environment, self.around.inputs.function_environment.get(self.name, {})],
            "urls": written.queue_url_environment,
            "queues": [aws.queue.name, aws.dead_letter_queue.name],
            "settings": [written.runtime, written.handler, written.architecture],
            "size": [written.memory_mb, written.timeout_seconds],
            "role": written.role_name,
            "vpc": None if vpc is None else asdict(vpc),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def _package(self, artifact: Artifact) -> dict[str, Any]:
        code = lambda_.CfnFunction.CodeProperty
        zipped = {"package_type": "Zip", "runtime": self.function.runtime, "handler": self.function.handler}
        match artifact:
            case ImageArtifact():
                command = lambda_.CfnFunction.ImageConfigProperty(command=[self.function.handler])
                return {"package_type": "Image", "code": code(image_uri=artifact.image_uri), "image_config": command}
            case S3Artifact():
                return {**zipped, "code": code(s3_bucket=artifact.s3_bucket, s3_key=artifact.s3_key)}
            case ZipArtifact():
                asset = s3_assets.Asset(self.scope, "Code", path=str(artifact.filename))
                return {**zipped, "code": code(s3_bucket=asset.s3_bucket_name, s3_key=asset.s3_object_key)}

    def _role(self) -> iam.CfnRole:
        inputs, key, policy = self.around.inputs, self.around.key, self.function.policy
        statements = [*policy.statements, *(policy.key_statements if key is not None else ())]
        statements += self.around.deployment.vpc_statements if inputs.vpc is not None else ()
        known = {"key_arn": key.arn} if key is not None else {}
        return iam.CfnRole(
            self.scope,
            "Role",
            role_name=self.function.role_name,
            assume_role_policy_document=_TRUST,
            policies=[
                iam.CfnRole.PolicyProperty(
                    policy_name=policy.name, policy_document=identity_policy(statements, **known)
                )
            ],
            managed_policy_arns=sorted(inputs.extra_policies.get(self.name, {}).values()) or None,
            permissions_boundary=inputs.permissions_boundary,
            tags=self.around.tags(self.tags),
        )

    def _log_group(self) -> logs.CfnLogGroup:
        days = self.around.inputs.log_retention_days
        log_group = logs.CfnLogGroup(
            self.scope,
            "LogGroup",
            log_group_name=self.function.log_group_name,
            retention_in_days=self.function.log_retention_days if days is None else days,
            tags=self.around.tags(self.tags),
        )
        self.around.keep(log_group)
        return log_group

    def _vpc_config(self) -> lambda_.CfnFunction.VpcConfigProperty | None:
        vpc = self.around.inputs.vpc
        if vpc is None:
            return None
        return lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=list(vpc.subnet_ids), security_group_ids=list(vpc.security_group_ids)
        )
