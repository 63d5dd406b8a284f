"""IAM statements: who may do what, and nothing more."""

from collections.abc import Iterable

from tests.unit.golden.__main__ import FOLDER
from tests.unit.resolving import deployment, resolved
from towpath.manifest import Access, AwsSubscription, Deployment, Manifest, Policy, Statement
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

EVERYTHING = resolve(load_topology(FOLDER / "everything.toml"), "prod")
CONSUME = ("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
SEND_ENCRYPTED = {("kms:Decrypt", "${key_arn}"), ("kms:GenerateDataKey*", "${key_arn}")}


def arn(service: str, resource: str) -> str:
    return "arn:${partition}:" + service + ":${region}:${account}:" + resource


def common(manifest: Manifest = EVERYTHING) -> Deployment:
    assert manifest.aws is not None
    return manifest.aws


def on_aws(name: str) -> AwsSubscription:
    aws = EVERYTHING.subscriptions[name].aws
    assert aws is not None
    return aws


def function_policy(name: str) -> Policy:
    function = on_aws(name).function
    assert function is not None
    return function.policy


def consumer_policy(name: str) -> Policy:
    policy = on_aws(name).consumer_policy
    assert policy is not None
    return policy


def all_policies() -> list[Policy]:
    access = common().access
    found = [*access.publisher, *access.worker, *access.operator]
    for subscription in EVERYTHING.subscriptions.values():
        if subscription.aws is not None:
            found += [p for p in (subscription.aws.consumer_policy,) if p is not None]
            found += [subscription.aws.function.policy] if subscription.aws.function is not None else []
    return found


def granted(statements: Iterable[Statement]) -> set[tuple[str, str]]:
    return {(action, resource) for s in statements for action in s.actions for resource in s.resources}


def allowed(policies: Iterable[Policy]) -> set[tuple[str, str]]:
    return {one for policy in policies for one in granted(policy.statements)}


def test_no_statement_has_a_wildcard_but_for_the_streams_of_a_log_group() -> None:
    for policy in all_policies():
        for statement in policy.statements:
            assert all("*" not in action for action in statement.actions)
            for resource in statement.resources:
                assert "*" not in resource.removesuffix(":*")
                assert resource.startswith("arn:${partition}:")
                assert "${account}" in resource


def test_no_statement_is_without_resources_and_ids_are_letters_and_digits() -> None:
    for policy in all_policies():
        for statement in (*policy.statements, *policy.key_statements):
            assert statement.resources
            assert statement.sid.isalnum()
            assert list(statement.actions) == sorted(statement.actions)
            assert list(statement.resources) == sorted(statement.resources)


def test_ids_are_unique_within_a_policy() -> None:
    for policy in all_policies():
        ids = [statement.sid for statement in (*policy.statements, *policy.key_statements)]
        assert len(set(ids)) == len(ids)


def test_policies_are_named_for_whom_they_are() -> None:
    access = common().access
    names = [policy.name for policies in (access.publisher, access.worker, access.operator) for policy in policies]
    assert names == ["everything-prod-publisher-1", "everything-prod-worker-1", "everything-prod-operator-1"]
    assert consumer_policy("orders.index").name == "everything-prod-orders-index-consumer"
    assert function_policy("orders.paused").name == "towpath"  # within its role


def test_a_publisher_may_publish_to_every_topic_on_aws_and_use_the_deduplication_tables() -> None:
    topics = {
        ("sns:Publish", arn("sns", f"everything-prod-{name}"))
        for name in ("orders", "orders-changes.fifo", "orders-imports.fifo")
    }
    table = arn("dynamodb", "table/everything-prod-orders-changes-dedup")
    actions = ("dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
    assert allowed(common().access.publisher) == topics | {(action, table) for action in actions}


def test_a_worker_may_consume_the_queues_of_worker_subscriptions_and_write_their_dead_letters() -> None:
    queue, dead_letters = (arn("sqs", f"everything-prod-orders-index{suffix}") for suffix in ("", "-dlq"))
    expected = {(action, queue) for action in CONSUME} | {("sqs:SendMessage", dead_letters)}
    assert allowed(common().access.worker) == expected
    assert granted(consumer_policy("orders.index").statements) == expected


def test_an_external_consumer_may_consume_its_queue_and_nothing_else() -> None:
    queue = arn("sqs", "everything-prod-orders-partner")
    assert granted(consumer_policy("orders.partner").statements) == {(action, queue) for action in CONSUME}


def test_a_function_may_use_its_own_queue_dead_letters_and_log_and_nothing_else() -> None:
    log = arn("logs", "log-group:/aws/lambda/everything-prod-orders-paused:*")
    assert granted(function_policy("orders.paused").statements) == {
        *((action, arn("sqs", "everything-prod-orders-paused")) for action in CONSUME),
        ("sqs:SendMessage", arn("sqs", "everything-prod-orders-paused-dlq")),
        ("logs:CreateLogStream", log),
        ("logs:PutLogEvents", log),
    }
    assert on_aws("orders.paused").consumer_policy is None


def test_an_operator_may_empty_what_failed_and_replay_but_not_consume_live_queues() -> None:
    permissions = allowed(common().access.operator)
    for subscription in EVERYTHING.subscriptions.values():
        if subscription.aws is None:
            continue
        for queue in (subscription.aws.dead_letter_queue, subscription.aws.delivery_failure_queue):
            assert {action for action, resource in permissions if resource == arn("sqs", queue.name)} == set(CONSUME)
        own = {action for action, resource in permissions if resource == arn("sqs", subscription.aws.queue.name)}
        assert own == {"sqs:GetQueueAttributes", "sqs:SendMessage"}


def test_with_a_key_whoever_sends_encrypts_and_whoever_only_receives_decrypts() -> None:
    access = common().access
    senders = (*access.publisher, *access.worker, *access.operator)
    for policy in (*senders, function_policy("orders.paused"), consumer_policy("orders.index")):
        assert granted(policy.key_statements) == SEND_ENCRYPTED
    assert granted(consumer_policy("orders.partner").key_statements) == {("kms:Decrypt", "${key_arn}")}


def test_a_function_in_a_vpc_may_make_network_interfaces_there() -> None:
    """The two that describe take no resource; a subnet may be another account's."""
    interfaces = "arn:${partition}:ec2:${region}:*:*/*"
    assert [s.sid for s in common().vpc_statements] == ["ManageNetworkInterfaces", "DescribeNetwork"]
    assert granted(common().vpc_statements) == {
        ("ec2:AssignPrivateIpAddresses", interfaces),
        ("ec2:CreateNetworkInterface", interfaces),
        ("ec2:DeleteNetworkInterface", interfaces),
        ("ec2:UnassignPrivateIpAddresses", interfaces),
        ("ec2:DescribeNetworkInterfaces", "*"),
        ("ec2:DescribeSubnets", "*"),
    }


def test_where_there_is_nothing_to_allow_there_is_no_policy() -> None:
    access = deployment(None).access
    assert [len(policies) for policies in (access.publisher, access.worker, access.operator)] == [1, 0, 0]
    assert deployment(None, s={}).access.worker == ()


def test_without_anything_on_aws_there_are_no_policies() -> None:
    assert resolve(parse_topology({"name": "shop", "topics": {"t": {"transport": "database"}}}), "dev").aws is None
    assert isinstance(common(resolved()).access, Access)
