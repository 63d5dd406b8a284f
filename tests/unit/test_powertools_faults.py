"""What goes wrong with Powertools' own batch processors, each shown with them and then with ours, on one event."""

import asyncio
import json
import threading

import pytest
from aws_lambda_powertools.utilities.batch import (
    AsyncBatchProcessor,
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    async_process_partial_response,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError, UnexpectedBatchTypeError
from aws_lambda_powertools.utilities.parser.models import SqsRecordModel
from pydantic import BaseModel, Json, ValidationError

from lambda_runtime.local import LocalClock, LocalMapping, LocalQueue, MappingSettings, Sent
from tests.fakes.lambdas import LambdaContext, failed, made, record
from tests.fakes.sqs import FakeSqs
from towpath import Context, Message
from towpath.testing import local_lambda

WAIT = 10  # seconds: how long a test waits for another thread before it fails


class Order(BaseModel):
    number: int


class OrderRecord(SqsRecordModel):
    body: Json[Order]


def whole(n, body, group):
    """A record with everything that Powertools' model wants."""
    system = {"SentTimestamp": "1", "SenderId": "x", "ApproximateFirstReceiveTimestamp": "1"}
    sent = record(n, body, group=group)
    rest = {"md5OfBody": "x", "eventSourceARN": "arn:aws:sqs:eu-west-1:123456789012:in.fifo", "awsRegion": "eu-west-1"}
    return sent | rest | {"attributes": sent["attributes"] | system}


def test_powertools_fails_a_whole_fifo_batch_for_an_invalid_record_behind_a_failed_one_and_ours_does_not():
    events = {
        "Records": [whole(1, {"number": 1}, "a"), whole(2, {"number": 2}, "a"), whole(3, {"number": "many"}, "a")]
    }

    def record_handler(record):
        if record.body.number == 2:
            raise ValueError("no")

    with pytest.raises(ValidationError):  # the whole batch comes again, the first record with it
        process_partial_response(events, record_handler, SqsFifoPartialProcessor(model=OrderRecord))

    def process(message: Message[Order], context: Context):
        if message.payload.number == 2:
            raise ValueError("no")

    assert failed(made(process, FakeSqs(), fifo=True)(events, None)) == ["message-2", "message-3"]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_powertools_deletes_the_messages_of_an_async_handler_that_never_ran_and_ours_runs_it():
    ran = []

    async def record_handler(record):
        ran.append(record["messageId"])

    def plain(event, context):
        return process_partial_response(event, record_handler, BatchProcessor(EventType.SQS), context)

    clock = LocalClock()
    queue = LocalQueue(clock)
    queue.send(Sent(body="1"))
    LocalMapping(queue, plain, MappingSettings(), clock).run()
    assert (ran, queue.messages) == ([], [])  # gone, and nobody was told

    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        ran.append(message.payload)

    function = local_lambda(process)
    function.send_body("1")
    function.run()
    assert (ran, function.waiting) == ([1], 0)


@pytest.mark.parametrize("processor", [lambda: BatchProcessor(EventType.SQS), SqsFifoPartialProcessor])
def test_powertools_raises_where_all_of_a_batch_fail_and_ours_answers_item_by_item(processor):
    def fails(*_):
        raise ValueError("no")

    events = {"Records": [record(n, n, group="a") for n in range(2)]}
    with pytest.raises(BatchProcessingError):
        process_partial_response(events, lambda record: fails(), processor())
    assert failed(made(fails, FakeSqs(), fifo=True)(events, None)) == ["message-0", "message-1"]


def test_powertools_raises_for_an_event_without_records_and_ours_answers_it():
    with pytest.raises(UnexpectedBatchTypeError):
        process_partial_response({"Records": []}, lambda record: None, BatchProcessor(EventType.SQS))
    assert made(lambda message, context: None, FakeSqs())({"Records": []}, None) == {"batchItemFailures": []}


def test_powertools_lets_an_exit_take_the_batch_along_and_with_ours_it_is_one_failed_attempt():
    def record_handler(record):
        if record["messageId"] == "message-1":
            raise SystemExit(1)

    events = {"Records": [record(n, n) for n in range(3)]}
    with pytest.raises(SystemExit):
        process_partial_response(events, record_handler, BatchProcessor(EventType.SQS))

    def process(message: Message, context: Context):
        if message.payload == 1:
            raise SystemExit(1)

    assert failed(made(process, FakeSqs())(events, None)) == ["message-1"]


def test_powertools_reports_a_message_that_came_twice_twice_and_ours_once():
    def fails(*_):
        raise ValueError("no")

    def plain(twice):
        processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
        return process_partial_response(twice, lambda record: fails(), processor)

    twice = {"Records": [record(1, 1), record(1, 1)]}
    assert failed(plain(twice)) == ["message-1", "message-1"]
    assert failed(made(fails, FakeSqs())(twice, None)) == ["message-1"]


def test_powertools_calls_a_handler_by_one_name_only_and_ours_by_any():
    def odd(one):
        return one

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    events = {"Records": [record(1, 1)]}
    assert failed(process_partial_response(events, odd, processor)) == ["message-1"]
    assert failed(made(lambda m, c: None, FakeSqs())(events, None)) == []


def test_powertools_starts_every_async_record_at_once_and_ours_as_many_as_are_allowed():
    def counting():
        running, most = [], [0]

        async def handle(*_, **__):
            running.append(1)
            most[0] = max(most[0], len(running))
            await asyncio.sleep(0)
            running.pop()

        return handle, most

    events = {"Records": [record(n, n, group=f"g{n % 2}") for n in range(8)]}
    handle, most = counting()
    async_process_partial_response(events, handle, AsyncBatchProcessor(EventType.SQS))
    assert most == [8]
    handle, most = counting()
    assert failed(made(handle, FakeSqs(), fifo=True, concurrency=2)(events, None)) == []
    assert most[0] <= 2


def test_an_async_handler_keeps_the_order_of_groups_which_powertools_cannot():
    seen = []

    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        seen.append(message.payload)
        if message.payload == 1:
            raise ValueError("no")

    events = {"Records": [record(n, n, group="ab"[n % 2]) for n in range(6)]}
    assert failed(made(process, FakeSqs(), fifo=True)(events, None)) == ["message-1", "message-3", "message-5"]
    assert [n for n in seen if n % 2 == 0] == [0, 2, 4]
    assert [n for n in seen if n % 2 == 1] == [1]


def test_one_powertools_processor_mixes_the_batches_of_two_threads_and_ours_does_not():
    inside, outside = threading.Event(), threading.Event()
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)

    def record_handler(record):
        if record["messageId"] == "message-1":
            inside.set()
            assert outside.wait(WAIT)
            raise ValueError("no")

    def handle(call, answers):
        first = threading.Thread(target=lambda: answers.append(call({"Records": [record(1, 1)]})))
        inside.clear(), outside.clear()
        first.start()
        assert inside.wait(WAIT)
        answers.append(call({"Records": [record(2, 2)]}))
        outside.set()
        first.join(WAIT)
        return [failed(answer) for answer in answers]

    handle(lambda event: process_partial_response(event, record_handler, processor), [])
    assert len(processor.success_messages) + len(processor.fail_messages) == 2  # of two batches of one record

    def process(message: Message, context: Context):
        record_handler({"messageId": f"message-{message.payload}"})

    ours = made(process, FakeSqs())
    assert handle(lambda event: ours(event, LambdaContext(50_000)), []) == [[], ["message-1"]]


