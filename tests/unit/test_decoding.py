"""Reading whatever a body may hold: envelopes strictly, SNS's notifications, and what other producers send."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.bodies import MESSAGE_ID, OTHER_ID, TRACE, envelope, full_envelope, notification
from towpath.envelope import Origin, decode, is_foreign
from towpath.errors import InvalidEnvelope, UnsupportedSchema
from towpath.message import ABSENT, Message, PayloadRef

NOW = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
ORIGIN = Origin(message_id="transport-id", topic="documents.process", received_at=NOW)


def read(record: object, origin: Origin = ORIGIN) -> Message:
    return decode(json.dumps(record), origin)


def refusal(body: str, origin: Origin = ORIGIN) -> str:
    with pytest.raises(InvalidEnvelope) as caught:
        decode(body, origin)
    return str(caught.value)


# --- Reading an envelope ---------------------------------------------------------------------------------------


def test_an_envelope_of_every_field_is_read():
    message = read(full_envelope())
    assert message == Message(
        id=MESSAGE_ID,
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
    assert (message.id, message.topic) == (MESSAGE_ID, "other.topic")


@pytest.mark.parametrize("half", [0xD800, 0xDBFF, 0xDC00, 0xDCFF, 0xDFFF], ids=hex)
@pytest.mark.parametrize("around", ["-", '"-"', "ä-", json.dumps(envelope(payload="-"))])
def test_a_body_that_is_no_text_reaches_no_handler(half, around):
    body = around.replace("-", chr(half))
    assert refusal(body) == "the body is not text in UTF-8"
    assert is_foreign(body) is False


def test_an_absent_payload_is_told_from_null():
    assert read(envelope(payload=...)).payload is ABSENT
    assert read(envelope(payload=None)).payload is None


@pytest.mark.parametrize("missing", [..., None])
def test_a_correlation_id_that_is_missing_or_null_is_the_message_id(missing):
    assert read(envelope(correlation_id=missing)).correlation_id == MESSAGE_ID


OPTIONAL = [*sorted(full_envelope().keys() - envelope().keys()), "payload_ref"]


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_that_is_null_counts_as_absent(name):
    assert read(envelope(**{name: None})) == read(envelope())


def test_a_claim_check_takes_nulls_too():
    ref = {"uri": "s3://b/k", "content_type": None, "size_bytes": None, "sha256": None}
    assert read(envelope(payload=..., payload_ref=ref)).payload_ref == PayloadRef(uri="s3://b/k")


def test_an_envelope_without_attributes_has_none():
    assert read(envelope()).attributes == {}


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
        {"id": MESSAGE_ID.upper()},
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
        {"published_at": "2026-01-31T08:15:00.1234567Z"},
        {"published_at": "2026-01-31T08:15:00.Z"},
        {"published_at": "2026-01-31T24:00:01Z"},
        {"published_at": "20260131T081500Z"},
        {"published_at": "2026-01-31T08:15:00+02:00:30"},
        {"published_at": "2026-01-31T08:15Z"},
        {"published_at": ["2026-01-31T08:15:00Z"]},
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
        {"traceparent": "ff" + TRACE[2:]},
        {"partition_key": ""},
        {"partition_key": 7},
        {"partition_key": "x" * 201},
        {"partition_key": "\ud800"},
        {"attributes": ""},
        {"attributes": 0},
        {"attributes": False},
        {"attributes": []},
        {"attributes": {"a": None}},
        {"attributes": {"a": True}},
        {"attributes": {"a": {}}},
        {"attributes": {"a": ""}},
        {"attributes": {"towpath-x": "v"}},
        {"attributes": {f"a{i}": "v" for i in range(11)}},
        {"attributes": {"a": 10**400}},
        {"attributes": {"a": ["x"] * 51}},
        {"attributes": {"a": "x\0"}},
        {"partition_key": "a\0b"},
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


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"id": 7}, "id must be a UUID in lower-case text"),
        ({"topic": "A"}, "topic must be a topic name"),
        ({"published_at": ...}, "published_at is missing"),
        ({"published_at": 1}, "published_at must be a UTC time such as 2026-01-31T08:15:00.123Z"),
        ({"deliver_after": "x"}, "deliver_after must be a UTC time such as 2026-01-31T08:15:00.123Z"),
        ({"expires_at": "x"}, "expires_at must be a UTC time such as 2026-01-31T08:15:00.123Z"),
        ({"correlation_id": ""}, "correlation_id must be 1 to 200 printable ASCII characters without blanks"),
        ({"attributes": []}, "attributes must be a mapping, not a list"),
        ({"payload": [float("nan")]}, "the envelope cannot be read: NaN is not JSON"),
        ({"payload": ["\ud800"]}, "payload[0] holds a lone surrogate, which UTF-8 cannot carry"),
        ({"payload_ref": {"uri": "u"}}, "a message carries payload or payload_ref, not both"),
        ({"payload_ref": 7}, "payload_ref must be an object"),
        ({"payload_ref": {"uri": ""}}, "payload_ref.uri must be non-empty text"),
    ],
)
def test_a_refusal_says_which_field_and_what_it_must_be(changes, told):
    assert refusal(json.dumps(envelope(**changes))) == told


def raw(payload: str) -> str:
    return json.dumps(envelope(payload="HERE")).replace('"HERE"', payload)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param("[" * 101 + "]" * 101, id="a level too deep"),
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
    assert json.dumps(decode(raw("[" * 100 + "]" * 100), ORIGIN).payload) == "[" * 100 + "]" * 100


def test_a_refusal_names_fields_and_no_values():
    with pytest.raises(InvalidEnvelope) as caught:
        read(envelope(partition_key="secret" * 100))
    assert "partition_key" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "schema", ["towpath/2", "towpath/", "towpath/1.0", "towpath/1 ", "towpath/01", "towpath/\ud800", "towpath/\0"]
)
def test_an_envelope_of_another_version_is_unsupported_whatever_else_it_holds(schema):
    with pytest.raises(UnsupportedSchema) as caught:
        read({"schema": schema, "payload": object.__name__})
    assert caught.value.schema == schema
    assert str(caught.value).encode().startswith(b"envelope schema 'towpath/")


def test_a_schema_is_told_in_short():
    with pytest.raises(UnsupportedSchema) as caught:
        read({"schema": "towpath/" + "x" * 100_000})
    assert len(str(caught.value)) < 200


CUT = json.dumps(full_envelope())


@pytest.mark.parametrize("end", [*range(CUT.index("towpath/") + len("towpath/"), len(CUT), 7), len(CUT) - 1])
def test_an_envelope_that_was_cut_off_is_malformed_and_not_foreign(end):
    assert refusal(CUT[:end]).startswith("the envelope cannot be read: ")
    assert is_foreign(CUT[:end]) is False


@pytest.mark.parametrize(
    "body",
    [
        CUT + "}",
        CUT + CUT,
        " \t\r\n" + CUT[:-1] + ",}",
        "\ufeff" + CUT[:-1],
        CUT.replace('"schema": ', '"schema"\n:\t')[:-1],
    ],
)
def test_an_edited_envelope_that_is_no_json_any_more_is_malformed_and_not_foreign(body):
    assert refusal(body).startswith("the envelope cannot be read: ")


@pytest.mark.parametrize(
    "body", [f"an envelope: {CUT}", f"[{CUT}", f'"{CUT}', CUT[:15], CUT.replace("towpath/", "mine/")[:-1]]
)
def test_text_that_does_not_begin_as_an_envelope_is_foreign(body):
    assert decode(body, ORIGIN).payload == body


@pytest.mark.parametrize("before", ["\ufeff", " ", "\n\t\r ", "\ufeff "])
def test_blanks_and_a_byte_order_mark_around_an_envelope_are_none_of_it(before):
    assert decode(before + CUT + " \n", ORIGIN) == decode(CUT, ORIGIN)
    assert not is_foreign(before + CUT)


@pytest.mark.parametrize("schema", [r"towpath\/1", r"\u0074owpath/1"])
def test_an_envelope_is_known_however_json_writes_its_schema(schema):
    assert decode(CUT.replace("towpath/1", schema, 1), ORIGIN) == decode(CUT, ORIGIN)


def test_of_two_schemas_the_last_one_counts():
    assert decode('{"schema": "towpath/1", "schema": "mine"}', ORIGIN).payload == {"schema": "mine"}
    with pytest.raises(UnsupportedSchema):
        decode('{"schema": "mine", "schema": "towpath/7"}', ORIGIN)


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
        {"schema": None, "id": MESSAGE_ID, "topic": "a", "published_at": "2026-01-31T08:15:00Z"},
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
        " hello\n",
        "{",
        "\ufeff",
        "\ufeffhello",
        "\ufeff\ufeff{}",
        "'single'",
        "{} {}",
        '{"a": 1,}',
        '{"a": "line\nbreak"}',
        "\0",
        '"\0"',
        "a\0b",
        "\u00a0{}",
        "\ufffe\uffff",
    ],
)
def test_text_that_is_no_json_is_the_payload_as_text(text):
    assert decode(text, ORIGIN).payload == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" \t\r\n{} \n", {}),
        ("\ufeff{}", {}),
        ("\ufeff [1]\n", [1]),
        ('"\\u0000"', "\0"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ufffe\\uffff"', "\ufffe\uffff"),
        ('"\\\\ud800"', "\\ud800"),
        ('{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        ("-0", 0),
        ("1.0", 1.0),
        ("1e-400", 0.0),
        ("1" * 4_300, int("1" * 4_300)),
        ("[" * 500 + "]" * 500, ...),
    ],
    ids=lambda value: None if len(str(value)) < 20 else "long",
)
def test_json_is_read_as_python_reads_it(text, value):
    payload = decode(text, ORIGIN).payload
    assert payload == value if value is not ... else json.dumps(payload) == text


UNCARRIED = [
    pytest.param('"\\ud800"', id="a lone surrogate"),
    pytest.param('{"name": ["cut off in an emoji: \\ud83d"]}', id="half an emoji within"),
    pytest.param('{"\\uDFFF": 1}', id="half a character in a key"),
    pytest.param('"\\ude00\\ud83d"', id="the halves in the wrong order"),
    pytest.param('{"a": [NaN]}', id="no number"),
    pytest.param("Infinity", id="infinity"),
    pytest.param("[-Infinity]", id="minus infinity"),
    pytest.param("[1e400]", id="beyond any float"),
    pytest.param("-1" + "0" * 400 + ".0", id="below any float"),
    pytest.param("1" * 4_301, id="a digit too many"),
    pytest.param("[" * 501 + "]" * 501, id="a level too deep"),
    pytest.param("[" * 100_000 + "]" * 100_000, id="far too deep"),
    pytest.param('{"a":' * 501 + "1" + "}" * 501, id="objects too deep"),
]


@pytest.mark.parametrize("text", UNCARRIED)
def test_json_that_no_message_could_carry_on_is_the_payload_as_text(text):
    assert decode(text, ORIGIN).payload == text
    assert decode(notification(text), ORIGIN).payload == text


@pytest.mark.parametrize("text", UNCARRIED)
def test_a_foreign_payload_can_be_written_in_utf_8_whatever_was_sent(text):
    json.dumps(decode(text, ORIGIN).payload, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("body", ["hello", "{}", notification("hello"), '{"schema": "mine", "id": "7"}'])
def test_a_foreign_message_keeps_its_ids_over_retries(body):
    first, later = (decode(body, replace(ORIGIN, received_at=NOW + timedelta(hours=h))) for h in (0, 1))
    assert (first.id, first.correlation_id) == (later.id, later.correlation_id) == ("transport-id", "transport-id")
    assert (first.published_at, later.published_at) == (NOW, NOW + timedelta(hours=1))


def test_an_envelope_keeps_its_ids_and_times_whatever_the_delivery():
    other = Origin(message_id="other", topic="other", received_at=NOW + timedelta(hours=1), attributes={"a": "b"})
    assert decode(CUT, ORIGIN) == decode(CUT, other)


def test_a_foreign_message_has_what_its_origin_says_and_nothing_else():
    assert decode("[1]", replace(ORIGIN, attributes={"kind": "pdf"})) == Message(
        id="transport-id",
        topic="documents.process",
        payload=[1],
        published_at=NOW,
        correlation_id="transport-id",
        attributes={"kind": "pdf"},
    )


@pytest.mark.parametrize("body", ["hello", "{}", "[]"])
def test_a_foreign_message_is_refused_where_none_is_accepted(body):
    with pytest.raises(InvalidEnvelope, match="accepts no foreign messages"):
        decode(body, ORIGIN, accept_foreign=False)


def test_an_envelope_is_read_where_no_foreign_message_is_accepted():
    assert decode(json.dumps(envelope()), ORIGIN, accept_foreign=False).id == MESSAGE_ID


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
    assert decode(body, ORIGIN, accept_foreign=False) == read(envelope())


def test_a_foreign_message_in_a_notification_keeps_the_notifications_attributes():
    body = notification(
        '{"a": 1}', kind=("String", "pdf"), n=("Number", "2"), tags=("String.Array", '["a"]'), b=("Binary", "AA==")
    )
    message = decode(body, replace(ORIGIN, attributes={"of": "the queue"}))
    assert message.payload == {"a": 1}
    assert message.attributes == {"kind": "pdf", "n": 2, "tags": ("a",), "b": "AA=="}
    assert (message.id, message.correlation_id) == ("transport-id", "transport-id")


@pytest.mark.parametrize(
    ("kind", "value", "attribute"),
    [
        ("String", "pdf", "pdf"),
        ("String", "", ""),
        ("String.custom", "x", "x"),
        ("Number", "2", 2),
        ("Number", "-1.5", -1.5),
        ("Number.int", "7", 7),
        ("Number", "many", "many"),
        ("String.Array", '["a", "b"]', ("a", "b")),
        ("String.Array", "[]", ()),
        ("String.Array", '["\\ud800"]', '["\\ud800"]'),
        ("Binary", "AAEC", "AAEC"),
        ("Binary.png", "iVBO", "iVBO"),
    ],
)
def test_an_attribute_of_a_notification_has_the_value_of_its_type(kind, value, attribute):
    message = decode(notification("hello", it=(kind, value)), ORIGIN)
    assert message.attributes == {"it": attribute}
    assert type(message.attributes["it"]) is type(attribute)


def test_an_envelope_in_a_notification_has_the_attributes_of_the_envelope():
    body = notification(json.dumps(full_envelope()), kind=("String", "other"))
    assert decode(body, ORIGIN) == read(full_envelope())


def test_a_malformed_envelope_in_a_notification_is_refused():
    assert refusal(notification(json.dumps(envelope(id=7)))) == "id must be a UUID in lower-case text"
    assert refusal(notification(CUT[:-1])).startswith("the envelope cannot be read: ")


def test_an_empty_message_in_a_notification_is_empty_text():
    assert decode(notification(""), ORIGIN).payload == ""


@pytest.mark.parametrize("kind", ["SubscriptionConfirmation", "UnsubscribeConfirmation", "notification", "", None])
def test_what_else_sns_sends_is_no_notification_and_stands_as_it_is(kind):
    document = json.loads(notification("hello")) | {"Type": kind, "Token": "t"}
    assert read(document).payload == document


def test_a_notification_whose_message_is_no_text_in_utf_8_is_the_payload_as_text():
    body = notification("\ud800")
    assert decode(body, ORIGIN).payload == body


def test_a_byte_order_mark_before_a_notification_is_none_of_it():
    assert decode("\ufeff" + notification("\ufeff[1]"), ORIGIN).payload == [1]


def test_plain_text_in_a_notification_is_the_payload():
    assert decode(notification("hello"), ORIGIN).payload == "hello"


def test_a_notification_within_a_notification_is_unwrapped_once():
    inner = notification("hello")
    assert decode(notification(inner), ORIGIN).payload == json.loads(inner)


def test_a_foreign_message_in_a_notification_is_refused_where_none_is_accepted():
    with pytest.raises(InvalidEnvelope):
        decode(notification("hello"), ORIGIN, accept_foreign=False)


@pytest.mark.parametrize(
    "attributes",
    [
        None,
        [],
        "x",
        {"a": 1},
        {"a": {}},
        {"a": {"Type": 1, "Value": "x"}},
        {"a": {"Type": "String"}},
        {"a": {"Type": "String", "Value": 1}},
        {"a": {"Type": "String", "Value": "\ud800"}},
        {"a": {"Type": "\ud800", "Value": "x"}},
        {"\ud800": {"Type": "String", "Value": "x"}},
    ],
)
def test_broken_attributes_of_a_notification_are_left_out(attributes):
    document = json.loads(notification("hello")) | {"MessageAttributes": attributes}
    assert read(document).attributes == {}


def test_an_envelope_of_another_version_in_a_notification_is_unsupported():
    with pytest.raises(UnsupportedSchema):
        decode(notification('{"schema": "towpath/9"}'), ORIGIN)
