"""What an operator does to dead letters on AWS: which are meant, what goes back, what stays, and what is told of it."""

import json
import logging
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from aws_transport.auditing import AuditLog
from aws_transport.bindings import SubscriptionBinding
from aws_transport.operator import SqsOperator
from tests.fakes.queues import FakeQueues
from towpath.envelope import Origin, Sources, decode, prepare
from towpath.errors import (
    DeliveryNotFound,
    InvalidEdit,
    InvalidSelection,
    SubscriptionNotFound,
    TransportRejected,
    TransportUnavailable,
    Unsupported,
)
from towpath.message import NewMessage, format_time
from towpath.operating import Discarded, Pace, Selection, Warrant
from towpath.resolve import resolve
from towpath.topology import parse_topology

NOW = datetime(2026, 2, 1, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
WARRANT = Warrant(actor="ada", reason="the database is back")
PACE = Pace()
HANDLER = {"handler": "a.b:c"}
MANIFEST = resolve(
    parse_topology(
        {
            "name": "unit",
            "topics": {"letters": {}, "steps": {}, "tenants": {"fair": True}},
            "subscriptions": {
                "letters.read": HANDLER | {"topic": "letters"},
                "steps.take": HANDLER | {"topic": "steps", "partition_mode": "exclusive"},
                "steps.watch": HANDLER | {"topic": "steps"},
                "tenants.bill": HANDLER | {"topic": "tenants"},
            },
        }
    ),
    "unit",
)


def binding(name: str) -> SubscriptionBinding:
    aws = MANIFEST.subscriptions[name].aws
    return SubscriptionBinding(
        queue_url=aws.queue.name,
        queue_arn=f"arn:aws:sqs:eu-west-1:1:{aws.queue.name}",
        dead_letter_queue_url=aws.dead_letter_queue.name,
        delivery_failure_queue_url=aws.delivery_failure_queue.name,
    )


BINDINGS = {name: binding(name) for name in MANIFEST.subscriptions}
QUEUE, DEAD = BINDINGS["letters.read"].queue_url, BINDINGS["letters.read"].dead_letter_queue_url
FAILED = BINDINGS["letters.read"].delivery_failure_queue_url
FIFO, FIFO_DEAD = BINDINGS["steps.take"].queue_url, BINDINGS["steps.take"].dead_letter_queue_url


@dataclass
class Time:
    seconds: float = 0.0

    def __call__(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def sqs() -> FakeQueues:
    return FakeQueues()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def operator(sqs: FakeQueues, time: Time) -> SqsOperator:
    return SqsOperator(
        topics=MANIFEST.topics,
        subscriptions=MANIFEST.subscriptions,
        bindings=BINDINGS,
        client=sqs,
        sources=Sources(clock=time, random_bytes=bytes),
        monotonic=time.monotonic,
        sleep=time.sleep,
    )


def envelope(number: int = 1, topic: str = "letters", **more: Any) -> str:
    sources = Sources(clock=lambda: NOW - 10 * HOUR, random_bytes=lambda size: number.to_bytes(size, "big"))
    made = prepare(topic, NewMessage(payload={"number": number}, **more), 262_144, sources)
    return made.body


def noted(reason: str = "unwanted", error: str = "ValueError: bad", hours: float = 1, **more: Any) -> dict[str, Any]:
    note = {"reason": reason, "error": error, "attempts": 3, "time": format_time(NOW - hours * HOUR)}
    return {"towpath-dead-letter": text(json.dumps(note | {"source_queue": "q"} | more))}


def text(value: str) -> dict[str, str]:
    return {"DataType": "String", "StringValue": value}


def numbers(sqs: FakeQueues, url: str) -> list[int]:
    return [json.loads(body)["payload"]["number"] for body in sqs.bodies(url)]


def of(name: str = "letters.read", **more: Any) -> Selection:
    return Selection(subscription=name, **more)


def aws_error(code: str, status: int) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": "why"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "Anything")


# --- Replay ----------------------------------------------------------------------------------------------------


def test_a_replay_goes_to_the_subscriptions_queue_with_its_count_and_leaves_no_dead_letter(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    body = envelope(1)
    sqs.put(DEAD, body, attributes=noted())
    assert operator.replay(of(), WARRANT, PACE) == 1
    (entry,) = sqs.sent
    assert (entry["MessageBody"], sqs.bodies(QUEUE), sqs.bodies(DEAD)) == (body, [body], [])
    assert entry["MessageAttributes"] == {"towpath-replay": {"DataType": "Number", "StringValue": "1"}}
    assert "MessageGroupId" not in entry


def test_the_count_of_replays_goes_on_from_the_note_or_from_the_attribute(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    sqs.put(DEAD, envelope(1), attributes=noted(replay=2))
    moved_by_sqs = {"towpath-replay": {"DataType": "Number", "StringValue": "4"}}
    sqs.put(DEAD, envelope(2), attributes=moved_by_sqs, source="arn:aws:sqs:eu-west-1:1:q")
    operator.replay(of(), WARRANT, PACE)
    counts = [entry["MessageAttributes"]["towpath-replay"]["StringValue"] for entry in sqs.sent]
    assert counts == ["3", "5"]


def test_a_foreign_message_goes_back_with_its_own_attributes_and_without_the_note(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    binary = {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"}
    sqs.put(DEAD, "plain text", attributes=noted() | {"kind": text("pdf"), "thumb": binary})
    operator.replay(of(), WARRANT, PACE)
    sent = sqs.sent[0]["MessageAttributes"]
    assert set(sent) == {"kind", "thumb", "towpath-replay"}
    assert (sent["kind"], sent["thumb"]) == (text("pdf"), binary)


def test_ten_attributes_or_a_full_body_leave_no_room_for_the_count_and_nothing_else_is_lost(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    ten = {f"a{n}": text("x") for n in range(10)}
    sqs.put(DEAD, "plain", attributes=ten, source="arn:aws:sqs:eu-west-1:1:q")
    sqs.put(DEAD, "x" * 262_144)
    operator.replay(of(), WARRANT, PACE)
    assert [entry["MessageAttributes"] for entry in sqs.sent] == [ten, {}]


def test_on_fifo_a_replay_keeps_its_group_and_has_a_deduplication_id_of_its_own(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    sqs.put(FIFO_DEAD, envelope(1, "steps"), id="m1", group="tenant", attributes=noted(replay=1))
    operator.replay(of("steps.take"), WARRANT, PACE)
    (entry,) = sqs.sent
    assert (entry["MessageGroupId"], entry["MessageDeduplicationId"]) == ("tenant", "m1:replay:2")


def test_on_fifo_each_group_goes_back_in_its_order_and_one_by_one(sqs: FakeQueues, operator: SqsOperator) -> None:
    for n in range(45):
        sqs.put(FIFO_DEAD, envelope(n, "steps"), group="abc"[n % 3], attributes=noted())
    assert operator.replay(of("steps.take"), WARRANT, PACE) == 45
    by_group = [[stored for stored in sqs.queues[FIFO] if stored.group == group] for group in "abc"]
    orders = [[json.loads(one.body)["payload"]["number"] for one in group] for group in by_group]
    assert orders == [list(range(start, 45, 3)) for start in range(3)]


def test_on_fifo_nothing_of_a_group_overtakes_one_that_could_not_be_sent(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    for n in range(6):
        sqs.put(FIFO_DEAD, envelope(n, "steps"), group="ab"[n % 2], attributes=noted())
    sqs.refuse["send", FIFO] = [None, lambda entry: entry["MessageGroupId"] == "a"]
    with pytest.raises(TransportUnavailable, match="an entry failed, InternalError"):
        operator.replay(of("steps.take"), WARRANT, PACE)
    assert (numbers(sqs, FIFO), numbers(sqs, FIFO_DEAD), sqs.hidden(FIFO_DEAD)) == ([0, 1, 3], [2, 4, 5], [])
    assert operator.replay(of("steps.take"), WARRANT, PACE) == 3
    assert numbers(sqs, FIFO) == [0, 1, 3, 2, 5, 4]


def test_a_replay_that_was_cut_off_before_its_deletion_sends_no_second_copy_on_fifo(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    sqs.put(FIFO_DEAD, envelope(1, "steps"), group="a", attributes=noted())
    sqs.refuse["delete", FIFO_DEAD] = [ReadTimeoutError(endpoint_url="https://sqs")]
    with pytest.raises(TransportUnavailable, match="delete dead letters"):
        operator.replay(of("steps.take"), WARRANT, PACE)
    assert (len(sqs.queues[FIFO]), sqs.hidden(FIFO_DEAD)) == (1, [])
    assert operator.replay(of("steps.take"), WARRANT, PACE) == 1
    assert (len(sqs.queues[FIFO]), sqs.bodies(FIFO_DEAD)) == (1, [])


def test_a_fair_topics_tenant_stays_with_a_message_that_goes_back(sqs: FakeQueues, operator: SqsOperator) -> None:
    bill = BINDINGS["tenants.bill"]
    for n in range(3):
        sqs.put(bill.dead_letter_queue_url, envelope(n, "tenants"), group="acme", attributes=noted())
    operator.replay(of("tenants.bill"), WARRANT, PACE)
    assert [stored.group for stored in sqs.queues[bill.queue_url]] == ["acme"] * 3
    assert sqs.batches["send"] == [3], "nothing has to wait for another one of its tenant"


def test_what_sns_could_not_deliver_is_a_dead_letter_that_can_be_replayed(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    sqs.put(FAILED, envelope(1), attributes={"kind": text("pdf")})
    why = {"ErrorCode": text("KMS.AccessDenied"), "ErrorMessage": text("no right to the key")}
    sqs.put(FAILED, "foreign", attributes=why | {"RequestID": text("r"), "kind": text("pdf")})
    first, second = operator.dead_letters("letters.read", 10)
    assert {first.reason, second.reason} == {"DeliveryFailed"}
    assert {first.error, second.error} == {
        "SNS could not deliver it to the subscription's queue",
        "KMS.AccessDenied: no right to the key",
    }
    assert operator.replay(of(reason="DeliveryFailed"), WARRANT, PACE) == 2
    assert [sorted(entry["MessageAttributes"]) for entry in sqs.sent] == [
        ["towpath-replay"],
        ["kind", "towpath-replay"],
    ]


def test_from_the_fifo_queue_of_failed_deliveries_to_a_standard_queue_no_group_goes_along(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    watch = BINDINGS["steps.watch"]
    assert watch.delivery_failure_queue_url.endswith(".fifo")
    sqs.put(watch.delivery_failure_queue_url, envelope(1, "steps"), group="a")
    assert operator.replay(of("steps.watch"), WARRANT, PACE) == 1
    assert [stored.group for stored in sqs.queues[watch.queue_url]] == [None]


def test_large_dead_letters_go_back_within_sqss_bytes(sqs: FakeQueues, operator: SqsOperator) -> None:
    for n in range(5):
        sqs.put(DEAD, envelope(n) + " " * 100_000, attributes=noted())
    sizes: list[int] = []
    send = sqs.send_message_batch

    def measured(**request: Any) -> Any:
        sizes.append(sum(len(entry["MessageBody"]) for entry in request["Entries"]))
        return send(**request)

    sqs.send_message_batch = measured
    assert operator.replay(of(), WARRANT, PACE) == 5
    assert (len(sizes), max(sizes) <= 262_144) == (3, True)


# --- Which are meant -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "meant"),
    [
        ({}, {0, 1, 2, 3}),
        ({"reason": "MaxAttemptsExceeded"}, {1, 3}),
        ({"error_type": "KeyError"}, {1}),
        ({"older_than": 2 * HOUR}, {2, 3}),
        ({"newer_than": 2 * HOUR}, {0, 1}),
        ({"partition_key": "tenant"}, {3}),
        ({"message_id": json.loads(envelope(2))["id"]}, {2}),
        ({"reason": "MaxAttemptsExceeded", "older_than": 2 * HOUR}, {3}),
        ({"reason": "none such"}, set()),
    ],
)
def test_only_what_meets_every_condition_is_changed_and_the_rest_is_given_back(
    sqs: FakeQueues, operator: SqsOperator, conditions: dict[str, Any], meant: set[int]
) -> None:
    sqs.put(DEAD, envelope(0), attributes=noted(hours=0.5))
    sqs.put(DEAD, envelope(1), attributes=noted("MaxAttemptsExceeded", "KeyError: 'x'"))
    sqs.put(DEAD, envelope(2), attributes=noted(hours=3))
    sqs.put(DEAD, envelope(3, partition_key="tenant"), attributes=noted("MaxAttemptsExceeded", "ValueError", hours=4))
    listed = operator.deliveries(of(state="dead", **conditions), 10)
    assert {json.loads(entry.body)["payload"]["number"] for entry in listed} == meant
    assert operator.discard(of(state="dead", **conditions), WARRANT, PACE) == Discarded(at_once=len(meant), requested=0)
    assert set(numbers(sqs, DEAD)) == {0, 1, 2, 3} - meant
    assert sqs.hidden(DEAD) == []


def test_dead_letters_are_named_by_their_subscription_and_sqss_id(sqs: FakeQueues, operator: SqsOperator) -> None:
    for n in range(3):
        sqs.put(DEAD, envelope(n), id=f"m{n}", attributes=noted())
    sqs.put(FIFO_DEAD, envelope(9, "steps"), id="m9", group="a", attributes=noted())
    ids = ("letters.read/m1", "steps.take/m9")
    assert operator.replay(Selection(delivery_ids=ids), WARRANT, PACE) == 2
    assert (numbers(sqs, QUEUE), numbers(sqs, FIFO), numbers(sqs, DEAD)) == ([1], [9], [0, 2])
    assert operator.discard(Selection(delivery_ids=("letters.read/m2",)), WARRANT, PACE).at_once == 1
    assert operator.replay(Selection(subscription="steps.take", delivery_ids=ids), WARRANT, PACE) == 0


def test_without_a_subscription_all_are_looked_at(sqs: FakeQueues, operator: SqsOperator) -> None:
    sqs.put(DEAD, envelope(1), attributes=noted())
    sqs.put(FIFO_DEAD, envelope(2, "steps"), group="a", attributes=noted(hours=2))
    listed = operator.deliveries(Selection(state="dead"), 10)
    assert [entry.subscription for entry in listed] == ["steps.take", "letters.read"]
    assert operator.replay(Selection(), WARRANT, PACE) == 2


def test_what_dies_while_it_goes_on_is_left_alone(sqs: FakeQueues, operator: SqsOperator) -> None:
    sqs.put(DEAD, envelope(1), attributes=noted(hours=-0.001))  # seconds after the beginning
    assert operator.replay(of(), WARRANT, PACE) == 0
    assert operator.purge("letters.read", WARRANT, PACE) == 0
    assert (len(sqs.queues[DEAD]), sqs.hidden(DEAD)) == (1, [])


def test_an_entry_tells_what_the_message_and_the_note_say(sqs: FakeQueues, operator: SqsOperator) -> None:
    expires = NOW + HOUR
    body = envelope(1, partition_key="k", expires_at=expires)
    sqs.put(DEAD, body, id="m1", attributes=noted("MaxAttemptsExceeded", "KeyError: 'x'", replay=1))
    sqs.put(DEAD, '{"schema": "towpath/1"}', id="m2", attributes=noted("InvalidEnvelope", hours=0.5))
    first, second = operator.deliveries(of(state="dead"), 10)
    assert (first.delivery_id, first.state, first.attempt) == ("letters.read/m1", "dead", 3)
    assert (first.message_id, first.partition_key) == (json.loads(body)["id"], "k")
    assert (first.is_replay, first.expires_at, first.dead_since) == (True, expires, NOW - HOUR)
    assert (second.message_id, second.partition_key, second.is_replay) == ("m2", None, False)


# --- Many, and how fast ----------------------------------------------------------------------------------------


def test_hundreds_are_changed_with_others_among_them(sqs: FakeQueues, operator: SqsOperator) -> None:
    told: list[int] = []
    for n in range(350):
        sqs.put(DEAD, envelope(n), attributes=noted("bad" if n % 7 else "good"))
    assert operator.replay(of(reason="bad"), WARRANT, Pace(changed=told.append)) == 300
    assert (sum(told), max(told) <= 10) == (300, True)
    assert numbers(sqs, DEAD) == [n for n in range(350) if n % 7 == 0]
    assert sqs.hidden(DEAD) == []
    assert operator.purge("letters.read", WARRANT, PACE) == 50


def test_a_rate_and_a_most_are_kept(sqs: FakeQueues, operator: SqsOperator, time: Time) -> None:
    for n in range(30):
        sqs.put(DEAD, envelope(n), attributes=noted())
    assert operator.replay(of(), WARRANT, Pace(rate=2, most=9)) == 9
    assert 3.5 <= time.seconds <= 4.5
    assert (len(sqs.queues[DEAD]), sqs.hidden(DEAD)) == (21, [])
    assert operator.replay(of(), WARRANT, Pace(most=0)) == 0


def test_a_pace_slower_than_a_pass_changes_all_the_same(sqs: FakeQueues, operator: SqsOperator, time: Time) -> None:
    for n in range(5):
        sqs.put(DEAD, envelope(n), attributes=noted())
    assert operator.replay(of(), WARRANT, Pace(rate=0.02)) == 5
    assert (time.seconds >= 200, sqs.bodies(DEAD)) == (True, [])


def test_a_queue_with_more_than_passes_can_see_is_told(
    sqs: FakeQueues, operator: SqsOperator, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(400):
        sqs.put(DEAD, envelope(n), attributes=noted())
    receive = sqs.receive_message

    def slow(**request: Any) -> Any:
        time.seconds += 1
        return receive(**request)

    sqs.receive_message = slow
    assert operator.replay(of(reason="none such"), WARRANT, PACE) == 0
    assert "holds more than can be looked at" in caplog.text
    assert sqs.hidden(DEAD) == []


# --- What is told ----------------------------------------------------------------------------------------------


def test_every_change_is_a_line_of_the_audit_log_with_who_and_why_and_no_payload(
    sqs: FakeQueues, operator: SqsOperator, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(12):
        sqs.put(DEAD, envelope(n), id=f"m{n}", attributes=noted())
    operator.replay(of(reason="unwanted", older_than=HOUR), WARRANT, Pace(most=11))
    operator.purge("letters.read", WARRANT, PACE)
    lines = [record for record in caplog.records if record.name == "towpath.audit"]
    assert [line.getMessage() for line in lines] == [
        "replay of 10 dead letters of letters.read by ada: the database is back",
        "replay of 1 dead letter of letters.read by ada: the database is back",
        "purge of 1 dead letter of letters.read by ada: the database is back",
    ]
    assert (lines[0].actor, lines[0].action, lines[0].subject, lines[0].reason) == (
        "ada",
        "replay",
        "letters.read",
        "the database is back",
    )
    assert lines[0].details["selection"] == {"subscription": "letters.read", "reason": "unwanted", "older_than": 3600.0}
    assert lines[0].details["deliveries"] == [f"letters.read/m{n}" for n in range(10)]
    assert all(line.levelno == logging.WARNING and "number" not in str(vars(line)) for line in lines)


def test_what_was_replayed_before_a_fault_is_audited(
    sqs: FakeQueues, operator: SqsOperator, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(20):
        sqs.put(DEAD, envelope(n), attributes=noted())
    sqs.refuse["send", QUEUE] = [None, aws_error("AccessDenied", 403)]
    with pytest.raises(TransportRejected, match="send dead letters back"):
        operator.replay(of(), WARRANT, PACE)
    assert (len(sqs.queues[QUEUE]), len(sqs.queues[DEAD]), sqs.hidden(DEAD)) == (10, 10, [])
    assert caplog.text.count("replay of 10 dead letters") == 1


@pytest.mark.parametrize(
    ("call", "error", "expected"),
    [
        ("receive", aws_error("AccessDenied", 403), TransportRejected),
        ("delete", aws_error("ServiceUnavailable", 503), TransportUnavailable),
        ("delete", lambda entry: True, TransportUnavailable),
    ],
)
def test_a_discard_that_fails_says_so_and_gives_back_what_it_holds(
    sqs: FakeQueues, operator: SqsOperator, call: str, error: Any, expected: type[Exception]
) -> None:
    for n in range(12):
        sqs.put(DEAD, envelope(n), attributes=noted())
    sqs.refuse[call, DEAD] = [None, error]
    with pytest.raises(expected):
        operator.discard(of(state="dead"), WARRANT, PACE)
    assert (len(sqs.queues[DEAD]), sqs.hidden(DEAD)) == (2, [])


@dataclass
class Trail:
    """A database that keeps the audit trail; ``broken`` is raised."""

    kept: list[tuple[Any, ...]] = field(default_factory=list)
    broken: Exception | None = None

    def record_audit(self, warrant: Warrant, action: str, subject: str, details: Any) -> None:
        if self.broken is not None:
            raise self.broken
        self.kept.append((warrant, action, subject, details))


def test_where_a_database_keeps_the_trail_the_same_entries_are_added_and_a_fault_of_it_is_told(
    sqs: FakeQueues, operator: SqsOperator, caplog: pytest.LogCaptureFixture
) -> None:
    trail = Trail()
    kept = replace(operator, audit_log=AuditLog(trail=trail))
    sqs.put(DEAD, envelope(1), id="m1", attributes=noted())
    sqs.put(DEAD, envelope(2), id="m2", attributes=noted())
    kept.replay(of(), WARRANT, Pace(most=1))
    ((warrant, action, subject, details),) = trail.kept
    assert (warrant, action, subject) == (WARRANT, "replay", "letters.read")
    assert details == {"selection": {"subscription": "letters.read"}, "deliveries": ["letters.read/m1"]}
    trail.broken = TransportUnavailable("the database is away")
    assert kept.purge("letters.read", WARRANT, PACE) == 1
    assert "purge of 1 dead letter" in caplog.text
    assert "not in the audit table: the database is away" in caplog.text


# --- Edited ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["letters.read", "steps.take", "tenants.bill"])
def test_an_edited_dead_letter_goes_to_its_queue_as_a_new_message(
    sqs: FakeQueues, operator: SqsOperator, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = name.partition(".")[0]
    body = envelope(7, topic, partition_key="Z\u00fcrich", attributes={"kind": "pdf"}, correlation_id="c-1")
    old = json.loads(body)
    dead = BINDINGS[name].dead_letter_queue_url
    sqs.put(dead, body, id="m1", group="a" if dead.endswith(".fifo") else None, attributes=noted())
    new_id = operator.replay_edited(f"{name}/m1", {"number": 8}, WARRANT)
    (stored,) = sqs.queues[BINDINGS[name].queue_url]
    new = decode(stored.body, Origin(message_id="x", topic=topic, received_at=NOW))
    assert (new.id, new.payload, new.causation_id, new.correlation_id) == (new_id, {"number": 8}, old["id"], "c-1")
    assert (new.partition_key, new.attributes, new_id == old["id"]) == ("Z\u00fcrich", {"kind": "pdf"}, False)
    assert (stored.group or "").startswith("pk-") == (name != "letters.read")
    assert sqs.sent[0].get("MessageDeduplicationId") == (new_id if name == "steps.take" else None)
    assert sqs.bodies(dead) == []
    assert f"replay edited of 1 dead letter of {name} by ada" in caplog.text


def test_an_edit_that_cannot_be_leaves_the_dead_letter(sqs: FakeQueues, operator: SqsOperator) -> None:
    sqs.put(DEAD, envelope(1), id="m1", attributes=noted())
    sqs.put(DEAD, '{"schema": "towpath/1"}', id="m2", attributes=noted())
    with pytest.raises(InvalidEdit, match="PayloadTooLarge"):
        operator.replay_edited("letters.read/m1", "x" * 300_000, WARRANT)
    with pytest.raises(InvalidEdit, match="InvalidEnvelope"):
        operator.replay_edited("letters.read/m2", 1, WARRANT)
    with pytest.raises(DeliveryNotFound, match="m3"):
        operator.replay_edited("letters.read/m3", 1, WARRANT)
    sqs.refuse["send", QUEUE] = [lambda entry: True]
    with pytest.raises(TransportUnavailable):
        operator.replay_edited("letters.read/m1", 1, WARRANT)
    assert (len(sqs.queues[DEAD]), sqs.hidden(DEAD), sqs.bodies(QUEUE)) == (2, [], [])


# --- What cannot be --------------------------------------------------------------------------------------------


def test_what_sqs_cannot_do_is_refused_with_the_capability_and_the_way_out(operator: SqsOperator) -> None:
    asked = {
        "list_partitions": lambda: operator.partitions("letters.read", 10),
        "towpath.audit.*TOWPATH_AUDIT_DATABASE": lambda: operator.audit(10),
        "--where state=dead": lambda: operator.deliveries(Selection(), 10),
        "towpath dead-letters": lambda: operator.deliveries(of(state="pending"), 10),
        "cancel_pending": lambda: operator.discard(of(), WARRANT, PACE),
        "cancel_in_flight": lambda: operator.discard(of(state="leased"), WARRANT, PACE),
    }
    for says, ask in asked.items():
        with pytest.raises(Unsupported, match=says):
            ask()


@pytest.mark.parametrize(
    ("name", "pause", "resume"),
    [
        ("letters.read", 'function.*status = "paused".*deploy it$', 'function.*status = "active".*deploy it$'),
        (
            "letters.file",
            'stop its workers, or set status = "paused".*start workers with it$',
            'no such flag: set status = "active".*start workers with it$',
        ),
        ("letters.away", "not Towpath's: stop or start that$", "not Towpath's: stop or start that$"),
    ],
)
def test_a_pause_is_refused_with_what_has_its_effect_for_whoever_serves_the_queue(
    operator: SqsOperator, name: str, pause: str, resume: str
) -> None:
    hosts = {"letters.read": "lambda", "letters.file": "worker", "letters.away": "external"}
    subscription = replace(MANIFEST.subscriptions["letters.read"], host=hosts[name])
    asked = replace(operator, subscriptions={name: subscription}, bindings={name: operator.bindings["letters.read"]})
    with pytest.raises(Unsupported, match=f"'{name}' cannot be paused.*pause_at_once.*{pause}"):
        asked.pause(name, WARRANT)
    with pytest.raises(Unsupported, match=f"'{name}' cannot be resumed.*pause_at_once.*{resume}"):
        asked.resume(name, WARRANT)
    with pytest.raises(SubscriptionNotFound, match=f"did you mean '{name}'"):
        asked.pause(name[:-1], WARRANT)


def test_what_is_no_name_or_id_is_refused(operator: SqsOperator) -> None:
    for ask in (
        lambda: operator.replay(of("letters.raed"), WARRANT, PACE),
        lambda: operator.purge("none", WARRANT, PACE),
        lambda: operator.replay(Selection(delivery_ids=("none/m1",)), WARRANT, PACE),
        lambda: operator.replay_edited("none/m1", 1, WARRANT),
    ):
        with pytest.raises(SubscriptionNotFound, match=r"letters\.read"):
            ask()
    for delivery_id in ("m1", "letters.read/", "/m1", "17-3"):
        with pytest.raises(InvalidSelection, match="no dead letter's id"):
            operator.replay(Selection(delivery_ids=(delivery_id,)), WARRANT, PACE)
    with pytest.raises(InvalidSelection, match="only dead letters"):
        operator.replay(of(state="pending"), WARRANT, PACE)


def test_stats_and_backlog_count_both_dead_letter_queues_and_cap_what_scalers_get(
    sqs: FakeQueues, operator: SqsOperator
) -> None:
    for n in range(1_003):
        sqs.put(QUEUE, envelope(n))
    sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=2)
    sqs.put(DEAD, envelope(1))
    sqs.put(FAILED, envelope(2))
    row = next(row for row in operator.stats() if row.subscription == "letters.read")
    assert (row.pending, row.leased, row.dead) == (1_001, 2, 2)
    backlog = {row.subscription: row for row in operator.backlog()}
    assert set(backlog) == set(MANIFEST.subscriptions)
    one = backlog["letters.read"]
    assert operator.backlog("letters.read") == [one]
    with pytest.raises(SubscriptionNotFound):
        operator.backlog("letters.raed")
    assert (one.claimable, one.claimable_capped, one.in_flight, one.in_flight_capped) == (1_000, True, 2, False)


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_of_what_is_switched_off_nothing_could_start(sqs: FakeQueues, operator: SqsOperator, status: Any) -> None:
    for n in range(3):
        sqs.put(QUEUE, envelope(n))
    sqs.receive_message(QueueUrl=QUEUE, MaxNumberOfMessages=1)
    off = MANIFEST.subscriptions | {"letters.read": replace(MANIFEST.subscriptions["letters.read"], status=status)}
    (row,) = replace(operator, subscriptions=off).backlog("letters.read")
    assert (row.claimable, row.in_flight) == (0, 1)


def test_dead_letters_of_all_subscriptions_are_one_list(sqs: FakeQueues, operator: SqsOperator) -> None:
    sqs.put(DEAD, envelope(1))
    sqs.put(FAILED, envelope(2))
    page = operator.dead_letters(None, 10)
    assert {entry.subscription for entry in page} == {"letters.read"}
    assert len(page) == 2
    first = operator.dead_letters(None, 1)
    assert [*first, *operator.dead_letters(None, 1, first.cursor)] == list(page)


def test_an_operator_calls_nothing_that_its_policy_does_not_allow(sqs: FakeQueues, operator: SqsOperator) -> None:
    """The batch calls are allowed by the action of the single one."""
    actions = {
        "receive_message": "sqs:ReceiveMessage",
        "delete_message_batch": "sqs:DeleteMessage",
        "change_message_visibility_batch": "sqs:ChangeMessageVisibility",
        "send_message_batch": "sqs:SendMessage",
        "get_queue_attributes": "sqs:GetQueueAttributes",
    }
    called: set[tuple[str, str]] = set()

    class Watched:
        def __getattr__(self, name: str) -> Any:
            def call(**request: Any) -> Any:
                called.add((actions[name], request["QueueUrl"]))
                return getattr(sqs, name)(**request)

            return call

    for name, bound in BINDINGS.items():
        for url in (bound.dead_letter_queue_url, bound.delivery_failure_queue_url):
            for n in range(3):
                sqs.put(url, envelope(n, name.partition(".")[0]), id=f"{url}-{n}", group="a", attributes=noted())
    watched = replace(operator, client=Watched())
    watched.stats(), watched.backlog(), watched.dead_letters("letters.read", 10)
    watched.replay_edited(f"letters.read/{DEAD}-1", 1, WARRANT)
    watched.replay(Selection(), WARRANT, Pace(most=3))
    watched.discard(Selection(state="dead"), WARRANT, Pace(most=3))
    watched.purge("steps.take", WARRANT, PACE)
    allowed = {
        (action, resource.rpartition(":")[2])
        for policy in MANIFEST.aws.access.operator
        for statement in policy.statements
        for action in statement.actions
        for resource in statement.resources
    }
    assert called <= allowed
    assert {action for action, _ in called} == set(actions.values())
