"""The event source mapping in this process: AWS's contract for answers, batches, and what stays in the queue."""

import json

import pytest
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from aws_transport.settlement import SqsAttribute
from lambda_runtime.local import LocalClock, LocalMapping, LocalQueue, MappingSettings, Sent, verdict

IDS = ("a", "b", "c")


def sent(*bodies, group=None):
    return [Sent(body=body, id=body, group_id=group) for body in bodies]


def mapped(function, *bodies, settings=None, **queue):
    """A mapping over a queue that holds ``bodies``, and the queue."""
    clock = LocalClock()
    source = LocalQueue(clock, **queue)
    source.send(*sent(*bodies, group="g" if queue.get("fifo") else None))
    return LocalMapping(source, function, MappingSettings(**settings or {}), clock), source


def left(queue):
    return [message.id for message in queue.messages]


def failures(*ids):
    return {"batchItemFailures": [{"itemIdentifier": one} for one in ids]}


# --- The answer ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [None, {}, {"batchItemFailures": []}, {"batchItemFailures": None}, {"statusCode": 200}]
)
def test_null_an_empty_object_and_an_empty_or_null_list_are_a_success(answer):
    assert (verdict(answer, IDS).failed, verdict(answer, IDS).problem) == (frozenset(), None)


def test_the_items_named_stay_and_a_name_that_comes_twice_counts_once():
    assert verdict(failures("b", "c", "b"), IDS).failed == {"b", "c"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (failures("b", ""), "null or empty"),
        (failures("b", None), "null or empty"),
        (failures("b", "unknown"), "'unknown' is not in the batch"),
        (failures(7), "7 is not in the batch"),
        (failures(["b"]), "['b'] is not in the batch"),
        ({"batchItemFailures": [{"itemIdentifer": "b"}]}, "has no itemIdentifier"),
        ({"batchItemFailures": ["b"]}, "has no itemIdentifier"),
        ({"batchItemFailures": "b"}, "batchItemFailures is no list"),
        ({"batchItemFailures": [object()]}, "the answer is no JSON"),
        (object(), "the answer is no JSON"),
        ("done", "the answer is a str, not an object"),
        ([], "the answer is a list, not an object"),
    ],
)
def test_an_answer_that_cannot_be_read_and_an_id_that_cannot_be_matched_fail_the_whole_batch(answer, problem):
    for ids in (IDS, frozenset(IDS)):
        found = verdict(answer, ids)
        assert found.failed == set(IDS)
        assert problem in found.problem


# --- The mapping -----------------------------------------------------------------------------------------------


def test_what_is_not_reported_is_deleted_and_what_is_stays_hidden_for_the_visibility_time_out():
    mapping, queue = mapped(lambda event, context: failures("b"), *IDS, visibility_seconds=30)
    (invocation,) = mapping.run()
    assert (invocation.message_ids, invocation.failed) == (IDS, {"b"})
    assert left(queue) == ["b"]
    assert 29 < queue.seconds_until_visible() <= 30


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1)])
def test_a_function_that_raises_fails_its_whole_batch(error):
    def function(event, context):
        raise error

    mapping, queue = mapped(function, *IDS)
    (invocation,) = mapping.run()
    assert (invocation.error, invocation.failed) == (error, set(IDS))
    assert left(queue) == list(IDS)


def test_an_unknown_id_leaves_the_whole_batch_in_the_queue():
    mapping, queue = mapped(lambda event, context: failures("b", "unknown"), *IDS)
    (invocation,) = mapping.run()
    assert invocation.problem == "itemIdentifier 'unknown' is not in the batch"
    assert left(queue) == list(IDS)


def test_without_the_switch_an_answer_is_ignored_and_all_is_deleted():
    settings = {"reports_item_failures": False}
    mapping, queue = mapped(lambda event, context: failures("b", "unknown"), *IDS, settings=settings)
    (invocation,) = mapping.run()
    assert invocation.failed == frozenset()
    assert left(queue) == []


def test_without_the_switch_an_error_still_fails_the_batch():
    mapping, queue = mapped(lambda event, context: 1 / 0, *IDS, settings={"reports_item_failures": False})
    mapping.run()
    assert left(queue) == list(IDS)


