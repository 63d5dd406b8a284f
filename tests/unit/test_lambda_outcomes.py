"""What becomes of an SQS event's records: the batch response, and the calls that a function makes for it."""

import asyncio
import json
import logging
import sys
from datetime import UTC, datetime, timedelta

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)
from botocore.exceptions import EndpointConnectionError

from lambda_runtime.local.client import LocalSqs
from lambda_runtime.local.queue import LocalQueue, Sent
from tests.fakes.lambdas import DEAD, QUEUE, LambdaContext, event, failed, made, record
from tests.fakes.sqs import FakeSqs
from towpath import Complete, Context, DeadLetter, FatalError, Message, NewMessage, PublishResult, Retry, TransientError
from towpath.errors import InvalidEvent
from towpath.testing import LocalClock


def by_payload(outcomes):
    """A handler that does what ``outcomes`` says of the payload: returns it, or raises it."""

    def process(message: Message, context: Context):
        outcome = outcomes[message.payload]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return process


def copy_in(sqs):
    """The one copy that went to the dead-letter queue."""
    ((url, (entry,)),) = [(url, entries) for name, url, entries in sqs.calls if name == "send"]
    assert url == DEAD
    return entry


def note_in(sqs):
    return json.loads(copy_in(sqs)["MessageAttributes"]["towpath-dead-letter"]["StringValue"])


def test_a_batch_that_completes_is_answered_with_no_failures_and_makes_no_call():
    seen = []
    handler = made(lambda message, context: seen.append(message.payload["documents"][0]["name"]), sqs := FakeSqs())
    assert handler(event("sqs_standard.json"), LambdaContext(50_000)) == {"batchItemFailures": []}
    assert sorted(seen) == ["minutes-2026-01.pdf", "plan.pdf", "Überweisung.docx"]
    assert sqs.calls == []


def test_only_the_records_that_are_not_done_are_reported_in_the_order_of_the_event():
    outcomes = {0: None, 1: Retry(), 2: Complete(), 3: TransientError("busy"), 4: ValueError("no"), 5: None}
    handler = made(by_payload(outcomes), FakeSqs())
    response = handler({"Records": [record(n, n) for n in (5, 4, 3, 2, 1, 0)]}, None)
    assert failed(response) == ["message-4", "message-3", "message-1"]


def test_a_batch_in_which_all_fail_is_answered_item_by_item():
    records = [record(n, n) for n in range(3)]
    handler = made(by_payload(dict.fromkeys(range(3), ValueError("no"))), FakeSqs())
    assert failed(handler({"Records": records}, None)) == ["message-0", "message-1", "message-2"]


def test_a_retry_hides_the_message_for_its_back_off_before_it_is_reported():
    handler = made(by_payload({"x": ValueError("no")}), sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, '"x"', receives=3)]}, None)) == ["message-1"]
    ((name, url, (entry,)),) = sqs.calls
    assert (name, url, entry["ReceiptHandle"]) == ("hide", QUEUE, "handle-1")
    assert 20 <= entry["VisibilityTimeout"] <= 40  # the upper half of 10 s doubled twice


def test_a_retry_hides_for_the_time_that_the_handler_asks_for():
    outcomes = {1: Retry(after=timedelta(seconds=90)), 2: TransientError("busy", after=7)}
    handler = made(by_payload(outcomes), sqs := FakeSqs())
    handler({"Records": [record(1, 1), record(2, 2)]}, None)
    hidden = {entry["ReceiptHandle"]: entry["VisibilityTimeout"] for _, _, (entry,) in sqs.calls}
    assert hidden == {"handle-1": 90, "handle-2": 7}


def test_a_retry_stays_within_twelve_hours_of_a_receive_that_lambda_may_have_made_minutes_before():
    handler = made(by_payload({1: Retry(after=43_200)}), sqs := FakeSqs())
    handler({"Records": [record(1, 1)]}, None)
    assert sqs.calls[0][2][0]["VisibilityTimeout"] in (43_200 - 301, 43_200 - 300)


