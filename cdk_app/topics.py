"""SNS topics with their policies, and the tables of deduplication keys."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_sns as sns
from constructs import Construct

from cdk_app.placeholders import resource_policy
from cdk_app.surroundings import Surroundings
from towpath.manifest import AwsTopic, DeduplicationTable


def make_topic(scope: Construct, aws: AwsTopic, around: Surroundings) -> sns.CfnTopic:
    """The topic, its policy and, where it has one, its table, all within ``scope``."""
    fifo_only: dict[str, Any] = (
        {
            "fifo_topic": True,
            "content_based_deduplication": aws.content_based_deduplication,
            "fifo_throughput_scope": aws.fifo_throughput_scope,
        }
        if aws.fifo
        else {}
    )
    topic = sns.CfnTopic(
        scope,
        "Topic",
        topic_name=aws.topic_name,
        kms_master_key_id=around.key.arn if around.key is not None else None,
        tags=around.tags(aws.tags),
        **fifo_only,
    )
    around.keep(topic)
    document = resource_policy(around.deployment.topic_policy, topic_arn=topic.ref)
    sns.CfnTopicPolicy(scope, "TopicPolicy", topics=[topic.ref], policy_document=document)
    if aws.deduplication_table is not None:
        around.keep(_make_table(scope, aws.deduplication_table, aws, around))
    return topic


def _make_table(scope: Construct, table: DeduplicationTable, aws: AwsTopic, around: Surroundings) -> dynamodb.CfnTable:
    key, kind = table.partition_key, table.partition_key_type
    return dynamodb.CfnTable(
        scope,
        "DeduplicationTable",
        table_name=table.name,
        billing_mode=table.billing_mode,
        attribute_definitions=[dynamodb.CfnTable.AttributeDefinitionProperty(attribute_name=key, attribute_type=kind)],
        key_schema=[dynamodb.CfnTable.KeySchemaProperty(attribute_name=key, key_type="HASH")],
        time_to_live_specification=dynamodb.CfnTable.TimeToLiveSpecificationProperty(
            attribute_name=table.ttl_attribute, enabled=True
        ),
        point_in_time_recovery_specification=dynamodb.CfnTable.PointInTimeRecoverySpecificationProperty(
            point_in_time_recovery_enabled=table.point_in_time_recovery
        ),
        tags=around.tags(aws.tags),
    )
