"""The sample SQS events: digests as SQS computes them, and the messages that a handler is given for them.

Their shapes are those of AWS's documentation: "Event message structure" (Amazon S3 user guide), "Event structure
reference" (Amazon EventBridge user guide), "Fanout to Amazon SQS queues" and "Message ordering" (Amazon SNS developer
guide), "Notification contents" (Amazon SES developer guide), and "Using Lambda with Amazon SQS".
"""

import base64
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambda_runtime.records import read_delivery
from towpath.envelope import decode
from towpath.message import Message, utc_now
from towpath.settlement import SubscriptionPolicy

ROOT = Path(__file__).parents[2]
EVENTS = [*sorted((ROOT / "tests/events").glob("*.json")), ROOT / "examples/quickstart/event.json"]
POLICY = SubscriptionPolicy(subscription="documents.convert", topic="documents.process", handler=None)


def records(name: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "tests/events" / name).read_text(encoding="utf-8"))["Records"]


# --- Digests ---------------------------------------------------------------------------------------------------


def given(attribute: dict[str, Any]) -> dict[str, Any]:
    """An attribute of a record as SendMessage takes it."""
    if "binaryValue" in attribute:
        return {"DataType": attribute["dataType"], "BinaryValue": base64.b64decode(attribute["binaryValue"])}
    return {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}


def sent(record: dict[str, Any]) -> dict[str, Any]:
    """How SQS, here moto, answers when the record's body and attributes are sent to it."""
    attributes = {name: given(attribute) for name, attribute in record["messageAttributes"].items()}
    with mock_aws():
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        sqs = boto3.client("sqs", "eu-west-1", endpoint_url="https://sqs.eu-west-1.amazonaws.com", **keys)
        url = sqs.create_queue(QueueName="any")["QueueUrl"]
        return sqs.send_message(QueueUrl=url, MessageBody=record["body"], MessageAttributes=attributes)


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.name)
def test_the_digests_of_a_sample_events_records_are_those_of_sqs(path: Path) -> None:
    for record in json.loads(path.read_text(encoding="utf-8"))["Records"]:
        answer = sent(record)
        stated = (record["md5OfBody"], record.get("md5OfMessageAttributes"))
        assert stated == (answer["MD5OfMessageBody"], answer.get("MD5OfMessageAttributes"))


# --- What a handler is given -----------------------------------------------------------------------------------


def received(record: dict[str, Any]) -> Message:
    """The message as a handler on Lambda would be given it."""
    delivery = read_delivery(record, POLICY, utc_now())
    assert delivery is not None
    return decode(delivery.body, delivery)


@pytest.mark.parametrize("name", ["sqs_standard.json", "sqs_fifo.json"])
def test_an_envelope_is_read_as_it_was_written(name: str) -> None:
    for record in records(name):
        envelope, message = json.loads(record["body"]), received(record)
        assert (message.id, message.payload, message.topic) == (envelope["id"], envelope["payload"], envelope["topic"])
        assert set(message.attributes) == set(envelope.get("attributes", {}))


def test_an_envelope_in_a_notification_is_read_as_it_was_written() -> None:
    wrapped, foreign = records("sqs_sns_wrapped.json")
    envelope = json.loads(json.loads(wrapped["body"])["Message"])
    assert (received(wrapped).id, received(wrapped).payload) == (envelope["id"], envelope["payload"])
    assert received(foreign).id == foreign["messageId"]


FOREIGN = [
    ("sqs_s3_notification.json", 0),
    ("sqs_s3_test_event.json", 0),
    ("sqs_eventbridge.json", 0),
    ("sqs_eventbridge.json", 1),
    ("sqs_eventbridge.json", 2),
    ("sqs_attributes.json", 0),
]


@pytest.mark.parametrize(("name", "index"), FOREIGN)
def test_what_aws_sends_straight_to_a_queue_is_the_payload_exactly_as_it_stands(name: str, index: int) -> None:
    record = records(name)[index]
    message = received(record)
    assert message.payload == json.loads(record["body"])
    assert (message.id, message.correlation_id) == (record["messageId"], record["messageId"])
    assert message.topic == "documents.process"


@pytest.mark.parametrize(
    "name", ["sqs_sns_attributes.json", "sqs_sns_s3.json", "sqs_sns_ses.json", "sqs_sns_fifo.json"]
)
def test_what_aws_sends_through_sns_is_the_payload_without_the_notification_around_it(name: str) -> None:
    (record,) = records(name)
    message = received(record)
    assert message.payload == json.loads(json.loads(record["body"])["Message"])
    assert (message.id, message.correlation_id) == (record["messageId"], record["messageId"])


def test_an_object_that_s3_created_is_found_where_s3_documents_it() -> None:
    for name in ("sqs_s3_notification.json", "sqs_sns_s3.json"):
        (event,) = received(records(name)[0]).payload["Records"]
        assert (event["eventSource"], event["s3"]["bucket"]["name"]) == ("aws:s3", "acme-inbox")
        assert event["eventName"].startswith("ObjectCreated:")


def test_the_message_with_which_s3_tries_a_queue_out_is_a_message_too() -> None:
    (record,) = records("sqs_s3_test_event.json")
    assert received(record).payload["Event"] == "s3:TestEvent"


def test_an_event_that_looks_a_little_like_an_envelope_is_none() -> None:
    scheduled, custom, created = (received(record).payload for record in records("sqs_eventbridge.json"))
    assert (scheduled["detail-type"], scheduled["detail"]) == ("Scheduled Event", {})
    assert custom["detail"] == {
        "schema": "document/3",
        "id": "D-17",
        "payload": {"pages": 4, "confidence": 0.75},
        "title": "Überweisung",
    }
    assert created["detail"]["object"]["key"] == "2026/01/Überweisung.pdf"


def test_attributes_of_every_type_are_kept_in_a_notification() -> None:
    (record,) = records("sqs_sns_attributes.json")
    assert received(record).attributes == {
        "kind": "pdf",
        "pages": 12,
        "ratio": -0.5,
        "tags": ("inbox", "acme"),
        "thumb": "iVBORw0KGgo=",
    }


def test_attributes_of_every_type_but_bytes_are_kept_from_sqs() -> None:
    (record,) = records("sqs_attributes.json")
    assert received(record).attributes == {"kind": "pdf", "pages": 12, "weight": 1.5, "tags": ("inbox", "acme")}


def test_a_notification_of_a_fifo_topic_is_unwrapped_and_keeps_its_group() -> None:
    (record,) = records("sqs_sns_fifo.json")
    assert "SequenceNumber" in json.loads(record["body"])
    delivery = read_delivery(record, POLICY, utc_now())
    assert delivery is not None
    assert delivery.group_id == "tenant-acme"
    assert received(record).payload == {"message": "hello", "number": 1}


def test_what_was_redriven_from_a_dead_letter_queue_is_read_as_it_was_sent() -> None:
    text, envelope = records("sqs_redriven.json")
    assert all("DeadLetterQueueSourceArn" in record["attributes"] for record in (text, envelope))
    assert received(text).payload == "hello world"
    assert received(text).id == text["messageId"]
    assert received(envelope).id == json.loads(envelope["body"])["id"] != envelope["messageId"]