def test_a_retry_that_cannot_be_hidden_is_reported_all_the_same():
    broken = FakeSqs(error=EndpointConnectionError(endpoint_url="http://127.0.0.1:9"))
    handler = made(by_payload({1: Retry(), 2: None}), broken)
    assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, None)) == ["message-1"]


def test_a_settle_that_breaks_is_logged_with_the_handlers_own_error_and_the_record_comes_again(caplog):
    handler = made(by_payload({1: ValueError("a poor document"), 2: None}), FakeSqs(error=RuntimeError("no boto3")))
    assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, None)) == ["message-1"]
    (line,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert line.getMessage() == "could not settle; the delivery comes again: RuntimeError: no boto3"
    assert line.error == "ValueError: a poor document"
    assert line.delivery_id == "message-1"


@pytest.mark.parametrize(
    ("outcome", "reason", "error"),
    [
        (DeadLetter("no such customer"), "no such customer", ""),
        (FatalError("page 3 is missing"), "page 3 is missing", "FatalError: page 3 is missing"),
    ],
)
def test_a_dead_letter_is_copied_with_its_note_and_counts_as_a_success(outcome, reason, error):
    handler = made(by_payload({1: outcome, 2: None}), sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, 1, receives=2), record(2, 2)]}, None)) == []
    assert [name for name, _, _ in sqs.calls] == ["hide", "send"]  # Lambda deletes the message: it is not reported
    assert copy_in(sqs)["MessageBody"] == "1"
    note = note_in(sqs)
    assert (note["reason"], note["error"], note["attempts"]) == (reason, error, 2)
    assert note["source_queue"] == "docs-test-documents-convert"


def test_a_dead_letter_is_hidden_until_lambda_has_deleted_it_before_it_is_copied():
    handler = made(by_payload({1: DeadLetter("no")}), sqs := FakeSqs(), timeout_seconds=90)
    handler({"Records": [record(1, 1)]}, None)
    name, url, (entry,) = sqs.calls[0]
    assert (name, url, entry["ReceiptHandle"]) == ("hide", QUEUE, "handle-1")
    assert entry["VisibilityTimeout"] == 90 + 60  # as long as this invocation may last, and a minute


@pytest.mark.parametrize("code", ["MessageNotInflight", "ReceiptHandleIsInvalid"])
def test_a_dead_letter_that_somebody_else_has_by_now_is_not_copied_and_left_to_them(code):
    sqs = FakeSqs({"handle-1": (code, "")})
    handler = made(by_payload({1: DeadLetter("no"), 2: None}), sqs)
    assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, None)) == ["message-1"]
    assert [name for name, _, _ in sqs.calls] == ["hide"]


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("other", ["holds it", "has it done"])
def test_of_two_receivers_of_a_message_the_stale_one_leaves_no_copy(fifo, other):
    clock, suffix = LocalClock(), ".fifo" if fifo else ""
    queue, dead = LocalQueue(clock, fifo=fifo, visibility_seconds=30), LocalQueue(clock, fifo=fifo)
    sqs = LocalSqs({QUEUE + suffix: queue, DEAD + suffix: dead})
    handler = made(lambda message, context: DeadLetter("no"), sqs, fifo=fifo)
    queue.send(Sent(body="1", id="message-1", group_id="a"))
    (stale,) = queue.receive(1)
    clock.advance(31)
    (held,) = queue.receive(1)
    if other == "has it done":
        queue.delete(held.receipt)
    answer = handler({"Records": [record(1, 1, group="a") | {"receiptHandle": stale.receipt}]}, None)
    assert (failed(answer), dead.messages) == (["message-1"], [])
    if other == "holds it":
        answer = handler({"Records": [record(1, 1, group="a") | {"receiptHandle": held.receipt}]}, None)
        assert (failed(answer), len(dead.messages)) == ([], 1)


