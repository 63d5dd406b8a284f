"""Functions over a fake SQS client, and the events and context that Lambda would call them with."""

import json
from pathlib import Path

from lambda_runtime.environment import Environment
from lambda_runtime.factory import function_for
from towpath.backoff import BackOff
from towpath.function_settings import FunctionSettings
from towpath.handler import inspected
from towpath.settlement import SubscriptionPolicy

EVENTS = Path(__file__).parents[1] / "events"
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/docs-test-documents-convert"
DEAD = QUEUE + "-dlq"


def event(name):
    return json.loads((EVENTS / name).read_text(encoding="utf-8"))


def record(n, body, *, receives=1, group=None):
    """A record as small as SQS makes one. ``body`` that is no text becomes JSON, which is a foreign message."""
    groups = {"MessageGroupId": group} if group is not None else {}
    return {
        "messageId": f"message-{n}",
        "receiptHandle": f"handle-{n}",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {"ApproximateReceiveCount": str(receives)} | groups,
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    }


def made(process, sqs, *, publish=None, fifo=False, concurrency=10, timeout_seconds=60, **policy):
    """What Lambda would call, made of ``process``."""
    known = {"subscription": "documents.convert", "topic": "documents.process", "handler": None}
    rules = SubscriptionPolicy(**known | {"backoff": BackOff(base_seconds=10, max_seconds=900)} | policy)
    settings = FunctionSettings(policy=rules, fifo=fifo, concurrency=concurrency, timeout_seconds=timeout_seconds)
    suffix = ".fifo" if fifo else ""
    environment = Environment(
        settings=settings, queue_url=QUEUE + suffix, dead_letter_queue_url=DEAD + suffix, endpoint=None
    )
    return function_for(environment, inspected(process), publish, lambda: sqs).handle


def failed(response):
    """The ids in a partial batch response, which has nothing else in it."""
    assert list(response) == ["batchItemFailures"]
    assert all(list(item) == ["itemIdentifier"] for item in response["batchItemFailures"])
    return [item["itemIdentifier"] for item in response["batchItemFailures"]]


class LambdaContext:
    """Lambda's context with so many milliseconds left: one number for each question, the last one from then on."""

    def __init__(self, *remaining):
        self._remaining = list(remaining)

    def get_remaining_time_in_millis(self):
        return self._remaining.pop(0) if len(self._remaining) > 1 else self._remaining[0]
