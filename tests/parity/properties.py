"""The facts that both renderings are reduced to: of what kind a resource is, whose it is, and what is set of it.

The tables say which attribute of either side is which property. What a side sets and no table names is an error, so
that nothing is left out of the comparison by accident. ``MUST_DIFFER`` is what the two cannot say alike.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Facts = dict[tuple[str, str], dict[str, Any]]

MUST_DIFFER = {
    "a standard topic or queue": "plans have the provider's default, false, of what only FIFO ones may have, and "
    "CloudFormation refuses to be told so",
    "no reserved concurrency": "the provider says -1 for none; CloudFormation leaves the property out",
    "policies of topics, queues and roles": "attributes or resources of their own: both sides are read as the policy "
    "that the topic, queue or role has in the end",
    "a function's version": "Terraform publishes one with the function (publish); CloudFormation has a resource for "
    "each, which also holds the hash of the code that Terraform has at the function",
    "a zip on this machine": "Terraform uploads it with the function; the CDK puts it into the bucket of its "
    "bootstrapped environment, under a name of its own",
    "the name of an alias's version, and of a key": "known when it is made",
    "what outlives its removal": "CloudFormation's removal policies (retain); with Terraform the gate is the guard",
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of resource: what it is called here, and its attributes with their properties. None: not compared."""

    name: str
    properties: Mapping[str, str | None]


_QUEUE = {
    "name": "name",
    "fifo_queue": "fifo",
    "visibility_timeout_seconds": "visibility timeout",
    "message_retention_seconds": "retention",
    "max_message_size": "size limit",
    "receive_wait_time_seconds": "long polling",
    "content_based_deduplication": "content-based deduplication",
    "deduplication_scope": "deduplication scope",
    "fifo_throughput_limit": "throughput limit",
    "sqs_managed_sse_enabled": "SSE-SQS",
    "kms_master_key_id": "key",
    "kms_data_key_reuse_period_seconds": "key reuse",
    "redrive_policy": "redrive",
    "redrive_allow_policy": "redrive allow",
    "policy": "policy",
    "tags": "tags",
}

