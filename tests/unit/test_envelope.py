"""Building and measuring an envelope: what goes over the wire, and what is too much for it."""

import enum
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given

from tests.fakes.bodies import MESSAGE_ID, OTHER_ID, TRACE
from tests.fakes.strategies import new_messages
from towpath.envelope import Prepared, Sources, encode, is_topic_name, prepare
from towpath.message import Message, NewMessage, PayloadRef, PublishError

NOW = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
SOURCES = Sources(clock=lambda: NOW, random_bytes=bytes)
LIMIT = 261_120


def prepared(new: NewMessage, max_bytes: int = LIMIT) -> Prepared:
    answer = prepare("documents.process", new, max_bytes, SOURCES)
    assert isinstance(answer, Prepared), answer
    return answer


def refused(new: NewMessage, max_bytes: int = LIMIT) -> PublishError:
    answer = prepare("documents.process", new, max_bytes, SOURCES)
    assert isinstance(answer, PublishError), answer
    return answer


class Kind(str, enum.Enum):  # noqa: UP042 - of such a member str() is not its text
    PDF = "pdf"


class Level(enum.IntEnum):
    HIGH = 3


class Ratio(float):
    pass


# --- Topic names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "0", "documents.process", "a-b_c.d", "x" * 200])
def test_a_topic_name_is_lower_case_words_joined_by_single_marks(name):
    assert is_topic_name(name)


@pytest.mark.parametrize("name", ["", "A", "a..b", ".a", "a.", "a-", "_a", "a b", "ä", "a\n", "a/b", "x" * 201, "١"])
def test_anything_else_is_no_topic_name(name):
    assert not is_topic_name(name)


# --- Preparing -------------------------------------------------------------------------------------------------


def test_what_is_left_out_gets_its_default():
    message = prepared(NewMessage(payload=1)).message
    assert message.id == "019c131e-a01b-7000-8000-000000000000"
    assert message.correlation_id == message.id
    assert message.published_at == NOW.replace(microsecond=123_000)
    assert (message.topic, message.attributes, message.partition_key) == ("documents.process", {}, None)


def test_what_is_given_is_kept():
    new = NewMessage(
        payload={"a": [1]},
        id=MESSAGE_ID,
        partition_key="tenant",
        attributes={"kind": "pdf", "tags": ["a", "b"], "size": 3},
        correlation_id="c-1",
        causation_id=OTHER_ID,
        traceparent=TRACE,
        deliver_after=NOW,
        expires_at=NOW + timedelta(days=1),
    )
    message = prepared(new).message
    assert (message.id, message.correlation_id, message.causation_id) == (MESSAGE_ID, "c-1", OTHER_ID)
    assert message.attributes == {"kind": "pdf", "tags": ("a", "b"), "size": 3}
    assert (message.partition_key, message.traceparent) == ("tenant", TRACE)


def test_times_are_brought_to_what_the_envelope_can_say():
    zone = timezone(timedelta(hours=2))
    message = prepared(NewMessage(deliver_after=datetime(2026, 1, 31, 10, 15, 0, 999_999, tzinfo=zone))).message
    assert message.deliver_after == datetime(2026, 1, 31, 8, 15, 0, 999_000, tzinfo=UTC)
    assert message.deliver_after.tzinfo is UTC


@pytest.mark.parametrize("milliseconds", [0, 1, 500, 999])
def test_whole_milliseconds_are_kept(milliseconds):
    moment = NOW.replace(microsecond=1_000 * milliseconds)
    assert prepared(NewMessage(expires_at=moment)).message.expires_at == moment


def test_a_broken_message_is_refused_before_anything_is_made():
    assert refused(NewMessage(id="x")).code == "InvalidMessageId"


def test_an_integer_that_python_cannot_write_is_an_invalid_payload():
    assert refused(NewMessage(payload=10**5_000)).message.startswith("payload is an integer of more than 4,300 digits")


