"""Settling on SQS, over a fake client that answers as the API reference says."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from aws_transport.dead_letter import NOTE_ATTRIBUTE, DeadLetterNote, read_note
from aws_transport.settlement import (
    SqsAttribute,
    SqsDelivery,
    SqsSettler,
    readable_attributes,
    replay_count,
)
from tests.fakes.sqs import FakeSqs
from towpath import limits
from towpath.settlement import (
    Completion,
    DeadLettering,
    Delivery,
    Discard,
    Failed,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
)

NOW = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)
QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/docs-test-convert"
DEAD = QUEUE + "-dlq"
ENVELOPE = json.dumps({"schema": "towpath/1", "id": "x", "payload": {}})


def settler(sqs, *, now=NOW, dead=DEAD):
    return SqsSettler(client=lambda: sqs, queue_url=QUEUE, dead_letter_queue_url=dead, clock=lambda: now)


def delivery(n=1, **changes):
    known = {
        "id": f"message-{n}",
        "message_id": f"message-{n}",
        "subscription": "documents.convert",
        "topic": "documents.process",
        "attempt": 3,
        "body": ENVELOPE,
        "lease_token": f"handle-{n}",
        "received_at": NOW,
    }
    return SqsDelivery(**known | changes)


def letter(n=1, reason="broken", failure=None, **changes):
    return DeadLettering(delivery=delivery(n, **changes), reason=reason, failure=failure)


def note_of(entry):
    return json.loads(entry["MessageAttributes"][NOTE_ATTRIBUTE]["StringValue"])


def test_importing_settlement_and_building_a_settler_leaves_boto3_unloaded():
    program = (
        "import sys\nfrom aws_transport.settlement import SqsSettler\n"
        "SqsSettler(client=lambda: None, queue_url='a', dead_letter_queue_url='b').complete([])\n"
        "print([m for m in ('boto3', 'botocore', 'sqlalchemy', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_where_boto3_is_missing_a_settle_has_failed_and_says_what_to_install():
    program = """
import sys

sys.modules |= {"boto3": None, "botocore": None}  # as if they were not there
from datetime import UTC, datetime, timedelta

from aws_transport.settlement import ClientOnFirstUse, SqsDelivery, SqsSettler
from towpath.settlement import Failure, Retrial

settler = SqsSettler(client=ClientOnFirstUse(None, connections=1), queue_url="a", dead_letter_queue_url="b")
delivery = SqsDelivery(
    id="1", message_id="1", subscription="s", topic="t", attempt=1, body="", lease_token="h",
    received_at=datetime.now(UTC),
)
(answer,) = settler.retry([Retrial(delivery=delivery, delay=timedelta(0), failure=Failure(type="E", message="no"))])
print(answer.error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "boto3 is not installed, and calls to SQS need it; Lambda's Python has it, elsewhere install towpath[aws]"
    )


def test_completing_deletes_by_receipt_handle_ten_to_a_call():
    sqs = FakeSqs()
    answers = settler(sqs).complete([Completion(delivery=delivery(n)) for n in range(23)])
    assert answers == [Settled(state="completed")] * 23
    assert [(name, url, len(entries)) for name, url, entries in sqs.calls] == [
        ("delete", QUEUE, 10),
        ("delete", QUEUE, 10),
        ("delete", QUEUE, 3),
    ]
    assert [e["ReceiptHandle"] for _, _, entries in sqs.calls for e in entries] == [f"handle-{n}" for n in range(23)]


def test_answers_stand_in_the_order_of_the_question_when_some_are_refused():
    refuse = {
        "handle-1": ("ReceiptHandleIsInvalid", "The input receipt handle is invalid."),
        "handle-3": ("InternalError", "try again"),
        "handle-4": ("InvalidParameterValue", "Value x is invalid. Reason: The receipt handle has expired."),
    }
    answers = settler(FakeSqs(refuse)).complete([Completion(delivery=delivery(n)) for n in range(6)])
    assert answers == [
        Settled(state="completed"),
        LeaseLost(),
        Settled(state="completed"),
        Failed(error="SQS refused it: InternalError: try again"),
        LeaseLost(),
        Settled(state="completed"),
    ]


@pytest.mark.parametrize("code", ["InvalidParameterValue", "InvalidParameterValueException"])
def test_hiding_a_message_that_was_deleted_or_taken_by_another_says_that_the_lease_is_lost(code):
    why = "Reason: Message does not exist or is not available for visibility timeout change."
    fake = FakeSqs({"handle-1": (code, f"Value handle-1 for parameter ReceiptHandle is invalid. {why}")})
    assert settler(fake).release([Release(delivery=delivery(1))]) == [LeaseLost()]