def test_a_record_is_what_lambda_hands_over():
    events = []
    clock = LocalClock()
    queue = LocalQueue(clock, fifo=True)
    attributes = {
        "kind": SqsAttribute(data_type="String", value="pdf"),
        "raw": SqsAttribute(data_type="Binary", value=b"\x00\x01"),
    }
    queue.send(Sent(body="text", id="m", group_id="g", deduplication_id="d", attributes=attributes, sent_at=1000.5))
    settings = MappingSettings(queue_name="in.fifo")
    LocalMapping(queue, lambda event, context: events.append(event), settings, clock).run()
    (record,) = events[0]["Records"]
    assert {"messageId": "m", "body": "text", "eventSource": "aws:sqs"}.items() <= record.items()
    assert record["eventSourceARN"] == "arn:aws:sqs:eu-west-1:000000000000:in.fifo"
    system = record["attributes"]
    assert (system["ApproximateReceiveCount"], system["SentTimestamp"]) == ("1", "1000500")
    assert (system["MessageGroupId"], system["MessageDeduplicationId"]) == ("g", "d")
    assert record["messageAttributes"]["kind"]["stringValue"] == "pdf"
    assert record["messageAttributes"]["raw"]["binaryValue"] == "AAE="
    assert json.loads(json.dumps(record)) == record


def test_a_batch_has_as_many_records_as_were_asked_for_at_most():
    sizes = []
    mapping, queue = mapped(
        lambda event, context: sizes.append(len(event["Records"])), *map(str, range(7)), settings={"batch_size": 3}
    )
    mapping.run()
    assert (sizes, left(queue)) == ([3, 3, 1], [])


def test_a_batch_is_gathered_for_its_window_unless_it_is_full_before():
    sizes = []
    clock = LocalClock()
    queue = LocalQueue(clock, visibility_seconds=360)
    settings = MappingSettings(batch_size=25, batch_window_seconds=60)
    mapping = LocalMapping(queue, lambda event, context: sizes.append(len(event["Records"])), settings, clock)
    queue.send(*sent(*map(str, range(13))))
    assert mapping.poll() is None
    clock.advance(59)
    assert mapping.poll() is None
    clock.advance(1)
    assert len(mapping.poll().message_ids) == 13
    queue.send(*sent(*map(str, range(13, 38))))
    assert len(mapping.poll().message_ids) == 25
    assert sizes == [13, 25]


def test_a_batch_ends_before_the_record_that_would_take_it_over_six_megabytes():
    sizes = []
    clock = LocalClock()
    queue = LocalQueue(clock, visibility_seconds=360)
    settings = MappingSettings(batch_size=40, batch_window_seconds=1)
    mapping = LocalMapping(queue, lambda event, context: sizes.append(len(event["Records"])), settings, clock)
    queue.send(*(Sent(body="x" * 250_000) for _ in range(40)))
    mapping.run()
    clock.advance(1)
    mapping.run()
    clock.advance(1)
    mapping.run()
    assert sizes == [25, 15]


@pytest.mark.parametrize(
    "settings", [{"batch_size": 0}, {"batch_size": 10_001}, {"batch_size": 11}, {"batch_window_seconds": 301}]
)
def test_what_lambda_refuses_of_a_mapping_is_refused(settings):
    with pytest.raises(ValueError, match=r"batch_size|batch_window_seconds"):
        MappingSettings(**settings)


def test_the_context_is_lambdas():
    seen = []
    mapping, _ = mapped(
        lambda event, context: seen.append((context.get_remaining_time_in_millis(), context.aws_request_id)), "a"
    )
    mapping.run()
    assert 59_000 < seen[0][0] <= 60_000
    assert len(seen[0][1]) == 36


def test_any_lambda_function_can_be_called_powertools_own_for_one():
    def record_handler(record):
        if record["messageId"] == "b":
            raise ValueError("no")

    def function(event, context):
        return process_partial_response(event, record_handler, BatchProcessor(EventType.SQS), context)

    mapping, queue = mapped(function, *IDS)
    mapping.run()
    assert left(queue) == ["b"]