@pytest.mark.parametrize("key", [b"a", "\ud800"])
def test_what_only_writing_finds_out_is_an_invalid_payload_too(key):
    class Sly(dict):
        def items(self):
            return [(key, 1)]

    error = refused(NewMessage(payload=Sly(a=1)))
    assert error.code == "InvalidPayload"
    assert error.message.startswith("the payload cannot be written as JSON: ")


def test_subclasses_are_kept_as_what_they_hold():
    new = NewMessage(
        partition_key=Kind.PDF,
        correlation_id=Kind.PDF,
        attributes={Kind.PDF: Kind.PDF, "n": Level.HIGH, "x": Ratio(0.5), "tags": [Kind.PDF]},
        payload={Kind.PDF: [Kind.PDF, Level.HIGH, Ratio(0.5)]},
    )
    message = prepared(new).message
    assert message.attributes == {"pdf": "pdf", "n": 3, "x": 0.5, "tags": ("pdf",)}
    kept = [message.partition_key, message.correlation_id, *message.attributes, message.attributes["tags"][0]]
    assert {type(text) for text in kept} == {str}
    assert [type(value) for value in message.attributes.values()] == [str, int, float, tuple]
    assert '"payload":{"pdf":["pdf",3,0.5]}' in prepared(new).body


def test_the_size_counts_utf_8_bytes_of_the_envelope_and_name_type_and_value_of_each_attribute():
    answer = prepared(NewMessage(payload="ä€😀", attributes={"kind": "ü", "n": 1.5, "tags": ["a", "ß"]}))
    extra = len("kind") + len("String") + 2
    extra += len("n") + len("Number") + len("1.5")
    extra += len("tags") + len("String.Array") + len('["a","ß"]'.encode())
    assert answer.size_bytes == len(answer.body.encode()) + extra


def weighed(message: Message, body: str) -> int:
    """The size by page 2's words, counted in another way: UTF-8 bytes, and name + type + value of each attribute."""
    total = len(bytearray(body, "utf-8"))
    for name, value in message.attributes.items():
        if isinstance(value, str):
            total += len(bytearray(f"{name}String{value}", "utf-8"))
        elif isinstance(value, tuple):
            items = ",".join(json.dumps(item, ensure_ascii=False) for item in value)
            total += len(bytearray(f"{name}String.Array[{items}]", "utf-8"))
        else:
            total += len(bytearray(f"{name}Number{value!r}", "utf-8"))
    return total


@given(new_messages)
def test_the_size_is_what_another_count_says_and_the_limit_is_exact(new):
    answer = prepared(new)
    assert answer.size_bytes == weighed(answer.message, answer.body)
    assert prepared(new, answer.size_bytes).size_bytes == answer.size_bytes
    error = refused(new, answer.size_bytes - 1)
    assert error.code == "PayloadTooLarge"
    assert ", 1 over the topic's limit of " in error.message


@pytest.mark.parametrize("wanted", [LIMIT, 1_000])
def test_a_message_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not(wanted):
    room = wanted - prepared(NewMessage(payload="")).size_bytes
    assert prepared(NewMessage(payload="x" * room), wanted).size_bytes == wanted
    assert refused(NewMessage(payload="x" * (room + 1)), wanted) == PublishError(
        code="PayloadTooLarge",
        message=f"the message is {wanted + 1:,} bytes with its attributes, 1 over the topic's limit of {wanted:,}; "
        "store the payload elsewhere and publish a claim check (payload_ref)",
    )


def test_a_message_far_too_large_is_told_by_how_much():
    assert (
        "the message is 1,000,205 bytes with its attributes, 739,085 over"
        in refused(NewMessage(payload="x" * 1_000_000)).message
    )


def test_attributes_count_towards_the_limit():
    room = LIMIT - prepared(NewMessage(payload="", attributes={"kind": "pdf"})).size_bytes
    prepared(NewMessage(payload="x" * room, attributes={"kind": "pdf"}))
    assert refused(NewMessage(payload="x" * (room + 1), attributes={"kind": "pdf"})).code == "PayloadTooLarge"


