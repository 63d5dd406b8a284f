"""Towpath's filters and SNS's agree, on LocalStack: drawn policies and attributes, and each known difference.

``TOWPATH_AGREEMENT_PAIRS`` says how many pairs of a policy and a message are compared at least (``make agreement``:
1,000), ``TOWPATH_AGREEMENT_SEED`` which ones. Where LocalStack and AWS's documentation differ, Towpath follows AWS;
each such case stands in ``tests/fakes/sns_on_localstack.py`` and in ``docs/reference/filters.md``, and a test fails
once it is none any more.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.filter_table import Drawing
from tests.fakes.sns_on_localstack import (
    DIFFERENCES,
    REFUSED_BY_LOCALSTACK,
    TAKEN_BY_LOCALSTACK,
    Attributes,
    known_to_differ,
)
from tests.servers.localstack import FILTERS_UNLIKE_AWS, Aws
from towpath.attributes import attribute_text, attribute_type
from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy

PAIRS = int(os.environ.get("TOWPATH_AGREEMENT_PAIRS", "200"))
SEED = int(os.environ.get("TOWPATH_AGREEMENT_SEED", "20251"))
MESSAGES = 20
PATIENCE = 60  # seconds for what must come, on a busy machine

REFUSED_BY_BOTH = {
    "no list": {"k": "x"},
    "an empty list": {"k": []},
    "a list in a list": {"k": [["x"]]},
    "a nested policy": {"k": {"inner": ["x"]}},
    "an unknown operator": {"k": [{"regex": "x"}]},
    "two operators": {"k": [{"prefix": "x", "suffix": "y"}]},
    "a prefix that is no text": {"k": [{"prefix": 1}]},
    "a suffix that is no text": {"k": [{"suffix": ["x"]}]},
    "exists that is neither": {"k": [{"exists": "yes"}]},
    "anything-but exists": {"k": [{"anything-but": {"exists": False}}]},
    "anything-but equals-ignore-case": {"k": [{"anything-but": {"equals-ignore-case": "x"}}]},
    "numeric without operands": {"k": [{"numeric": []}]},
    "numeric with text": {"k": [{"numeric": ["=", "1"]}]},
    "an unknown comparison": {"k": [{"numeric": ["==", 1]}]},
    "an upper bound first": {"k": [{"numeric": ["<", 100, ">", 10]}]},
    "an empty range": {"k": [{"numeric": [">", 3, "<", 1]}]},
    "a range of three": {"k": [{"numeric": [">", 20, "<", 30, "<", 50]}]},
    "no network": {"k": [{"cidr": "10.0.0.0"}]},
    "an address with bits below its mask": {"k": [{"cidr": "10.0.0.1/24"}]},
    "six keys": {f"k{i}": ["x"] for i in range(6)},
    "151 combinations": {"k": ["x"] * 151},
    "152 combinations with an or": {
        "a": ["x"] * 4,
        "$or": [{"b": ["x"] * 6}, {"c": ["x"] * 4, "$or": [{"d": ["x"] * 4}, {"e": ["x"] * 4}]}],
    },
}


# --- What is compared ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Table:
    """Policies, messages, and by position which message each policy let through on LocalStack."""

    policies: list[dict[str, Any]]
    messages: list[Attributes]
    delivered: list[set[int]]


def drawn(pairs: int, seed: int) -> tuple[list[dict[str, Any]], list[Attributes], int]:
    """So many policies that at least ``pairs`` of one and a message are of no known difference."""
    drawing = Drawing(seed)
    messages = [drawing.attributes() for _ in range(MESSAGES)]
    policies: list[dict[str, Any]] = []
    comparable = 0
    while comparable < pairs:
        policies.append(drawing.policy())
        comparable += sum(not known_to_differ(policies[-1], attributes) for attributes in messages)
    return policies, messages, comparable


@pytest.fixture(scope="module")
def table(aws: Aws) -> Iterator[Table]:
    """The drawn table and the examples of all differences, deployed once: a queue for each policy, one topic."""
    policies, messages, _ = drawn(PAIRS, SEED)
    policies += [difference.example[0] for difference in DIFFERENCES.values()]
    messages += [difference.example[1] for difference in DIFFERENCES.values()]
    with ExitStack() as undo:
        sns, sqs = aws.client("sns"), aws.client("sqs")
        name = f"agreement-{os.getpid()}"
        topic = sns.create_topic(Name=name)["TopicArn"]
        undo.callback(sns.delete_topic, TopicArn=topic)
        queues = []
        for position, policy in enumerate([*policies, None]):  # the last gets everything, after all others
            queues.append(sqs.create_queue(QueueName=f"{name}-{position}")["QueueUrl"])
            undo.callback(sqs.delete_queue, QueueUrl=queues[-1])
            subscribe(sns, topic, arn_of(sqs, queues[-1]), policy)
        publish(sns, topic, messages)
        expected = [
            {n for n, m in enumerate(messages) if policy.matches(m) and not known_to_differ(policy.keys, m)}
            for policy in map(FilterPolicy.parse, policies)
        ]
        everything = set(range(len(messages)))
        delivered = received(sqs, queues, [*expected, everything])
        yield Table(policies=policies, messages=messages, delivered=delivered[:-1])


def arn_of(sqs: Any, url: str) -> str:
    return str(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"])


def subscribe(sns: Any, topic: str, queue: str, policy: dict[str, Any] | None) -> str:
    attributes = {"RawMessageDelivery": "true"}
    if policy is not None:
        attributes |= {"FilterPolicy": FilterPolicy.parse(policy).to_json(), "FilterPolicyScope": "MessageAttributes"}
    made = sns.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint=queue, Attributes=attributes, ReturnSubscriptionArn=True
    )
    return str(made["SubscriptionArn"])


def publish(sns: Any, topic: str, messages: list[Attributes]) -> None:
    entries = [{"Id": str(n), "Message": str(n), "MessageAttributes": carried(m)} for n, m in enumerate(messages)]
    for start in range(0, len(entries), 10):
        answer = sns.publish_batch(TopicArn=topic, PublishBatchRequestEntries=entries[start : start + 10])
        assert answer.get("Failed", []) == []


def carried(attributes: Attributes) -> dict[str, Any]:
    return {k: {"DataType": attribute_type(v), "StringValue": attribute_text(v)} for k, v in attributes.items()}


def received(sqs: Any, queues: list[str], expected: list[set[int]]) -> list[set[int]]:
    """What each queue got, once each has got what is expected; then one more look, at what is not.

    LocalStack delivers a topic's messages one after another, the last queue's last, so that look finds all.
    """
    got: list[set[int]] = [set() for _ in queues]
    deadline = time.monotonic() + PATIENCE
    complete = False
    while not complete and time.monotonic() < deadline:
        complete = all(wanted <= found for wanted, found in zip(expected, got, strict=True))
        for url, found in zip(queues, got, strict=True):
            empty_into(sqs, url, found)
    return got


def empty_into(sqs: Any, url: str, found: set[int]) -> None:
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=0).get("Messages", []):
        found |= {int(message["Body"]) for message in messages}
        entries = [{"Id": str(n), "ReceiptHandle": m["ReceiptHandle"]} for n, m in enumerate(messages)]
        sqs.delete_message_batch(QueueUrl=url, Entries=entries)


def test_the_table_is_large_and_of_both_answers():
    policies, messages, comparable = drawn(PAIRS, SEED)
    assert comparable >= PAIRS
    compiled = [FilterPolicy.parse(policy) for policy in policies]
    passing = sum(policy.matches(m) and not known_to_differ(policy.keys, m) for policy in compiled for m in messages)
    assert comparable / 10 < passing < comparable * 9 / 10


def test_towpath_and_sns_let_the_same_messages_through(table):
    compared, disagreements = 0, []
    for policy, delivered in zip(table.policies, table.delivered, strict=True):
        compiled = FilterPolicy.parse(policy)
        for number, attributes in enumerate(table.messages):
            if attributes and not known_to_differ(policy, attributes):
                compared += 1
                if compiled.matches(attributes) is not (number in delivered):
                    disagreements.append((policy, attributes, f"SNS delivers: {number in delivered}"))
    assert disagreements == [], f"seed {SEED}"
    assert compared >= PAIRS


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_between_localstack_and_aws_is_still_there(table, name):
    """Once LocalStack does as AWS's documentation says, the difference has to go from the tables."""
    difference = DIFFERENCES[name]
    policy, attributes = difference.example
    from_the_end = len(DIFFERENCES) - list(DIFFERENCES).index(name)
    number, delivered = len(table.messages) - from_the_end, table.delivered[-from_the_end]
    assert FilterPolicy.parse(policy).matches(attributes) is difference.towpath_delivers
    assert (number in delivered) is not difference.towpath_delivers
    assert known_to_differ(policy, attributes) or attributes == {}