def test_powertools_stops_every_group_of_a_fifo_batch_at_a_failed_record_and_ours_its_own_group():
    ran = []

    def record_handler(record):
        if record["messageId"] == "message-1":
            raise ValueError("no")

    def process(message: Message, context: Context):
        ran.append(message.payload)
        if message.payload == 1:
            raise ValueError("no")

    events = {"Records": [record(n, n, group="ab"[n % 2]) for n in range(4)]}
    plain = process_partial_response(events, record_handler, SqsFifoPartialProcessor())
    assert failed(plain) == ["message-1", "message-2", "message-3"]
    assert failed(made(process, FakeSqs(), fifo=True)(events, None)) == ["message-1", "message-3"]
    assert sorted(ran) == [0, 1, 2]


def test_what_powertools_returns_of_a_fifo_batch_is_what_ours_returns_where_it_works():
    def record_handler(record):
        if record["messageId"] == "message-1":
            raise ValueError("no")

    def process(message: Message, context: Context):
        if message.payload == 1:
            raise ValueError("no")

    events = {"Records": [record(n, json.dumps(n), group="ab"[n // 3]) for n in range(6)]}
    plain = process_partial_response(events, record_handler, SqsFifoPartialProcessor(skip_group_on_error=True))
    assert failed(plain) == failed(made(process, FakeSqs(), fifo=True)(events, None)) == ["message-1", "message-2"]
