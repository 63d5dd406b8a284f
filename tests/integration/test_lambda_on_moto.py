"""A function over boto3's real client, made at its first use, on moto in this process."""

import base64
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from moto import mock_aws

from aws_transport.dead_letter import NOTE_ATTRIBUTE, read_note
from aws_transport.settlement import ClientOnFirstUse
from lambda_runtime.environment import Environment
from lambda_runtime.factory import Extras, function_for
from tests.fakes.lambdas import failed
from towpath import FatalError, Retry
from towpath.function_settings import FunctionSettings
from towpath.handler import inspected
from towpath.settlement import SubscriptionPolicy


@pytest.fixture
def sqs(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.client("sqs")


def as_lambda_hands_over(message):
    """What Lambda's poller makes of a message that it received."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message["Attributes"],
        "messageAttributes": {
            name: {"dataType": a["DataType"], "stringListValues": [], "binaryListValues": []}
            | ({"stringValue": a["StringValue"]} if "StringValue" in a else {})
            | ({"binaryValue": base64.b64encode(a["BinaryValue"]).decode()} if "BinaryValue" in a else {})
            for name, a in message.get("MessageAttributes", {}).items()
        },
        "eventSource": "aws:sqs",
    }


def received(sqs, url):
    answer = sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"]
    )
    return answer.get("Messages", [])


def process(message, context):
    if message.payload == "dead":
        raise FatalError("it never will")
    return Retry("not yet", after=0) if message.payload == "again" and context.attempt == 1 else None


def made(url, dead, *, fifo):
    """What Lambda calls, made of ``process``."""
    policy = SubscriptionPolicy(subscription="documents.convert", topic="documents.process", handler=None)
    environment = Environment(
        settings=FunctionSettings(policy=policy, fifo=fifo, concurrency=3, timeout_seconds=60),
        queue_url=url,
        dead_letter_queue_url=dead,
        endpoint=None,
    )
    client = ClientOnFirstUse(None, connections=3)
    return function_for(environment, inspected(process), Extras(), client).handle


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_an_event_from_a_real_queue_is_settled_as_its_handler_says(sqs, suffix):
    kind = {"FifoQueue": "true"} if suffix else {}
    url, dead = (sqs.create_queue(QueueName=name + suffix, Attributes=kind)["QueueUrl"] for name in ("in", "in-dlq"))
    for body in ("done", "again", "dead"):
        ids = {"MessageGroupId": body, "MessageDeduplicationId": body} if suffix else {}
        sqs.send_message(
            QueueUrl=url,
            MessageBody=f'"{body}"',
            MessageAttributes={"raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"}},
            **ids,
        )
    handle = made(url, dead, fifo=bool(suffix))

    first = received(sqs, url)
    assert sorted(m["Body"] for m in first) == ['"again"', '"dead"', '"done"']
    reported = failed(handle({"Records": [as_lambda_hands_over(m) for m in first]}, None))
    (again,) = [m for m in first if m["MessageId"] in reported]
    assert again["Body"] == '"again"'

    second = received(sqs, url)  # nothing but the retry came back; moto deletes no other, since Lambda would
    assert [(m["Body"], m["Attributes"]["ApproximateReceiveCount"]) for m in second] == [('"again"', "2")]
    assert failed(handle({"Records": [as_lambda_hands_over(m) for m in second]}, None)) == []

    (copy,) = received(sqs, dead)
    note = read_note(copy["MessageAttributes"][NOTE_ATTRIBUTE]["StringValue"])
    assert (copy["Body"], note.reason, note.source_queue) == ('"dead"', "it never will", f"in{suffix}")
    assert copy["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\x01"


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_of_what_somebody_else_has_completed_a_late_function_leaves_no_copy(sqs, suffix):
    kind = {"FifoQueue": "true"} if suffix else {}
    url, dead = (sqs.create_queue(QueueName=name + suffix, Attributes=kind)["QueueUrl"] for name in ("in", "in-dlq"))
    ids = {"MessageGroupId": "a", "MessageDeduplicationId": "a"} if suffix else {}
    sqs.send_message(QueueUrl=url, MessageBody='"dead"', **ids)
    (message,) = received(sqs, url)
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    handle = made(url, dead, fifo=bool(suffix))
    assert failed(handle({"Records": [as_lambda_hands_over(message)]}, None)) == [message["MessageId"]]
    assert received(sqs, dead) == []


def test_all_threads_get_the_one_client(sqs):
    client = ClientOnFirstUse("http://127.0.0.1:9", connections=4)
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: client(), range(16)))
    assert all(other is clients[0] for other in clients)
    assert clients[0].meta.endpoint_url == "http://127.0.0.1:9"
    assert clients[0].meta.config.max_pool_connections == 4
