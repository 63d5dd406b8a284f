"""Publishing to SNS: what is sent, in which batches, and what each message's answer is."""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, NoCredentialsError

from aws_transport.batches import group_id
from aws_transport.bindings import TopicBinding
from aws_transport.publisher import SnsPublisher
from towpath.envelope import Sources
from towpath.errors import Unsupported
from towpath.message import NewMessage, PublishResult
from towpath.resolve import resolve
from towpath.topology import parse_topology

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TOPICS = {
    "plain": {},
    "steps": {"fifo": True},
    "fair": {"fair": True},
    "closed": {"status": "disabled"},
    "local": {"transport": "database"},
    "ledger": {"deduplication": True},
    "small": {"max_payload_bytes": 1024},
    "unbound": {},
}
Request = Sequence[Mapping[str, Any]]


class FakeSns:
    """Answers PublishBatch as told: ``answer(entries)`` gives the response or raises."""

    def __init__(self, answer: Callable[[Request], dict[str, Any]] | None = None) -> None:
        self.answer = answer or taken
        self.calls: list[Request] = []
        self._lock = threading.Lock()

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        entries = request["PublishBatchRequestEntries"]
        with self._lock:
            self.calls.append(entries)
        return self.answer(entries)


def taken(entries: Request) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in entries], "Failed": []}


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "PublishBatch")


