"""A subscription's queues with their policies, and how SNS delivers to them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import JsonNull
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk_app.placeholders import arn, resource_policy
from cdk_app.surroundings import Surroundings
from towpath.manifest import AwsSubscription, Queue, ResourceStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class Queues:
    """The three queues of a subscription."""

    queue: sqs.CfnQueue
    dead_letter_queue: sqs.CfnQueue
    delivery_failure_queue: sqs.CfnQueue


def make_queues(scope: Construct, aws: AwsSubscription, topic_arn: str, around: Surroundings) -> Queues:
    """Queues, policies and the SNS subscription within ``scope``. SNS delivers once policies let it."""
    maker = _Maker(scope=scope, aws=aws, topic_arn=topic_arn, around=around)
    dead_letters = maker.queue("DeadLetterQueue", aws.dead_letter_queue, redrive_allow_policy=_allow(aws))
    failed = maker.queue("DeliveryFailureQueue", aws.delivery_failure_queue)
    redrive = {"deadLetterTargetArn": dead_letters.attr_arn, "maxReceiveCount": aws.queue.max_receive_count}
    queue = maker.queue("Queue", aws.queue, redrive_policy=redrive)
    deployment = around.deployment
    maker.policy("DeadLetterQueuePolicy", dead_letters, deployment.dead_letter_queue_policy)
    policies = (
        maker.policy("QueuePolicy", queue, deployment.queue_policy),
        maker.policy("DeliveryFailureQueuePolicy", failed, deployment.queue_policy),
    )
    subscription = maker.subscription(queue, failed)
    for policy in policies:
        subscription.add_resource_dependency(policy)
    return Queues(queue=queue, dead_letter_queue=dead_letters, delivery_failure_queue=failed)


def _allow(aws: AwsSubscription) -> dict[str, Any] | None:
    """Its own queue alone may move messages there. The ARN is written out, since the queue refers to this one."""
    if aws.dead_letter_queue.redrive_allow is None:
        return None
    return {
        "redrivePermission": aws.dead_letter_queue.redrive_allow,
        "sourceQueueArns": [arn("sqs", aws.queue.name)],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    scope: Construct
    aws: AwsSubscription
    topic_arn: str
    around: Surroundings

    def queue(self, logical: str, queue: Queue, **redrive: Any) -> sqs.CfnQueue:
        made = sqs.CfnQueue(
            self.scope,
            logical,
            queue_name=queue.name,
            visibility_timeout=queue.visibility_timeout_seconds,
            message_retention_period=queue.message_retention_seconds,
            maximum_message_size=queue.maximum_message_size,
            receive_message_wait_time_seconds=queue.receive_wait_time_seconds,
            tags=self.around.tags(self.aws.tags),
            **_fifo(queue),
            **self._encryption(queue),
            **redrive,
        )
        self.around.keep(made)
        return made

    def _encryption(self, queue: Queue) -> Mapping[str, Any]:
        key = self.around.key
        if key is None:
            return {"sqs_managed_sse_enabled": queue.sqs_managed_sse}
        return {"kms_master_key_id": key.arn, "kms_data_key_reuse_period_seconds": key.data_key_reuse_seconds}

    def policy(
        self, logical: str, queue: sqs.CfnQueue, statements: tuple[ResourceStatement, ...]
    ) -> sqs.CfnQueuePolicy:
        document = resource_policy(statements, queue_arn=queue.attr_arn, topic_arn=self.topic_arn)
        return sqs.CfnQueuePolicy(self.scope, logical, queues=[queue.ref], policy_document=document)

    def subscription(self, queue: sqs.CfnQueue, failed: sqs.CfnQueue) -> sns.CfnSubscription:
        written, targets = self.aws.sns_subscription, {"delivery_failure_queue": failed}
        policy = written.filter_policy
        subscription = sns.CfnSubscription(
            self.scope,
            "Subscription",
            topic_arn=self.topic_arn,
            protocol=written.protocol,
            endpoint=queue.attr_arn,
            raw_message_delivery=written.raw_message_delivery,
            filter_policy_scope=written.filter_policy_scope if policy is not None else None,
            redrive_policy={"deadLetterTargetArn": targets[written.redrive_target].attr_arn},
        )
        if policy is not None:  # as a property the CDK would leave out each null, which is a value to filter by
            subscription.add_property_override("FilterPolicy", _with_nulls(json.loads(policy)))
        return subscription


def _with_nulls(value: Any) -> Any:
    """``value`` with each null as what becomes one in the template: None would get lost on the way to the CDK."""
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_nulls(item) for item in value]
    return JsonNull.INSTANCE if value is None else value


def _fifo(queue: Queue) -> Mapping[str, Any]:
    """What only a FIFO queue may have; CloudFormation refuses even ``false`` of a standard one."""
    if not queue.fifo:
        return {}
    return {
        "fifo_queue": True,
        "content_based_deduplication": queue.content_based_deduplication,
        "deduplication_scope": queue.deduplication_scope,
        "fifo_throughput_limit": queue.fifo_throughput_limit,
    }