def test_a_message_that_the_answer_leaves_out_has_failed():
    answers = settler(FakeSqs(deaf=["handle-2"])).complete([Completion(delivery=delivery(n)) for n in (1, 2)])
    assert answers == [Settled(state="completed"), Failed(error="SQS's answer leaves this message out")]


def test_discarding_deletes_and_says_discarded():
    sqs = FakeSqs()
    assert settler(sqs).discard([Discard(delivery=delivery(), reason="Expired")]) == [Settled(state="discarded")]
    assert [name for name, _, _ in sqs.calls] == ["delete"]


@pytest.mark.parametrize(("delay", "seconds"), [(0, 0), (0.2, 1), (10, 10), (61.5, 62)])
def test_a_retry_hides_for_its_delay_in_whole_seconds_rounded_up(delay, seconds):
    sqs = FakeSqs()
    failure = Failure(type="ValueError", message="no")
    retrial = Retrial(delivery=delivery(), delay=timedelta(seconds=delay), failure=failure)
    assert settler(sqs).retry([retrial]) == [Settled(state="pending")]
    assert sqs.calls == [
        ("hide", QUEUE, [{"Id": "0", "ReceiptHandle": "handle-1", "VisibilityTimeout": seconds}]),
    ]


def test_a_retry_never_reaches_beyond_twelve_hours_from_the_receive():
    sqs = FakeSqs()
    failure = Failure(type="ValueError", message="no")
    retrial = Retrial(delivery=delivery(), delay=timedelta(hours=12), failure=failure)
    settler(sqs, now=NOW + timedelta(hours=1, milliseconds=1)).retry([retrial])
    settler(sqs, now=NOW + timedelta(hours=13)).retry([retrial])
    assert [entries[0]["VisibilityTimeout"] for _, _, entries in sqs.calls] == [39_600 - 5 - 1, 0]


def test_a_release_makes_the_message_visible_at_once():
    sqs = FakeSqs()
    assert settler(sqs).release([Release(delivery=delivery())]) == [Settled(state="pending")]
    assert sqs.calls[0][2] == [{"Id": "0", "ReceiptHandle": "handle-1", "VisibilityTimeout": 0}]


def test_extending_hides_for_the_lease():
    sqs = FakeSqs({"handle-2": ("AWS.SimpleQueueService.MessageNotInflight", "")})
    answers = settler(sqs).extend([delivery(1), delivery(2)], timedelta(seconds=60))
    assert answers == [Settled(state="leased"), LeaseLost()]
    assert [e["VisibilityTimeout"] for e in sqs.calls[0][2]] == [60, 60]


def test_a_dead_letter_is_held_then_copied_with_its_note_then_deleted():
    sqs = FakeSqs()
    failure = Failure(type="FatalError", message="no such page", traceback="Traceback: secret")
    assert settler(sqs).dead_letter([letter(failure=failure)]) == [Settled(state="dead")]
    assert [(name, url) for name, url, _ in sqs.calls] == [("hide", QUEUE), ("send", DEAD), ("delete", QUEUE)]
    (entry,) = sqs.calls[1][2]
    assert entry["MessageBody"] == ENVELOPE
    assert list(entry["MessageAttributes"]) == [NOTE_ATTRIBUTE]
    assert note_of(entry) == {
        "reason": "broken",
        "error": "FatalError: no such page",
        "attempts": 3,
        "time": "2026-01-31T08:15:00.000Z",
        "source_queue": "docs-test-convert",
    }
    assert "MessageGroupId" not in entry


def test_a_dead_letter_whose_lease_is_lost_is_not_copied():
    sqs = FakeSqs({"handle-1": ("MessageNotInflight", "")})
    assert settler(sqs).dead_letter([letter(1), letter(2)]) == [LeaseLost(), Settled(state="dead")]
    assert [len(entries) for name, _, entries in sqs.calls if name == "send"] == [1]


def test_a_dead_letter_that_cannot_be_copied_is_not_deleted():
    sqs = FakeSqs({"bad": ("InvalidMessageContents", "no")})
    answers = settler(sqs).dead_letter([letter(1, body="bad"), letter(2)])
    assert answers == [Failed(error="SQS refused it: InvalidMessageContents: no"), Settled(state="dead")]
    deleted = [e["ReceiptHandle"] for name, _, entries in sqs.calls if name == "delete" for e in entries]
    assert deleted == ["handle-2"]


