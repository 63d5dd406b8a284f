"""Functions over a fake SQS client, and the events and context that Lambda would call them with."""

import json
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FunctionType

from lambda_runtime.environment import Environment
from lambda_runtime.factory import Extras, function_for
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


def function(process, sqs, *, fifo=False, concurrency=10, timeout_seconds=60, extras=None, **policy):
    """The function made of ``process``. ``policy`` may also have what ``sqs_handler`` takes."""
    known = {"subscription": "documents.convert", "topic": "documents.process", "handler": None}
    rules = SubscriptionPolicy(**known | {"backoff": BackOff(base_seconds=10, max_seconds=900)} | policy)
    settings = FunctionSettings(policy=rules, fifo=fifo, concurrency=concurrency, timeout_seconds=timeout_seconds)
    suffix = ".fifo" if fifo else ""
    environment = Environment(
        settings=settings, queue_url=QUEUE + suffix, dead_letter_queue_url=DEAD + suffix, endpoint=None
    )
    client = sqs if isinstance(sqs, FunctionType) else lambda: sqs
    return function_for(environment, inspected(process), Extras(**extras or {}), client)


def made(process, sqs, *, publish=None, **options):
    """What Lambda would call, made of ``process``."""
    return function(process, sqs, extras={"publish": publish}, **options).handle


class Timed:
    """A function whose clock and watch are the test's: ``pass_by`` moves time on and has done what is due by then."""

    def __init__(self, process, sqs, **options):
        self.now = 0.0
        self.ended_with = []
        self.end_process = self.ended_with.append
        self.watched = None
        extras = options.pop("extras", {}) | {"end_process": self._end}
        real = function(process, sqs, extras=extras, **options)
        equipment = replace(real.equipment, seconds=lambda: self.now, watch=self)
        self.handle = replace(real, equipment=equipment).handle

    def _end(self, code):
        self.end_process(code)

    def begin(self, watched):
        assert self.watched is None
        self.watched = watched

    def end(self, watched):
        assert self.watched is watched
        self.watched = None

    def pass_by(self, seconds):
        self.now += seconds
        while self.watched is not None and self.watched.due_at() <= self.now:
            self.watched.act(self.now)


def failed(response):
    """The ids in a partial batch response, which has nothing else in it."""
    assert list(response) == ["batchItemFailures"]
    assert all(list(item) == ["itemIdentifier"] for item in response["batchItemFailures"])
    return [item["itemIdentifier"] for item in response["batchItemFailures"]]


class LambdaContext:
    """Lambda's context with so many milliseconds left."""

    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"

    def __init__(self, remaining):
        self._remaining = remaining

    def get_remaining_time_in_millis(self):
        return self._remaining


@contextmanager
def no_more_threads():
    """No thread can be started meanwhile, as when the environment has all that Lambda allows: none gets so large a
    stack.
    """
    usual = threading.stack_size(2**47)
    try:
        yield
    finally:
        threading.stack_size(usual)