def test_a_dead_letter_that_cannot_be_copied_is_reported_as_failed():
    handler = made(by_payload({1: DeadLetter("no")}), FakeSqs({"1": ("InternalError", "try again")}))
    assert failed(handler({"Records": [record(1, 1)]}, None)) == ["message-1"]


def test_a_failure_at_the_last_attempt_is_a_dead_letter_with_the_last_error():
    handler = made(by_payload({1: ValueError("again")}), sqs := FakeSqs(), max_attempts=3)
    assert failed(handler({"Records": [record(1, 1, receives=3)]}, None)) == []
    note = note_in(sqs)
    assert (note["reason"], note["error"]) == ("MaxAttemptsExceeded", "ValueError: again")


def test_a_message_received_far_too_often_is_set_aside_without_a_run():
    ran = []
    handler = made(lambda message, context: ran.append(1), sqs := FakeSqs(), max_attempts=3)
    assert failed(handler({"Records": [record(1, 1, receives=5)]}, None)) == []
    assert ran == []
    assert note_in(sqs)["reason"] == "MaxAttemptsExceeded"


def test_an_expired_message_is_dropped_without_a_run_or_a_call():
    records = event("sqs_standard.json")["Records"][:1]
    body = json.loads(records[0]["body"]) | {"expires_at": "2026-01-31T08:16:00.000Z"}
    ran = []
    handler = made(lambda message, context: ran.append(1), sqs := FakeSqs())
    assert failed(handler({"Records": [records[0] | {"body": json.dumps(body)}]}, None)) == []
    assert (ran, sqs.calls) == ([], [])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"schema": "towpath/1", "id": "not a uuid"}', "InvalidEnvelope"),
        ('{"schema": "towpath/2", "id": "x"}', "UnsupportedSchema"),
    ],
)
def test_a_body_that_can_never_be_read_is_a_dead_letter_and_its_neighbours_are_handled(body, reason):
    seen = []
    handler = made(lambda message, context: seen.append(message.payload), sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, 1), record(2, body), record(3, 3)]}, None)) == []
    assert sorted(seen) == [1, 3]
    assert note_in(sqs)["reason"] == reason


def test_a_payload_that_does_not_fit_the_annotation_is_a_dead_letter():
    def process(message: Message[int], context: Context):
        raise AssertionError("never reached")

    handler = made(process, sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, '"text"')]}, None)) == []
    assert note_in(sqs)["reason"] == "InvalidPayload"


def test_a_foreign_body_is_refused_where_the_subscription_accepts_none():
    handler = made(lambda message, context: None, sqs := FakeSqs(), accept_foreign=False)
    assert failed(handler({"Records": [record(1, "plain text")]}, None)) == []
    assert note_in(sqs)["reason"] == "InvalidEnvelope"


def test_an_s3_notification_is_a_foreign_message_exactly_as_it_stands():
    seen = []
    handler = made(lambda message, context: seen.append(message), FakeSqs())
    (sent,) = event("sqs_s3_notification.json")["Records"]
    handler({"Records": [sent]}, None)
    assert seen[0].payload == json.loads(sent["body"])
    assert (seen[0].id, seen[0].correlation_id) == (sent["messageId"], sent["messageId"])


def test_an_sns_notification_is_unwrapped_whether_it_holds_an_envelope_or_not():
    seen = []
    handler = made(lambda message, context: seen.append(message), FakeSqs(), concurrency=1)
    handler(event("sqs_sns_wrapped.json"), None)
    assert [message.payload for message in seen] == [
        {"documents": [{"name": "wrapped.pdf", "pages": 2}]},
        {"order": 4711, "status": "paid"},
    ]
    assert [message.attributes for message in seen] == [{"kind": "pdf"}, {"kind": "order", "total": 12.5}]