def test_what_other_tests_leave_out_on_localstack_stands_in_these_tables():
    assert FILTERS_UNLIKE_AWS.keys() <= DIFFERENCES.keys() | REFUSED_BY_LOCALSTACK.keys()


@pytest.fixture(scope="module")
def try_policy(aws: Aws) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Give one subscription on LocalStack this filter policy, as written. Raises ``ClientError`` when it is refused."""
    sns, sqs = aws.client("sns"), aws.client("sqs")
    topic = sns.create_topic(Name=f"refusals-{os.getpid()}")["TopicArn"]
    url = sqs.create_queue(QueueName=f"refusals-{os.getpid()}")["QueueUrl"]
    arn = subscribe(sns, topic, arn_of(sqs, url), None)

    def set_policy(policy: dict[str, Any]) -> None:
        sns.set_subscription_attributes(
            SubscriptionArn=arn, AttributeName="FilterPolicy", AttributeValue=json.dumps(policy)
        )

    yield set_policy
    sns.delete_topic(TopicArn=topic)
    sqs.delete_queue(QueueUrl=url)


@pytest.mark.parametrize("name", REFUSED_BY_LOCALSTACK)
def test_localstack_still_refuses_a_policy_that_aws_documents(try_policy, name):
    FilterPolicy.parse(REFUSED_BY_LOCALSTACK[name])
    with pytest.raises(ClientError, match="InvalidParameter"):
        try_policy(REFUSED_BY_LOCALSTACK[name])


@pytest.mark.parametrize("name", TAKEN_BY_LOCALSTACK)
def test_localstack_still_takes_a_policy_that_aws_refuses_or_reads_otherwise(try_policy, name):
    with pytest.raises(InvalidFilter):
        FilterPolicy.parse(TAKEN_BY_LOCALSTACK[name])
    try_policy(TAKEN_BY_LOCALSTACK[name])


@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_what_sns_refuses_towpath_refuses(try_policy, name):
    with pytest.raises(InvalidFilter):
        FilterPolicy.parse(REFUSED_BY_BOTH[name])
    with pytest.raises(ClientError, match="InvalidParameter"):
        try_policy(REFUSED_BY_BOTH[name])