def publisher(sns: FakeSns) -> SnsPublisher:
    manifest = resolve(parse_topology({"name": "test", "topics": TOPICS}), "unit")
    numbers = iter(range(1, 1000))

    def drawn(size: int) -> bytes:  # ten for each id
        return b"".join(next(numbers).to_bytes(10, "big") for _ in range(size // 10))

    return SnsPublisher(
        topics=manifest.topics,
        bindings={name: TopicBinding(arn=f"arn:{name}", fifo=name == "steps") for name in TOPICS if name != "unbound"},
        client=sns,
        sources=Sources(clock=lambda: NOW, random_bytes=drawn),
    )


def codes(results: Sequence[PublishResult]) -> list[str]:
    return [result.error.code if result.error is not None else result.status for result in results]


# --- What is sent ----------------------------------------------------------------------------------------------


def test_the_body_is_the_envelope_and_the_attributes_go_beside_it() -> None:
    sns = FakeSns()
    message = NewMessage(payload=1, attributes={"kind": "pdf", "pages": 12.5, "tags": ["a", "b"]})
    (result,) = publisher(sns).publish("plain", [message])
    ((entry,),) = sns.calls
    assert f'"id":"{result.id}"' in entry["Message"]
    assert entry["MessageAttributes"] == {
        "kind": {"DataType": "String", "StringValue": "pdf"},
        "pages": {"DataType": "Number", "StringValue": "12.5"},
        "tags": {"DataType": "String.Array", "StringValue": '["a","b"]'},
    }
    assert "MessageGroupId" not in entry


def test_the_body_holds_only_characters_that_sqs_takes() -> None:
    sns = FakeSns()
    payload = "".join(map(chr, (0, 9, 10, 13, 31, 127, 0xD7FF, 0xE000, 0xFFFD, 0xFFFE, 0xFFFF, 0x10FFFF)))
    publisher(sns).publish("plain", [NewMessage(payload=payload)])
    ((entry,),) = sns.calls
    # Amazon SQS API reference, SendMessage, MessageBody
    assert re.fullmatch("[\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*", entry["Message"])
    assert json.loads(entry["Message"])["payload"] == payload


def test_a_fifo_topic_gets_the_key_as_group_and_the_id_against_repeats() -> None:
    sns = FakeSns()
    messages = [NewMessage(payload=1, partition_key="tenant"), NewMessage(payload=2)]
    results = publisher(sns).publish("steps", messages)
    ((keyed, keyless),) = sns.calls
    assert (keyed["MessageGroupId"], keyless["MessageGroupId"]) == ("tenant", results[1].id)
    assert [entry["MessageDeduplicationId"] for entry in (keyed, keyless)] == [result.id for result in results]


def test_only_a_fair_standard_topic_gets_the_key_as_group() -> None:
    sns = FakeSns()
    for topic in ("plain", "fair"):
        publisher(sns).publish(topic, [NewMessage(payload=1, partition_key="tenant"), NewMessage(payload=1)])
    plain, fair = sns.calls
    assert [entry.get("MessageGroupId") for entry in (*plain, *fair)] == [None, None, "tenant", None]
    assert not any("MessageDeduplicationId" in entry for entry in fair)


@pytest.mark.parametrize("key", ["Zürich", "two words", "x" * 129])
def test_a_key_that_sqs_would_refuse_becomes_its_hash(key: str) -> None:
    assert group_id(key).startswith("pk-")
    assert len(group_id(key)) == 67
    assert group_id(key) == group_id(key) != group_id(key + "!")
    assert group_id("x" * 128) == "x" * 128


def test_batches_hold_ten_messages_and_what_sns_takes_in_bytes() -> None:
    sns = FakeSns()
    publisher(sns).publish("steps", [NewMessage(payload=n) for n in range(21)])
    assert sorted(len(call) for call in sns.calls) == [1, 10, 10]
    sns.calls.clear()
    sizes = [200_000, 60_000, 10_000, 100, 255_000]
    publisher(sns).publish("steps", [NewMessage(payload="x" * size) for size in sizes])
    assert sorted(len(call) for call in sns.calls) == [1, 2, 2]
    for call in sns.calls:
        assert sum(len(entry["Message"].encode()) for entry in call) <= 262_144


def test_attributes_count_towards_the_size_of_a_batch() -> None:
    sns = FakeSns()
    heavy = {f"a{n}": ["y" * 256] * 50 for n in range(4)}  # 51 KB, in the envelope and again beside it
    publisher(sns).publish("steps", [NewMessage(payload=n, attributes=heavy) for n in range(3)])
    assert sorted(len(call) for call in sns.calls) == [1, 2]


def test_a_standard_topic_gets_its_batches_side_by_side() -> None:
    meeting = threading.Barrier(3, timeout=10)

    def together(entries: Request) -> dict[str, Any]:
        meeting.wait()  # returns only when three calls are there at once
        return taken(entries)

    results = publisher(FakeSns(together)).publish("plain", [NewMessage(payload=n) for n in range(30)])
    assert codes(results) == ["accepted"] * 30
    assert len({result.id for result in results}) == 30


# --- Rejected before anything is sent --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "message", "code", "says"),
    [
        ("none", NewMessage(payload=1), "TopicNotFound", "in this manifest"),
        ("plian", NewMessage(payload=1), "TopicNotFound", "in this manifest; did you mean 'plain'?"),
        ("local", NewMessage(payload=1), "TopicNotFound", "on a database"),
        ("closed", NewMessage(payload=1), "TopicDisabled", "disabled"),
        ("unbound", NewMessage(payload=1), "TopicUnbound", "deploy"),
        ("unbound", NewMessage(payload=object()), "InvalidPayload", "JSON"),
        ("plain", NewMessage(payload=1, id="7"), "InvalidMessageId", "UUID"),
        ("plain", NewMessage(payload=1, attributes={"kind": "a\x0bb"}), "InvalidAttributes", "'kind' holds a control"),
        ("plain", NewMessage(payload=1, attributes={"tags": ["a", "\uffff"]}), "InvalidAttributes", "'tags' holds"),
        ("plain", NewMessage(payload=1, deliver_after=NOW), "DelayUnsupported", "deliver_after"),
        ("plain", NewMessage(payload=1, deduplication_key="k"), "InvalidDeduplication", "deduplication = true"),
        ("small", NewMessage(payload="x" * 1024), "PayloadTooLarge", "claim check"),
    ],
)
def test_a_message_that_cannot_go_is_rejected_unsent(topic: str, message: NewMessage, code: str, says: str) -> None:
    sns = FakeSns()
    (result,) = publisher(sns).publish(topic, [message])
    assert result.error is not None
    assert (result.status, result.error.code, sns.calls) == ("rejected", code, [])
    assert says in result.error.message
    assert result.error.retryable == (code == "TopicUnbound")


def test_a_bad_message_rejects_only_itself() -> None:
    sns = FakeSns()
    messages = [NewMessage(payload=1), NewMessage(payload=float("nan")), NewMessage(payload=3)]
    results = publisher(sns).publish("plain", messages)
    assert codes(results) == ["accepted", "InvalidPayload", "accepted"]
    assert [entry["Id"] for entry in sns.calls[0]] == ["0", "2"]
    assert results[1].id is None


def test_nothing_to_publish_makes_no_call() -> None:
    sns = FakeSns()
    assert publisher(sns).publish("plain", []) == []
    assert sns.calls == []


def test_a_connection_is_refused_before_anything_is_sent() -> None:
    sns = FakeSns()
    with pytest.raises(Unsupported, match="database"):
        publisher(sns).publish("plain", [NewMessage(payload=1)], connection=object())
    assert sns.calls == []


# --- What AWS answers ------------------------------------------------------------------------------------------


def test_entries_that_fail_inside_a_good_answer_are_rejected_alone() -> None:
    def some(entries: Request) -> dict[str, Any]:
        failed = [
            {"Id": "1", "Code": "InvalidParameter", "Message": "bad", "SenderFault": True},
            {"Id": "2", "Code": "InternalError", "Message": "oops", "SenderFault": False},
            {"Id": "3", "Code": "ThrottledException", "Message": "slowly", "SenderFault": True},
        ]
        return {"Successful": [{"Id": "0", "MessageId": "m"}], "Failed": failed}

    results = publisher(FakeSns(some)).publish("plain", [NewMessage(payload=n) for n in range(5)])
    expected = ["accepted", "TransportRejected", "TransportUnavailable", "TransportUnavailable", "TransportUnavailable"]
    assert codes(results) == expected
    assert "InvalidParameter: bad" in results[1].error.message
    assert "leaves this message out" in results[4].error.message
    assert all(result.id is not None for result in results)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (aws_error("NotFound", 404), "TransportRejected"),
        (aws_error("AuthorizationError", 403), "TransportRejected"),
        (aws_error("KMSAccessDenied", 400), "TransportRejected"),
        (aws_error("Throttling", 400), "TransportUnavailable"),
        (aws_error("KMSThrottling", 400), "TransportUnavailable"),
        (aws_error("ExpiredToken", 403), "TransportUnavailable"),
        (aws_error("InternalError", 500), "TransportUnavailable"),
        (aws_error("Strange", 503), "TransportUnavailable"),
        (ConnectTimeoutError(endpoint_url="https://sns"), "TransportUnavailable"),
        (NoCredentialsError(), "TransportRejected"),
    ],
)
def test_a_call_that_fails_rejects_its_messages_by_whose_fault_it_is(error: Exception, code: str) -> None:
    def fail(entries: Request) -> dict[str, Any]:
        raise error

    sns = FakeSns(fail)
    results = publisher(sns).publish("plain", [NewMessage(payload=n) for n in range(3)])
    assert codes(results) == [code] * 3
    assert results[0].error.retryable == (code == "TransportUnavailable")
    assert len(sns.calls) == 1