def test_a_foreign_message_has_its_sqs_attributes():
    seen = []
    handler = made(lambda message, context: seen.append(message.attributes), FakeSqs())
    attributes = event("sqs_standard.json")["Records"][0]["messageAttributes"]
    binary = {"thumb": {"binaryValue": "iVBORw0KGgo=", "dataType": "Binary", "stringListValues": []}}
    handler({"Records": [record(1, "1") | {"messageAttributes": attributes | binary}]}, None)
    assert seen == [{"kind": "pdf", "pages": 4, "tags": ("inbox", "tenant-acme")}]


def test_a_dead_foreign_message_keeps_its_attributes_even_binary_ones():
    handler = made(by_payload({1: DeadLetter("no")}), sqs := FakeSqs())
    binary = {"thumb": {"binaryValue": "iVBORw0KGgo=", "dataType": "Binary", "stringListValues": []}}
    handler({"Records": [record(1, 1) | {"messageAttributes": binary}]}, None)
    carried = copy_in(sqs)["MessageAttributes"]["thumb"]
    assert carried == {"DataType": "Binary", "BinaryValue": b"\x89PNG\r\n\x1a\n"}


def test_an_async_handler_is_awaited():
    done = []

    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        done.append(message.payload)
        return Retry() if message.payload == 2 else None

    handler = made(process, FakeSqs())
    for _ in range(2):  # the second event finds the loop of the first
        assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, None)) == ["message-2"]
    assert sorted(done) == [1, 1, 2, 2]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_plain_powertools_acknowledges_an_async_handler_without_running_it():
    done = []

    async def record_handler(record):
        done.append(record)

    processor = BatchProcessor(event_type=EventType.SQS)
    response = process_partial_response({"Records": [record(1, 1)]}, record_handler, processor)
    assert (failed(response), done) == ([], [])


def test_plain_powertools_raises_where_a_fifo_batch_fails_at_its_first_record():
    def record_handler(record):
        raise ValueError("no")

    records = [record(1, 1, group="a"), record(2, 2, group="b")]
    with pytest.raises(Exception, match="All records failed processing"):
        process_partial_response({"Records": records}, record_handler, SqsFifoPartialProcessor())
    handler = made(by_payload({1: ValueError("no"), 2: None}), FakeSqs(), fifo=True)
    assert failed(handler({"Records": records}, None)) == ["message-1"]


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), GeneratorExit()])
def test_what_ends_a_handler_without_being_an_exception_is_retried_and_spares_the_others(error):
    handler = made(by_payload({1: None, 2: error, 3: None}), sqs := FakeSqs())
    assert failed(handler({"Records": [record(n, n) for n in (1, 2, 3)]}, None)) == ["message-2"]
    ((name, _, (entry,)),) = sqs.calls
    assert (name, entry["ReceiptHandle"]) == ("hide", "handle-2")
    assert entry["VisibilityTimeout"] >= 1


def test_an_async_handler_that_exits_leaves_the_loop_fit_for_the_next():
    async def process(message: Message, context: Context):
        await asyncio.sleep(0)
        if message.payload == 1:
            sys.exit(1)

    handler = made(process, FakeSqs(), concurrency=1)
    assert failed(handler({"Records": [record(1, 1), record(2, 2)]}, None)) == ["message-1"]


def test_a_person_at_the_keyboard_stops_the_run():
    handler = made(by_payload({1: KeyboardInterrupt()}), sqs := FakeSqs())
    with pytest.raises(KeyboardInterrupt):
        handler({"Records": [record(1, 1)]}, None)
    assert sqs.calls[0][2][0]["VisibilityTimeout"] == 0


def test_an_event_without_records_is_answered_with_an_empty_response():
    assert made(by_payload({}), FakeSqs())({"Records": []}, None) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        None,
        [],
        {"Records": None},
        {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "x"}}]},
        {"Records": [{"messageId": ""}, None]},
    ],
)
def test_what_is_no_sqs_event_fails_the_invocation_so_that_nothing_counts_as_done(wrong):
    with pytest.raises(InvalidEvent):
        made(by_payload({}), FakeSqs())(wrong, None)