def test_copying_without_deleting_is_left_to_whoever_deletes_otherwise():
    sqs = FakeSqs()
    assert settler(sqs).copy_to_dead_letter_queue([letter()]) == [Settled(state="dead")]
    assert [(name, len(entries)) for name, _, entries in sqs.calls] == [("hide", 1), ("send", 1)]
    assert sqs.calls[0][2][0]["VisibilityTimeout"] == 60


def test_nothing_is_copied_that_is_not_held_any_more():
    sqs = FakeSqs({"handle-1": ("ReceiptHandleIsInvalid", "")})
    assert settler(sqs).copy_to_dead_letter_queue([letter(1)]) == [LeaseLost()]
    assert [name for name, _, _ in sqs.calls] == ["hide"]


def test_copies_are_sent_in_batches_within_ten_entries_and_the_byte_limit():
    sqs = FakeSqs()
    big = json.dumps({"schema": "towpath/1", "payload": "x" * 100_000})
    answers = settler(sqs).dead_letter([letter(n, body=big) for n in range(5)])
    assert answers == [Settled(state="dead")] * 5
    assert [len(entries) for name, _, entries in sqs.calls if name == "send"] == [2, 2, 1]


def test_on_fifo_a_copy_keeps_its_group_and_has_a_deduplication_id_of_its_own():
    sqs = FakeSqs()
    fifo = settler(sqs, dead=DEAD + ".fifo")
    fifo.dead_letter([letter(1, group_id="tenant-a"), letter(2, group_id="tenant-b", replay=2)])
    first, second = sqs.calls[1][2]
    assert (first["MessageGroupId"], first["MessageDeduplicationId"]) == ("tenant-a", "message-1:dl:0")
    assert (second["MessageGroupId"], second["MessageDeduplicationId"]) == ("tenant-b", "message-2:dl:2")
    assert note_of(second)["replay"] == 2


def test_a_foreign_message_keeps_its_attributes_beside_the_note_while_there_is_room():
    attributes = {f"a{n}": SqsAttribute(data_type="Number.int", value=str(n)) for n in range(10)}
    attributes["a1"] = SqsAttribute(data_type="Binary.png", value=b"\x00\xff")
    sqs = FakeSqs()
    settler(sqs).dead_letter([letter(body='{"order": 1}', sqs_attributes=attributes)])
    sent = sqs.calls[1][2][0]["MessageAttributes"]
    assert list(sent) == [NOTE_ATTRIBUTE, *(f"a{n}" for n in range(9))]
    assert sent["a0"] == {"DataType": "Number.int", "StringValue": "0"}
    assert sent["a1"] == {"DataType": "Binary.png", "BinaryValue": b"\x00\xff"}


def test_an_earlier_note_is_replaced_when_a_message_dies_again():
    earlier = {NOTE_ATTRIBUTE: SqsAttribute(data_type="String", value="{}")}
    sqs = FakeSqs()
    settler(sqs).dead_letter([letter(body="plain text", sqs_attributes=earlier)])
    assert note_of(sqs.calls[1][2][0])["reason"] == "broken"


@pytest.mark.parametrize("character", ["x", "é", "\u4e2d", "\U0001f600", '"', "\\", "\n", "\x00", "\ud800", "\uffff"])
def test_the_note_is_valid_json_and_small_enough_whatever_the_error_says(character):
    sqs = FakeSqs()
    failure = Failure(type="ValueError", message=character * 5_000)
    settler(sqs).dead_letter([letter(reason=character * 5_000, failure=failure)])
    attribute = sqs.calls[1][2][0]["MessageAttributes"][NOTE_ATTRIBUTE]
    size = len(NOTE_ATTRIBUTE) + len("String") + len(attribute["StringValue"].encode())
    assert limits.DEAD_LETTER_NOTE_BYTES - 20 < size <= limits.DEAD_LETTER_NOTE_BYTES
    note = json.loads(attribute["StringValue"])
    assert note["reason"].endswith("…")
    assert note["error"].endswith("…")
    assert len(note["reason"].encode()) > 60
    assert (note["attempts"], note["source_queue"]) == (3, "docs-test-convert")


def test_a_short_reason_leaves_its_room_to_the_error():
    note = DeadLetterNote(reason="r", error="e" * 5_000, attempts=1, time=NOW, source_queue="q")
    assert len(note.to_json(999).encode()) == 999
    assert json.loads(note.to_json(999))["reason"] == "r"


def test_the_largest_envelope_still_fits_with_its_note():
    sqs = FakeSqs()
    failure = Failure(type="ValueError", message="e" * 5_000)
    body = '{"schema":"towpath/1"}'.ljust(limits.MAX_MESSAGE_BYTES)
    settler(sqs).dead_letter([letter(body=body, failure=failure)])
    (entry,) = sqs.calls[1][2]
    attribute = entry["MessageAttributes"][NOTE_ATTRIBUTE]["StringValue"]
    assert len(body) + len(NOTE_ATTRIBUTE) + len("String") + len(attribute.encode()) == limits.SQS_MESSAGE_BYTES


