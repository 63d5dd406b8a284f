"""What AWS would refuse of a whole manifest is refused at render, with a sentence."""

import json
from string import Template
from typing import Any

import pytest

from tests.unit.golden.__main__ import FOLDER
from tests.unit.resolving import function_of, refused, resolved
from towpath.manifest import Manifest, Policy
from towpath.resolve import resolve
from towpath.resolve.policy_sizes import policy_size
from towpath.topology import load_topology, parse_topology

LONG = "x" * 60


def many(topics: dict[str, Any], count: int, **keys: Any) -> dict[str, Any]:
    """A topology of ``count`` subscriptions of the first topic, each with a name of 70 characters."""
    first = next(iter(topics))
    subscriptions = {f"{n:03}-{LONG}": {"topic": first, "handler": "a:b", **keys} for n in range(count)}
    return {"name": "shop", "topics": topics, "subscriptions": subscriptions}


def rendered(written: dict[str, Any]) -> Manifest:
    return resolve(parse_topology(written), "prod")


# --- Lambda's environment ----------------------------------------------------------------------------------------


def one(handler: str) -> dict[str, Any]:
    return {"name": "shop", "topics": {"t": {}}, "subscriptions": {"s": {"topic": "t", "handler": handler}}}


def test_settings_beyond_lambdas_4_kb_of_environment_are_refused() -> None:
    assert rendered(one("app:" + "x" * 3_000))
    (mistake,) = refused(one("app:" + "x" * 4_000))
    assert mistake.startswith("subscriptions.s: needs ")
    assert mistake.endswith("bytes of environment variables in Lambda, which allows 4,096; shorten the handler's path")


def test_all_variables_together_count_towards_lambdas_4_kb() -> None:
    """As JSON, in which Lambda measures them, with 160 bytes for each of the two queues' URLs."""
    function = function_of()
    settings = function.environment["TOWPATH_SUBSCRIPTION"]
    names = "".join([*function.environment, *function.queue_url_environment])
    marks = len('{"":"","":"","":""}') + settings.count('"')  # those within the settings are escaped
    room = 4_096 - len(settings) - len(names) - 2 * 160 - marks
    assert rendered(one("app:run" + "x" * room))
    (mistake,) = refused(one("app:run" + "x" * (room + 1)))
    assert "needs 4,097 bytes" in mistake


def test_bytes_count_and_not_letters() -> None:
    assert rendered(one("app:" + "u" * 2_000))
    assert len(refused(one("app:" + "ü" * 2_000))) == 1


# --- IAM ---------------------------------------------------------------------------------------------------------


def test_every_policy_of_sixty_subscriptions_is_within_iams_size() -> None:
    manifest = resolve(load_topology(FOLDER / "sixty.toml"), "prod")
    assert manifest.aws is not None
    access = manifest.aws.access
    for policies in (access.publisher, access.worker, access.operator):
        assert 1 <= len(policies) <= 10
        assert all(policy_size(policy) <= 6_144 for policy in policies)
    for subscription in manifest.subscriptions.values():
        assert subscription.aws is not None
        if subscription.aws.function is not None:
            assert policy_size(subscription.aws.function.policy) <= 10_240
        if subscription.aws.consumer_policy is not None:
            assert policy_size(subscription.aws.consumer_policy) <= 6_144


@pytest.mark.parametrize("environment", ["prod", "e" * 20])
def test_a_functions_policy_is_within_iams_size_with_the_longest_names(environment: str) -> None:
    written = {"name": "n" * 20, "topics": {"t": {}}, "subscriptions": {"s" * 200: {"topic": "t", "handler": "a:b"}}}
    aws = resolve(parse_topology(written), environment).subscriptions["s" * 200].aws
    assert aws is not None
    assert aws.function is not None
    assert policy_size(aws.function.policy) < 2_000


def expanded(policy: Policy, partition: str, region: str) -> str:
    """The document as a renderer makes it."""
    places = {"partition": partition, "region": region, "account": "123456789012"}
    places["key_arn"] = f"arn:{partition}:kms:{region}:123456789012:key/mrk-{'0' * 32}"
    statements = [
        {"Sid": s.sid, "Effect": "Allow", "Action": list(s.actions), "Resource": list(s.resources)}
        for s in (*policy.statements, *policy.key_statements)
    ]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))
    return Template(document).substitute(places)


@pytest.mark.parametrize(("partition", "region"), [("aws", "eu-west-1"), ("aws-us-gov", "us-isof-south-1")])
def test_a_policys_size_holds_wherever_it_is_deployed(partition: str, region: str) -> None:
    aws = rendered(many({"t": {}}, 30)).aws
    assert aws is not None
    for policy in aws.access.operator:
        assert len(expanded(policy, partition, region)) <= policy_size(policy)
        assert policy_size(policy) - len(expanded(policy, "a" * 10, "r" * 16)) <= 20  # no room is wasted


