"""What a check must be allowed to read: IAM policy documents with exactly these actions and resources.

Actions and the resources that they take: "Actions, resources, and condition keys" for Amazon SNS, Amazon SQS, AWS
Lambda, Amazon DynamoDB and AWS KMS in the Service Authorization Reference. Two of the actions take none: ``*``.
"""

from __future__ import annotations

from collections.abc import Iterator
from string import Template
from typing import Any, Final

from aws_transport.checking.deployed import Place
from towpath.manifest import Manifest, Policy, resource_names
from towpath.resolve.policy_sizes import Grant, divided

TOPIC_ACTIONS: Final = ("sns:GetTopicAttributes", "sns:ListSubscriptionsByTopic")
QUEUE_ACTIONS: Final = ("sqs:GetQueueAttributes",)
TABLE_ACTIONS: Final = ("dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive")
FUNCTION_ACTIONS: Final = (
    "lambda:GetAlias",
    "lambda:GetFunctionConcurrency",
    "lambda:GetFunctionConfiguration",
    "lambda:ListVersionsByFunction",
)
ACTIONS_ON_ALL: Final = ("lambda:ListEventSourceMappings", "sns:GetSubscriptionAttributes")
KEY_ACTIONS: Final = ("kms:DescribeKey",)


def documents(manifest: Manifest, place: Place, key_arn: str | None) -> dict[str, dict[str, Any]]:
    """Policy documents by their names, each within the size of a managed policy: whoever checks needs them all.

    ``key_arn`` is the KMS key's, in a deployment that has one.
    """
    policies = divided(f"{manifest.name}-{manifest.environment}-bindings", _grants(manifest, key_arn), ())
    return {policy.name: _document(policy, place) for policy in policies}


def _grants(manifest: Manifest, key_arn: str | None) -> Iterator[Grant]:
    names: dict[str, list[str]] = {}
    for named in resource_names(manifest):
        names.setdefault(named.resource, []).append(named.name)
    functions = names.get("Lambda function", ())
    kinds = (
        ("Topics", TOPIC_ACTIONS, [_arn("sns", name) for name in names.get("SNS topic", ())]),
        ("Queues", QUEUE_ACTIONS, [_arn("sqs", name) for name in names.get("SQS queue", ())]),
        ("Tables", TABLE_ACTIONS, [_arn("dynamodb", f"table/{name}") for name in names.get("DynamoDB table", ())]),
        (
            "Functions",
            FUNCTION_ACTIONS,
            [_arn("lambda", f"function:{name}{of}") for name in functions for of in ("", ":*")],
        ),
        ("Everything", ACTIONS_ON_ALL, ["*"] if names else []),
        ("Key", KEY_ACTIONS, [key_arn] if key_arn is not None else []),
    )
    for sid, actions, resources in kinds:
        yield Grant(sid=f"Look{sid}", actions=actions, resources=resources)


def _arn(service: str, resource: str) -> str:
    return f"arn:${{partition}}:{service}:${{region}}:${{account}}:{resource}"


def _document(policy: Policy, place: Place) -> dict[str, Any]:
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": one.sid,
                "Effect": "Allow",
                "Action": list(one.actions),
                "Resource": [Template(resource).substitute(place.names()) for resource in one.resources],
            }
            for one in policy.statements
        ],
    }
