"""Consuming from SQS: polls of FIFO queues side by side, the twelve hours, and the receive guard."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from aws_transport.consumer import SqsConsumer
from aws_transport.settlement import SqsSettler
from tests.fakes.queues import FakeQueues
from towpath.context import AbortSignal
from towpath.dispatch import Control, Dispatcher
from towpath.errors import TransportUnavailable
from towpath.handler import inspected
from towpath.payload import converter
from towpath.ports import Extension
from towpath.settlement import DeadLettering, LeaseLost, Release, Settled, SubscriptionPolicy, settle

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NO_WAIT = timedelta(0)


@dataclass
class Clock:
    now: datetime = NOW

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Recording(FakeQueues):
    """Keeps what was asked of receives, and may be told what to do before each."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    before: Callable[[dict[str, Any]], None] = lambda request: None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        super().__init__()

    def receive_message(self, **request: Any) -> dict[str, Any]:
        with self.lock:
            self.asked.append(request)
        self.before(request)
        with self.lock:
            return super().receive_message(**request)


def consumer(sqs: Any, *, fifo: bool = True, clock: Clock | None = None, **policy: Any) -> SqsConsumer:
    suffix = ".fifo" if fifo else ""
    at = clock or Clock()
    settler = SqsSettler(
        client=lambda: sqs, queue_url=f"queue{suffix}", dead_letter_queue_url=f"dead{suffix}", clock=at
    )
    known = SubscriptionPolicy(subscription="steps.take", topic="steps", handler="a.b:c", **policy)
    return SqsConsumer(client=sqs, rules=lambda: known, fifo=fifo, settler=settler, clock=at)


def put(sqs: FakeQueues, groups: str) -> None:
    for n, group in enumerate(groups):
        sqs.put("queue.fifo", f'{{"n": {n}}}', group=group)


# --- FIFO ------------------------------------------------------------------------------------------------------


def test_a_fifo_queue_gives_the_first_of_as_many_groups_as_are_wanted() -> None:
    sqs = Recording()
    put(sqs, "aabbccddee")
    deliveries = consumer(sqs).receive(4, timedelta(seconds=20))
    assert sorted(delivery.group_id for delivery in deliveries) == ["a", "b", "c", "d"]
    assert {request["MaxNumberOfMessages"] for request in sqs.asked} == {1}
    assert [request["WaitTimeSeconds"] for request in sqs.asked] == [20, 0, 0, 0]


def test_no_more_is_polled_for_once_the_free_groups_have_run_out() -> None:
    sqs = Recording()
    put(sqs, "aaaaab")
    assert [len(consumer(sqs).receive(10, NO_WAIT)) for _ in range(2)] == [2, 0]
    assert len(sqs.asked) == (1 + 2) + 1
    assert consumer(Recording()).receive(10, NO_WAIT) == []


def test_polls_for_more_groups_go_side_by_side_and_no_more_than_ten_are_received() -> None:
    sqs = Recording()
    put(sqs, "abcdefghijklmno")
    meeting = threading.Barrier(2, timeout=10)
    sqs.before = lambda request: len(sqs.asked) in (2, 3) and meeting.wait()
    assert len(consumer(sqs).receive(500, NO_WAIT)) == 10


def test_a_repeat_by_boto3_of_a_fifo_receive_gets_the_same_message_and_another_receive_does_not() -> None:
    sqs = Recording()
    put(sqs, "abc")
    consumer(sqs).receive(3, NO_WAIT)
    ids = [request["ReceiveRequestAttemptId"] for request in sqs.asked]
    assert len(set(ids)) == len(ids) == 3
    standard = Recording()
    consumer(standard, fifo=False).receive(3, NO_WAIT)
    assert "ReceiveRequestAttemptId" not in standard.asked[0]


def test_what_was_received_is_not_lost_when_a_poll_for_more_fails() -> None:
    sqs = Recording()
    put(sqs, "abc")

    def fail(request: dict[str, Any]) -> None:
        if len(sqs.asked) > 1:
            raise ConnectTimeoutError(endpoint_url="https://sqs")

    sqs.before = fail
    assert [delivery.group_id for delivery in consumer(sqs).receive(3, NO_WAIT)] == ["a"]
    with pytest.raises(TransportUnavailable):
        consumer(sqs).receive(3, NO_WAIT)


def test_a_standard_queue_is_asked_once_for_up_to_ten() -> None:
    sqs = Recording()
    for n in range(15):
        sqs.put("queue", str(n))
    assert len(consumer(sqs, fifo=False).receive(500, NO_WAIT)) == 10
    assert len(sqs.asked) == 1


# --- Long polls ------------------------------------------------------------------------------------------------


LONG = timedelta(minutes=10)
PATIENCE = 60