TERRAFORM: dict[tuple[str, str], Kind] = {
    ("aws_sns_topic", "topic"): Kind(
        name="topic",
        properties={
            "name": "name",
            "fifo_topic": "fifo",
            "content_based_deduplication": "content-based deduplication",
            "fifo_throughput_scope": "throughput scope",
            "kms_master_key_id": "key",
            "policy": "policy",
            "tags": "tags",
        },
    ),
    ("aws_dynamodb_table", "deduplication"): Kind(
        name="table",
        properties={
            "name": "name",
            "billing_mode": "billing",
            "hash_key": "hash key",
            "attribute": "attributes",
            "ttl": "ttl",
            "point_in_time_recovery": "recovery",
            "tags": "tags",
        },
    ),
    **{
        ("aws_sqs_queue", role): Kind(name=role.replace("_", " "), properties=_QUEUE)
        for role in ("queue", "dead_letter_queue", "delivery_failure_queue")
    },
    ("aws_sns_topic_subscription", "subscription"): Kind(
        name="subscription",
        properties={
            "topic_arn": "topic",
            "protocol": "protocol",
            "endpoint": "endpoint",
            "raw_message_delivery": "raw",
            "filter_policy": "filter",
            "filter_policy_scope": "filter scope",
            "redrive_policy": "redrive",
        },
    ),
    ("aws_iam_role", "function"): Kind(
        name="role",
        properties={
            "name": "name",
            "permissions_boundary": "boundary",
            "assume_role_policy": "trust",
            "tags": "tags",
        },
    ),
    ("aws_cloudwatch_log_group", "function"): Kind(
        name="log group", properties={"name": "name", "retention_in_days": "retention", "tags": "tags"}
    ),
    ("aws_lambda_function", "function"): Kind(
        name="function",
        properties={
            "function_name": "name",
            "role": "role",
            "package_type": "package",
            "image_uri": "image",
            "s3_bucket": "bucket",
            "s3_key": "object",
            "filename": None,
            "source_code_hash": "code hash",
            "handler": "handler",
            "runtime": "runtime",
            "architectures": "architectures",
            "memory_size": "memory",
            "timeout": "timeout",
            "reserved_concurrent_executions": "reserved concurrency",
            "publish": None,
            "environment": "environment",
            "logging_config": "logging",
            "image_config": "command",
            "vpc_config": "vpc",
            "tags": "tags",
        },
    ),
    ("aws_lambda_alias", "live"): Kind(
        name="alias", properties={"name": "name", "function_name": "function", "function_version": None}
    ),
    ("aws_lambda_event_source_mapping", "mapping"): Kind(
        name="mapping",
        properties={
            "event_source_arn": "source",
            "function_name": "function",
            "batch_size": "batch",
            "maximum_batching_window_in_seconds": "window",
            "function_response_types": "responses",
            "enabled": "enabled",
            "scaling_config": "maximum concurrency",
            "tags": "tags",
        },
    ),
    ("aws_cloudwatch_metric_alarm", "alarm"): Kind(
        name="alarm",
        properties={
            "alarm_name": "name",
            "alarm_description": "description",
            "namespace": "namespace",
            "metric_name": "metric",
            "dimensions": "dimensions",
            "statistic": "statistic",
            "comparison_operator": "comparison",
            "threshold": "threshold",
            "period": "period",
            "evaluation_periods": "periods",
            "treat_missing_data": "missing data",
            "actions_enabled": "actions enabled",
            "alarm_actions": "actions",
            "ok_actions": "ok actions",
            "tags": "tags",
        },
    ),
    ("aws_cloudwatch_dashboard", "dashboard"): Kind(
        name="dashboard", properties={"dashboard_name": "name", "dashboard_body": "body"}
    ),
    ("aws_kms_key", "key"): Kind(
        name="key",
        properties={
            "description": "description",
            "enable_key_rotation": "rotation",
            "deletion_window_in_days": "deletion window",
            "policy": "policy",
            "tags": "tags",
        },
    ),
    ("aws_kms_alias", "key"): Kind(name="key alias", properties={"name": "name", "target_key_id": None}),
}