def test_a_batch_that_is_refused_for_one_entry_is_sent_entry_by_entry() -> None:
    def particular(entries: Request) -> dict[str, Any]:
        if any('"payload":"bad"' in entry["Message"] for entry in entries):
            raise aws_error("InvalidParameter", 400)
        return taken(entries)

    messages = [NewMessage(payload=text) for text in ("good", "bad", "good")]
    results = publisher(FakeSns(particular)).publish("plain", messages)
    assert codes(results) == ["accepted", "TransportRejected", "accepted"]


def test_a_failed_call_leaves_the_other_batches_alone() -> None:
    def second_fails(entries: Request) -> dict[str, Any]:
        if entries[0]["Id"] == "10":
            raise aws_error("ServiceUnavailable", 503)
        return taken(entries)

    results = publisher(FakeSns(second_fails)).publish("plain", [NewMessage(payload=n) for n in range(25)])
    assert codes(results) == ["accepted"] * 10 + ["TransportUnavailable"] * 10 + ["accepted"] * 5


def test_times_are_the_publishers_clock() -> None:
    sns = FakeSns()
    publisher(sns).publish("plain", [NewMessage(payload=1, expires_at=NOW + timedelta(days=1))])
    assert '"published_at":"2026-01-02T03:04:05.000Z"' in sns.calls[0][0]["Message"]
