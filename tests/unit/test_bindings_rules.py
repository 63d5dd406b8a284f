"""What a check says of facts, rule by rule: facts of a clean deployment, made of the manifest, each put wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest

from aws_transport.bindings import Bindings, SubscriptionBinding, TopicBinding
from aws_transport.checking.comparing import findings
from aws_transport.checking.deployed import Place, first_place, place_of
from aws_transport.checking.facts import (
    Facts,
    FunctionFacts,
    Missing,
    Seen,
    SubscriptionFacts,
    Table,
    TopicFacts,
    Unseen,
)
from aws_transport.checking.findings import SEVERITIES, Finding
from aws_transport.checking.statements import rendered
from towpath.manifest import Manifest, Queue
from towpath.resolve import resolve
from towpath.topology import parse_topology

PLACE = Place(partition="aws", region="eu-west-1", account="123456789012")
MANIFEST = resolve(
    parse_topology(
        {
            "name": "shop",
            "topics": {"t": {"deduplication": True}, "local": {"transport": "database"}},
            "subscriptions": {
                "f": {"topic": "t", "handler": "a:b", "filter": {"k": ["v"]}, "lambda": {"maximum_concurrency": 5}},
                "w": {"topic": "t", "handler": "a:b", "host": "worker", "partition_mode": "exclusive"},
                "local": {"topic": "local", "handler": "a:b"},
            },
        }
    ),
    "prod",
)
DENIED = Unseen(action="sqs:GetQueueAttributes", why="AccessDenied: no", denied=True)


def url(queue: Queue) -> str:
    return f"https://sqs.eu-west-1.amazonaws.com/123456789012/{queue.name}"


def arn(queue: Queue) -> str:
    return PLACE.arn("sqs", queue.name)


def bindings() -> Bindings:
    topic = MANIFEST.topics["t"].aws
    subscriptions = {}
    for name, one in MANIFEST.subscriptions.items():
        if one.aws is None:
            continue
        function = one.aws.function
        subscriptions[name] = SubscriptionBinding(
            queue_url=url(one.aws.queue),
            queue_arn=arn(one.aws.queue),
            dead_letter_queue_url=url(one.aws.dead_letter_queue),
            delivery_failure_queue_url=url(one.aws.delivery_failure_queue),
            function_arn=None if function is None else PLACE.arn("lambda", f"function:{function.name}:live"),
        )
    topics = {"t": TopicBinding(arn=PLACE.arn("sns", topic.topic_name), fifo=topic.fifo)}
    return Bindings(topics=topics, subscriptions=subscriptions)


def policy(statements: Any, **names: str) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(rendered(statements, PLACE.names(**names)))})


def queue(wanted: Queue, policy_text: str, more: dict[str, str]) -> Seen[Any]:
    fifo = {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": wanted.deduplication_scope,
        "FifoThroughputLimit": wanted.fifo_throughput_limit,
    }
    attributes = {
        "QueueArn": arn(wanted),
        "VisibilityTimeout": str(wanted.visibility_timeout_seconds),
        "MessageRetentionPeriod": str(wanted.message_retention_seconds),
        "MaximumMessageSize": str(wanted.maximum_message_size),
        "ReceiveMessageWaitTimeSeconds": str(wanted.receive_wait_time_seconds),
        "DelaySeconds": "0",
        "SqsManagedSseEnabled": "true",
        "Policy": policy_text,
    }
    return Seen(value=attributes | (fifo if wanted.fifo else {}) | more)


def topic_facts() -> TopicFacts:
    aws, topic_arn = MANIFEST.topics["t"].aws, bindings().topics["t"].arn
    attributes = {
        "FifoTopic": "true",
        "ContentBasedDeduplication": "false",
        "FifoThroughputScope": "MessageGroup",
        "Policy": policy(MANIFEST.aws.topic_policy, topic_arn=topic_arn),
    }
    assert aws.fifo
    description = {
        "KeySchema": [{"AttributeName": "deduplication_key", "KeyType": "HASH"}],
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
    }
    ttl = Seen(value={"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"})
    return TopicFacts(attributes=Seen(value=attributes), table=Seen(value=Table(description=description, ttl=ttl)))


def subscription_facts(name: str) -> SubscriptionFacts:
    aws, bound = MANIFEST.subscriptions[name].aws, bindings()
    topic_arn = bound.topics["t"].arn

    def seen(which: str, statements: Any, more: dict[str, str]) -> Seen[Any]:
        one = getattr(aws, which)
        return queue(one, policy(statements, topic_arn=topic_arn, queue_arn=arn(one)), more)

    redrive = {"deadLetterTargetArn": arn(aws.dead_letter_queue), "maxReceiveCount": aws.queue.max_receive_count}
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [arn(aws.queue)]}
    shared, delivery = MANIFEST.aws, aws.sns_subscription
    attributes = {
        "PendingConfirmation": "false",
        "RawMessageDelivery": "true",
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn(aws.delivery_failure_queue)}),
    }
    if delivery.filter_policy is not None:
        attributes |= {"FilterPolicy": delivery.filter_policy, "FilterPolicyScope": "MessageAttributes"}
    return SubscriptionFacts(
        queue=seen("queue", shared.queue_policy, {"RedrivePolicy": json.dumps(redrive)}),
        dead_letter_queue=seen(
            "dead_letter_queue", shared.dead_letter_queue_policy, {"RedriveAllowPolicy": json.dumps(allow)}
        ),
        delivery_failure_queue=seen("delivery_failure_queue", shared.queue_policy, {}),
        delivery=Seen(value=attributes),
        mappings=Seen(value=(mapping(),) if name == "f" else ()),
        function=function_facts() if name == "f" else None,
    )


def mapping(**other: Any) -> dict[str, Any]:
    wanted = MANIFEST.subscriptions["f"].aws.event_source_mapping
    return {
        "UUID": "one",
        "FunctionArn": bindings().subscriptions["f"].function_arn,
        "State": "Enabled",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "BatchSize": wanted.batch_size,
        "MaximumBatchingWindowInSeconds": 0,
        "ScalingConfig": {"MaximumConcurrency": 5},
        **other,
    }


def function_facts() -> FunctionFacts:
    wanted, bound = MANIFEST.subscriptions["f"].aws.function, bindings().subscriptions["f"]
    urls = {"TOWPATH_QUEUE_URL": bound.queue_url, "TOWPATH_DEAD_LETTER_QUEUE_URL": bound.dead_letter_queue_url}
    configuration = {
        "Timeout": wanted.timeout_seconds,
        "MemorySize": wanted.memory_mb,
        "Handler": wanted.handler,
        "Runtime": wanted.runtime,
        "Architectures": [wanted.architecture],
        "Role": f"arn:aws:iam::123456789012:role/{wanted.role_name}",
        "Environment": {"Variables": wanted.environment | urls | {"OTHER": "too"}},
        "State": "Active",
        "LastUpdateStatus": "Successful",
    }
    return FunctionFacts(
        configuration=Seen(value=configuration),
        alias=Seen(value={"FunctionVersion": "7"}),
        newest_version=Seen(value="7"),
        reserved=Seen(value=None),
    )


def clean() -> Facts:
    return Facts(topics={"t": topic_facts()}, subscriptions={name: subscription_facts(name) for name in ("f", "w")})


def found(facts: Facts, bound: Bindings | None = None, manifest: Manifest = MANIFEST) -> list[Finding]:
    return list(findings(manifest, bound or bindings(), facts, PLACE))


def codes(facts: Facts, bound: Bindings | None = None) -> set[tuple[str, str]]:
    return {(one.severity, one.code) for one in found(facts, bound)}


def edited(look: Seen[Any], **attributes: Any) -> Seen[Any]:
    return Seen(value={key: value for key, value in {**look.value, **attributes}.items() if value is not None})


def with_f(**parts: Any) -> Facts:
    facts = clean()
    changed = {name: part(getattr(facts.subscriptions["f"], name)) for name, part in parts.items()}
    return replace(facts, subscriptions=facts.subscriptions | {"f": replace(facts.subscriptions["f"], **changed)})


def with_function(**parts: Any) -> Facts:
    return with_f(function=lambda one: replace(one, **{name: part(getattr(one, name)) for name, part in parts.items()}))


def with_topic(**attributes: Any) -> Facts:
    facts = clean()
    topic = replace(facts.topics["t"], attributes=edited(facts.topics["t"].attributes, **attributes))
    return replace(facts, topics={"t": topic})


def test_what_is_as_the_manifest_says_has_no_finding() -> None:
    assert found(clean()) == []


def set_to(**attributes: Any) -> Any:
    return lambda look: edited(look, **attributes)


def to(value: Any) -> Any:
    return lambda _: value


F = {"FunctionVersion": "7"}


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (with_topic(FifoTopic=None), {("error", "topic.fifo")}),
        (with_topic(ContentBasedDeduplication="true"), {("error", "topic.content-deduplication")}),
        (with_topic(FifoThroughputScope="Topic"), {("warning", "topic.throughput-scope")}),
        (with_topic(Policy=None), {("error", "topic.policy")}),
        (with_topic(Policy="no json"), {("error", "topic.policy")}),
        (with_f(queue=set_to(FifoQueue="true")), {("error", "queue.fifo")}),
        (with_f(queue=set_to(VisibilityTimeout="100")), {("error", "queue.visibility")}),
        (with_f(queue=set_to(VisibilityTimeout="5000")), {("warning", "queue.visibility")}),
        (with_f(queue=set_to(ReceiveMessageWaitTimeSeconds="0")), {("warning", "queue.wait")}),
        (with_f(queue=set_to(SqsManagedSseEnabled="false")), {("error", "queue.encryption")}),
        (with_f(queue=set_to(KmsMasterKeyId="alias/aws/sqs")), {("error", "queue.key")}),
        (with_f(queue=set_to(RedrivePolicy=None)), {("error", "queue.redrive")}),
        (with_f(queue=set_to(RedrivePolicy="no json")), {("error", "queue.redrive")}),
        (with_f(delivery_failure_queue=set_to(RedrivePolicy='{"deadLetterTargetArn": "arn:x"}')),
         {("error", "delivery-failure-queue.redrive")}),
        (with_f(dead_letter_queue=set_to(RedriveAllowPolicy='{"redrivePermission": "denyAll"}')),
         {("error", "dead-letter-queue.redrive-allow")}),
        (with_f(dead_letter_queue=set_to(RedriveAllowPolicy=None)), {("warning", "dead-letter-queue.redrive-allow")}),
        (with_f(delivery=to(Missing())), {("error", "delivery.missing")}),
        (with_f(delivery=set_to(PendingConfirmation="true")), {("error", "delivery.pending")}),
        (with_f(delivery=set_to(RawMessageDelivery=None)), {("error", "delivery.raw")}),
        (with_f(delivery=set_to(FilterPolicy=None)), {("error", "delivery.filter")}),
        (with_f(delivery=set_to(FilterPolicyScope="MessageBody")), {("error", "delivery.filter-scope")}),
        (with_f(delivery=set_to(RedrivePolicy=None)), {("error", "delivery.redrive")}),
        (with_f(mappings=to(Seen(value=()))), {("error", "mapping.missing")}),
        (with_f(mappings=to(Seen(value=(mapping(), mapping(FunctionArn="arn:other"))))),
         {("error", "mapping.competes")}),
        (with_f(mappings=to(Seen(value=(mapping(State="Disabled"),)))), {("error", "mapping.state")}),
        (with_f(mappings=to(Seen(value=(mapping(FunctionResponseTypes=[]),)))), {("error", "mapping.responses")}),
        (with_f(mappings=to(Seen(value=(mapping(BatchSize=1),)))), {("warning", "mapping.batch-size")}),
        (with_f(mappings=to(Seen(value=(mapping(MaximumBatchingWindowInSeconds=9),)))),
         {("warning", "mapping.window")}),
        (with_f(mappings=to(Seen(value=(mapping(ScalingConfig=None),)))), {("warning", "mapping.concurrency")}),
        (with_f(mappings=to(Seen(value=(mapping(FilterCriteria={"Filters": [{"Pattern": "{}"}]}),)))),
         {("error", "mapping.filter")}),
        (with_f(mappings=to(Seen(value=(mapping(LastProcessingResult="PROBLEM: Function call failed"),)))),
         {("warning", "mapping.problem")}),
        (with_function(configuration=to(Missing())), {("error", "function.missing")}),
        (with_function(configuration=set_to(Timeout=1)), {("error", "function.timeout")}),
        (with_function(configuration=set_to(Timeout=800)),
         {("warning", "function.timeout"), ("error", "queue.visibility-below-timeout")}),
        (with_function(configuration=set_to(MemorySize=128)), {("error", "function.memory")}),
        (with_function(configuration=set_to(Handler="x.y")), {("error", "function.handler")}),
        (with_function(configuration=set_to(Runtime="python3.12")), {("error", "function.runtime")}),
        (with_function(configuration=set_to(Architectures=None)), {("error", "function.architecture")}),
        (with_function(configuration=set_to(Role="arn:aws:iam::1:role/other")), {("error", "function.role")}),
        (with_function(configuration=set_to(State="Failed", StateReason="gone")), {("error", "function.state")}),
        (with_function(configuration=set_to(Environment={"Variables": {}})), {("error", "function.environment")}),
        (with_function(configuration=set_to(Environment={"Error": {"Message": "no"}})), {("error", "function.unseen")}),
        (with_function(alias=to(Missing()), configuration=to(Missing())), {("error", "alias.missing")}),
        (with_function(alias=set_to(FunctionVersion="$LATEST")), {("error", "alias.unpublished")}),
        (with_function(alias=set_to(FunctionVersion="6")), {("warning", "alias.moved")}),
        (with_function(alias=set_to(RoutingConfig={"AdditionalVersionWeights": {"6": 0.1}})),
         {("warning", "alias.weights")}),
        (with_function(reserved=to(Seen(value=0))), {("error", "reserved.zero")}),
        (with_function(reserved=to(Seen(value=4))), {("warning", "reserved.low")}),
        (with_function(reserved=to(Seen(value=5))), set()),
    ],
)  # fmt: skip
def test_what_is_otherwise_is_found_and_nothing_else(facts: Facts, expected: set[tuple[str, str]]) -> None:
    assert codes(facts) == expected


@pytest.mark.parametrize(
    ("description", "ttl", "expected"),
    [
        ({"KeySchema": [{"AttributeName": "other", "KeyType": "HASH"}]}, {}, ("error", "table.key")),
        ({"BillingModeSummary": None}, {}, ("warning", "table.billing")),
        ({}, {"TimeToLiveStatus": "DISABLED"}, ("warning", "table.ttl")),
        ({}, {"AttributeName": "other"}, ("warning", "table.ttl")),
    ],
)
def test_a_table_of_keys_that_is_otherwise_is_found(
    description: dict[str, Any], ttl: dict[str, Any], expected: tuple[str, str]
) -> None:
    facts = clean()
    table = facts.topics["t"].table.value
    changed = Table(description={**table.description, **description}, ttl=edited(table.ttl, **ttl))
    topic = replace(facts.topics["t"], table=Seen(value=changed))
    assert codes(replace(facts, topics={"t": topic})) == {expected}


def test_a_worker_whose_queue_is_polled_by_a_function_is_told() -> None:
    facts = clean()
    worker = replace(facts.subscriptions["w"], mappings=Seen(value=({"UUID": "x", "FunctionArn": "arn:thief"},)))
    (one,) = found(replace(facts, subscriptions=facts.subscriptions | {"w": worker}))
    assert (one.code, one.what_should_be) == ("mapping.competes", "no such mapping")


def test_a_policy_may_be_written_in_any_of_iams_ways() -> None:
    wanted = json.loads(clean().topics["t"].attributes.value["Policy"])
    allow, deny = wanted["Statement"]
    other = [
        {**deny, "Sid": "Other", "Principal": "*", "Action": "SNS:Publish", "Resource": deny["Resource"][0],
         "Condition": {"Bool": {"AWS:SecureTransport": False}}},
        {**allow, "Principal": {"AWS": "123456789012"}},
    ]  # fmt: skip
    assert found(with_topic(Policy=json.dumps(wanted | {"Statement": other}))) == []


def test_a_stranger_in_a_policy_is_told_with_the_statement() -> None:
    wanted = json.loads(clean().topics["t"].attributes.value["Policy"])
    stranger = {"Sid": "Stranger", "Effect": "Allow", "Principal": "*", "Action": "sns:Publish", "Resource": "*"}
    (one,) = found(with_topic(Policy=json.dumps(wanted | {"Statement": [*wanted["Statement"], stranger]})))
    assert (one.severity, one.what_should_be) == ("error", "no such statement")
    assert "Stranger" in one.what_is


# --- What could not be looked at ---------------------------------------------------------------------------------


def test_what_is_denied_is_a_finding_and_everything_else_is_checked_all_the_same() -> None:
    facts = with_f(queue=to(DENIED), delivery=set_to(RawMessageDelivery="false"))
    assert codes(facts) == {("error", "queue.unseen"), ("error", "delivery.raw")}
    denied = next(one for one in found(facts) if one.code == "queue.unseen")
    assert denied.what_is == "could not look at the queue shop-prod-f: AccessDenied: no"
    assert denied.what_to_do.startswith("allow sqs:GetQueueAttributes to whoever checks")


def test_what_failed_for_another_reason_is_to_be_checked_again() -> None:
    facts = with_f(queue=to(Unseen(action="sqs:GetQueueAttributes", why="Throttling: slower", denied=False)))
    (one,) = found(facts)
    assert one.what_to_do.startswith("check again")


@pytest.mark.parametrize("part", ["configuration", "alias", "newest_version", "reserved"])
def test_each_look_at_a_function_may_be_denied(part: str) -> None:
    assert {severity for severity, code in codes(with_function(**{part: to(DENIED)}))} == {"error"}


def test_the_worst_comes_first() -> None:
    facts = with_f(queue=set_to(VisibilityTimeout="5000"), delivery=set_to(RawMessageDelivery="false"))
    severities = [one.severity for one in found(facts)]
    assert severities == sorted(severities, key=SEVERITIES.index)
    assert len(set(severities)) == 2


# --- Keys and bindings -------------------------------------------------------------------------------------------


def encrypted(state: str | None) -> Facts:
    facts = with_f(queue=set_to(KmsMasterKeyId="arn:key", SqsManagedSseEnabled="false"))
    return replace(facts, keys={} if state is None else {"arn:key": Seen(value={"KeyState": state})})


def test_a_key_that_cannot_be_used_is_told() -> None:
    assert codes(encrypted("Enabled")) == set()
    assert codes(encrypted("PendingDeletion")) == {("error", "key.state")}
    assert codes(replace(encrypted(None), keys={"arn:key": Missing()})) == {("error", "key.missing")}


def test_two_keys_in_one_deployment_are_told() -> None:
    facts = with_f(
        queue=set_to(KmsMasterKeyId="arn:one"),
        dead_letter_queue=set_to(KmsMasterKeyId="arn:two"),
    )
    assert codes(facts) == {("warning", "key.several")}


def test_names_without_a_binding_and_bindings_without_a_name_are_told() -> None:
    bound = bindings()
    stranger = Bindings(topics={"old": bound.topics["t"]}, subscriptions={"old": bound.subscriptions["f"]})
    told = {(one.severity, one.subject, one.code) for one in found(Facts(topics={}, subscriptions={}), stranger)}
    assert told == {
        ("error", "topic t", "bindings.unbound"),
        ("error", "subscription f", "bindings.unbound"),
        ("error", "subscription w", "bindings.unbound"),
        ("warning", "topic old", "bindings.unknown"),
        ("warning", "subscription old", "bindings.unknown"),
    }


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("queue_url", "https://sqs.eu-west-1.amazonaws.com/123456789012/other"),
        ("dead_letter_queue_url", "https://sqs.eu-west-1.amazonaws.com/123456789012/other"),
        ("queue_arn", "arn:aws:sqs:eu-west-1:123456789012:other"),
        ("function_arn", "arn:aws:lambda:eu-west-1:123456789012:function:shop-prod-f"),
        ("function_arn", None),
    ],
)
def test_bindings_of_something_else_are_told(key: str, value: Any) -> None:
    bound = bindings()
    changed = replace(bound.subscriptions["f"], **{key: value})
    facts = clean()
    told = codes(facts, replace(bound, subscriptions=bound.subscriptions | {"f": changed}))
    assert ("error", "bindings.bound-elsewhere") in told


def test_a_topic_bound_as_another_kind_is_told() -> None:
    bound = bindings()
    other = replace(bound, topics={"t": replace(bound.topics["t"], fifo=False)})
    assert codes(clean(), other) == {("error", "topic.bound-kind")}


def test_a_place_is_read_from_an_arn_with_region_and_account() -> None:
    assert place_of("arn:aws-cn:sqs:cn-north-1:123456789012:q") == Place(
        partition="aws-cn", region="cn-north-1", account="123456789012"
    )
    assert [place_of(text) for text in ("", "q", "arn:aws:s3:::bucket", "urn:aws:sqs:r:a:q")] == [None] * 4
    assert first_place(bindings()) == PLACE
    assert first_place(Bindings(topics={}, subscriptions={})) is None
