"""Bodies as they come: a sound envelope to change, and SNS's notification around whatever text."""

import json

MESSAGE_ID = "0190a5d2-0000-7000-8000-000000000000"
OTHER_ID = "0190a5d2-0000-7000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def envelope(**changes):
    """A sound envelope with ``changes``; a field that is ``...`` is left out."""
    record = {
        "schema": "towpath/1",
        "id": MESSAGE_ID,
        "topic": "documents.process",
        "correlation_id": "c-1",
        "published_at": "2026-01-31T08:15:00.123Z",
        "payload": {"a": 1},
    }
    return {name: value for name, value in (record | changes).items() if value is not ...}


def full_envelope():
    """A sound envelope in which every field is there."""
    return envelope(
        partition_key="tenant",
        attributes={"kind": "pdf", "n": 1, "tags": ["a"]},
        causation_id=OTHER_ID,
        traceparent=TRACE,
        deliver_after="2026-01-31T08:15:00Z",
        expires_at="2026-01-31T10:15:00.5+02:00",
    )


def notification(message, **attributes):
    """What SNS delivers without raw delivery; each attribute is its type and its value."""
    return json.dumps(
        {
            "Type": "Notification",
            "MessageId": "sns-id",
            "TopicArn": "arn:aws:sns:eu-west-1:123456789012:t",
            "Message": message,
            "MessageAttributes": {name: {"Type": kind, "Value": value} for name, (kind, value) in attributes.items()},
        }
    )
