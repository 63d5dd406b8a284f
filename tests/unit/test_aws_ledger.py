"""Deduplication keys on AWS: the ledger in DynamoDB (moto), and what publishing makes of it."""

import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError
from moto import mock_aws

from aws_transport.batches import DeduplicationClaim
from aws_transport.bindings import TopicBinding
from aws_transport.ledger import Ledger, Reservation
from aws_transport.publisher import SnsPublisher
from towpath.envelope import Sources
from towpath.message import NewMessage, PublishResult
from towpath.resolve import resolve
from towpath.topology import parse_topology

START = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TOPICS = {"orders": {"deduplication": True}, "returns": {"deduplication": True}}
STEPS = {"fifo": True, "deduplication": True}
MANIFEST = resolve(parse_topology({"name": "test", "topics": TOPICS | {"steps": STEPS}}), "unit")
NUMBERS = itertools.count(1)  # no two publishers have the same
Request = Sequence[Mapping[str, Any]]


@dataclass
class Clock:
    now: datetime = START

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def taken(entries: Request) -> dict[str, Any]:
    return {"Successful": [{"Id": entry["Id"], "MessageId": "m"} for entry in entries], "Failed": []}


@dataclass
class FakeSns:
    answer: Callable[[Request], dict[str, Any]] = taken
    sent: list[str] = field(default_factory=list)

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        answer = self.answer(request["PublishBatchRequestEntries"])
        accepted = {entry["Id"] for entry in answer["Successful"]}
        self.sent += [e["Message"] for e in request["PublishBatchRequestEntries"] if e["Id"] in accepted]
        return answer


@dataclass
class Tables:
    """DynamoDB, with every table of the manifest; ``refuse`` is raised in a call's stead, by the call's name.

    One call after another: a conditional write is one step on AWS, and several in moto.
    """

    dynamodb: Any
    refuse: dict[str, Exception] = field(default_factory=dict)
    after: dict[str, Callable[[], None]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put_item(self, **request: Any) -> Any:
        return self._call("put_item", request)

    def update_item(self, **request: Any) -> Any:
        return self._call("update_item", request)

    def delete_item(self, **request: Any) -> Any:
        return self._call("delete_item", request)

    def close(self) -> None:
        pass

    def item(self, topic: str, key: str) -> dict[str, str]:
        name = MANIFEST.topics[topic].aws.deduplication_table.name
        found = self.dynamodb.get_item(TableName=name, Key={"deduplication_key": {"S": key}}, ConsistentRead=True)
        return {name: next(iter(value.values())) for name, value in found.get("Item", {}).items()}

    def _call(self, name: str, request: Any) -> Any:
        if name in self.refuse:
            raise self.refuse[name]
        with self.lock:
            answer = getattr(self.dynamodb, name)(**request)
        self.after.get(name, lambda: None)()
        return answer


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tables]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name="eu-west-1")
        for topic in MANIFEST.topics.values():
            table = topic.aws.deduplication_table
            dynamodb.create_table(
                TableName=table.name,
                KeySchema=[{"AttributeName": table.partition_key, "KeyType": "HASH"}],
                AttributeDefinitions=[
                    {"AttributeName": table.partition_key, "AttributeType": table.partition_key_type}
                ],
                BillingMode=table.billing_mode,
            )
        yield Tables(dynamodb)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def publisher(tables: Tables, clock: Clock, sns: FakeSns | None = None) -> SnsPublisher:
    return SnsPublisher(
        topics=MANIFEST.topics,
        bindings={name: TopicBinding(arn=f"arn:{name}", fifo=name == "steps") for name in MANIFEST.topics},
        client=sns or FakeSns(),
        sources=Sources(clock=clock, random_bytes=lambda size: next(NUMBERS).to_bytes(size, "big")),
        ledger_client=tables,
    )


def keyed(number: int = 1, key: str = "batch-1", **more: Any) -> NewMessage:
    return NewMessage(payload={"number": number}, deduplication_key=key, **{"deduplication_ttl": MINUTE} | more)


def codes(results: Sequence[PublishResult]) -> list[str]:
    return [result.error.code if result.error is not None else result.status for result in results]


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Anything")


# --- Windows ---------------------------------------------------------------------------------------------------


def test_a_repeat_within_the_window_is_a_duplicate_with_the_winners_id(tables: Tables, clock: Clock) -> None:
    sns = FakeSns()
    (first,) = publisher(tables, clock, sns).publish("orders", [keyed(1)])
    (repeat,) = publisher(tables, clock, sns).publish("orders", [keyed(2)])
    assert (first.status, repeat.status, repeat.id, repeat.error) == ("accepted", "duplicate", first.id, None)
    assert len(sns.sent) == 1