def test_a_topics_own_limit_never_lifts_the_limit_of_towpath():
    assert refused(NewMessage(payload="x" * LIMIT), 10 * LIMIT).code == "PayloadTooLarge"


def test_a_large_message_is_not_retryable():
    assert not refused(NewMessage(payload="x" * LIMIT)).retryable


# --- Encoding --------------------------------------------------------------------------------------------------


def test_an_envelope_has_sorted_keys_no_blanks_and_no_absent_optionals():
    body = prepared(NewMessage(payload={"b": "ä", "a": 1}, id=MESSAGE_ID)).body
    assert body == (
        f'{{"correlation_id":"{MESSAGE_ID}","id":"{MESSAGE_ID}","payload":{{"a":1,"b":"ä"}},'
        '"published_at":"2026-01-31T08:15:00.123Z","schema":"towpath/1","topic":"documents.process"}'
    )


def test_the_order_in_which_keys_were_given_does_not_show():
    first = prepared(NewMessage(payload={"a": 1, "b": {"c": 1, "d": 2}}, attributes={"x": "1", "y": "2"}))
    second = prepared(NewMessage(payload={"b": {"d": 2, "c": 1}, "a": 1}, attributes={"y": "2", "x": "1"}))
    assert first.body == second.body


def test_a_null_payload_is_written_and_an_absent_one_is_not():
    assert json.loads(prepared(NewMessage(payload=None)).body)["payload"] is None
    assert "payload" not in json.loads(prepared(NewMessage()).body)


def test_a_claim_check_is_written_without_what_it_leaves_out():
    body = prepared(NewMessage(payload_ref=PayloadRef(uri="s3://b/k", size_bytes=0))).body
    assert json.loads(body)["payload_ref"] == {"uri": "s3://b/k", "size_bytes": 0}
    assert "payload" not in json.loads(body)


def test_every_field_has_its_place_in_the_envelope():
    new = NewMessage(
        payload=[1],
        id=MESSAGE_ID,
        partition_key="tenant",
        attributes={"kind": "pdf", "tags": ["b", "a"], "size": 3},
        correlation_id="c-1",
        causation_id=OTHER_ID,
        traceparent=TRACE,
        deliver_after=NOW,
        expires_at=NOW + timedelta(days=1),
        deduplication_key="not in it",
    )
    assert json.loads(prepared(new).body) == {
        "schema": "towpath/1",
        "id": MESSAGE_ID,
        "topic": "documents.process",
        "payload": [1],
        "partition_key": "tenant",
        "attributes": {"kind": "pdf", "tags": ["b", "a"], "size": 3},
        "correlation_id": "c-1",
        "causation_id": OTHER_ID,
        "traceparent": TRACE,
        "published_at": "2026-01-31T08:15:00.123Z",
        "deliver_after": "2026-01-31T08:15:00.123Z",
        "expires_at": "2026-02-01T08:15:00.123Z",
    }


def test_a_tuple_is_written_as_an_array():
    assert prepared(NewMessage(payload=(1, (2,)))).body == prepared(NewMessage(payload=[1, [2]])).body


def test_the_two_characters_that_sqs_refuses_are_written_as_escapes():
    body = prepared(NewMessage(payload={"\ufffe": "\uffff"})).body
    assert '{"\\ufffe":"\\uffff"}' in body
    assert json.loads(body)["payload"] == {"\ufffe": "\uffff"}


def test_nothing_else_but_control_characters_and_quotes_is_written_as_an_escape():
    assert '"\\u0000\\n\x7f\u2028ä😀\\\\\\""' in prepared(NewMessage(payload='\0\n\x7f\u2028ä😀\\"')).body


def test_a_message_that_breaks_json_cannot_be_encoded():
    message = Message(id=MESSAGE_ID, topic="a", payload=float("nan"), published_at=NOW, correlation_id="c")
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(message)
