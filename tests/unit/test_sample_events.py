"""The sample SQS events: digests as SQS computes them."""

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

ROOT = Path(__file__).parents[2]
EVENTS = [*sorted((ROOT / "tests/events").glob("*.json")), ROOT / "examples/quickstart/event.json"]


def sent(record: dict[str, Any]) -> dict[str, Any]:
    """How SQS, here moto, answers when the record's body and attributes are sent to it."""
    attributes = {
        name: {"DataType": attribute["dataType"], "StringValue": attribute["stringValue"]}
        for name, attribute in record["messageAttributes"].items()
    }
    with mock_aws():
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        sqs = boto3.client("sqs", "eu-west-1", endpoint_url="https://sqs.eu-west-1.amazonaws.com", **keys)
        url = sqs.create_queue(QueueName="any")["QueueUrl"]
        return sqs.send_message(QueueUrl=url, MessageBody=record["body"], MessageAttributes=attributes)


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.name)
def test_the_digests_of_a_sample_events_records_are_those_of_sqs(path: Path) -> None:
    for record in json.loads(path.read_text())["Records"]:
        answer = sent(record)
        stated = (record["md5OfBody"], record.get("md5OfMessageAttributes"))
        assert stated == (answer["MD5OfMessageBody"], answer.get("MD5OfMessageAttributes"))
