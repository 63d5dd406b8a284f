"""What topics and subscriptions on AWS have in common: policies of resources, encryption, tags, access, dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from towpath import limits
from towpath.manifest import AwsTopic, Deployment, Encryption, ResourceStatement, Subscription
from towpath.resolve.access import access, arn, vpc_statements
from towpath.resolve.dashboard import dashboard
from towpath.resolve.names import Names

_OWN_ACCOUNT: Final[dict[str, tuple[str, ...]]] = {"aws:SourceAccount": ("${account}",)}


def deployment(names: Names, topics: list[AwsTopic], subscriptions: Mapping[str, Subscription]) -> Deployment:
    """The common part; ``topics`` and the AWS parts of ``subscriptions`` are what there is on AWS."""
    on_aws = {name: s.aws for name, s in subscriptions.items() if s.aws is not None}
    workers = [aws for name, aws in on_aws.items() if subscriptions[name].host == "worker"]
    return Deployment(
        topics_stack_name=names.stack("topics"),
        topic_policy=_topic_policy(),
        queue_policy=(_from_topic(), _encrypted_only("sqs:*", "${queue_arn}")),
        dead_letter_queue_policy=(_encrypted_only("sqs:*", "${queue_arn}"),),
        vpc_statements=vpc_statements(),
        encryption=_encryption(names),
        access=access(names, topics, workers, on_aws.values()),
        dashboard=dashboard(names, on_aws),
        tags=tags(names),
    )


def tags(names: Names, **more: str) -> dict[str, str]:
    """Tags that say what a resource belongs to; ``more`` are for instance ``topic="orders"``."""
    belongs = {"topology": names.topology, "environment": names.environment, **more}
    return {f"towpath:{key}": value for key, value in belongs.items()}


def _topic_policy() -> tuple[ResourceStatement, ...]:
    """The own account publishes, as far as its IAM policies allow, and nobody without TLS.

    SNS: developer guide, "Example cases for Amazon SNS access control" and "Enforce encryption of data in transit".
    """
    own_account = ResourceStatement(
        sid="PublishFromOwnAccount",
        effect="Allow",
        principals={"AWS": ("arn:${partition}:iam::${account}:root",)},
        actions=("sns:Publish",),
        resources=("${topic_arn}",),
        conditions={},
    )
    return own_account, _encrypted_only("sns:Publish", "${topic_arn}")


def _from_topic() -> ResourceStatement:
    """SNS delivers from the subscription's own topic, and from no other that somebody subscribes the queue to (Amazon
    SNS developer guide, "Fanout to Amazon SQS queues").
    """
    return ResourceStatement(
        sid="ReceiveFromTopic",
        effect="Allow",
        principals={"Service": ("sns.amazonaws.com",)},
        actions=("sqs:SendMessage",),
        resources=("${queue_arn}",),
        conditions={"ArnEquals": {"aws:SourceArn": ("${topic_arn}",)}, "StringEquals": _OWN_ACCOUNT},
    )


def _encrypted_only(action: str, resource: str) -> ResourceStatement:
    return ResourceStatement(
        sid="RefuseWithoutTls",
        effect="Deny",
        principals={"AWS": ("*",)},
        actions=(action,),
        resources=(resource,),
        conditions={"Bool": {"aws:SecureTransport": ("false",)}},
    )


def _encryption(names: Names) -> Encryption:
    """SNS encrypts what it delivers to an encrypted queue, with a key that lets it (Amazon SNS developer guide,
    "Configuring AWS KMS permissions"). The account's own IAM policies say who else may use the key.
    """
    own_account = ResourceStatement(
        sid="AdministerByOwnAccount",
        effect="Allow",
        principals={"AWS": ("arn:${partition}:iam::${account}:root",)},
        actions=("kms:*",),
        resources=("*",),
        conditions={},
    )
    topics = arn("sns", f"{names.prefix}-*")
    from_topics = ResourceStatement(
        sid="DeliverFromTopics",
        effect="Allow",
        principals={"Service": ("sns.amazonaws.com",)},
        actions=("kms:Decrypt", "kms:GenerateDataKey*"),
        resources=("*",),
        conditions={"ArnLike": {"aws:SourceArn": (topics,)}, "StringEquals": _OWN_ACCOUNT},
    )
    return Encryption(
        key_alias=f"alias/{names.prefix}",
        key_policy=(own_account, from_topics),
        key_rotation=True,
        deletion_window_days=limits.KEY_DELETION_WINDOW_DAYS,
        data_key_reuse_seconds=limits.KEY_REUSE_SECONDS,
    )
