"""Settling through boto3's real calls, on moto in this process."""

from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from aws_transport.dead_letter import NOTE_ATTRIBUTE, read_note
from aws_transport.settlement import SqsAttribute, SqsDelivery, SqsSettler
from towpath.settlement import Completion, DeadLettering, Failed, Failure, LeaseLost, Release, Retrial, Settled

REGION = "eu-west-1"


@pytest.fixture
def sqs(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.client("sqs", region_name=REGION)


def queues(sqs, *, fifo=False):
    suffix, attributes = (".fifo", {"FifoQueue": "true"}) if fifo else ("", {})
    return [sqs.create_queue(QueueName=f"{n}{suffix}", Attributes=attributes)["QueueUrl"] for n in ("in", "in-dlq")]


def settler(sqs, urls):
    return SqsSettler(client=lambda: sqs, queue_url=urls[0], dead_letter_queue_url=urls[1])


def received(sqs, url, limit=10):
    messages = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=limit, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"]
    ).get("Messages", [])
    return sorted(messages, key=lambda m: m["Body"])


def delivery(message, **changes):
    known = {
        "id": message["MessageId"],
        "message_id": message["MessageId"],
        "subscription": "documents.convert",
        "topic": "documents.process",
        "attempt": int(message["Attributes"]["ApproximateReceiveCount"]),
        "body": message["Body"],
        "lease_token": message["ReceiptHandle"],
        "received_at": datetime.now(UTC),
        "group_id": message["Attributes"].get("MessageGroupId"),
    }
    return SqsDelivery(**known | changes)


def counts(sqs, url):
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return [int(attributes[name]) for name in names]


def test_completed_messages_are_gone_and_a_second_settle_has_lost_the_lease(sqs):
    urls = queues(sqs)
    for n in range(12):
        sqs.send_message(QueueUrl=urls[0], MessageBody=f"{n:02}")
    deliveries = [delivery(m) for m in received(sqs, urls[0]) + received(sqs, urls[0])]
    answers = settler(sqs, urls).complete([Completion(delivery=d) for d in deliveries])
    assert answers == [Settled(state="completed")] * 12
    assert counts(sqs, urls[0]) == [0, 0]
    assert settler(sqs, urls).release([Release(delivery=deliveries[0])]) == [LeaseLost()]


def test_a_retry_stays_hidden_and_a_release_comes_again_at_once_with_the_next_attempt(sqs):
    urls = queues(sqs)
    for body in ("again", "given back"):
        sqs.send_message(QueueUrl=urls[0], MessageBody=body)
    again, given_back = (delivery(m) for m in received(sqs, urls[0]))
    failure = Failure(type="ValueError", message="not yet")
    retrial = Retrial(delivery=again, delay=timedelta(seconds=30), failure=failure)
    assert settler(sqs, urls).retry([retrial]) == [Settled(state="pending")]
    assert settler(sqs, urls).release([Release(delivery=given_back)]) == [Settled(state="pending")]
    (message,) = received(sqs, urls[0])
    assert (message["Body"], message["Attributes"]["ApproximateReceiveCount"]) == ("given back", "2")


@pytest.mark.parametrize("fifo", [False, True])
def test_a_dead_letter_is_found_on_the_dead_letter_queue_with_its_note(sqs, fifo):
    urls = queues(sqs, fifo=fifo)
    ids = {"MessageGroupId": "tenant-a", "MessageDeduplicationId": "1"} if fifo else {}
    attributes = {"thumb": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}
    sqs.send_message(QueueUrl=urls[0], MessageBody="foreign", MessageAttributes=attributes, **ids)
    carried = {"thumb": SqsAttribute(data_type="Binary", value=b"\x00\xff")}
    (message,) = received(sqs, urls[0])
    letter = DeadLettering(
        delivery=delivery(message, sqs_attributes=carried),
        reason="gone wrong",
        failure=Failure(type="FatalError", message="日本語 \x00 \ud800 <&>"),
    )
    assert settler(sqs, urls).dead_letter([letter]) == [Settled(state="dead")]
    assert counts(sqs, urls[0]) == [0, 0]
    (copy,) = received(sqs, urls[1])
    note = read_note(copy["MessageAttributes"][NOTE_ATTRIBUTE]["StringValue"])
    assert (copy["Body"], note.reason, note.attempts) == ("foreign", "gone wrong", 1)
    assert note.error == "FatalError: 日本語 \x00 \ufffd <&>"
    assert note.source_queue == urls[0].rpartition("/")[2]
    assert copy["MessageAttributes"]["thumb"]["BinaryValue"] == b"\x00\xff"
    assert copy["Attributes"].get("MessageGroupId") == ("tenant-a" if fifo else None)


def test_a_dead_letter_stays_on_its_queue_when_there_is_no_dead_letter_queue(sqs):
    urls = queues(sqs)
    sqs.send_message(QueueUrl=urls[0], MessageBody="x")
    letter = DeadLettering(delivery=delivery(received(sqs, urls[0])[0]), reason="gone wrong")
    (answer,) = settler(sqs, [urls[0], urls[0] + "-missing"]).dead_letter([letter])
    assert isinstance(answer, Failed)
    assert "NonExistentQueue" in answer.error
    assert counts(sqs, urls[0]) == [0, 1]
