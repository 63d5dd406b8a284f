"""What the suite's moto does as AWS does, by the suite's own doing, and where moto's filters still part from it."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.fakes.filter_operators import OPERATORS, row, stored
from tests.servers.moto_aws import FILTERS_UNLIKE_AWS, MotoAws, moto_aws
from towpath.attributes import attribute_text, attribute_type
from towpath.filters import FilterPolicy


@pytest.fixture
def aws() -> Iterator[MotoAws]:
    with moto_aws() as made:
        yield made


def made_queue(aws: MotoAws, **attributes: str) -> str:
    url: str = aws.client("sqs").create_queue(QueueName="letters", Attributes=attributes)["QueueUrl"]
    return url


def test_of_many_receives_at_a_time_each_gets_another_message(aws: MotoAws) -> None:
    sqs, url, got = aws.client("sqs"), made_queue(aws), []
    for number in range(40):
        sqs.send_message(QueueUrl=url, MessageBody=str(number))

    def take() -> None:
        for _ in range(10):
            got.extend(message["Body"] for message in sqs.receive_message(QueueUrl=url).get("Messages", ()))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, got)) == list(range(40))


def test_a_poll_that_waits_keeps_nobody_else_waiting(aws: MotoAws) -> None:
    sqs, url = aws.client("sqs"), made_queue(aws)
    poll = threading.Thread(target=sqs.receive_message, kwargs={"QueueUrl": url, "WaitTimeSeconds": 20})
    poll.start()
    sqs.send_message(QueueUrl=url, MessageBody="x")
    poll.join(10)
    assert not poll.is_alive()


def test_time_that_is_moved_on_ends_what_hides_a_message(aws: MotoAws) -> None:
    sqs, url = aws.client("sqs"), made_queue(aws, VisibilityTimeout="600")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    for _ in range(2):
        assert len(sqs.receive_message(QueueUrl=url)["Messages"]) == 1
        aws.advance(590)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        aws.advance(11)


@pytest.mark.parametrize("operator", FILTERS_UNLIKE_AWS)
def test_a_filter_that_the_suite_leaves_out_is_not_yet_as_on_aws(aws: MotoAws, operator: str) -> None:
    policy = OPERATORS[operator][0]
    messages = [stored(attributes) for attributes in (*row(operator), {"k": ["png", "pdf"]})]
    on_aws = {n for n, attributes in enumerate(messages) if FilterPolicy.parse(policy).matches(attributes)}
    assert through(aws, policy, messages) != on_aws


def through(aws: MotoAws, policy: dict[str, Any], messages: list[dict[str, Any]]) -> set[int] | str:
    """The positions of the messages that come through, or what moto refuses."""
    sns, sqs, url = aws.client("sns"), aws.client("sqs"), made_queue(aws)
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topic = sns.create_topic(Name="letters")["TopicArn"]
    attributes = {"RawMessageDelivery": "true", "FilterPolicy": json.dumps(policy)}
    try:
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes=attributes)
        for position, given in enumerate(messages):
            sns.publish(TopicArn=topic, Message=str(position), MessageAttributes=as_sns(given))
    except ClientError as error:
        return str(error)
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", ())
    return {int(message["Body"]) for message in got}


def as_sns(attributes: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {n: {"DataType": attribute_type(v), "StringValue": attribute_text(v)} for n, v in attributes.items()}
