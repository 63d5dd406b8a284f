"""Who may do what: IAM statements with exactly the actions and resources that each kind of program needs.

Actions: "Actions, resources, and condition keys" for Amazon SNS, Amazon SQS, DynamoDB, AWS KMS, Amazon EC2 and
CloudWatch Logs in the Service Authorization Reference. Batch calls are allowed by the action of the single call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from towpath.manifest import Access, AwsSubscription, AwsTopic, Policy, Queue, Statement
from towpath.resolve.names import Names
from towpath.resolve.policy_sizes import Grant, divided

_CONSUME: Final = (
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
)
_REPLAY: Final = ("sqs:GetQueueAttributes", "sqs:SendMessage")
_LEDGER: Final = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")

# SNS: developer guide, "Configuring AWS KMS permissions"; SQS: "Key management". Whoever only receives, only decrypts.
_RECEIVE_ENCRYPTED: Final = ("kms:Decrypt",)
_SEND_ENCRYPTED: Final = ("kms:Decrypt", "kms:GenerateDataKey*")


def function_policy(queue: Queue, dead_letter_queue: Queue, log_group_name: str) -> Policy:
    """What a subscription's function needs: its queue, its dead letters, its log; and nothing of another's.

    The log group is made by the deployment, so that its retention holds, hence no ``logs:CreateLogGroup``.
    """
    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    log_group = arn("logs", f"log-group:{log_group_name}:*")
    return Policy(
        name="towpath",
        statements=(
            *_consuming(queue),
            statement("SetAside", ("sqs:SendMessage",), _queue_arns([dead_letter_queue])),
            statement("WriteLogs", logs, [log_group]),
        ),
        key_statements=(_key(_SEND_ENCRYPTED),),
    )


def worker_policy(name: str, queue: Queue, dead_letter_queue: Queue) -> Policy:
    """What a worker needs that handles this subscription alone."""
    set_aside = statement("SetAside", ("sqs:SendMessage",), _queue_arns([dead_letter_queue]))
    return Policy(name=name, statements=(*_consuming(queue), set_aside), key_statements=(_key(_SEND_ENCRYPTED),))


def external_policy(name: str, queue: Queue) -> Policy:
    """What a consumer needs that is not ours: its queue. Its dead letters are SQS's work."""
    return Policy(name=name, statements=_consuming(queue), key_statements=(_key(_RECEIVE_ENCRYPTED),))


def vpc_statements() -> tuple[Statement, ...]:
    """What Lambda needs of a function's role to put it into a VPC (AWS Lambda developer guide, "Giving Lambda functions
    access to resources in an Amazon VPC"). Subnets may be another account's, that shares them.
    """
    manage = (
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:UnassignPrivateIpAddresses",
    )
    describe = ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets")
    return (
        statement("ManageNetworkInterfaces", manage, ["arn:${partition}:ec2:${region}:*:*/*"]),
        statement("DescribeNetwork", describe, ["*"]),  # these two take no resource
    )


def access(
    names: Names,
    topics: Iterable[AwsTopic],
    workers: Iterable[AwsSubscription],
    everything: Iterable[AwsSubscription],
) -> Access:
    """The policies of people and programs outside the functions.

    ``workers`` are the subscriptions whose handlers run in workers, ``everything`` all that an operator looks after.
    """
    topics, workers, everything = tuple(topics), tuple(workers), tuple(everything)
    tables = [topic.deduplication_table.name for topic in topics if topic.deduplication_table is not None]
    set_aside = [queue for s in everything for queue in (s.dead_letter_queue, s.delivery_failure_queue)]
    publish = (
        Grant(sid="Publish", actions=("sns:Publish",), resources=[arn("sns", t.topic_name) for t in topics]),
        Grant(sid="Deduplicate", actions=_LEDGER, resources=[arn("dynamodb", f"table/{name}") for name in tables]),
    )
    work = (
        Grant(sid="Consume", actions=_CONSUME, resources=_queue_arns(s.queue for s in workers)),
        Grant(
            sid="SetAside",
            actions=("sqs:SendMessage",),
            resources=_queue_arns(s.dead_letter_queue for s in workers),
        ),
    )
    operate = (
        Grant(sid="ManageDeadLetters", actions=_CONSUME, resources=_queue_arns(set_aside)),
        Grant(sid="InspectAndReplay", actions=_REPLAY, resources=_queue_arns(s.queue for s in everything)),
    )
    key_statements = (_key(_SEND_ENCRYPTED),)
    return Access(
        publisher=divided(f"{names.prefix}-publisher", publish, key_statements),
        worker=divided(f"{names.prefix}-worker", work, key_statements),
        operator=divided(f"{names.prefix}-operator", operate, key_statements),
    )


def statement(sid: str, actions: tuple[str, ...], resources: Iterable[str]) -> Statement:
    """A statement, its resources sorted."""
    return Statement(sid=sid, actions=actions, resources=tuple(sorted(resources)))


def arn(service: str, resource: str) -> str:
    """The ARN of a resource wherever the manifest is deployed."""
    return f"arn:${{partition}}:{service}:${{region}}:${{account}}:{resource}"


def _consuming(queue: Queue) -> tuple[Statement]:
    return (statement("Consume", _CONSUME, _queue_arns([queue])),)


def _key(actions: tuple[str, ...]) -> Statement:
    return statement("UseKey", actions, ["${key_arn}"])


def _queue_arns(queues: Iterable[Queue]) -> list[str]:
    return [arn("sqs", queue.name) for queue in queues]
