"""Who may do what: IAM statements with exactly the actions and resources that each kind of program needs.

Actions: "Actions, resources, and condition keys" for Amazon SNS, Amazon SQS, AWS Lambda's execution role, DynamoDB and
CloudWatch Logs in the Service Authorization Reference. Batch calls are allowed by the action of the single call.
"""

from __future__ import annotations

from collections.abc import Iterable

from towpath.manifest import Access, AwsSubscription, AwsTopic, Queue, Statement

_CONSUME = (
    "sqs:ChangeMessageVisibility",
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:ReceiveMessage",
)


def publisher_statements(topics: Iterable[AwsTopic]) -> tuple[Statement, ...]:
    """What publishing to every topic needs, deduplication tables included."""
    topics = tuple(topics)
    tables = [topic.deduplication_table_name for topic in topics if topic.deduplication_table_name is not None]
    ledger = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
    return _granted(
        ("Publish", ("sns:Publish",), [_arn("sns", topic.topic_name) for topic in topics]),
        ("Deduplicate", ledger, [_arn("dynamodb", f"table/{table}") for table in tables]),
    )


def worker_statements(queue: Queue, dead_letter_queue: Queue) -> tuple[Statement, ...]:
    """What a worker needs that handles this subscription alone."""
    return _consuming([queue], [dead_letter_queue])


def external_statements(queue: Queue) -> tuple[Statement, ...]:
    """What a consumer needs that is not ours: its queue. Its dead letters are SQS's work."""
    return _consuming([queue], [])


def function_statements(queue: Queue, dead_letter_queue: Queue, log_group_name: str) -> tuple[Statement, ...]:
    """What a subscription's function needs: its queue, its dead letters, its log; and nothing of another's.

    The log group is made by the infrastructure, so that its retention holds, hence no ``logs:CreateLogGroup``.
    """
    logs = ("logs:CreateLogStream", "logs:PutLogEvents")
    return (
        *_consuming([queue], [dead_letter_queue]),
        *_granted(("WriteLogs", logs, [_arn("logs", f"log-group:{log_group_name}:*")])),
    )


def access(
    topics: Iterable[AwsTopic], workers: Iterable[AwsSubscription], everything: Iterable[AwsSubscription]
) -> Access:
    """The policies of people and programs outside the functions.

    ``workers`` are the subscriptions whose handlers run in workers, ``everything`` all that an operator looks after.
    """
    workers = tuple(workers)
    return Access(
        publisher=publisher_statements(topics),
        worker=_consuming([s.queue for s in workers], [s.dead_letter_queue for s in workers]),
        operator=_operating(tuple(everything)),
    )


def _operating(subscriptions: tuple[AwsSubscription, ...]) -> tuple[Statement, ...]:
    """Looking at every queue, taking messages out of those that hold what failed, sending them back to their own."""
    set_aside = [queue for s in subscriptions for queue in (s.dead_letter_queue, s.delivery_failure_queue)]
    own = [s.queue for s in subscriptions]
    replay = ("sqs:GetQueueAttributes", "sqs:SendMessage")
    return _granted(
        ("ManageDeadLetters", _CONSUME, _queue_arns(set_aside)),
        ("InspectAndReplay", replay, _queue_arns(own)),
    )


def _consuming(queues: list[Queue], dead_letter_queues: list[Queue]) -> tuple[Statement, ...]:
    return _granted(
        ("Consume", _CONSUME, _queue_arns(queues)),
        ("SetAside", ("sqs:SendMessage",), _queue_arns(dead_letter_queues)),
    )


def _granted(*statements: tuple[str, tuple[str, ...], list[str]]) -> tuple[Statement, ...]:
    """A statement for each that has a resource: IAM allows none without."""
    return tuple(
        Statement(sid=sid, actions=actions, resources=tuple(sorted(resources)))
        for sid, actions, resources in statements
        if resources
    )


def _queue_arns(queues: Iterable[Queue]) -> list[str]:
    return [_arn("sqs", queue.name) for queue in queues]


def _arn(service: str, resource: str) -> str:
    return f"arn:${{partition}}:{service}:${{region}}:${{account}}:{resource}"
