"""Keys in order and an operator's work on LocalStack: through SNS, SQS's FIFO queues and their dead-letter queues."""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from aws_transport.clients import Clients
from aws_transport.consumer import SqsConsumer
from aws_transport.transport import AwsTransport
from tests.servers.localstack import Aws
from tests.servers.provision import provisioned
from towpath.envelope import Sources
from towpath.message import NewMessage, utc_now
from towpath.operating import Discarded, Pace, Selection, Warrant
from towpath.resolve import resolve
from towpath.settlement import Completion, DeadLettering, Delivery, Failure, Settled
from towpath.topology import parse_topology

HANDLER = {"handler": "some.module:handle", "host": "worker", "lease_seconds": 30}
TOPOLOGY = {
    "name": "operating",
    "topics": {"letters": {}, "steps": {}},
    "subscriptions": {
        "letters.read": HANDLER | {"topic": "letters"},
        "letters.file": HANDLER | {"topic": "letters"},
        "steps.take": HANDLER | {"topic": "steps", "partition_mode": "exclusive"},
    },
}
WARRANT = Warrant(actor="ada", reason="the test says so")
PACE = Pace()
ENVIRONMENTS = count(1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def transport(aws: Aws) -> Iterator[AwsTransport]:
    """With topics and queues of the test's own."""
    with opened(aws, TOPOLOGY) as made:
        yield made


@contextmanager
def opened(aws: Aws, topology: dict[str, Any]) -> Iterator[AwsTransport]:
    manifest = resolve(parse_topology(topology), f"o{os.getpid()}-{next(ENVIRONMENTS)}")
    with provisioned(aws, manifest) as deployment:
        yield AwsTransport(
            manifest=manifest,
            bindings=deployment.bindings,
            clients=Clients(sns=aws.client("sns"), sqs=aws.client("sqs")),
            sources=Sources(clock=utc_now, random_bytes=os.urandom),
        )


def received(consumer: SqsConsumer, wanted: int, within: float = 15) -> list[Delivery]:
    """``wanted`` deliveries, or as many as come in the time."""
    found: list[Delivery] = []
    end = time.monotonic() + within
    while True:
        found += consumer.receive(wanted - len(found), SECOND)
        if len(found) >= wanted or time.monotonic() >= end:
            return found


def number(body: str) -> int:
    return int(json.loads(body)["payload"])


def killed(transport: AwsTransport, name: str, wanted: int, reason: str = "unwanted") -> list[Delivery]:
    """Receive and set aside, as a worker does whose handler says so, until there were ``wanted``."""
    consumer, done = transport.consumer(name), []
    deadline = time.monotonic() + 60
    while len(done) < wanted:
        assert time.monotonic() < deadline, f"{len(done)} of {wanted} came"
        held = consumer.receive(min(10, wanted - len(done)), SECOND)
        failure = Failure(type="ValueError", message="bad page")
        letters = [DeadLettering(delivery=delivery, reason=reason, failure=failure) for delivery in held]
        assert consumer.dead_letter(letters) == [Settled(state="dead")] * len(held)
        done += held
    return done


def stats(transport: AwsTransport, name: str) -> tuple[int, int, int]:
    row = next(row for row in transport.operator().stats() if row.subscription == name)
    return row.pending, row.leased, row.dead


def test_keys_come_in_their_order_and_no_two_of_one_at_once(transport: AwsTransport) -> None:
    keys = ["Z\u00fcrich", "tenant-b", "c", "d", "e"]
    messages = [NewMessage(payload=n, partition_key=keys[n % 5]) for n in range(60)]
    results = transport.publish("steps", messages)
    assert [result.status for result in results] == ["accepted"] * 60
    consumer = transport.consumer("steps.take")
    came: dict[str, list[int]] = defaultdict(list)
    most_at_once = 0
    deadline = time.monotonic() + 60
    while sum(map(len, came.values())) < 60:
        assert time.monotonic() < deadline, came
        held = consumer.receive(10, SECOND)
        groups = [delivery.group_id for delivery in held]
        assert len(groups) == len(set(groups))
        most_at_once = max(most_at_once, len(held))
        for delivery in held:
            came[json.loads(delivery.body)["partition_key"]].append(number(delivery.body))
        assert consumer.complete([Completion(delivery=d) for d in held]) == [Settled(state="completed")] * len(held)
    assert dict(came) == {key: list(range(start, 60, 5)) for start, key in enumerate(keys)}
    assert most_at_once == 5


def test_a_replay_reaches_its_own_subscription_alone_and_dies_again_under_another_id(transport: AwsTransport) -> None:
    (result,) = transport.publish("letters", [NewMessage(payload=7)])
    killed(transport, "letters.read", 1)
    operator = transport.operator()
    for times in (1, 2):
        assert operator.replay(Selection(subscription="letters.read"), WARRANT, PACE) == 1
        (delivery,) = received(transport.consumer("letters.read"), 1)
        assert (delivery.attempt, delivery.is_replay, delivery.replay) == (1, True, times)
        assert json.loads(delivery.body)["id"] == result.id
        letter = DeadLettering(delivery=delivery, reason="again")
        assert transport.consumer("letters.read").dead_letter([letter]) == [Settled(state="dead")]
        (entry,) = operator.dead_letters("letters.read", 10)
        assert (entry.message_id, entry.reason) == (result.id, "again")
    assert stats(transport, "letters.file") == (1, 0, 0)
    assert stats(transport, "letters.read") == (0, 0, 1)


def test_on_fifo_dead_letters_go_back_in_their_order_and_each_death_leaves_its_copy(transport: AwsTransport) -> None:
    messages = [NewMessage(payload=n, partition_key="ab"[n % 2]) for n in range(26)]
    transport.publish("steps", messages)
    operator, consumer = transport.operator(), transport.consumer("steps.take")
    for _ in range(2):  # within the five minutes in which a FIFO queue swallows repeats
        killed(transport, "steps.take", 26)
        assert stats(transport, "steps.take") == (0, 0, 26)
        assert operator.replay(Selection(subscription="steps.take"), WARRANT, PACE) == 26
        assert stats(transport, "steps.take")[2] == 0
    came: dict[str, list[int]] = defaultdict(list)
    while held := received(consumer, 2, within=3):
        for delivery in held:
            assert delivery.is_replay
            came[str(delivery.group_id)].append(number(delivery.body))
        consumer.complete([Completion(delivery=delivery) for delivery in held])
    assert dict(came) == {"a": list(range(0, 26, 2)), "b": list(range(1, 26, 2))}


def test_beyond_a_hundred_dead_letters_are_listed_by_pages_chosen_and_changed(transport: AwsTransport) -> None:
    transport.publish("letters", [NewMessage(payload=n) for n in range(130)])
    killed(transport, "letters.read", 100, "bad")
    killed(transport, "letters.read", 30, "worse")
    operator = transport.operator()
    first = operator.dead_letters("letters.read", 100)
    second = operator.dead_letters("letters.read", 100, first.cursor)
    assert (len(first), len(second), second.cursor) == (100, 30, None)
    assert sorted(number(entry.body) for entry in (*first, *second)) == list(range(130))
    worse = Selection(subscription="letters.read", state="dead", reason="worse")
    assert operator.discard(worse, WARRANT, PACE) == Discarded(at_once=30, requested=0)
    assert operator.replay(Selection(subscription="letters.read"), WARRANT, Pace(most=60)) == 60
    pending, leased, dead = stats(transport, "letters.read")
    assert (pending + leased, dead) == (60, 40)
    assert operator.purge("letters.read", WARRANT, PACE) == 40
    (backlog,) = [row for row in operator.backlog() if row.subscription == "letters.read"]
    assert (backlog.claimable, backlog.claimable_capped) == (60, False)


def test_an_edited_dead_letter_comes_as_a_new_message(transport: AwsTransport) -> None:
    transport.publish("steps", [NewMessage(payload=1, partition_key="a", attributes={"kind": "pdf"})])
    killed(transport, "steps.take", 1)
    operator = transport.operator()
    (entry,) = operator.dead_letters("steps.take", 10)
    new_id = operator.replay_edited(entry.delivery_id, 2, WARRANT)
    (delivery,) = received(transport.consumer("steps.take"), 1)
    body = json.loads(delivery.body)
    assert (body["id"], body["payload"], body["causation_id"]) == (new_id, 2, entry.message_id)
    assert (delivery.group_id, delivery.is_replay, body["attributes"]) == ("a", False, {"kind": "pdf"})
    assert stats(transport, "steps.take")[2] == 0


def test_what_sns_could_not_deliver_can_be_listed_and_goes_to_the_queue_when_that_is_there(aws: Aws) -> None:
    topology = TOPOLOGY | {"subscriptions": {"letters.read": TOPOLOGY["subscriptions"]["letters.read"]}}
    with opened(aws, topology) as transport:
        sqs, binding = transport.clients.sqs, transport.bindings.subscriptions["letters.read"]
        sqs.delete_queue(QueueUrl=binding.queue_url)
        (result,) = transport.publish("letters", [NewMessage(payload=1)])
        operator = transport.operator()
        deadline = time.monotonic() + 30
        while not (entries := operator.dead_letters("letters.read", 10)):
            assert time.monotonic() < deadline, "LocalStack put nothing aside"
        (entry,) = entries
        assert (entry.message_id, entry.reason, entry.attempts) == (result.id, "DeliveryFailed", 0)
        sqs.create_queue(QueueName=transport.manifest.subscriptions["letters.read"].aws.queue.name)
        assert operator.replay(Selection(reason="DeliveryFailed"), WARRANT, PACE) == 1
        (delivery,) = received(transport.consumer("letters.read"), 1)
        assert (json.loads(delivery.body)["id"], delivery.is_replay) == (result.id, True)
        assert list(operator.dead_letters("letters.read", 10)) == []
