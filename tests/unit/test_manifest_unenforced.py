"""What AWS enforces and no emulator does, read off every rendered manifest: policies, keys, attributes, times."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import pytest

from towpath import limits
from towpath.errors import InvalidManifest
from towpath.manifest import Manifest, ResourceStatement, Statement
from towpath.manifest.aws import AwsSubscription

GOLDEN = Path(__file__).parent / "golden"
MANIFESTS = {
    stem: Manifest.from_json((GOLDEN / f"{stem}.json").read_text(encoding="utf-8"))
    for stem in ("documents", "everything", "long-names", "tiny")
}
ON_AWS = [
    pytest.param(manifest, name, id=f"{stem}-{name}")
    for stem, manifest in MANIFESTS.items()
    for name, subscription in manifest.subscriptions.items()
    if subscription.aws is not None
]
on_every_subscription = pytest.mark.parametrize(("manifest", "name"), ON_AWS)
PARTITION, ACCOUNT, REGION = "aws", "111111111111", "eu-west-1"
SNS, OTHER = "sns.amazonaws.com", "222222222222"


@dataclass(frozen=True, kw_only=True)
class Request:
    """Somebody asks for something. ``context`` has what AWS knows of the request."""

    principal: Mapping[str, str]
    action: str
    resource: str
    context: Mapping[str, str]


def allowed(statements: tuple[ResourceStatement, ...], request: Request, known: Mapping[str, str]) -> bool:
    """As AWS evaluates a resource's own policy for a request that nothing else allows: a Deny decides."""
    matching = [s.effect for s in statements if matches(s, request, known)]
    return "Allow" in matching and "Deny" not in matching


def matches(statement: ResourceStatement, request: Request, known: Mapping[str, str]) -> bool:
    def filled(text: str) -> str:
        return Template(text).substitute(known)

    principals = {(kind, filled(one)) for kind, many in statement.principals.items() for one in many}
    return (
        bool(principals & ({("AWS", "*")} | set(request.principal.items())))
        and any(covers(filled(action), request.action) for action in statement.actions)
        and any(filled(resource) in ("*", request.resource) for resource in statement.resources)
        and all(
            holds(operator, request.context.get(key), [filled(value) for value in values])
            for operator, keys in statement.conditions.items()
            for key, values in keys.items()
        )
    )


def covers(pattern: str, action: str) -> bool:
    return pattern == action or (pattern.endswith("*") and action.startswith(pattern[:-1]))


def holds(operator: str, given: str | None, wanted: list[str]) -> bool:
    if operator in ("ArnLike", "StringLike"):
        return given is not None and any(covers(one, given) for one in wanted)
    assert operator in ("ArnEquals", "StringEquals", "Bool"), f"this test does not know {operator}"
    return given in wanted


def queues(aws: AwsSubscription) -> Iterator[str]:
    """The names of the queues that SNS sends to."""
    yield from (aws.queue.name, aws.delivery_failure_queue.name)


def from_sns(queue_arn: str, topic_arn: str, account: str = ACCOUNT, tls: str = "true") -> Request:
    return Request(
        principal={"Service": SNS},
        action="sqs:SendMessage",
        resource=queue_arn,
        context={"aws:SourceArn": topic_arn, "aws:SourceAccount": account, "aws:SecureTransport": tls},
    )


