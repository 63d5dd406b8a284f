"""IAM statements: who may do what, and nothing more."""

from collections.abc import Iterable
from pathlib import Path

from towpath.manifest import AwsSubscription, Manifest, Statement
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

EVERYTHING = resolve(load_topology(Path(__file__).parent / "golden" / "everything.toml"), "prod")
CONSUME = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")


def arn(service: str, resource: str) -> str:
    return "arn:${partition}:" + service + ":${region}:${account}:" + resource


def all_statements(manifest: Manifest) -> list[Statement]:
    found = [*manifest.access.publisher, *manifest.access.worker, *manifest.access.operator]
    for subscription in manifest.subscriptions.values():
        if subscription.aws is not None:
            found += subscription.aws.consumer_statements
            found += subscription.aws.function.statements if subscription.aws.function is not None else ()
    return found


def on_aws(manifest: Manifest, name: str) -> AwsSubscription:
    aws = manifest.subscriptions[name].aws
    assert aws is not None
    return aws


def granted(statements: Iterable[Statement]) -> set[tuple[str, str]]:
    return {(action, resource) for s in statements for action in s.actions for resource in s.resources}


def test_no_statement_has_a_wildcard_but_for_the_streams_of_a_log_group() -> None:
    for statement in all_statements(EVERYTHING):
        assert all("*" not in action for action in statement.actions)
        for resource in statement.resources:
            assert "*" not in resource.removesuffix(":*")
            assert resource.startswith("arn:${partition}:")
            assert "${account}" in resource


def test_no_statement_is_without_resources_and_ids_are_letters_and_digits() -> None:
    for statement in all_statements(EVERYTHING):
        assert statement.resources
        assert statement.sid.isalnum()


def test_ids_are_unique_within_a_policy() -> None:
    access = EVERYTHING.access
    functions = [f.statements for s in EVERYTHING.subscriptions.values() if s.aws and (f := s.aws.function)]
    for policy in (access.publisher, access.worker, access.operator, *functions):
        assert len({statement.sid for statement in policy}) == len(policy)


def test_a_publisher_may_publish_to_every_topic_on_aws_and_use_the_deduplication_tables() -> None:
    topics = {
        ("sns:Publish", arn("sns", f"everything-prod-{name}"))
        for name in ("orders", "orders-changes.fifo", "orders-imports.fifo")
    }
    table = arn("dynamodb", "table/everything-prod-orders-changes-dedup")
    actions = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
    assert granted(EVERYTHING.access.publisher) == topics | {(action, table) for action in actions}


def test_a_worker_may_consume_the_queues_of_worker_subscriptions_and_write_their_dead_letters() -> None:
    queue, dead_letters = (arn("sqs", f"everything-prod-orders-index{suffix}") for suffix in ("", "-dlq"))
    expected = {(action, queue) for action in CONSUME} | {("sqs:SendMessage", dead_letters)}
    assert granted(EVERYTHING.access.worker) == expected
    assert granted(on_aws(EVERYTHING, "orders.index").consumer_statements) == expected


def test_an_external_consumer_may_consume_its_queue_and_nothing_else() -> None:
    queue = arn("sqs", "everything-prod-orders-partner")
    statements = on_aws(EVERYTHING, "orders.partner").consumer_statements
    assert granted(statements) == {(action, queue) for action in CONSUME}


def test_a_function_may_use_its_own_queue_dead_letters_and_log_and_nothing_else() -> None:
    function = on_aws(EVERYTHING, "orders.paused").function
    assert function is not None
    log = arn("logs", "log-group:/aws/lambda/everything-prod-orders-paused:*")
    assert granted(function.statements) == {
        *((action, arn("sqs", "everything-prod-orders-paused")) for action in CONSUME),
        ("sqs:SendMessage", arn("sqs", "everything-prod-orders-paused-dlq")),
        ("logs:CreateLogStream", log),
        ("logs:PutLogEvents", log),
    }
    assert on_aws(EVERYTHING, "orders.paused").consumer_statements == ()


def test_an_operator_may_empty_what_failed_and_replay_but_not_consume_live_queues() -> None:
    permissions = granted(EVERYTHING.access.operator)
    for subscription in EVERYTHING.subscriptions.values():
        if subscription.aws is None:
            continue
        for queue in (subscription.aws.dead_letter_queue, subscription.aws.delivery_failure_queue):
            assert {action for action, resource in permissions if resource == arn("sqs", queue.name)} == set(CONSUME)
        own = {action for action, resource in permissions if resource == arn("sqs", subscription.aws.queue.name)}
        assert own == {"sqs:GetQueueAttributes", "sqs:SendMessage"}


def test_without_anything_on_aws_there_are_no_statements() -> None:
    access = resolve(parse_topology({"name": "shop", "topics": {"t": {"transport": "database"}}}), "dev").access
    assert (access.publisher, access.worker, access.operator) == ((), (), ())