CLOUDFORMATION: dict[str, Kind] = {
    "AWS::SNS::Topic": Kind(
        name="topic",
        properties={
            "TopicName": "name",
            "FifoTopic": "fifo",
            "ContentBasedDeduplication": "content-based deduplication",
            "FifoThroughputScope": "throughput scope",
            "KmsMasterKeyId": "key",
            "Tags": "tags",
        },
    ),
    "AWS::DynamoDB::Table": Kind(
        name="table",
        properties={
            "TableName": "name",
            "BillingMode": "billing",
            "KeySchema": "hash key",
            "AttributeDefinitions": "attributes",
            "TimeToLiveSpecification": "ttl",
            "PointInTimeRecoverySpecification": "recovery",
            "Tags": "tags",
        },
    ),
    "AWS::SQS::Queue": Kind(
        name="queue",
        properties={
            "QueueName": "name",
            "FifoQueue": "fifo",
            "VisibilityTimeout": "visibility timeout",
            "MessageRetentionPeriod": "retention",
            "MaximumMessageSize": "size limit",
            "ReceiveMessageWaitTimeSeconds": "long polling",
            "ContentBasedDeduplication": "content-based deduplication",
            "DeduplicationScope": "deduplication scope",
            "FifoThroughputLimit": "throughput limit",
            "SqsManagedSseEnabled": "SSE-SQS",
            "KmsMasterKeyId": "key",
            "KmsDataKeyReusePeriodSeconds": "key reuse",
            "RedrivePolicy": "redrive",
            "RedriveAllowPolicy": "redrive allow",
            "Tags": "tags",
        },
    ),
    "AWS::SNS::Subscription": Kind(
        name="subscription",
        properties={
            "TopicArn": "topic",
            "Protocol": "protocol",
            "Endpoint": "endpoint",
            "RawMessageDelivery": "raw",
            "FilterPolicy": "filter",
            "FilterPolicyScope": "filter scope",
            "RedrivePolicy": "redrive",
        },
    ),
    "AWS::IAM::Role": Kind(
        name="role",
        properties={
            "RoleName": "name",
            "PermissionsBoundary": "boundary",
            "AssumeRolePolicyDocument": "trust",
            "Policies": "policies",
            "ManagedPolicyArns": "extra policies",
            "Tags": "tags",
        },
    ),
    "AWS::Logs::LogGroup": Kind(
        name="log group", properties={"LogGroupName": "name", "RetentionInDays": "retention", "Tags": "tags"}
    ),
    "AWS::Lambda::Function": Kind(
        name="function",
        properties={
            "FunctionName": "name",
            "Role": "role",
            "PackageType": "package",
            "Code": "code",
            "Handler": "handler",
            "Runtime": "runtime",
            "Architectures": "architectures",
            "MemorySize": "memory",
            "Timeout": "timeout",
            "ReservedConcurrentExecutions": "reserved concurrency",
            "Environment": "environment",
            "LoggingConfig": "logging",
            "ImageConfig": "command",
            "VpcConfig": "vpc",
            "Tags": "tags",
        },
    ),
    "AWS::Lambda::Alias": Kind(
        name="alias", properties={"Name": "name", "FunctionName": "function", "FunctionVersion": None}
    ),
    "AWS::Lambda::EventSourceMapping": Kind(
        name="mapping",
        properties={
            "EventSourceArn": "source",
            "FunctionName": "function",
            "BatchSize": "batch",
            "MaximumBatchingWindowInSeconds": "window",
            "FunctionResponseTypes": "responses",
            "Enabled": "enabled",
            "ScalingConfig": "maximum concurrency",
            "Tags": "tags",
        },
    ),
    "AWS::CloudWatch::Alarm": Kind(
        name="alarm",
        properties={
            "AlarmName": "name",
            "AlarmDescription": "description",
            "Namespace": "namespace",
            "MetricName": "metric",
            "Dimensions": "dimensions",
            "Statistic": "statistic",
            "ComparisonOperator": "comparison",
            "Threshold": "threshold",
            "Period": "period",
            "EvaluationPeriods": "periods",
            "TreatMissingData": "missing data",
            "ActionsEnabled": "actions enabled",
            "AlarmActions": "actions",
            "OKActions": "ok actions",
            "Tags": "tags",
        },
    ),
    "AWS::CloudWatch::Dashboard": Kind(name="dashboard", properties={"DashboardName": "name", "DashboardBody": "body"}),
    "AWS::KMS::Key": Kind(
        name="key",
        properties={
            "Description": "description",
            "EnableKeyRotation": "rotation",
            "PendingWindowInDays": "deletion window",
            "KeyPolicy": "policy",
            "Tags": "tags",
        },
    ),
    "AWS::KMS::Alias": Kind(name="key alias", properties={"AliasName": "name", "TargetKeyId": None}),
}

_JSON = {"policy", "redrive", "redrive allow", "filter", "trust", "body"}
_SETS = {"actions", "ok actions", "responses", "extra policies"}  # lists whose order means nothing


def add(facts: Facts, key: tuple[str, str], name: str, value: Any) -> None:
    """Put down that ``name`` is set to ``value``, unless that is as good as not at all."""
    if name in _JSON and isinstance(value, str):
        value = json.loads(value)
    if name in _SETS and value is not None:
        value = sorted(value)
    unset = value is None or value in ([], {}) or (name == "fifo" and value is False)
    if not unset and not (name == "reserved concurrency" and value == -1):
        facts.setdefault(key, {})[name] = value


def read(value: Any, reader: Callable[[Any], Any] | None) -> Any:
    """``value`` in the common form, with the reader that its property has."""
    return value if reader is None or value in (None, []) else reader(value)
