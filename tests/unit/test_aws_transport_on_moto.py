"""The AWS transport through boto3's real calls, on moto in this process."""

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from aws_transport.bindings import Bindings, SubscriptionBinding, TopicBinding
from aws_transport.consumer import SqsConsumer
from aws_transport.transport import CAPABILITIES, AwsTransport
from tests.servers.provision import provisioned
from towpath import connect
from towpath.errors import (
    InvalidBindings,
    InvalidTransportUrl,
    SubscriptionNotFound,
    TransportRejected,
    TransportUnavailable,
    Unsupported,
)
from towpath.message import NewMessage
from towpath.operating import Pace, Selection, Warrant
from towpath.resolve import resolve
from towpath.settlement import Completion, DeadLettering, Delivery, Failure, Settled
from towpath.topology import parse_topology

NOW = timedelta(0)
WORKER = {"topic": "letters", "handler": "some.module:handle", "host": "worker"}
TOPOLOGY = {
    "name": "moto",
    "topics": {"letters": {}, "local": {"transport": "database"}},
    "subscriptions": {
        "letters.read": WORKER,
        "letters.red": WORKER | {"filter": {"colour": ["red"]}},
        "letters.function": {"topic": "letters", "handler": "some.module:handle"},
        "local.read": {"topic": "local", "handler": "some.module:handle"},
    },
}


class MotoClients:
    region = "eu-west-1"

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=self.region)