def test_a_foreign_body_that_fills_the_message_is_copied_without_a_note():
    sqs = FakeSqs()
    body = "x" * limits.SQS_MESSAGE_BYTES
    answers = settler(sqs).dead_letter([letter(body=body, reason="MaxAttemptsExceeded")])
    assert answers == [Settled(state="dead")]
    assert sqs.calls[1][2] == [{"Id": "0", "MessageBody": body, "MessageAttributes": {}}]


def test_a_foreign_body_that_leaves_little_room_gets_a_shorter_note_and_none_of_its_attributes():
    sqs = FakeSqs()
    body = "x" * (limits.SQS_MESSAGE_BYTES - 200)
    kind = {"kind": SqsAttribute(data_type="String", value="pdf" * 20)}
    settler(sqs).dead_letter([letter(body=body, reason="r" * 500, sqs_attributes=kind)])
    sent = sqs.calls[1][2][0]["MessageAttributes"]
    assert list(sent) == [NOTE_ATTRIBUTE]
    assert note_of(sqs.calls[1][2][0])["reason"].startswith("rrr")


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (
            ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "DeleteMessageBatch"),
            Failed(error="SQS refused it: AccessDenied: no"),
        ),
        (
            ClientError({"Error": {"Code": "ReceiptHandleIsInvalid", "Message": ""}}, "DeleteMessageBatch"),
            LeaseLost(),
        ),
        (
            EndpointConnectionError(endpoint_url="http://127.0.0.1:9"),
            Failed(
                error='EndpointConnectionError: Could not connect to the endpoint URL: "http://127.0.0.1:9"',
            ),
        ),
    ],
)
def test_an_error_of_the_whole_call_is_every_messages_answer(error, answer):
    assert settler(FakeSqs(error=error)).complete([Completion(delivery=delivery(n)) for n in (1, 2)]) == [answer] * 2


def test_a_delivery_of_another_transport_is_a_bug():
    plain = Delivery(
        id="1", subscription="s", topic="t", attempt=1, message_id="1", body="", lease_token="h", received_at=NOW
    )
    with pytest.raises(TypeError, match="needs an SqsDelivery"):
        settler(FakeSqs()).dead_letter([DeadLettering(delivery=plain, reason="broken")])


def test_a_note_reads_back_as_it_was_written():
    note = DeadLetterNote(reason="r", error="e", attempts=4, time=NOW, source_queue="q", replay=1)
    assert read_note(note.to_json(999)) == note


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"reason": 1, "error": 2, "attempts": "x"}'])
def test_what_is_no_note_reads_as_none(text):
    assert read_note(text) is None


def foreign_note(**changes):
    return {"reason": "r", "error": "e", "attempts": 1, "time": "2026-01-31T08:15:00Z", "source_queue": "q"} | changes


def test_a_note_that_somebody_else_wrote_can_be_shown_whatever_it_says():
    note = read_note(json.dumps(foreign_note(reason="\ud800r", error="\udfff", source_queue="\ufffe")))
    assert (note.reason, note.error, note.source_queue) == ("\ufffdr", "\ufffd", "\ufffd")


def test_a_notes_time_is_in_utc_and_one_that_utc_does_not_have_is_none():
    east = read_note(json.dumps(foreign_note(time="2026-01-31T08:15:00+02:00")))
    assert (east.time, east.time.tzinfo) == (datetime(2026, 1, 31, 6, 15, tzinfo=UTC), UTC)
    for beyond in ("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"):
        assert read_note(json.dumps(foreign_note(time=beyond))) is None


def test_a_handler_sees_neither_binary_attributes_nor_towpaths_own():
    attributes = {
        "kind": SqsAttribute(data_type="String", value="pdf"),
        "pages": SqsAttribute(data_type="Number", value="3"),
        "thumb": SqsAttribute(data_type="Binary", value=b"x"),
        "towpath-replay": SqsAttribute(data_type="Number", value="1"),
    }
    assert readable_attributes(attributes) == {"kind": "pdf", "pages": 3}


@pytest.mark.parametrize(("text", "count"), [("2", 2), ("-1", 0), ("x", 0), ("9" * 30, 0), ("٣", 0)])
def test_the_replay_count_is_read_from_its_attribute(text, count):
    assert replay_count({"towpath-replay": SqsAttribute(data_type="Number", value=text)}) == count
    assert replay_count({}) == 0
