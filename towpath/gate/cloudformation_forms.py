"""How CloudFormation writes the resources that are guarded, and which of their properties it cannot change in place.

Source: AWS CloudFormation template reference, each resource type: "Update requires: Replacement".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from towpath.gate.edits import UNKNOWN
from towpath.gate.fields import Field, Form, as_document, as_number, as_switch, never_or_days, or_none, sorted_texts
from towpath.gate.policies import has_unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One type: its form, and the properties whose change makes it anew."""

    form: Form
    replacing: tuple[str, ...] = ()


def _inline(policies: Any) -> Any:
    """A role's inline policies as one document."""
    written = policies or []
    if has_unknown(written) or not isinstance(written, list) or not all(isinstance(one, Mapping) for one in written):
        return UNKNOWN
    documents = [one.get("PolicyDocument") or {} for one in written]
    if not all(isinstance(document, Mapping) for document in documents):
        return UNKNOWN
    statements = [document.get("Statement", []) for document in documents]
    listed = [one if isinstance(one, list) else [one] for one in statements]
    return {"Statement": [statement for several in listed for statement in several]}


_DOCUMENT: Final = Field(guarded="policy", path=("PolicyDocument",), read=as_document)

FORMS: Final[Mapping[str, Resource]] = {
    "AWS::SNS::Topic": Resource(
        form=Form(
            kind="topic",
            named=("TopicName",),
            fields=(Field(guarded="key", path=("KmsMasterKeyId",), read=or_none),),
        ),
        replacing=("TopicName", "FifoTopic"),
    ),
    "AWS::SNS::TopicPolicy": Resource(form=Form(kind="policy", fields=(_DOCUMENT,)), replacing=("Topics",)),
    "AWS::SNS::Subscription": Resource(
        form=Form(
            kind="subscription",
            fields=(
                Field(guarded="filter policy", path=("FilterPolicy",), read=as_document),
                Field(guarded="filter scope", path=("FilterPolicyScope",), read=or_none, default="MessageAttributes"),
                Field(guarded="raw delivery", path=("RawMessageDelivery",), read=as_switch, default=False),
                Field(guarded="redrive target", path=("RedrivePolicy", "deadLetterTargetArn"), read=or_none),
            ),
        ),
        replacing=("TopicArn", "Protocol", "Endpoint"),
    ),
    "AWS::SQS::Queue": Resource(
        form=Form(
            kind="queue",
            named=("QueueName",),
            fields=(
                Field(guarded="visibility timeout", path=("VisibilityTimeout",), read=as_number, default=30),
                Field(guarded="retention", path=("MessageRetentionPeriod",), read=as_number, default=345_600),
                Field(guarded="size limit", path=("MaximumMessageSize",), read=as_number, default=262_144),
                Field(guarded="key", path=("KmsMasterKeyId",), read=or_none),
                Field(guarded="encryption", path=("SqsManagedSseEnabled",), read=as_switch, default=True),
                Field(guarded="redrive count", path=("RedrivePolicy", "maxReceiveCount"), read=as_number),
                Field(guarded="redrive target", path=("RedrivePolicy", "deadLetterTargetArn"), read=or_none),
                Field(guarded="redrive permission", path=("RedriveAllowPolicy",), read=as_document),
            ),
        ),
        replacing=("QueueName", "FifoQueue"),
    ),
    "AWS::SQS::QueuePolicy": Resource(form=Form(kind="policy", fields=(_DOCUMENT,)), replacing=("Queues",)),
    "AWS::Lambda::EventSourceMapping": Resource(
        form=Form(
            kind="mapping",
            fields=(
                Field(guarded="enabled", path=("Enabled",), read=as_switch, default=True),
                Field(guarded="response types", path=("FunctionResponseTypes",), read=sorted_texts, default=[]),
                Field(guarded="function", path=("FunctionName",)),
                Field(guarded="filter criteria", path=("FilterCriteria",), read=or_none),
            ),
        ),
        replacing=("EventSourceArn",),
    ),
    "AWS::Lambda::Function": Resource(
        form=Form(
            kind="function",
            named=("FunctionName",),
            fields=(
                Field(
                    guarded="reserved concurrency", path=("ReservedConcurrentExecutions",), read=as_number, default=-1
                ),
            ),
        ),
        replacing=("FunctionName", "PackageType"),
    ),
    "AWS::Lambda::Alias": Resource(form=Form(kind="alias"), replacing=("FunctionName", "Name")),
    "AWS::Lambda::Permission": Resource(
        form=Form(kind="policy"), replacing=("Action", "FunctionName", "Principal", "SourceArn", "SourceAccount")
    ),
    "AWS::IAM::Role": Resource(
        form=Form(
            kind="role",
            named=("RoleName",),
            fields=(
                Field(guarded="trust", path=("AssumeRolePolicyDocument",), read=as_document),
                Field(guarded="permissions boundary", path=("PermissionsBoundary",), read=or_none),
                Field(guarded="policy", path=("Policies",), read=_inline),
                Field(guarded="managed policies", path=("ManagedPolicyArns",), read=sorted_texts, default=[]),
            ),
        ),
        replacing=("RoleName", "Path"),
    ),
    "AWS::IAM::Policy": Resource(form=Form(kind="policy", fields=(_DOCUMENT,))),
    "AWS::IAM::RolePolicy": Resource(
        form=Form(kind="policy", fields=(_DOCUMENT,)), replacing=("PolicyName", "RoleName")
    ),
    "AWS::IAM::ManagedPolicy": Resource(
        form=Form(kind="policy", named=("ManagedPolicyName",), fields=(_DOCUMENT,)),
        replacing=("ManagedPolicyName", "Path"),
    ),
    "AWS::KMS::Key": Resource(
        form=Form(
            kind="key",
            fields=(
                Field(guarded="enabled", path=("Enabled",), read=as_switch, default=True),
                Field(guarded="rotation", path=("EnableKeyRotation",), read=as_switch, default=False),
                Field(guarded="policy", path=("KeyPolicy",), read=as_document),
            ),
        ),
        replacing=("KeySpec", "KeyUsage", "MultiRegion"),
    ),
    "AWS::KMS::Alias": Resource(form=Form(kind="key alias", named=("AliasName",)), replacing=("AliasName",)),
    "AWS::CloudWatch::Alarm": Resource(
        form=Form(
            kind="alarm",
            named=("AlarmName",),
            fields=(
                Field(guarded="actions enabled", path=("ActionsEnabled",), read=as_switch, default=True),
                Field(guarded="alarm actions", path=("AlarmActions",), read=sorted_texts, default=[]),
            ),
        ),
        replacing=("AlarmName",),
    ),
    "AWS::Logs::LogGroup": Resource(
        form=Form(
            kind="log group",
            named=("LogGroupName",),
            fields=(Field(guarded="retention", path=("RetentionInDays",), read=never_or_days),),
        ),
        replacing=("LogGroupName",),
    ),
    "AWS::DynamoDB::Table": Resource(
        form=Form(
            kind="table",
            named=("TableName",),
            fields=(Field(guarded="key", path=("SSESpecification", "KMSMasterKeyId"), read=or_none),),
        ),
        replacing=("TableName", "KeySchema", "AttributeDefinitions"),
    ),
}