def test_a_key_counts_for_its_topic_alone(tables: Tables, clock: Clock) -> None:
    for topic in ("orders", "returns", "steps"):
        assert codes(publisher(tables, clock).publish(topic, [keyed()])) == ["accepted"]


def test_a_repeat_in_a_sliding_window_renews_it_and_one_that_says_fixed_does_not(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    (first,) = sender.publish("orders", [keyed(1)])
    for _ in range(3):
        clock.advance(40)
        (repeat,) = sender.publish("orders", [keyed(2)])
        assert (repeat.status, repeat.id) == ("duplicate", first.id)
    clock.advance(40)
    (repeat,) = sender.publish("orders", [keyed(3, deduplication_window="fixed")])
    assert repeat.status == "duplicate"
    clock.advance(21)
    (later,) = sender.publish("orders", [keyed(4)])
    assert (later.status, later.id == first.id) == ("accepted", False)


def test_a_sliding_repeat_never_makes_a_window_shorter(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    sender.publish("orders", [keyed(1, deduplication_ttl=timedelta(hours=1))])
    sender.publish("orders", [keyed(2)])
    clock.advance(3_000)
    assert codes(sender.publish("orders", [keyed(3)])) == ["duplicate"]


def test_without_a_ttl_the_topics_counts(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    sender.publish("orders", [keyed(deduplication_ttl=None)])
    clock.advance(86_399)
    assert codes(sender.publish("orders", [keyed(deduplication_window="fixed")])) == ["duplicate"]
    clock.advance(2)
    assert codes(sender.publish("orders", [keyed()])) == ["accepted"]


def test_an_item_that_dynamodb_has_not_deleted_yet_counts_no_more(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    sender.publish("orders", [keyed()])
    assert tables.item("orders", "batch-1")["state"] == "confirmed"
    clock.advance(61)
    assert tables.item("orders", "batch-1") != {}
    assert codes(sender.publish("orders", [keyed()])) == ["accepted"]


def test_the_time_of_an_item_is_whole_seconds_and_no_shorter_than_the_window(tables: Tables, clock: Clock) -> None:
    publisher(tables, clock).publish("orders", [keyed()])
    ends = tables.item("orders", "batch-1")["expires_at"]
    assert int(ends) >= (START + MINUTE).timestamp() > int(ends) - 1


# --- Reservations ----------------------------------------------------------------------------------------------


def reserved(tables: Tables, clock: Clock, message_id: str = "other", key: str = "batch-1") -> Reservation:
    """A key that another publisher has reserved, who has not published yet."""
    sources = Sources(clock=clock, random_bytes=lambda size: message_id.encode().ljust(size)[:size])
    ledger = Ledger(client=tables, table=MANIFEST.topics["orders"].aws.deduplication_table.name, sources=sources)
    made = ledger.reserve(DeduplicationClaim(key=key, ttl_seconds=60, window="sliding"), message_id)
    assert isinstance(made, Reservation)
    return made


def test_while_another_publisher_has_the_key_reserved_it_is_pending(tables: Tables, clock: Clock) -> None:
    sns = FakeSns()
    reserved(tables, clock)
    (result,) = publisher(tables, clock, sns).publish("orders", [keyed()])
    assert (codes([result]), result.error.retryable, sns.sent) == (["DeduplicationPending"], True, [])
    assert result.id is not None


def test_a_publisher_that_dies_between_reserving_and_publishing_holds_the_key_for_two_minutes(
    tables: Tables, clock: Clock
) -> None:
    reserved(tables, clock)
    sender = publisher(tables, clock)
    clock.advance(119)
    assert codes(sender.publish("orders", [keyed()])) == ["DeduplicationPending"]
    clock.advance(2)
    assert codes(sender.publish("orders", [keyed(), keyed()])) == ["accepted", "duplicate"]


def test_a_publisher_that_dies_before_confirming_lets_a_repeat_through_after_two_minutes(
    tables: Tables, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    sender = publisher(tables, clock)
    tables.refuse["update_item"] = ConnectTimeoutError(endpoint_url="https://dynamodb")
    assert codes(sender.publish("orders", [keyed(deduplication_ttl=timedelta(days=1))])) == ["accepted"]
    assert "counts for 2 minutes only" in caplog.text
    tables.refuse.clear()
    clock.advance(119)
    assert codes(sender.publish("orders", [keyed()])) == ["DeduplicationPending"]
    clock.advance(2)
    assert codes(sender.publish("orders", [keyed()])) == ["accepted"]


def test_who_lost_a_reservation_confirms_and_withdraws_nothing_of_its_successors(
    tables: Tables, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    slow = reserved(tables, clock, "slow")
    clock.advance(121)
    reserved(tables, clock, "quick")
    ledger = Ledger(
        client=tables,
        table=MANIFEST.topics["orders"].aws.deduplication_table.name,
        sources=Sources(clock=clock, random_bytes=bytes),
    )
    ledger.confirm(slow)
    ledger.withdraw(slow)
    assert tables.item("orders", "batch-1")["message_id"] == "quick"
    assert tables.item("orders", "batch-1")["state"] == "reserved"
    assert caplog.text == ""


def test_a_repeat_renews_no_window_that_somebody_else_won_meanwhile(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    sender.publish("orders", [keyed()])
    old = tables.item("orders", "batch-1")

    class Slow(Tables):
        """The old item comes as an answer, and by then the key is another's."""

        def put_item(self, **request: Any) -> Any:
            try:
                return super().put_item(**request)
            except ClientError:
                clock.advance(61)
                reserved(tables, clock, "quick")
                raise

    (repeat,) = publisher(Slow(tables.dynamodb), clock).publish("orders", [keyed()])
    assert (repeat.status, repeat.id) == ("duplicate", old["message_id"])
    now = tables.item("orders", "batch-1")
    assert (now["message_id"], now["state"]) == ("quick", "reserved")
    assert int(now["expires_at"]) < clock.now.timestamp() + 122


def test_a_reservation_that_boto3_wrote_twice_is_its_own(tables: Tables, clock: Clock) -> None:
    """The first answer did not come, so boto3 asked again, and finds what it wrote."""

    class Deaf(Tables):
        def put_item(self, **request: Any) -> Any:
            super().put_item(**request)
            return super().put_item(**request)

    assert codes(publisher(Deaf(tables.dynamodb), clock).publish("orders", [keyed()])) == ["accepted"]
    assert tables.item("orders", "batch-1")["state"] == "confirmed"


def test_a_message_that_sns_refuses_leaves_its_key_free(tables: Tables, clock: Clock) -> None:
    refusals = [aws_error("InvalidParameter", 400), aws_error("Throttling", 400), ConnectTimeoutError(endpoint_url="x")]
    for refusal in refusals:
        (result,) = publisher(tables, clock, FakeSns(lambda _, error=refusal: _raise(error))).publish(
            "orders", [keyed()]
        )
        assert result.status == "rejected"
        assert tables.item("orders", "batch-1") == {}

    def one_fault(entries: Request) -> dict[str, Any]:
        failed = [{"Id": e["Id"], "Code": "InternalError", "Message": "", "SenderFault": False} for e in entries]
        return {"Successful": [], "Failed": failed}

    publisher(tables, clock, FakeSns(one_fault)).publish("orders", [keyed()])
    assert tables.item("orders", "batch-1") == {}


@pytest.mark.parametrize("error", [ReadTimeoutError(endpoint_url="x"), aws_error("InternalError", 500)])
def test_a_message_that_may_be_with_sns_keeps_its_key_reserved(tables: Tables, clock: Clock, error: Exception) -> None:
    lost = publisher(tables, clock, FakeSns(lambda _: _raise(error)))
    assert codes(lost.publish("orders", [keyed()])) == ["TransportUnavailable"]
    sender = publisher(tables, clock)
    assert codes(sender.publish("orders", [keyed()])) == ["DeduplicationPending"]
    clock.advance(121)
    assert codes(sender.publish("orders", [keyed()])) == ["accepted"]


def _raise(error: Exception) -> dict[str, Any]:
    raise error


def test_nothing_is_sent_on_a_reservation_that_is_about_to_end(tables: Tables, clock: Clock) -> None:
    sns = FakeSns()
    tables.after["put_item"] = lambda: clock.advance(40)  # a ledger as slow as that
    results = publisher(tables, clock, sns).publish("orders", [keyed(n, key=f"k{n}") for n in range(3)])
    assert codes(results) == ["TransportUnavailable", "TransportUnavailable", "accepted"]
    assert (len(sns.sent), tables.item("orders", "k0"), tables.item("orders", "k2")["state"]) == (1, {}, "confirmed")


# --- Within one call -------------------------------------------------------------------------------------------


def test_of_one_key_in_a_call_the_first_wins_whatever_the_batch(tables: Tables, clock: Clock) -> None:
    sns = FakeSns()
    messages = [keyed(n, key="ab"[n % 2]) for n in range(25)] + [NewMessage(payload=0)]
    results = publisher(tables, clock, sns).publish("orders", messages)
    assert codes(results) == ["accepted", "accepted"] + ["duplicate"] * 23 + ["accepted"]
    assert {result.id for result in results[2:25]} == {results[0].id, results[1].id}
    assert len(sns.sent) == 3


def test_when_the_first_of_a_key_fails_the_next_one_of_the_call_has_its_turn(tables: Tables, clock: Clock) -> None:
    def first_is_bad(entries: Request) -> dict[str, Any]:
        if any('"number":1' in entry["Message"] for entry in entries):
            raise aws_error("InvalidParameter", 400)
        return taken(entries)

    results = publisher(tables, clock, FakeSns(first_is_bad)).publish("orders", [keyed(1), keyed(2), keyed(3)])
    assert codes(results) == ["TransportRejected", "accepted", "duplicate"]
    assert results[2].id == results[1].id


def test_a_duplicate_does_not_hold_up_its_partition_key_and_a_pending_one_does(tables: Tables, clock: Clock) -> None:
    sender = publisher(tables, clock)
    sender.publish("steps", [keyed(0, partition_key="p")])
    first, second = keyed(1, partition_key="p"), NewMessage(payload=2, partition_key="p")
    assert codes(sender.publish("steps", [first, second])) == ["duplicate", "accepted"]
    table = MANIFEST.topics["steps"].aws.deduplication_table.name
    other = Ledger(client=tables, table=table, sources=Sources(clock=clock, random_bytes=bytes))
    other.reserve(DeduplicationClaim(key="held", ttl_seconds=60, window="fixed"), "other")
    held = keyed(3, key="held", partition_key="p")
    assert codes(sender.publish("steps", [held, second])) == ["DeduplicationPending", "TransportUnavailable"]


def test_of_two_publishers_at_once_one_wins(tables: Tables, clock: Clock) -> None:
    meeting = threading.Barrier(2, timeout=10)
    results: list[PublishResult] = []
    rival_done = threading.Event()

    class Meeting(Tables):
        def put_item(self, **request: Any) -> Any:
            meeting.wait()
            return super().put_item(**request)

    def held_until_both_know(entries: Request) -> dict[str, Any]:
        rival_done.wait(10)
        return taken(entries)

    def run(sender: SnsPublisher) -> None:
        (result,) = sender.publish("orders", [keyed()])
        results.append(result)
        rival_done.set()

    rivals = Meeting(tables.dynamodb)
    senders = [publisher(rivals, clock, FakeSns(held_until_both_know)) for _ in range(2)]
    threads = [threading.Thread(target=run, args=(sender,)) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes(results)) == ["DeduplicationPending", "accepted"]


# --- A ledger that cannot be asked -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (aws_error("ProvisionedThroughputExceededException", 400), "TransportUnavailable"),
        (aws_error("InternalServerError", 500), "TransportUnavailable"),
        (ReadTimeoutError(endpoint_url="x"), "TransportUnavailable"),
        (aws_error("AccessDeniedException", 400), "TransportRejected"),
        (aws_error("ResourceNotFoundException", 400), "TransportRejected"),
    ],
)
def test_a_ledger_that_cannot_be_asked_rejects_keyed_messages_alone(
    tables: Tables, clock: Clock, error: Exception, code: str
) -> None:
    sns = FakeSns()
    tables.refuse["put_item"] = error
    results = publisher(tables, clock, sns).publish("orders", [keyed(), NewMessage(payload=1)])
    assert codes(results) == [code, "accepted"]
    assert "ledger" in results[0].error.message
    assert len(sns.sent) == 1


def test_changes_that_fail_are_told_in_the_log_without_a_key_or_payload(
    tables: Tables, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    sender = publisher(tables, clock)
    sender.publish("orders", [keyed()])
    tables.refuse["update_item"] = aws_error("ThrottlingException", 400)
    clock.advance(10)
    assert codes(sender.publish("orders", [keyed()])) == ["duplicate"]
    tables.refuse["delete_item"] = aws_error("ThrottlingException", 400)
    refusing = publisher(tables, clock, FakeSns(lambda _: _raise(aws_error("InvalidParameter", 400))))
    refusing.publish("orders", [keyed(key="batch-2")])
    assert "its window is not renewed: ThrottlingException" in caplog.text
    assert "stays reserved for 2 minutes" in caplog.text
    assert "batch-" not in caplog.text
