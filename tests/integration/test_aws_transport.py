"""The AWS transport on LocalStack: publishing through SNS, consuming from SQS, dead letters."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws_transport.clients import Clients
from aws_transport.consumer import SqsConsumer
from aws_transport.transport import AwsTransport
from tests.servers.localstack import Aws
from tests.servers.provision import provisioned
from towpath import connect
from towpath.context import AbortSignal
from towpath.dispatch import Control, Dispatcher
from towpath.envelope import Origin, Sources, decode
from towpath.handler import inspected
from towpath.message import ABSENT, Message, NewMessage, PayloadRef, utc_now
from towpath.outcome import DeadLetter, Retry
from towpath.payload import converter
from towpath.ports import Extension
from towpath.resolve import resolve
from towpath.settlement import (
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
    settle,
)
from towpath.topology import parse_topology

SHORT = timedelta(seconds=1)
LOST = LeaseLost()


def worker(topic: str, **keys: Any) -> dict[str, Any]:
    return {"topic": topic, "handler": "some.module:handle", "host": "worker", "lease_seconds": 30} | keys


@pytest.fixture
def deploy(aws: Aws, request: pytest.FixtureRequest) -> Iterator[Callable[..., AwsTransport]]:
    """``deploy(topics, subscriptions)``: on LocalStack, with a transport to it."""
    made: list[Any] = []

    def deployed(topics: dict[str, Any], subscriptions: dict[str, Any]) -> AwsTransport:
        document = {"name": "transport-test", "topics": topics, "subscriptions": subscriptions}
        manifest = resolve(parse_topology(document), f"t{os.getpid()}-{len(made)}")
        made.append(provisioned(aws, manifest))
        deployment = made[-1].__enter__()
        return AwsTransport(
            manifest=manifest,
            bindings=deployment.bindings,
            clients=Clients(sns=aws.client("sns"), sqs=aws.client("sqs")),
            sources=Sources(clock=utc_now, random_bytes=os.urandom),
        )

    yield deployed
    for deployment in reversed(made):
        deployment.__exit__(None, None, None)


@pytest.fixture
def one_queue(deploy: Callable[..., AwsTransport]) -> AwsTransport:
    return deploy({"letters": {}}, {"letters.read": worker("letters")})


def received(consumer: SqsConsumer, count: int, within: float = 10) -> list[Delivery]:
    """``count`` deliveries, or as many as come in the time."""
    found: list[Delivery] = []
    end = time.monotonic() + within
    while len(found) < count and time.monotonic() < end:
        found += consumer.receive(count - len(found), SHORT)
    return found


def drained(consumer: SqsConsumer) -> list[Delivery]:
    """All that comes until nothing comes for a second."""
    found: list[Delivery] = []
    while more := consumer.receive(10, SHORT):
        found += more
    return found


def accepted(transport: AwsTransport, topic: str, *messages: NewMessage) -> list[str]:
    results = transport.publish(topic, messages)
    assert [result.status for result in results] == ["accepted"] * len(messages), results
    return [result.id for result in results]


def read(delivery: Delivery) -> Message[Any]:
    origin = Origin(message_id=delivery.message_id, topic=delivery.topic, received_at=delivery.received_at)
    return decode(delivery.body, origin)


# --- Publishing ------------------------------------------------------------------------------------------------


def test_a_message_comes_back_as_it_was_published(one_queue: AwsTransport) -> None:
    moment = datetime(2099, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    message = NewMessage(
        payload={"text": "Gr\u00fc\u00dfe \U0001f600 \t\n\x01\ufffe\uffff", "numbers": [1, 2.5, None]},
        partition_key="tenant",
        attributes={"kind": "pdf", "pages": 12, "tags": ["a", "b\t\U0001f600"]},
        correlation_id="order-1",
        causation_id="01890a5d-ac96-774b-bcce-b302099a8057",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        expires_at=moment,
    )
    claim_check = NewMessage(payload_ref=PayloadRef(uri="s3://bucket/key", size_bytes=12))
    ids = accepted(one_queue, "letters", message, claim_check)
    deliveries = received(one_queue.consumer("letters.read"), 2)
    back = {found.id: found for found in map(read, deliveries)}
    first, second = (back[message_id] for message_id in ids)
    assert (first.payload, first.partition_key) == (message.payload, "tenant")
    assert first.attributes == {"kind": "pdf", "pages": 12, "tags": ("a", "b\t\U0001f600")}
    assert (first.correlation_id, first.causation_id) == (message.correlation_id, message.causation_id)
    assert (first.traceparent, first.expires_at) == (message.traceparent, moment)
    assert (second.payload, second.payload_ref) == (ABSENT, claim_check.payload_ref)
    assert {delivery.attempt for delivery in deliveries} == {1}
    carried = next(delivery.attributes for delivery in deliveries if read(delivery).id == ids[0])
    assert carried == first.attributes


def test_each_subscription_gets_what_its_filter_lets_through(deploy: Callable[..., AwsTransport]) -> None:
    filters = {
        "exact": {"kind": ["pdf", "docx"]},
        "prefix": {"kind": [{"prefix": "doc"}]},
        "but": {"kind": [{"anything-but": ["pdf"]}]},
        "absent": {"kind": [{"exists": False}]},
        "listed": {"tags": ["red"]},
    }
    subscriptions = {f"files.{name}": worker("files", filter=policy) for name, policy in filters.items()}
    transport = deploy({"files": {}}, subscriptions | {"files.all": worker("files")})
    published = {
        "pdf": {"kind": "pdf"},
        "docx": {"kind": "docx", "tags": ["blue", "red"]},
        "txt": {"kind": "txt", "pages": 3},
        "none": {},
    }
    accepted(transport, "files", *(NewMessage(payload=n, attributes=a) for n, a in published.items()))
    got = {
        name.removeprefix("files."): sorted(read(d).payload for d in drained(transport.consumer(name)))
        for name in (*subscriptions, "files.all")
    }
    assert got == {
        "exact": ["docx", "pdf"],
        "prefix": ["docx"],
        "but": ["docx", "txt"],
        "absent": ["none"],
        "listed": ["docx"],
        "all": ["docx", "none", "pdf", "txt"],
    }


def test_a_call_of_many_messages_is_answered_in_their_order(one_queue: AwsTransport) -> None:
    messages = [NewMessage(payload=n) for n in range(35)]
    messages[7] = NewMessage(payload=7, attributes={"towpath-x": "reserved"})
    messages[20] = NewMessage(payload="x" * 300_000)
    messages[21] = NewMessage(payload="x" * 200_000)
    messages[22] = NewMessage(payload="x" * 200_000)
    results = one_queue.publish("letters", messages)
    refused = {i: result.error.code for i, result in enumerate(results) if result.error is not None}
    assert refused == {7: "InvalidAttributes", 20: "PayloadTooLarge"}
    deliveries = received(one_queue.consumer("letters.read"), 33)
    assert {read(d).id for d in deliveries} == {result.id for result in results if result.status == "accepted"}


def test_the_largest_message_arrives_and_one_byte_more_is_refused(one_queue: AwsTransport) -> None:
    attributes = {"kind": "x" * 256}
    smallest = one_queue.publish("letters", [NewMessage(payload="x" * 300_000, attributes=attributes)])[0]
    over = int(smallest.error.message.split(" over")[0].split()[-1].replace(",", ""))
    largest = NewMessage(payload="x" * (300_000 - over), attributes=attributes)
    one_more = NewMessage(payload="x" * (300_000 - over + 1), attributes=attributes)
    first, second = one_queue.publish("letters", [largest, one_more])
    assert (first.status, second.error.code) == ("accepted", "PayloadTooLarge")
    assert [read(d).id for d in received(one_queue.consumer("letters.read"), 1)] == [first.id]


def test_a_topic_that_was_deleted_rejects_every_message(one_queue: AwsTransport) -> None:
    one_queue.clients.sns.delete_topic(TopicArn=one_queue.bindings.topics["letters"].arn)
    results = one_queue.publish("letters", [NewMessage(payload=1), NewMessage(payload=2)])
    assert [result.error.code for result in results] == ["TransportRejected"] * 2
    assert "NotFound" in results[0].error.message


# --- Consuming and settling ------------------------------------------------------------------------------------


def test_a_completed_delivery_never_comes_again(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", *(NewMessage(payload=n) for n in range(12)))
    consumer = one_queue.consumer("letters.read")
    deliveries = received(consumer, 12)
    assert settle([Completion(delivery=d) for d in deliveries], consumer) == [Settled(state="completed")] * 12
    (stats,) = one_queue.operator().stats()
    assert (stats.pending, stats.leased, stats.dead) == (0, 0, 0)


def test_a_retry_hides_for_its_delay_and_comes_with_the_next_attempt(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", NewMessage(payload=1))
    consumer = one_queue.consumer("letters.read")
    (first,) = received(consumer, 1)
    failure = Failure(type="Retry", message="later")
    retried_at = time.monotonic()
    answers = consumer.retry([Retrial(delivery=first, delay=timedelta(seconds=2), failure=failure)])
    assert answers == [Settled(state="pending")]
    assert consumer.receive(1, timedelta(0)) == []
    (second,) = received(consumer, 1)
    assert time.monotonic() - retried_at >= 1.9
    assert (second.attempt, second.id, second.message_id) == (2, first.id, first.message_id)


def test_a_released_delivery_comes_at_once_and_its_attempt_counts(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", NewMessage(payload=1))
    consumer = one_queue.consumer("letters.read")
    (first,) = received(consumer, 1)
    assert consumer.release([Release(delivery=first)]) == [Settled(state="pending")]
    (second,) = received(consumer, 1, within=5)
    assert second.attempt == 2


def test_an_extended_delivery_stays_hidden_past_its_first_lease(deploy: Callable[..., AwsTransport]) -> None:
    transport = deploy({"letters": {}}, {"letters.read": worker("letters", lease_seconds=5)})
    accepted(transport, "letters", NewMessage(payload=1))
    consumer = transport.consumer("letters.read")
    (first,) = received(consumer, 1)
    received_at = time.monotonic()
    time.sleep(3)
    assert consumer.extend([Extension(delivery=first)]) == [Settled(state="leased")]
    assert received(consumer, 1, within=received_at + 6.5 - time.monotonic()) == []
    (second,) = received(consumer, 1)
    assert second.attempt == 2


def test_a_settled_delivery_cannot_be_settled_again(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", NewMessage(payload=1))
    consumer = one_queue.consumer("letters.read")
    (delivery,) = received(consumer, 1)
    consumer.complete([Completion(delivery=delivery)])
    failure = Failure(type="Late", message="")
    late = [
        Retrial(delivery=delivery, delay=SHORT, failure=failure),
        DeadLettering(delivery=delivery, reason="late"),
        Release(delivery=delivery),
    ]
    assert settle(late, consumer) == [LOST] * 3
    assert consumer.extend([Extension(delivery=delivery)]) == [LOST]
    assert list(one_queue.operator().dead_letters("letters.read", 10)) == []


def test_a_discarded_delivery_is_gone(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", NewMessage(payload=1))
    consumer = one_queue.consumer("letters.read")
    (delivery,) = received(consumer, 1)
    assert consumer.discard([Discard(delivery=delivery, reason="Expired")]) == [Settled(state="discarded")]
    (stats,) = one_queue.operator().stats()
    assert (stats.pending, stats.leased, stats.dead) == (0, 0, 0)


def test_a_fifo_queue_hands_out_one_of_a_key_at_a_time(deploy: Callable[..., AwsTransport]) -> None:
    transport = deploy({"steps": {}}, {"steps.take": worker("steps", partition_mode="exclusive")})
    messages = [NewMessage(payload=n, partition_key="Z\u00fcrich") for n in range(3)]
    ids = accepted(transport, "steps", *messages, NewMessage(payload="alone"))
    consumer = transport.consumer("steps.take")
    first = received(consumer, 2)
    assert sorted(str(read(d).payload) for d in first) == ["0", "alone"]
    assert consumer.receive(10, SHORT) == []
    settle([Completion(delivery=d) for d in first], consumer)
    (second,) = received(consumer, 1)
    assert read(second).id == ids[1]


# --- Dead letters ----------------------------------------------------------------------------------------------


def test_a_dead_letter_is_listed_with_reason_error_attempts_and_body(one_queue: AwsTransport) -> None:
    (message_id,) = accepted(one_queue, "letters", NewMessage(payload={"n": 1}, attributes={"kind": "pdf"}))
    consumer = one_queue.consumer("letters.read")
    (delivery,) = received(consumer, 1)
    failure = Failure(type="ValueError", message="no such page")
    letter = DeadLettering(delivery=delivery, reason="MaxAttemptsExceeded", failure=failure)
    assert consumer.dead_letter([letter]) == [Settled(state="dead")]
    (entry,) = one_queue.operator().dead_letters("letters.read", 10)
    assert (entry.message_id, entry.reason, entry.attempts) == (message_id, "MaxAttemptsExceeded", 1)
    assert (entry.error, entry.body) == ("ValueError: no such page", delivery.body)
    assert abs(entry.dead_since - utc_now()) < timedelta(minutes=1)
    (stats,) = one_queue.operator().stats()
    assert (stats.pending, stats.leased, stats.dead) == (0, 0, 1)


def test_listing_loses_and_hides_no_dead_letter(one_queue: AwsTransport) -> None:
    accepted(one_queue, "letters", *(NewMessage(payload=n) for n in range(23)))
    consumer, operator = one_queue.consumer("letters.read"), one_queue.operator()
    deliveries = received(consumer, 23)
    consumer.dead_letter([DeadLettering(delivery=d, reason="unwanted") for d in deliveries])
    wanted = sorted(d.body for d in deliveries)
    assert len(operator.dead_letters("letters.read", 5)) == 5
    for _ in range(2):
        assert sorted(entry.body for entry in operator.dead_letters("letters.read", 100)) == wanted
    (stats,) = operator.stats()
    assert stats.dead == 23


def test_what_sqs_sets_aside_itself_is_listed_too(aws: Aws, deploy: Callable[..., AwsTransport]) -> None:
    transport = deploy({"letters": {}}, {"letters.read": worker("letters", max_attempts=1)})
    accepted(transport, "letters", NewMessage(payload=1))
    consumer = transport.consumer("letters.read")
    for _ in range(6):  # max_attempts + 5
        (delivery,) = received(consumer, 1)
        consumer.release([Release(delivery=delivery)])
    assert received(consumer, 1, within=2) == []
    (entry,) = transport.operator().dead_letters("letters.read", 10)
    assert (entry.reason, entry.attempts, entry.message_id) == ("MaxReceivesExceeded", 6, read(delivery).id)


def handle(message: Message[Any], context: Any) -> Any:
    match message.payload:
        case {"do": "retry"}:
            return Retry("not yet")
        case {"do": "dead"}:
            return DeadLetter("unwanted")
    return None


def control() -> Control:
    return Control(abort=AbortSignal(), beat=lambda progress: True, deadline=None, run_async=asyncio.run)


def dispatched(transport: AwsTransport, name: str, deliveries: list[Delivery]) -> list[Any]:
    handler = inspected(handle)
    dispatcher = Dispatcher(
        policy=transport.policies()[name],
        handler=handler,
        convert=converter(handler.payload_type),
        publish=transport.publish,
        log=logging.getLogger("test"),
    )
    decisions: list[Any] = []
    for delivery in deliveries:
        dispatcher.dispatch(delivery, control(), decisions.append)
    return settle(decisions, transport.consumer(name))


def test_a_corrupt_body_is_set_aside_and_its_neighbours_are_handled(one_queue: AwsTransport) -> None:
    sqs, url = one_queue.clients.sqs, one_queue.bindings.subscriptions["letters.read"].queue_url
    accepted(one_queue, "letters", NewMessage(payload={"do": "nothing"}))
    for body in ('{"schema": "towpath/1", "id": 7}', '{"schema": "towpath/9"}', "not JSON at all"):
        sqs.send_message(QueueUrl=url, MessageBody=body)
    accepted(one_queue, "letters", NewMessage(payload={"do": "dead"}), NewMessage(payload={"do": "retry"}))
    deliveries = received(one_queue.consumer("letters.read"), 6)
    states = [answer.state for answer in dispatched(one_queue, "letters.read", deliveries)]
    assert sorted(states) == ["completed", "completed", "dead", "dead", "dead", "pending"]
    entries = one_queue.operator().dead_letters("letters.read", 10)
    assert sorted(entry.reason for entry in entries) == ["InvalidEnvelope", "UnsupportedSchema", "unwanted"]
    corrupt = next(entry for entry in entries if entry.reason == "InvalidEnvelope")
    assert corrupt.body == '{"schema": "towpath/1", "id": 7}'
    assert "id must be a UUID" in corrupt.error


def test_a_notification_without_raw_delivery_is_unwrapped(one_queue: AwsTransport) -> None:
    sns, binding = one_queue.clients.sns, one_queue.bindings.subscriptions["letters.read"]
    topic = sns.create_topic(Name=f"foreign-{os.getpid()}")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=binding.queue_arn)
    attributes = {"kind": {"DataType": "String", "StringValue": "pdf"}}
    sns.publish(TopicArn=topic, Message=json.dumps({"id": 5}), MessageAttributes=attributes)
    (delivery,) = received(one_queue.consumer("letters.read"), 1)
    sns.delete_topic(TopicArn=topic)
    message = read(delivery)
    assert (message.payload, message.attributes, message.id) == ({"id": 5}, {"kind": "pdf"}, delivery.message_id)


# --- Through towpath.connect -----------------------------------------------------------------------------------


@contextmanager
def environment(aws: Aws) -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("TOWPATH_AWS_ENDPOINT", aws.endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield patch


def test_connect_opens_a_region_with_the_files_of_a_deployment(
    one_queue: AwsTransport, aws: Aws, tmp_path: Any
) -> None:
    manifest, bindings = tmp_path / "manifest.json", tmp_path / "bindings.json"
    manifest.write_text(one_queue.manifest.to_json())
    bindings.write_text(one_queue.bindings.to_json())
    with environment(aws) as variables:
        opened = connect(f"aws://{aws.region}", manifest, bindings=bindings)
        (first,) = accepted(opened, "letters", NewMessage(payload=1))
        opened.close()
        variables.setenv("TOWPATH_BINDINGS", str(bindings))
        role = "arn:aws:iam::000000000000:role/sender"
        assumed = connect(f"aws://{aws.region}?role_arn={role}&external_id=tenant-7", manifest)
        (second,) = accepted(assumed, "letters", NewMessage(payload=2))
        assumed.close()
    assert {read(d).id for d in received(one_queue.consumer("letters.read"), 2)} == {first, second}