@pytest.mark.parametrize(
    "without",
    ["body", "receiptHandle", "attributes"],
)
def test_a_record_that_lacks_a_field_is_reported_and_its_neighbours_are_handled(without):
    broken = record(2, 2)
    del broken[without]
    seen = []
    handler = made(lambda message, context: seen.append(message.payload), FakeSqs())
    assert failed(handler({"Records": [record(1, 1), broken, record(3, 3)]}, None)) == ["message-2"]
    assert sorted(seen) == [1, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": {"ApproximateReceiveCount": "often"}},
        {"attributes": {"ApproximateReceiveCount": "0"}},
        {"attributes": {"ApproximateReceiveCount": float("inf")}},
        {"attributes": {"ApproximateReceiveCount": "1", "MessageGroupId": ["a"]}},
        {"attributes": None},
        {"body": None},
        {"receiptHandle": ""},
        {"messageAttributes": {"kind": "pdf"}},
        {"messageAttributes": {"kind": {"dataType": None, "stringValue": "x"}}},
    ],
)
def test_a_record_with_a_broken_field_is_reported_and_its_neighbours_are_handled(changes):
    seen = []
    handler = made(lambda message, context: seen.append(message.payload), FakeSqs())
    records = [record(1, 1), record(2, 2) | changes, record(3, 3)]
    assert failed(handler({"Records": records}, None)) == ["message-2"]
    assert sorted(seen) == [1, 3]


@pytest.mark.parametrize("stranger", [None, "text", 7, {}, {"messageId": ""}, {"messageId": None, "body": "x"}])
def test_a_record_without_an_id_is_never_reported_and_spares_its_neighbours(stranger):
    handler = made(by_payload({1: None, 3: Retry()}), FakeSqs())
    assert failed(handler({"Records": [record(1, 1), stranger, record(3, 3)]}, None)) == ["message-3"]


def test_a_message_that_comes_twice_in_a_batch_runs_twice_one_after_the_other_and_is_reported_once():
    running, ran = [], []

    def process(message: Message, context: Context):
        assert running == []
        running.append(1)
        ran.append(message.payload)
        running.pop()
        return Retry() if len(ran) == 2 else None

    twice = [record(1, 1), record(1, 1) | {"receiptHandle": "other"}]
    handler = made(process, sqs := FakeSqs())
    assert failed(handler({"Records": twice}, None)) == ["message-1"]
    assert (ran, [e["ReceiptHandle"] for _, _, entries in sqs.calls for e in entries]) == ([1, 1], ["other"])
    assert failed(made(by_payload({1: ValueError("no")}), FakeSqs())({"Records": twice}, None)) == ["message-1"]


def test_a_handler_is_told_its_attempt_ids_and_deadline():
    seen = []
    handler = made(lambda message, context: seen.append(context), FakeSqs(), max_attempts=4)
    before = datetime.now(UTC)
    handler({"Records": [record(1, 1, receives=2)]}, LambdaContext(50_000))
    (context,) = seen
    assert (context.subscription, context.delivery_id) == ("documents.convert", "message-1")
    assert (context.attempt, context.max_attempts, context.is_replay) == (2, 4, False)
    assert timedelta(seconds=50) <= context.deadline - before < timedelta(seconds=55)


def test_without_lambdas_context_there_is_no_deadline():
    seen = []
    made(lambda message, context: seen.append(context.remaining()), FakeSqs())({"Records": [record(1, 1)]}, None)
    assert seen == [None]


def test_a_heartbeat_makes_no_call_and_says_go_on():
    seen = []

    def process(message: Message, context: Context):
        seen.append(context.heartbeat(percent=50, note="half", checkpoint={"page": 3}))
        context.check()

    handler = made(process, sqs := FakeSqs())
    assert failed(handler({"Records": [record(1, 1)]}, LambdaContext(50_000))) == []
    assert (seen, sqs.calls) == ([True], [])


