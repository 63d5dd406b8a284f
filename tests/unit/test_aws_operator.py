"""Looking at dead-letter queues: what is looked at goes back, whatever happens meanwhile."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from aws_transport.bindings import SubscriptionBinding
from aws_transport.consumer import SqsConsumer
from aws_transport.operator import SqsOperator
from aws_transport.settlement import SqsSettler
from towpath.envelope import Sources
from towpath.errors import InvalidSelection, TransportRejected, TransportUnavailable
from towpath.resolve import resolve
from towpath.settlement import SubscriptionPolicy
from towpath.topology import parse_topology

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NAME = "letters.read"
MANIFEST = resolve(
    parse_topology(
        {"name": "unit", "topics": {"letters": {}}, "subscriptions": {NAME: {"topic": "letters", "handler": "a.b:c"}}}
    ),
    "unit",
)
BINDING = SubscriptionBinding(
    queue_url="queue", queue_arn="arn", dead_letter_queue_url="dead", delivery_failure_queue_url="failed"
)


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class FakeSqs:
    """Hands out what it is given, one answer a call, and keeps what was asked. An exception is raised.

    The queue of what SNS could not deliver is empty.
    """

    answers: list[Any] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    given_back: list[tuple[str, int]] = field(default_factory=list)
    counted: int = 0  # what the queue says that it holds
    failed: list[dict[str, Any]] = field(default_factory=list)  # of what is given back
    on_receive: Callable[[], None] = lambda: None
    refuse_giving_back: Exception | None = None

    def receive_message(self, **request: Any) -> dict[str, Any]:
        if request["QueueUrl"] == "failed":
            return {}
        self.asked.append(request)
        self.on_receive()
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return {"Messages": answer} if answer else {}

    def get_queue_attributes(self, **request: Any) -> dict[str, Any]:
        held = self.counted if request["QueueUrl"] == "dead" else 0
        return {"Attributes": {"ApproximateNumberOfMessagesNotVisible": str(held)}}

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        if self.refuse_giving_back is not None:
            raise self.refuse_giving_back
        assert request["QueueUrl"] == "dead"
        assert len(request["Entries"]) <= 10
        self.given_back += [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in request["Entries"]]
        return {"Failed": self.failed} if self.failed else {}


def dead(number: int, **changes: Any) -> dict[str, Any]:
    note = {"reason": "unwanted", "error": "E", "attempts": 3, "time": f"2026-01-01T00:00:{number:02d}.000Z"}
    attribute = {"DataType": "String", "StringValue": json.dumps(note | {"source_queue": "queue"})}
    return {
        "MessageId": f"m{number}",
        "ReceiptHandle": f"h{number}",
        "Body": "{}",
        "Attributes": {"SentTimestamp": "1767312000000"},
        "MessageAttributes": {"towpath-dead-letter": attribute},
    } | changes


def operator(sqs: FakeSqs, clock: Clock | None = None) -> SqsOperator:
    return SqsOperator(
        topics=MANIFEST.topics,
        subscriptions=MANIFEST.subscriptions,
        bindings={NAME: BINDING},
        client=sqs,
        sources=Sources(clock=clock or Clock(), random_bytes=bytes),
    )


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "ReceiveMessage")


def test_all_that_was_looked_at_is_given_back_at_once() -> None:
    sqs = FakeSqs([[dead(n) for n in range(10)], [dead(n) for n in range(10, 13)]])
    entries = operator(sqs).dead_letters(NAME, 100)
    assert [entry.delivery_id for entry in entries] == [f"{NAME}/m{n}" for n in range(13)]
    assert sqs.given_back == [(f"h{n}", 0) for n in range(13)]
    assert {(r["QueueUrl"], r["VisibilityTimeout"]) for r in sqs.asked} == {("dead", 120)}


def test_a_page_ends_with_a_cursor_that_the_next_one_goes_on_from() -> None:
    shown = [[dead(n) for n in (7, 3, 5)], [dead(n) for n in (1, 6)]]
    first = operator(FakeSqs(list(shown))).dead_letters(NAME, 2)
    second = operator(FakeSqs(list(shown))).dead_letters(NAME, 2, first.cursor)
    third = operator(FakeSqs(list(shown))).dead_letters(NAME, 2, second.cursor)
    pages = [[entry.delivery_id for entry in page] for page in (first, second, third)]
    assert pages == [[f"{NAME}/m1", f"{NAME}/m3"], [f"{NAME}/m5", f"{NAME}/m6"], [f"{NAME}/m7"]]
    assert third.cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "2026-01-01T00:00:00~m1", "~m1", "2026-01-01T00:00:00+00:00"])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidSelection, match="no cursor"):
        operator(FakeSqs()).dead_letters(NAME, 2, cursor)


def test_what_comes_twice_in_a_pass_is_listed_once_and_given_back_by_its_newest_handle() -> None:
    sqs = FakeSqs([[dead(1)], [dead(1, ReceiptHandle="newer"), dead(2)]])
    assert [entry.delivery_id for entry in operator(sqs).dead_letters(NAME, 9)] == [f"{NAME}/m1", f"{NAME}/m2"]
    assert sqs.given_back == [("newer", 0), ("h2", 0)]


def test_that_a_queue_holds_more_than_one_look_shows_is_told(caplog: pytest.LogCaptureFixture) -> None:
    sqs = FakeSqs([[dead(1), dead(2)]], counted=2)
    operator(sqs).dead_letters(NAME, 1)
    assert caplog.messages == []
    sqs = FakeSqs([[dead(1), dead(2)]], counted=25)
    operator(sqs).dead_letters(NAME, 1)
    (told,) = caplog.messages
    assert f"{NAME} has about 25 dead letters in dead, and this look saw 2" in told


def test_dead_letters_are_listed_oldest_first() -> None:
    sqs = FakeSqs([[dead(3), dead(1)], [dead(2)]])
    assert [entry.delivery_id for entry in operator(sqs).dead_letters(NAME, 10)] == [f"{NAME}/m{n}" for n in (1, 2, 3)]


def test_looking_ends_before_the_first_message_comes_back_by_itself() -> None:
    clock = Clock()

    def nine_seconds_pass() -> None:
        clock.now += timedelta(seconds=9)

    sqs = FakeSqs([[dead(n)] for n in range(9)], on_receive=nine_seconds_pass)
    assert len(operator(sqs, clock).dead_letters(NAME, 100)) == 3
    assert len(sqs.given_back) == 3


def test_a_fault_while_looking_still_gives_back_what_was_seen() -> None:
    sqs = FakeSqs([[dead(1)], ReadTimeoutError(endpoint_url="https://sqs")])
    with pytest.raises(TransportUnavailable, match="dead letters in dead"):
        operator(sqs).dead_letters(NAME, 10)
    assert sqs.given_back == [("h1", 0)]


def test_what_cannot_be_given_back_is_listed_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    sqs = FakeSqs([[dead(1)]], refuse_giving_back=aws_error("InternalError", 500))
    assert len(operator(sqs).dead_letters(NAME, 10)) == 1
    assert "come back in 120 s" in caplog.text


def test_what_sqs_did_not_take_back_is_told_entry_by_entry(caplog: pytest.LogCaptureFixture) -> None:
    failed = [{"Id": "1", "Code": "InternalError", "Message": "oops", "SenderFault": False}]
    sqs = FakeSqs([[dead(1), dead(2)]], failed=failed)
    assert len(operator(sqs).dead_letters(NAME, 10)) == 2
    assert caplog.messages == [
        "1 dead letters that were looked at come back in 120 s by themselves: InternalError: oops"
    ]


def test_what_sqs_moved_itself_says_so_with_the_receives_it_allowed() -> None:
    source = {"SentTimestamp": "1767312000000", "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:1:letters-read"}
    (entry,) = operator(FakeSqs([[dead(1, MessageAttributes={}, Attributes=source)]])).dead_letters(NAME, 1)
    assert (entry.reason, entry.attempts) == ("MaxReceivesExceeded", 10)
    assert entry.dead_since == datetime(2026, 1, 2, tzinfo=UTC)


ENDLESS = '{"reason": "", "error": "", "time": "2026-01-01", "source_queue": "", "attempts": Infinity}'


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"reason": "x"}', ENDLESS])
def test_a_message_without_a_readable_note_is_listed_as_unknown(text: str) -> None:
    attributes = {"towpath-dead-letter": {"DataType": "String", "StringValue": text}}
    (entry,) = operator(FakeSqs([[dead(1, MessageAttributes=attributes)]])).dead_letters(NAME, 1)
    assert (entry.reason, entry.attempts, entry.message_id) == ("Unknown", 0, "m1")


def test_a_note_without_a_time_zone_is_read_as_utc() -> None:
    note = {"reason": "r", "error": "e", "attempts": 1, "time": "2026-01-01T00:00:00", "source_queue": "q"}
    attributes = {"towpath-dead-letter": {"DataType": "String", "StringValue": json.dumps(note)}}
    entries = operator(FakeSqs([[dead(2, MessageAttributes=attributes), dead(1)]])).dead_letters(NAME, 2)
    assert [entry.delivery_id for entry in entries] == [f"{NAME}/m2", f"{NAME}/m1"]


# --- Receiving -------------------------------------------------------------------------------------------------


def consumer(sqs: FakeSqs, *, fifo: bool = False) -> SqsConsumer:
    known = SubscriptionPolicy(subscription=NAME, topic="letters", handler="a.b:c", lease_seconds=45)
    return SqsConsumer(
        client=sqs,
        rules=lambda: known,
        fifo=fifo,
        settler=SqsSettler(client=lambda: sqs, queue_url="queue", dead_letter_queue_url="dead"),
        clock=Clock(),
    )


@pytest.mark.parametrize(
    ("limit", "wait", "fifo", "most", "seconds"),
    [(3, 1.1, False, 3, 2), (500, 60, False, 10, 20), (5, 0.5, True, 1, 1), (5, 0, True, 1, 0)],
)
def test_a_receive_asks_for_what_sqs_allows(limit: int, wait: float, fifo: bool, most: int, seconds: int) -> None:
    sqs = FakeSqs()
    assert consumer(sqs, fifo=fifo).receive(limit, timedelta(seconds=wait)) == []
    (request,) = sqs.asked
    assert (request["MaxNumberOfMessages"], request["WaitTimeSeconds"]) == (most, seconds)
    assert (request["QueueUrl"], request["VisibilityTimeout"]) == ("queue", 45 if seconds <= 2 else 10)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (aws_error("AccessDenied", 403), TransportRejected),
        (aws_error("AWS.SimpleQueueService.NonExistentQueue", 400), TransportRejected),
        (aws_error("OverLimit", 403), TransportUnavailable),
        (aws_error("RequestThrottled", 403), TransportUnavailable),
        (aws_error("ServiceUnavailable", 503), TransportUnavailable),
        (ReadTimeoutError(endpoint_url="https://sqs"), TransportUnavailable),
    ],
)
def test_a_receive_that_fails_says_whether_waiting_can_help(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected, match="receive from queue"):
        consumer(FakeSqs([error])).receive(1, timedelta(0))


def test_a_delivery_holds_group_attempt_and_the_time_of_the_receive() -> None:
    message = dead(1, Attributes={"ApproximateReceiveCount": "4", "MessageGroupId": "tenant"}, MessageAttributes={})
    (delivery,) = consumer(FakeSqs([[message]])).receive(1, timedelta(0))
    assert (delivery.attempt, delivery.group_id, delivery.received_at) == (4, "tenant", NOW)
    assert (delivery.lease_token, delivery.id) == ("h1", "m1")