@pytest.fixture
def variables(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """An environment that knows no other AWS."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_"))]:
            patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        yield patch


@pytest.fixture
def transport(variables: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AwsTransport]:
    manifest = resolve(parse_topology(TOPOLOGY), "unit")
    with mock_aws(), provisioned(MotoClients(), manifest) as deployment:
        bindings = tmp_path / "bindings.json"
        bindings.write_text(deployment.bindings.to_json())
        opened = connect("aws://eu-west-1", manifest, bindings=bindings)
        assert isinstance(opened, AwsTransport)
        yield opened
        opened.close()


@pytest.fixture
def offline(variables: pytest.MonkeyPatch, tmp_path: Path) -> AwsTransport:
    """A transport whose bindings name nothing real: for what can be said without a call."""
    manifest = resolve(parse_topology(TOPOLOGY), "unit")
    urls = ("queue_url", "dead_letter_queue_url", "delivery_failure_queue_url")
    arn = "arn:aws:sqs:eu-west-1:1:none"
    binding = SubscriptionBinding(**dict.fromkeys(urls, "http://127.0.0.1:9/1/none"), queue_arn=arn)
    bindings = Bindings(
        topics={"letters": TopicBinding(arn="arn:aws:sns:eu-west-1:1:none", fifo=False)},
        subscriptions={name: binding for name, s in manifest.subscriptions.items() if s.aws is not None},
    )
    (tmp_path / "bindings.json").write_text(bindings.to_json())
    variables.setenv("TOWPATH_AWS_ENDPOINT", "http://127.0.0.1:9")
    variables.setenv("AWS_MAX_ATTEMPTS", "1")
    variables.setenv("TOWPATH_BINDINGS", str(tmp_path / "bindings.json"))
    opened = connect("aws://eu-west-1", manifest)
    assert isinstance(opened, AwsTransport)
    return opened


def payloads(deliveries: list[Delivery]) -> set[str]:
    return {delivery.body.partition('"payload":')[2].partition(",")[0] for delivery in deliveries}


def test_published_messages_reach_the_queues_that_want_them(transport: AwsTransport) -> None:
    messages = [NewMessage(payload=n, attributes={"colour": "red" if n % 2 else "blue"}) for n in range(4)]
    results = transport.publish("letters", messages)
    assert [result.status for result in results] == ["accepted"] * 4
    assert payloads(transport.consumer("letters.read").receive(10, NOW)) == {"0", "1", "2", "3"}
    assert payloads(transport.consumer("letters.red").receive(10, NOW)) == {"1", "3"}


def test_a_delivery_carries_what_sqs_says_of_it(transport: AwsTransport) -> None:
    transport.publish("letters", [NewMessage(payload=1, attributes={"colour": "red", "size": 3, "tags": ["a"]})])
    (delivery,) = transport.consumer("letters.red").receive(1, NOW)
    assert (delivery.subscription, delivery.topic, delivery.attempt) == ("letters.red", "letters", 1)
    assert delivery.attributes == {"colour": "red", "size": 3, "tags": ("a",)}
    assert (delivery.id, delivery.is_replay) == (delivery.message_id, False)
    assert delivery.lease_token


def test_a_replayed_message_says_so(transport: AwsTransport) -> None:
    transport.clients.sqs.send_message(
        QueueUrl=transport.bindings.subscriptions["letters.read"].queue_url,
        MessageBody="{}",
        MessageAttributes={"towpath-replay": {"DataType": "Number", "StringValue": "2"}},
    )
    (delivery,) = transport.consumer("letters.read").receive(1, NOW)
    assert (delivery.is_replay, delivery.attributes) == (True, {})


def test_a_message_with_a_binary_attribute_is_delivered_without_it(transport: AwsTransport) -> None:
    transport.clients.sqs.send_message(
        QueueUrl=transport.bindings.subscriptions["letters.read"].queue_url,
        MessageBody="plain text",
        MessageAttributes={
            "raw": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
            "kind": {"DataType": "String", "StringValue": "note"},
        },
    )
    (delivery,) = transport.consumer("letters.read").receive(1, NOW)
    assert (delivery.body, delivery.attributes) == ("plain text", {"kind": "note"})


def test_stats_count_what_waits_is_held_and_is_dead(transport: AwsTransport) -> None:
    transport.publish("letters", [NewMessage(payload=n) for n in range(6)])
    consumer = transport.consumer("letters.read")
    held = consumer.receive(3, NOW)
    assert consumer.complete([Completion(delivery=held[0])]) == [Settled(state="completed")]
    assert consumer.dead_letter([DeadLettering(delivery=held[1], reason="unwanted")]) == [Settled(state="dead")]
    counted = {s.subscription: (s.pending, s.leased, s.dead) for s in transport.operator().stats()}
    assert counted == {"letters.function": (6, 0, 0), "letters.read": (3, 1, 1), "letters.red": (0, 0, 0)}
    assert {s.oldest_pending for s in transport.operator().stats()} == {None}


def test_stats_leave_out_what_is_not_deployed_yet(transport: AwsTransport, caplog: pytest.LogCaptureFixture) -> None:
    del transport.bindings.subscriptions["letters.red"]
    assert [s.subscription for s in transport.operator().stats()] == ["letters.function", "letters.read"]
    assert "letters.red" in caplog.text


def test_listing_dead_letters_takes_none_away(transport: AwsTransport) -> None:
    transport.publish("letters", [NewMessage(payload=n) for n in range(12)])
    consumer = transport.consumer("letters.read")
    deliveries = consumer.receive(10, NOW) + consumer.receive(10, NOW)
    failure = Failure(type="ValueError", message="bad page")
    consumer.dead_letter([DeadLettering(delivery=d, reason="unwanted", failure=failure) for d in deliveries])
    operator = transport.operator()
    for _ in range(2):
        entries = operator.dead_letters("letters.read", 100)
        assert sorted(entry.body for entry in entries) == sorted(d.body for d in deliveries)
        assert {(entry.reason, entry.error, entry.attempts) for entry in entries} == {
            ("unwanted", "ValueError: bad page", 1)
        }


def test_a_worker_is_offered_the_subscriptions_with_host_worker(offline: AwsTransport) -> None:
    assert sorted(offline.policies()) == ["letters.read", "letters.red"]
    assert isinstance(offline.consumer("letters.read"), SqsConsumer)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("letters.function", "its host is 'lambda'"),
        ("local.read", "letters.read, letters.red"),
        ("none", "letters.read, letters.red"),
        ("leters.read", "did you mean 'letters.read'"),
    ],
)
def test_another_subscription_has_no_consumer_here(offline: AwsTransport, name: str, says: str) -> None:
    with pytest.raises((SubscriptionNotFound, Unsupported), match=says):
        offline.consumer(name)


def test_a_subscription_of_a_function_is_there_but_not_for_a_worker(offline: AwsTransport) -> None:
    with pytest.raises(Unsupported, match=r"^a worker cannot serve the subscription 'letters\.function': its host is"):
        offline.consumer("letters.function")


def test_a_subscription_without_bindings_has_no_consumer_and_no_dead_letters(offline: AwsTransport) -> None:
    del offline.bindings.subscriptions["letters.read"]
    with pytest.raises(SubscriptionNotFound, match="deploy the manifest"):
        offline.consumer("letters.read")
    with pytest.raises(SubscriptionNotFound, match=r"letters\.function, letters\.red"):
        offline.operator().dead_letters("letters.read", 1)


def test_a_queue_that_was_deleted_is_refused_as_no_passing_fault(transport: AwsTransport) -> None:
    binding = transport.bindings.subscriptions["letters.read"]
    for url in (binding.queue_url, binding.dead_letter_queue_url):
        transport.clients.sqs.delete_queue(QueueUrl=url)
    for call in (
        lambda: transport.consumer("letters.read").receive(1, NOW),
        lambda: transport.operator().dead_letters("letters.read", 1),
        transport.operator().stats,
    ):
        with pytest.raises(TransportRejected, match="NonExistentQueue"):
            call()


def test_a_topic_that_is_deployed_after_the_producer_is_found_by_the_next_call(
    transport: AwsTransport, tmp_path: Path
) -> None:
    path = tmp_path / "bindings.json"
    complete = path.read_text()
    path.write_text(Bindings(topics={}, subscriptions={}).to_json())
    producer = connect("aws://eu-west-1", transport.manifest, bindings=path)
    assert isinstance(producer, AwsTransport)
    for text in (path.read_text(), "{", complete.replace("eu-west-1", "us-east-1")):
        path.write_text(text)
        (result,) = producer.publish("letters", [NewMessage(payload=1)])
        assert (result.error.code, result.error.retryable) == ("TopicUnbound", True)
    path.write_text(complete)
    assert producer.publish("letters", [NewMessage(payload=1)])[0].status == "accepted"


def test_bindings_of_another_region_or_of_other_topics_are_refused_with_all_mistakes(
    offline: AwsTransport, tmp_path: Path
) -> None:
    path = tmp_path / "bindings.json"
    with pytest.raises(
        InvalidBindings, match=r"topics\.letters\.arn: is in eu-west-1, and .* names us-east-1"
    ) as caught:
        connect("aws://us-east-1", offline.manifest, bindings=path)
    assert len(caught.value.mistakes) == 4
    path.write_text(path.read_text().replace('"fifo": false', '"fifo": true'))
    with pytest.raises(InvalidBindings, match=r"topics\.letters\.fifo: says FIFO, and the manifest standard"):
        connect("aws://eu-west-1", offline.manifest, bindings=path)


def test_boto3_tries_again_in_its_standard_mode_and_waits_for_no_answer_for_long(offline: AwsTransport) -> None:
    for client, seconds in ((offline.clients.sns, 10), (offline.clients.sqs, 30)):
        config = client.meta.config
        assert (config.retries["mode"], config.connect_timeout, config.read_timeout) == ("standard", 5, seconds)


def test_only_a_topic_with_a_ledger_makes_a_client_of_dynamodb(offline: AwsTransport) -> None:
    assert offline.clients.ledger is None
    topics = {"letters": {"deduplication": True}}
    manifest = resolve(parse_topology({"name": "moto", "topics": topics}), "unit")
    opened = connect("aws://eu-west-1", manifest)
    assert isinstance(opened, AwsTransport)
    assert opened.clients.ledger.meta.service_model.service_name == "dynamodb"
    opened.close()


def test_an_endpoint_that_does_not_answer_is_a_passing_fault(offline: AwsTransport) -> None:
    (result,) = offline.publish("letters", [NewMessage(payload=1)])
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == ("TransportUnavailable", True)
    with pytest.raises(TransportUnavailable, match=r"127\.0\.0\.1:9"):
        offline.consumer("letters.read").receive(1, NOW)


@pytest.mark.parametrize("endpoint", ["localhost", "ftp//x", "http://"])
def test_an_endpoint_that_is_no_url_is_refused(
    offline: AwsTransport, variables: pytest.MonkeyPatch, endpoint: str
) -> None:
    variables.setenv("TOWPATH_AWS_ENDPOINT", endpoint)
    with pytest.raises(InvalidTransportUrl, match="TOWPATH_AWS_ENDPOINT"):
        connect("aws://eu-west-1", offline.manifest)


def test_calls_are_made_as_the_assumed_role(transport: AwsTransport, tmp_path: Path) -> None:
    role = "arn:aws:iam::123456789012:role/sender"
    url = f"aws://eu-west-1?role_arn={role}&external_id=tenant-7"
    assumed = connect(url, transport.manifest, bindings=tmp_path / "bindings.json")
    assert isinstance(assumed, AwsTransport)
    keys: list[str] = []
    events = assumed.clients.sns.meta.events
    events.register("before-send.sns", lambda request, **_: keys.append(str(request.headers["Authorization"])))
    assert assumed.publish("letters", [NewMessage(payload=1)])[0].status == "accepted"
    assert keys
    assert "Credential=ASIA" in keys[0]


def test_a_profile_that_does_not_exist_is_named(offline: AwsTransport) -> None:
    with pytest.raises(InvalidTransportUrl, match="no profile 'prod'"):
        connect("aws://eu-west-1?profile=prod", offline.manifest)


def test_a_database_that_is_named_keeps_what_operators_do_on_aws(
    transport: AwsTransport, variables: pytest.MonkeyPatch, sqlite_with_tables: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{shutil.copy(sqlite_with_tables, tmp_path / 'audit.db')}"
    variables.setenv("TOWPATH_AUDIT_DATABASE", url)
    with connect("aws://eu-west-1", transport.manifest, bindings=tmp_path / "bindings.json") as opened:
        opened.publish("letters", [NewMessage(payload=1)])
        consumer = opened.consumer("letters.read")
        consumer.dead_letter([DeadLettering(delivery=d, reason="unwanted") for d in consumer.receive(1, NOW)])
        warrant = Warrant(actor="ada", reason="repaired")
        assert opened.operator().replay(Selection(subscription="letters.read"), warrant, Pace()) == 1
        (entry,) = opened.operator().audit(10)
        assert (entry.actor, entry.action, entry.subject, entry.reason) == ("ada", "replay", "letters.read", "repaired")
        assert entry.details["selection"] == {"subscription": "letters.read"}


def test_the_transport_promises_only_what_sqs_does() -> None:
    assert {"exclusive_backoff_holds_key"} == CAPABILITIES