def test_publishing_goes_through_the_callable_given_with_the_correlation_of_the_message():
    sent = []

    def publish(topic, messages):
        sent.extend((topic, message) for message in messages)
        return [PublishResult(id="1", status="accepted")]

    def process(message: Message, context: Context):
        context.publish("documents.done", NewMessage(payload=1))

    handler = made(process, FakeSqs(), publish=publish)
    records = event("sqs_standard.json")["Records"][:1]
    assert failed(handler({"Records": records}, None)) == []
    envelope = json.loads(records[0]["body"])
    ((topic, message),) = sent
    assert (topic, message.causation_id, message.correlation_id) == ("documents.done", envelope["id"], envelope["id"])


def test_a_replayed_message_says_so():
    seen = []
    replayed = {"towpath-replay": {"dataType": "Number", "stringValue": "2"}}
    handler = made(lambda message, context: seen.append((context.is_replay, message.attributes)), FakeSqs())
    handler({"Records": [record(1, 1) | {"messageAttributes": replayed}]}, None)
    assert seen == [(True, {})]


def test_every_outcome_but_completion_leaves_one_line_with_ids_and_no_payload(caplog):
    caplog.set_level(logging.INFO)
    outcomes = {"ok": None, "payload-one": Retry("not yet"), "dead": DeadLetter("never"), "bang": ValueError("broken")}
    handler = made(by_payload(outcomes), FakeSqs())
    handler({"Records": [record(n, json.dumps(name)) for n, name in enumerate(outcomes)]}, None)
    lines = {line.delivery_id: line for line in caplog.records if line.name == "towpath.delivery"}
    assert sorted(lines) == ["message-1", "message-2", "message-3"]
    assert (lines["message-1"].state, lines["message-1"].reason) == ("pending", "Retry: not yet")
    assert (lines["message-2"].state, lines["message-2"].reason) == ("dead", "never")
    assert "ValueError: broken" in lines["message-3"].traceback
    assert {line.subscription for line in lines.values()} == {"documents.convert"}
    assert "payload-one" not in str([line.__dict__ for line in lines.values()])


def test_a_completion_leaves_its_line_where_the_level_is_debug(caplog):
    caplog.set_level(logging.DEBUG, logger="towpath.delivery")
    made(by_payload({1: None}), FakeSqs())({"Records": [record(1, 1)]}, None)
    assert [line.state for line in caplog.records if line.name == "towpath.delivery"] == ["completed"]


def test_what_a_handler_publishes_on_lambda_is_told_whose_it_is():
    reached = []

    def publish(topic, messages):
        reached.extend((topic, message) for message in messages)
        return [PublishResult(id=message.id, status="accepted") for message in messages]

    def process(message: Message, context: Context):
        context.publish("documents.done", NewMessage(payload="carried"), NewMessage(correlation_id="own"))

    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (sent,) = event("sqs_standard.json")["Records"][:1]
    envelope = json.loads(sent["body"]) | {"correlation_id": "order-7", "traceparent": trace}
    handler = made(process, FakeSqs(), publish=publish)
    assert failed(handler({"Records": [sent | {"body": json.dumps(envelope)}]}, None)) == []
    known = {"causation_id": envelope["id"], "traceparent": trace}
    assert reached == [
        ("documents.done", NewMessage(payload="carried", correlation_id="order-7", **known)),
        ("documents.done", NewMessage(correlation_id="own", **known)),
    ]


def test_a_heartbeat_on_lambda_makes_no_call_and_answers_whether_to_go_on():
    answers = []

    def process(message: Message, context: Context):
        answers.append(context.heartbeat(percent=50, note="half", checkpoint={"page": 1}))
        answers.append(context.checkpoint)

    assert failed(made(process, sqs := FakeSqs())({"Records": [record(1, 1, receives=2)]}, None)) == []
    assert (answers, sqs.calls) == ([True, None], [])
