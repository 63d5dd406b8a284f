"""What topics and subscriptions on AWS have in common: policies of resources, encryption, tags."""

from tests.unit.resolving import deployment
from towpath.manifest import ResourceStatement

COMMON = deployment(None, s={})
OWN_ACCOUNT = {"AWS": ("arn:${partition}:iam::${account}:root",)}
SNS = {"Service": ("sns.amazonaws.com",)}


def refuses_without_tls(action: str, resource: str) -> ResourceStatement:
    return ResourceStatement(
        sid="RefuseWithoutTls",
        effect="Deny",
        principals={"AWS": ("*",)},
        actions=(action,),
        resources=(resource,),
        conditions={"Bool": {"aws:SecureTransport": ("false",)}},
    )


def test_only_the_own_account_publishes_to_a_topic_and_only_over_tls() -> None:
    assert COMMON.topic_policy == (
        ResourceStatement(
            sid="PublishFromOwnAccount",
            effect="Allow",
            principals=OWN_ACCOUNT,
            actions=("sns:Publish",),
            resources=("${topic_arn}",),
            conditions={},
        ),
        refuses_without_tls("sns:Publish", "${topic_arn}"),
    )


def test_only_its_own_topic_of_the_own_account_sends_to_a_queue_and_only_over_tls() -> None:
    assert COMMON.queue_policy == (
        ResourceStatement(
            sid="ReceiveFromTopic",
            effect="Allow",
            principals=SNS,
            actions=("sqs:SendMessage",),
            resources=("${queue_arn}",),
            conditions={
                "ArnEquals": {"aws:SourceArn": ("${topic_arn}",)},
                "StringEquals": {"aws:SourceAccount": ("${account}",)},
            },
        ),
        refuses_without_tls("sqs:*", "${queue_arn}"),
    )


def test_no_service_sends_to_a_dead_letter_queue_and_nobody_without_tls() -> None:
    """SQS itself moves messages there, which needs no policy."""
    assert COMMON.dead_letter_queue_policy == (refuses_without_tls("sqs:*", "${queue_arn}"),)


def test_a_key_is_administered_by_its_account_and_used_by_sns_for_this_deployments_topics() -> None:
    assert COMMON.encryption.key_policy == (
        ResourceStatement(
            sid="AdministerByOwnAccount",
            effect="Allow",
            principals=OWN_ACCOUNT,
            actions=("kms:*",),
            resources=("*",),
            conditions={},
        ),
        ResourceStatement(
            sid="DeliverFromTopics",
            effect="Allow",
            principals=SNS,
            actions=("kms:Decrypt", "kms:GenerateDataKey*"),
            resources=("*",),
            conditions={
                "ArnLike": {"aws:SourceArn": ("arn:${partition}:sns:${region}:${account}:shop-prod-*",)},
                "StringEquals": {"aws:SourceAccount": ("${account}",)},
            },
        ),
    )


def test_a_key_rotates_has_an_alias_and_can_be_brought_back_for_a_month() -> None:
    encryption = COMMON.encryption
    assert (encryption.key_alias, encryption.key_rotation) == ("alias/shop-prod", True)
    assert (encryption.deletion_window_days, encryption.data_key_reuse_seconds) == (30, 300)


def test_what_belongs_to_no_one_topic_or_subscription_has_tags_too() -> None:
    assert COMMON.tags == {"towpath:topology": "shop", "towpath:environment": "prod"}
