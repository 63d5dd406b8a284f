"""The wire form: building and measuring an envelope, and reading whatever a body may hold."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.envelope import (
    Origin,
    Prepared,
    Sources,
    decode,
    encode,
    is_foreign,
    is_topic_name,
    prepare,
)
from towpath.errors import InvalidEnvelope, UnsupportedSchema
from towpath.message import ABSENT, Message, NewMessage, PayloadRef, PublishError, format_time

NOW = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
ID = "0190a5d2-0000-7000-8000-000000000000"
OTHER_ID = "0190a5d2-0000-7000-8000-000000000001"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOURCES = Sources(clock=lambda: NOW, random_bytes=bytes)
ORIGIN = Origin(message_id="transport-id", topic="documents.process", received_at=NOW)
LIMIT = 261_120


def prepared(new: NewMessage, max_bytes: int = LIMIT) -> Prepared:
    answer = prepare("documents.process", new, max_bytes, SOURCES)
    assert isinstance(answer, Prepared), answer
    return answer


def refused(new: NewMessage, max_bytes: int = LIMIT) -> PublishError:
    answer = prepare("documents.process", new, max_bytes, SOURCES)
    assert isinstance(answer, PublishError), answer
    return answer


def envelope(**changes) -> dict:
    record = {
        "schema": "towpath/1",
        "id": ID,
        "topic": "documents.process",
        "correlation_id": "c-1",
        "published_at": "2026-01-31T08:15:00.123Z",
        "payload": {"a": 1},
    }
    return {name: value for name, value in (record | changes).items() if value is not Ellipsis}


def read(record: object, origin: Origin = ORIGIN) -> Message:
    return decode(json.dumps(record), origin)


def notification(message: str, **attributes: tuple[str, object]) -> str:
    return json.dumps(
        {
            "Type": "Notification",
            "MessageId": "sns-id",
            "TopicArn": "arn:aws:sns:eu-west-1:123456789012:t",
            "Message": message,
            "MessageAttributes": {name: {"Type": kind, "Value": value} for name, (kind, value) in attributes.items()},
        }
    )


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
        id=ID,
        partition_key="tenant",
        attributes={"kind": "pdf", "tags": ["a", "b"], "size": 3},
        correlation_id="c-1",
        causation_id=OTHER_ID,
        traceparent=TRACE,
        deliver_after=NOW,
        expires_at=NOW + timedelta(days=1),
    )
    message = prepared(new).message
    assert (message.id, message.correlation_id, message.causation_id) == (ID, "c-1", OTHER_ID)
    assert message.attributes == {"kind": "pdf", "tags": ("a", "b"), "size": 3}
    assert (message.partition_key, message.traceparent) == ("tenant", TRACE)


def test_times_are_brought_to_what_the_envelope_can_say():
    zone = timezone(timedelta(hours=2))
    message = prepared(NewMessage(deliver_after=datetime(2026, 1, 31, 10, 15, 0, 999_999, tzinfo=zone))).message
    assert message.deliver_after == datetime(2026, 1, 31, 8, 15, 0, 999_000, tzinfo=UTC)
    assert message.deliver_after.tzinfo is UTC


def test_a_broken_message_is_refused_before_anything_is_made():
    assert refused(NewMessage(id="x")).code == "InvalidMessageId"


def test_an_integer_that_python_cannot_write_is_an_invalid_payload():
    error = refused(NewMessage(payload=10**5_000))
    assert error.code == "InvalidPayload"
    assert "cannot be written as JSON" in error.message


def test_the_size_counts_utf_8_bytes_of_the_envelope_and_name_type_and_value_of_each_attribute():
    answer = prepared(NewMessage(payload="ä€😀", attributes={"kind": "ü", "n": 1.5, "tags": ["a", "ß"]}))
    extra = len("kind") + len("String") + 2
    extra += len("n") + len("Number") + len("1.5")
    extra += len("tags") + len("String.Array") + len('["a","ß"]'.encode())
    assert answer.size_bytes == len(answer.body.encode()) + extra


def test_a_message_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not():
    for wanted in (LIMIT, 1_000):
        room = wanted - prepared(NewMessage(payload="")).size_bytes
        assert prepared(NewMessage(payload="x" * room), wanted).size_bytes == wanted
        error = refused(NewMessage(payload="x" * (room + 1)), wanted)
        assert error.code == "PayloadTooLarge"
        assert f"{wanted + 1:,} bytes with its attributes, 1 over the topic's limit of {wanted:,}" in error.message
        assert "payload_ref" in error.message


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
    body = prepared(NewMessage(payload={"b": "ä", "a": 1}, id=ID)).body
    assert body == (
        f'{{"correlation_id":"{ID}","id":"{ID}","payload":{{"a":1,"b":"ä"}},'
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


# --- Reading an envelope ---------------------------------------------------------------------------------------


def test_an_envelope_of_every_field_is_read():
    message = read(
        envelope(
            partition_key="tenant",
            attributes={"kind": "pdf", "n": 1, "tags": ["a"]},
            causation_id=OTHER_ID,
            traceparent=TRACE,
            deliver_after="2026-01-31T08:15:00Z",
            expires_at="2026-01-31T10:15:00.5+02:00",
        )
    )
    assert message == Message(
        id=ID,
        topic="documents.process",
        payload={"a": 1},
        correlation_id="c-1",
        published_at=datetime(2026, 1, 31, 8, 15, 0, 123_000, tzinfo=UTC),
        partition_key="tenant",
        attributes={"kind": "pdf", "n": 1, "tags": ("a",)},
        causation_id=OTHER_ID,
        traceparent=TRACE,
        deliver_after=datetime(2026, 1, 31, 8, 15, tzinfo=UTC),
        expires_at=datetime(2026, 1, 31, 8, 15, 0, 500_000, tzinfo=UTC),
    )


def test_times_are_read_in_utc():
    assert read(envelope(expires_at="2026-01-31T10:15:00+02:00")).expires_at.tzinfo is UTC


def test_unknown_keys_are_ignored():
    assert read(envelope(colour="red", payload=1)).payload == 1


def test_the_envelopes_topic_and_id_stand_and_not_the_transports():
    message = read(envelope(topic="other.topic"))
    assert (message.id, message.topic) == (ID, "other.topic")


@pytest.mark.parametrize("body", ['"\udcff"', "\udcff", json.dumps(envelope(payload="-")).replace("-", "\udcff")])
def test_a_body_that_is_no_text_reaches_no_handler(body):
    with pytest.raises(InvalidEnvelope, match="the body is not text in UTF-8"):
        decode(body, ORIGIN)
    assert not is_foreign(body)


def test_an_absent_payload_is_told_from_null():
    assert read(envelope(payload=...)).payload is ABSENT
    assert read(envelope(payload=None)).payload is None


@pytest.mark.parametrize("missing", [..., None])
def test_a_correlation_id_that_is_missing_or_null_is_the_message_id(missing):
    assert read(envelope(correlation_id=missing)).correlation_id == ID


def test_optionals_that_are_null_count_as_absent():
    message = read(envelope(partition_key=None, causation_id=None, traceparent=None, expires_at=None, payload_ref=None))
    assert (message.partition_key, message.causation_id, message.traceparent, message.expires_at) == (None,) * 4


def test_a_claim_check_is_read_without_its_unknown_keys():
    message = read(envelope(payload=..., payload_ref={"uri": "s3://b/k", "size_bytes": 3, "etag": "x"}))
    assert message.payload_ref == PayloadRef(uri="s3://b/k", size_bytes=3)
    assert message.payload is ABSENT


def test_the_last_of_two_equal_keys_counts_as_everywhere_in_python():
    body = json.dumps(envelope())[:-1] + ', "payload": 2}'
    assert decode(body, ORIGIN).payload == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ...},
        {"id": None},
        {"id": 7},
        {"id": ID.upper()},
        {"topic": ...},
        {"topic": None},
        {"topic": ["a"]},
        {"topic": "A"},
        {"topic": "x" * 201},
        {"published_at": ...},
        {"published_at": None},
        {"published_at": 1},
        {"published_at": "yesterday"},
        {"published_at": "2026-01-31"},
        {"published_at": "2026-01-31T08:15:00"},
        {"published_at": "2026-02-30T08:15:00Z"},
        {"published_at": "2026-01-31T08:15:00Z\n"},
        {"published_at": "2026-01-31 08:15:00Z"},
        {"published_at": "٢٠٢٦-01-31T08:15:00Z"},
        {"published_at": "0001-01-01T00:00:00+14:00"},
        {"published_at": "2026-01-31T08:15:00+99:99"},
        {"deliver_after": 5},
        {"expires_at": "9999-12-31T23:59:59-14:00"},
        {"correlation_id": ""},
        {"correlation_id": 7},
        {"correlation_id": "a b"},
        {"correlation_id": "x" * 201},
        {"causation_id": "x"},
        {"traceparent": "x"},
        {"partition_key": ""},
        {"partition_key": 7},
        {"partition_key": "x" * 201},
        {"partition_key": "\ud800"},
        {"attributes": None},
        {"attributes": []},
        {"attributes": {"a": None}},
        {"attributes": {"a": True}},
        {"attributes": {"a": {}}},
        {"attributes": {"a": ""}},
        {"attributes": {"towpath-x": "v"}},
        {"attributes": {f"a{i}": "v" for i in range(11)}},
        {"attributes": {"a": 10**400}},
        {"attributes": {"a": ["x"] * 51}},
        {"payload": "\ud800"},
        {"payload": {"\ud800": 1}},
        {"payload": [[["x\udfff"]]]},
        {"payload_ref": {"uri": "u"}},
        {"payload": ..., "payload_ref": "s3://b/k"},
        {"payload": ..., "payload_ref": []},
        {"payload": ..., "payload_ref": {}},
        {"payload": ..., "payload_ref": {"uri": ""}},
        {"payload": ..., "payload_ref": {"uri": "u", "size_bytes": -1}},
        {"payload": ..., "payload_ref": {"uri": "u", "sha256": "x"}},
    ],
)
def test_a_malformed_envelope_is_refused(changes):
    with pytest.raises(InvalidEnvelope):
        read(envelope(**changes))


def raw(payload: str) -> str:
    return json.dumps(envelope(payload="HERE")).replace('"HERE"', payload)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("[" * 102 + "]" * 102, id="a level too deep"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="far too deep"),
        pytest.param("1" * 5_000, id="an integer of too many digits"),
        pytest.param("1e400", id="a number beyond any float"),
        pytest.param("NaN", id="no number"),
        pytest.param("-Infinity", id="minus infinity"),
    ],
)
def test_an_envelope_with_a_payload_that_cannot_be_read_is_malformed_and_not_foreign(payload):
    assert not is_foreign(raw(payload))
    with pytest.raises(InvalidEnvelope):
        decode(raw(payload), ORIGIN)


def test_a_payload_nested_100_deep_is_read():
    assert decode(raw("[" * 101 + "]" * 101), ORIGIN).payload != "HERE"


def test_a_refusal_names_fields_and_no_values():
    with pytest.raises(InvalidEnvelope) as caught:
        read(envelope(partition_key="secret" * 100))
    assert "partition_key" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("schema", ["towpath/2", "towpath/", "towpath/1.0", "towpath/1 ", "towpath/\ud800"])
def test_an_envelope_of_another_version_is_unsupported_whatever_else_it_holds(schema):
    with pytest.raises(UnsupportedSchema) as caught:
        read({"schema": schema, "payload": object.__name__})
    assert caught.value.schema == schema
    str(caught.value).encode()


# --- Foreign bodies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        None,
        True,
        7,
        1.5,
        "text",
        [],
        [1],
        {},
        {"schema": "mine/1", "id": 7, "payload": "p"},
        {"schema": 1},
        {"schema": None, "id": ID, "topic": "a", "published_at": "2026-01-31T08:15:00Z"},
        {"Schema": "towpath/1"},
        {"schema": "Towpath/1"},
        [envelope()],
        {"Type": "Notification", "Message": "m"},
        {"Type": "Notification", "TopicArn": 7, "Message": "m"},
        {"Type": "Notification", "TopicArn": "a", "Message": {"a": 1}},
        {"Records": [{"eventSource": "aws:s3"}]},
    ],
)
def test_foreign_json_is_the_payload_exactly_as_it_stands(document):
    message = read(document)
    assert message.payload == document
    assert (message.id, message.correlation_id, message.topic) == ("transport-id", "transport-id", "documents.process")
    assert message.published_at == NOW


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "hello",
        "{",
        '{"schema": "towpath/1"',
        "\ufeff{}",
        "NaN",
        "[Infinity]",
        "'single'",
        "{} {}",
        "\0",
        "[" * 100_000,
        "\ud800",
    ],
)
def test_text_that_is_no_json_is_the_payload_as_text(text):
    assert decode(text, ORIGIN).payload == text


def test_a_foreign_number_of_more_digits_than_python_reads_stays_text():
    assert decode("1" * 5_000, ORIGIN).payload == "1" * 5_000


def test_a_foreign_message_keeps_the_transports_attributes():
    origin = replace(ORIGIN, attributes={"kind": "pdf"})
    assert decode("hello", origin).attributes == {"kind": "pdf"}


def test_a_foreign_message_is_the_same_at_every_delivery():
    assert decode("{}", ORIGIN) == decode("{}", ORIGIN)


@pytest.mark.parametrize("body", ["hello", "{}", "[]"])
def test_a_foreign_message_is_refused_where_none_is_accepted(body):
    with pytest.raises(InvalidEnvelope, match="accepts no foreign messages"):
        decode(body, replace(ORIGIN, accept_foreign=False))


def test_an_envelope_is_read_where_no_foreign_message_is_accepted():
    assert read(envelope(), replace(ORIGIN, accept_foreign=False)).id == ID


@pytest.mark.parametrize(
    ("body", "foreign"),
    [
        ("hello", True),
        ("{}", True),
        ('{"schema": "mine/1"}', True),
        (notification('{"schema": "towpath/1"}'), True),
        ('{"schema": "towpath/1"}', False),
        ('{"schema": "towpath/2"}', False),
    ],
)
def test_a_body_is_foreign_unless_it_is_a_bare_envelope_sound_or_not(body, foreign):
    assert is_foreign(body) is foreign


# --- SNS without raw delivery ----------------------------------------------------------------------------------


def test_an_envelope_in_a_notification_is_unwrapped():
    body = notification(json.dumps(envelope()))
    assert decode(body, ORIGIN) == read(envelope())
    assert decode(body, replace(ORIGIN, accept_foreign=False)) == read(envelope())


def test_a_foreign_message_in_a_notification_keeps_the_notifications_attributes():
    body = notification(
        '{"a": 1}', kind=("String", "pdf"), n=("Number", "2"), tags=("String.Array", '["a"]'), b=("Binary", "AA==")
    )
    message = decode(body, replace(ORIGIN, attributes={"of": "the queue"}))
    assert message.payload == {"a": 1}
    assert message.attributes == {"kind": "pdf", "n": 2, "tags": ("a",), "b": "AA=="}
    assert (message.id, message.correlation_id) == ("transport-id", "transport-id")


def test_plain_text_in_a_notification_is_the_payload():
    assert decode(notification("hello"), ORIGIN).payload == "hello"


def test_a_notification_within_a_notification_is_unwrapped_once():
    inner = notification("hello")
    assert decode(notification(inner), ORIGIN).payload == json.loads(inner)


def test_a_foreign_message_in_a_notification_is_refused_where_none_is_accepted():
    with pytest.raises(InvalidEnvelope):
        decode(notification("hello"), replace(ORIGIN, accept_foreign=False))


@pytest.mark.parametrize(
    "attributes", [None, [], "x", {"a": 1}, {"a": {"Type": 1, "Value": "x"}}, {"a": {"Type": "String"}}]
)
def test_broken_attributes_of_a_notification_are_left_out(attributes):
    document = json.loads(notification("hello")) | {"MessageAttributes": attributes}
    assert read(document).attributes == {}


def test_an_envelope_of_another_version_in_a_notification_is_unsupported():
    with pytest.raises(UnsupportedSchema):
        decode(notification('{"schema": "towpath/9"}'), ORIGIN)


# --- Whatever the bytes ----------------------------------------------------------------------------------------

carried = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")  # what SQS takes
attribute_values = (
    st.text(carried, min_size=1, max_size=10)
    | st.integers(-(10**9), 10**9)
    | st.floats(-1e9, 1e9)
    | st.lists(st.text(carried, min_size=1, max_size=5), max_size=3).map(tuple)
)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
ids = st.uuids().map(str)
instants = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
maybe_instants = st.none() | instants
new_messages = st.builds(
    NewMessage,
    payload=json_values,
    partition_key=st.none() | text.filter(lambda key: key and "\0" not in key),
    attributes=st.dictionaries(st.from_regex(r"a[A-Za-z0-9_-]{0,9}", fullmatch=True), attribute_values, max_size=10),
    id=ids,
    correlation_id=st.none() | st.from_regex(r"[!-~]{1,20}", fullmatch=True),
    causation_id=st.none() | ids,
    traceparent=st.none() | st.just(TRACE),
    deliver_after=maybe_instants,
    expires_at=maybe_instants,
)


@given(new_messages)
def test_what_was_encoded_is_read_back_as_it_was(new):
    answer = prepared(new)
    back = decode(answer.body, ORIGIN)
    assert back == answer.message
    assert encode(back) == answer.body


@given(
    ids,
    st.builds(PayloadRef, uri=text.filter(bool), content_type=st.none() | text, size_bytes=st.none() | st.integers(0)),
)
def test_a_claim_check_is_read_back_as_it_was(message_id, ref):
    answer = prepared(NewMessage(id=message_id, payload_ref=ref))
    assert decode(answer.body, ORIGIN) == answer.message


def decoded(body: str) -> Message | None:
    """The message, or ``None`` where the body was refused as it may be; any other error passes."""
    try:
        return decode(body, ORIGIN)
    except (InvalidEnvelope, UnsupportedSchema):
        return None


@given(st.text(st.characters(), max_size=40))
def test_no_text_makes_the_decoder_fail_in_another_way(body):
    decoded(body)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_decoder_fail_in_another_way(body):
    decoded(body.decode("utf-8", "surrogateescape"))
    decoded(body.decode("latin-1"))


loose_scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=6)
    | st.sampled_from([10**400, "towpath/1", ID, "2026-01-31T08:15:00Z", "Notification", "9999-12-31T23:59:59-14:00"])
)
loose = st.recursive(
    loose_scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    *envelope(),
    "payload_ref",
    "attributes",
    "partition_key",
    "causation_id",
    "traceparent",
    "deliver_after",
    "expires_at",
    "Type",
    "TopicArn",
    "Message",
    "MessageAttributes",
]


@given(st.dictionaries(st.sampled_from(KEYS), loose, max_size=6))
def test_no_broken_envelope_makes_the_decoder_fail_in_another_way(changes):
    message = decoded(json.dumps(envelope() | changes))
    if message is not None and message.id != "transport-id":
        encode(message).encode()
        assert format_time(message.published_at)


@given(st.dictionaries(st.sampled_from(KEYS), loose, max_size=4))
def test_no_broken_notification_makes_the_decoder_fail_in_another_way(changes):
    body = json.loads(notification(json.dumps(envelope() | changes))) | changes
    decoded(json.dumps(body))
