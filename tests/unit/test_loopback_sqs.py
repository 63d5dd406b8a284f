"""The stand-in for SQS that rehearsals use, called by boto3 itself."""

import boto3
import pytest
from botocore.exceptions import ClientError

from bundling.loopback_sqs import loopback_sqs

QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/orders"


@pytest.fixture
def sqs(monkeypatch):
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    with loopback_sqs() as served:
        client = boto3.client(
            "sqs",
            endpoint_url=served.endpoint,
            region_name="us-east-1",
            aws_access_key_id="rehearsal",
            aws_secret_access_key="rehearsal",
        )
        yield served, client
        client.close()


def test_a_changed_visibility_is_noted_by_receipt_handle(sqs):
    served, client = sqs
    entries = [{"Id": "0", "ReceiptHandle": "a#1", "VisibilityTimeout": 7}]
    answer = client.change_message_visibility_batch(QueueUrl=QUEUE, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["0"]
    assert served.hidden == {"a#1": 7}
    assert served.calls == {"ChangeMessageVisibilityBatch": 1}


def test_a_sent_message_is_kept_with_its_attributes_and_passes_boto3s_checksum(sqs):
    served, client = sqs
    note = {"DataType": "String", "StringValue": '{"reason": "no"}'}
    entries = [{"Id": "0", "MessageBody": "bödy", "MessageAttributes": {"towpath-dead-letter": note}}]
    answer = client.send_message_batch(QueueUrl=QUEUE, Entries=entries)
    assert len(answer["Successful"]) == 1
    (kept,) = served.sent[QUEUE]
    assert kept["MessageBody"] == "bödy"
    assert kept["MessageAttributes"]["towpath-dead-letter"]["StringValue"] == '{"reason": "no"}'


def test_what_a_function_has_no_business_with_is_refused(sqs):
    _, client = sqs
    with pytest.raises(ClientError, match="CreateQueue is not rehearsed"):
        client.create_queue(QueueName="orders")