def test_a_policy_is_divided_only_when_the_next_resource_has_no_room() -> None:
    """A queue of such a name, with comma and quotation marks, takes 137 characters."""
    for count in (1, 13, 14, 15, 30, 60):
        aws = rendered(many({"t": {}}, count)).aws
        assert aws is not None
        policies = aws.access.operator
        assert [policy.name for policy in policies] == [f"shop-prod-operator-{n + 1}" for n in range(len(policies))]
        sizes = [policy_size(policy) for policy in policies]
        assert max(sizes) <= 6_144
        assert min(sizes[:-1], default=6_144) > 6_144 - 2 * 137


def test_a_divided_policy_allows_what_it_would_allow_in_one() -> None:
    manifest = rendered(many({"t": {}}, 40))
    assert manifest.aws is not None
    found = [(s.sid, resource) for p in manifest.aws.access.operator for s in p.statements for resource in s.resources]
    queues = [aws for s in manifest.subscriptions.values() if (aws := s.aws) is not None]
    arn = "arn:${partition}:sqs:${region}:${account}:"
    expected = [("InspectAndReplay", arn + aws.queue.name) for aws in queues]
    expected += [("ManageDeadLetters", arn + aws.dead_letter_queue.name) for aws in queues]
    expected += [("ManageDeadLetters", arn + aws.delivery_failure_queue.name) for aws in queues]
    assert sorted(found) == sorted(expected)
    assert all(policy.key_statements for policy in manifest.aws.access.operator)


def test_a_role_that_would_need_an_eleventh_policy_is_refused() -> None:
    def count(subscriptions: int) -> int:
        aws = rendered(many({"t": {}}, subscriptions)).aws
        assert aws is not None
        return len(aws.access.operator)

    assert count(130) == 10
    told = "are so many that operators need 11 policies of 6,144 characters, and IAM allows a role 10"
    assert refused(many({"t": {}}, 150)) == [f"subscriptions: {told}; divide the topology into several"]


def test_publishers_and_workers_too_are_given_ten_policies_at_most() -> None:
    topics = {f"t{n:03}-{'x' * 195}": {} for n in range(232)}
    (told,) = refused({"name": "n" * 20, "topics": topics}, "e" * 20)
    assert told.startswith("topics: are so many that publishers need 13 policies")
    found = refused(many({"t": {}}, 230, host="worker"))
    assert [mistake.partition(" policies")[0] for mistake in found] == [
        "subscriptions: are so many that workers need 11",
        "subscriptions: are so many that operators need 17",
    ]


def test_the_dashboard_of_the_largest_topology_is_within_cloudwatchs_2500_metrics() -> None:
    """With the shortest names there can be most subscriptions, and 312 would make 2,496."""
    subscriptions = {f"{n}": {"topic": "t", "handler": "a:b"} for n in range(312)}
    written = {"name": "s", "topics": {"t": {}}, "subscriptions": subscriptions}
    assert any("policies" in mistake for mistake in refused(written, "e"))


# --- CloudFormation ----------------------------------------------------------------------------------------------


def test_topics_that_make_more_than_500_resources_of_one_stack_are_refused() -> None:
    """Two to a topic, one to a table, and 33 in common."""
    topics = {f"t{n}": {} for n in range(232)}
    allowed = "and CloudFormation allows 500; divide the topology into several"
    assert rendered({"name": "s", "topics": topics | {"d": {"deduplication": True}}})
    assert refused({"name": "s", "topics": topics | {"d": {"deduplication": True}, "e": {}}}) == [
        f"topics: are 234 on aws, which with all that belongs to them are 502 resources of one stack, {allowed}"
    ]


def test_topics_on_a_database_are_in_no_stack() -> None:
    topics = {f"t{n}": {"transport": "database"} for n in range(300)}
    assert rendered({"name": "s", "topics": topics | {"on-aws": {}}})


def test_twenty_subscriptions_are_well_within_one_stack() -> None:
    """What one makes: queues with their policies, SNS subscription, role with policy, log group, function with version
    and alias, mapping, alarms.
    """
    aws = resolved(s={}).subscriptions["s"].aws
    assert aws is not None
    assert 20 * (3 + 3 + 1 + 2 + 1 + 3 + 1 + len(aws.alarms)) <= 450


# --- Everything at once ------------------------------------------------------------------------------------------


def test_all_that_aws_would_refuse_is_told_at_once() -> None:
    written = many({"t": {}}, 150)
    written["subscriptions"] |= {name: {"topic": "t", "handler": "a:" + "x" * 4_096} for name in ("a.b", "a_b")}
    found = refused(written)
    assert [mistake.partition(": ")[0] for mistake in found] == [
        "subscriptions.a_b",
        'subscriptions."a.b"',
        "subscriptions.a_b",
        "subscriptions",
    ]