@on_every_subscription
def test_a_queues_policy_lets_its_own_topic_send_and_nobody_else(manifest: Manifest, name: str) -> None:
    subscription = manifest.subscriptions[name]
    topic = manifest.topics[subscription.topic].aws
    assert manifest.aws is not None
    assert subscription.aws is not None
    assert topic is not None
    topic_arn = f"arn:{PARTITION}:sns:{REGION}:{ACCOUNT}:{topic.topic_name}"
    for queue in queues(subscription.aws):
        queue_arn = f"arn:{PARTITION}:sqs:{REGION}:{ACCOUNT}:{queue}"
        known = {"partition": PARTITION, "account": ACCOUNT, "region": REGION} | {
            "queue_arn": queue_arn,
            "topic_arn": topic_arn,
        }
        policy = manifest.aws.queue_policy
        assert allowed(policy, from_sns(queue_arn, topic_arn), known)
        assert not allowed(policy, from_sns(queue_arn, f"{topic_arn}x"), known), "another topic"
        assert not allowed(policy, from_sns(queue_arn, topic_arn, account=OTHER), known), "of another account"
        assert not allowed(policy, from_sns(queue_arn, topic_arn, tls="false"), known), "without TLS"
        anybody = Request(
            principal={"AWS": f"arn:{PARTITION}:iam::{OTHER}:root"},
            action="sqs:SendMessage",
            resource=queue_arn,
            context={"aws:SecureTransport": "true"},
        )
        assert not allowed(policy, anybody, known), "another account"


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_a_key_lets_sns_encrypt_what_it_sends_for_every_topic_of_the_deployment(manifest: Manifest) -> None:
    """Without it SNS drops what it should deliver to an encrypted queue, and only a metric tells."""
    assert manifest.aws is not None
    known = {"partition": PARTITION, "account": ACCOUNT, "region": REGION}
    for topic in manifest.topics.values():
        if topic.aws is None:
            continue
        arn = f"arn:{PARTITION}:sns:{REGION}:{ACCOUNT}:{topic.aws.topic_name}"
        for action in ("kms:GenerateDataKey", "kms:Decrypt"):
            context = {"aws:SourceArn": arn, "aws:SourceAccount": ACCOUNT}
            request = Request(principal={"Service": SNS}, action=action, resource="*", context=context)
            policy = manifest.aws.encryption.key_policy
            assert allowed(policy, request, known)
            foreign = Request(
                principal={"Service": SNS}, action=action, resource="*", context=context | {"aws:SourceAccount": OTHER}
            )
            assert not allowed(policy, foreign, known)


@on_every_subscription
def test_what_is_sent_has_room_for_ten_attributes_and_no_more(manifest: Manifest, name: str) -> None:
    """SNS drops a message of more with raw delivery; a message that has more is refused when it is published."""
    aws = manifest.subscriptions[name].aws
    assert aws is not None
    assert aws.sns_subscription.raw_message_delivery is True
    assert limits.ATTRIBUTES <= limits.SQS_ATTRIBUTES == 10


@on_every_subscription
def test_a_message_hides_for_six_runs_of_its_function_and_for_its_lease(manifest: Manifest, name: str) -> None:
    """AWS refuses a mapping whose queue hides for less than one run, and advises six."""
    subscription = manifest.subscriptions[name]
    aws = subscription.aws
    assert aws is not None
    hides = aws.queue.visibility_timeout_seconds
    assert hides >= subscription.lease_seconds
    if aws.function is not None and aws.event_source_mapping is not None:
        assert hides >= 6 * aws.function.timeout_seconds + aws.event_source_mapping.batch_window_seconds


@on_every_subscription
def test_a_functions_role_may_do_what_lambda_asks_of_it_for_a_mapping(manifest: Manifest, name: str) -> None:
    """AWS refuses a mapping whose role lacks one of these."""
    aws = manifest.subscriptions[name].aws
    assert aws is not None
    if aws.function is None:
        return
    own = f":{aws.queue.name}"
    granted = {a for s in aws.function.policy.statements if on(s, own) for a in s.actions}
    assert granted >= {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        "sqs:ChangeMessageVisibility",
    }


@pytest.mark.parametrize("stem", MANIFESTS)
def test_no_function_has_reserved_concurrency_which_makes_pollers_read_more_than_runs(stem: str) -> None:
    """AWS's pollers keep to the mapping's own limit. A manifest that asks for the other one is refused."""
    text = (GOLDEN / f"{stem}.json").read_text(encoding="utf-8")
    assert "reserved_concurren" not in text.lower()
    document = json.loads(text)
    on_aws = [subscription["aws"] for subscription in document["subscriptions"].values() if subscription.get("aws")]
    functions = [aws["function"] for aws in on_aws if aws.get("function")]
    for function in functions:
        function["reserved_concurrency"] = 5
    if functions:
        with pytest.raises(InvalidManifest, match="reserved_concurrency"):
            Manifest.from_json(json.dumps(document))


def on(statement: Statement, end: str) -> bool:
    return any(resource.endswith(end) for resource in statement.resources)