class Line(Recording):
    """Receives last until something is put in and the test lets them go; then they bring what there is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.visibility: list[tuple[str, int]] = []
        self.given_back = threading.Event()
        self.before = self._wait

    def _wait(self, request: dict[str, Any]) -> None:
        self.begun.set()
        assert self.go_on.wait(PATIENCE)

    def change_message_visibility_batch(self, **request: Any) -> dict[str, Any]:
        answer = super().change_message_visibility_batch(**request)
        self.visibility += [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in request["Entries"]]
        if self.visibility[-1][1] == 0:
            self.given_back.set()
        return answer


def test_a_long_poll_lasts_twenty_seconds_and_what_it_brings_is_held_for_a_lease_by_a_call_of_its_own() -> None:
    sqs = Line()
    sqs.go_on.set()
    for n in range(2):
        sqs.put("queue", str(n))
    deliveries = consumer(sqs, fifo=False, lease_seconds=600).receive(8, LONG)
    assert [(r["WaitTimeSeconds"], r["VisibilityTimeout"]) for r in sqs.asked] == [(20, 10)]
    assert sqs.visibility == [(delivery.lease_token, 600) for delivery in deliveries]
    assert len(deliveries) == 2


@pytest.mark.parametrize(
    ("wait", "asked"),
    [(timedelta(0), 0), (timedelta(seconds=0.2), 1), (timedelta(seconds=1), 1), (timedelta(seconds=2), 2)],
)
def test_a_short_poll_holds_for_the_whole_lease_at_once(wait: timedelta, asked: int) -> None:
    sqs = Line()
    sqs.go_on.set()
    sqs.put("queue", "1")
    consumer(sqs, fifo=False, lease_seconds=600).receive(8, wait)
    assert [(r["WaitTimeSeconds"], r["VisibilityTimeout"]) for r in sqs.asked] == [(asked, 600)]
    assert sqs.visibility == []


def test_a_lease_that_is_no_longer_than_the_first_hold_needs_no_call() -> None:
    sqs = Line()
    sqs.go_on.set()
    sqs.put("queue", "1")
    assert len(consumer(sqs, fifo=False, lease_seconds=10).receive(8, LONG)) == 1
    assert (sqs.asked[0]["VisibilityTimeout"], sqs.visibility) == (10, [])


def test_what_somebody_else_has_by_the_time_it_is_held_is_not_handed_out() -> None:
    sqs = Line()
    sqs.go_on.set()
    for n in range(2):
        sqs.put("queue", str(n))
    first = sqs.queues["queue"][0]
    sqs.refuse["hide", "queue"] = [lambda entry: entry["ReceiptHandle"] == first.handle]
    assert [delivery.body for delivery in consumer(sqs, fifo=False).receive(8, LONG)] == ["1"]


@pytest.mark.parametrize("fifo", [False, True])
def test_a_stop_ends_a_receive_at_once_and_what_its_poll_brings_yet_is_given_back(fifo: bool) -> None:
    sqs = Line()
    taking = consumer(sqs, fifo=fifo)
    with ThreadPoolExecutor(1) as pool:
        receive = pool.submit(taking.receive, 8, LONG)
        assert sqs.begun.wait(PATIENCE)
        taking.stop_receiving()
        assert receive.result(PATIENCE) == []
    url = "queue.fifo" if fifo else "queue"
    sqs.put(url, "1", group="a" if fifo else None)
    sqs.go_on.set()
    assert sqs.given_back.wait(PATIENCE)
    assert (sqs.hidden(url), [seconds for _, seconds in sqs.visibility]) == ([], [0])
    assert taking.receive(8, LONG) == []
    assert len(sqs.asked) == 1


def test_what_came_before_the_stop_is_handed_out_and_no_other_group_is_asked_for() -> None:
    sqs = Line()
    put(sqs, "ab")
    taking = consumer(sqs)
    sqs.before = lambda request: taking.stop_receiving()
    deliveries = taking.receive(8, timedelta(seconds=2))
    assert [delivery.group_id for delivery in deliveries] == ["a"]


def test_a_fault_of_a_long_poll_is_raised_where_it_is_waited_for() -> None:
    sqs = Recording()
    sqs.refuse["receive", "queue"] = [ConnectTimeoutError(endpoint_url="https://sqs")]
    with pytest.raises(TransportUnavailable, match="receive from queue"):
        consumer(sqs, fifo=False).receive(8, LONG)


def test_a_fault_of_a_poll_that_was_left_behind_is_nobodys() -> None:
    sqs = Line()
    taking = consumer(sqs, fifo=False)
    with ThreadPoolExecutor(1) as pool:
        receive = pool.submit(taking.receive, 8, LONG)
        assert sqs.begun.wait(PATIENCE)
        taking.stop_receiving()
        assert receive.result(PATIENCE) == []
    sqs.refuse["receive", "queue"] = [ConnectTimeoutError(endpoint_url="https://sqs")]
    (poll,) = [thread for thread in threading.enumerate() if thread.name == "towpath-poll"]
    sqs.go_on.set()
    poll.join(PATIENCE)  # an exception in it would be a warning, and that an error
    assert not poll.is_alive()


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_nothing_is_claimed_from_what_the_manifest_has_switched_off(status: str) -> None:
    sqs = Recording()
    sqs.put("queue", "1")
    taking = consumer(sqs, fifo=False, status=status)
    assert taking.receive(8, NO_WAIT) == []
    with ThreadPoolExecutor(1) as pool:
        receive = pool.submit(taking.receive, 8, LONG)
        taking.stop_receiving()
        assert receive.result(PATIENCE) == []
    assert sqs.asked == []


# --- Leases ----------------------------------------------------------------------------------------------------


def test_a_lease_is_extended_to_twelve_hours_from_the_receive_and_lost_then() -> None:
    clock = Clock()
    sqs = Recording()
    put(sqs, "a")
    taking = consumer(sqs, clock=clock, lease_seconds=3_600)
    (delivery,) = taking.receive(1, NO_WAIT)
    hidden: list[int] = []
    change = sqs.change_message_visibility_batch

    def recorded(**request: Any) -> Any:
        hidden.extend(entry["VisibilityTimeout"] for entry in request["Entries"])
        return change(**request)

    sqs.change_message_visibility_batch = recorded
    for hours, answer in ((1, Settled(state="leased")), (11.5, Settled(state="leased")), (12, LeaseLost())):
        clock.now = NOW + timedelta(hours=hours)
        assert taking.extend([Extension(delivery=delivery)]) == [answer]
    assert hidden == [3_600, 1_795]
    assert sqs.hidden("queue.fifo") == ['{"n": 0}'], "an old lease is not given up by hiding it for no time"
    assert taking.dead_letter([DeadLettering(delivery=delivery, reason="late")]) == [LeaseLost()]
    assert taking.release([Release(delivery=delivery)]) == [Settled(state="pending")]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
        ("AWS.SimpleQueueService.MessageNotInflight", ""),
        ("MessageNotInflight", ""),
        ("InvalidIdFormat", "The specified receipt handle isn't valid for the current version."),
        (
            "InvalidParameterValue",
            "Value x for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.",
        ),
        (
            "InvalidParameterValueException",
            "Reason: Message does not exist or is not available for visibility timeout change.",
        ),
    ],
)
def test_a_stale_receipt_handle_is_a_lost_lease(code: str, text: str) -> None:
    sqs = Recording()
    put(sqs, "a")
    taking = consumer(sqs)
    (delivery,) = taking.receive(1, NO_WAIT)
    response: Any = {"Error": {"Code": code, "Message": text}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    sqs.refuse["hide", "queue.fifo"] = [ClientError(response, "ChangeMessageVisibilityBatch")]
    assert taking.extend([Extension(delivery=delivery)]) == [LeaseLost()]


# --- Dead letters ----------------------------------------------------------------------------------------------


def test_on_a_standard_queue_a_dead_letter_keeps_the_group_that_tells_its_tenant() -> None:
    sqs = Recording()
    sqs.put("queue", "{}", group="acme")
    sqs.put("queue", "{}")
    taking = consumer(sqs, fifo=False)
    letters = [DeadLettering(delivery=delivery, reason="unwanted") for delivery in taking.receive(2, NO_WAIT)]
    assert taking.dead_letter(letters) == [Settled(state="dead")] * 2
    assert [stored.group for stored in sqs.queues["dead"]] == ["acme", None]


@pytest.mark.parametrize(("receives", "runs"), [(1, True), (5, True), (6, True), (7, False), (8, False)])
def test_the_receive_guard_sets_aside_what_was_received_too_often_without_running_it(receives: int, runs: bool) -> None:
    sqs = Recording()
    sqs.put("queue", "{}", receives=receives - 1)
    taking = consumer(sqs, fifo=False, max_attempts=5)
    ran: list[Any] = []

    def handle(message: Any, context: Any) -> None:
        ran.append(message)

    handler = inspected(handle)
    dispatcher = Dispatcher(
        policy=taking.policy,
        handler=handler,
        convert=converter(handler.payload_type),
        publish=lambda topic, messages: [],
        log=logging.getLogger("test"),
    )
    control = Control(abort=AbortSignal(), beat=lambda progress: True, deadline=None, run_async=asyncio.run)
    decisions: list[Any] = []
    (delivery,) = taking.receive(1, NO_WAIT)
    assert delivery.attempt == receives
    dispatcher.dispatch(delivery, control, decisions.append)
    assert settle(decisions, taking) == [Settled(state="completed" if runs else "dead")]
    assert (len(ran), len(sqs.queues["dead"])) == (int(runs), int(not runs))
    if not runs:
        note = sqs.queues["dead"][0].attributes["towpath-dead-letter"]["StringValue"]
        assert f"received {receives} times, never settled" in note
