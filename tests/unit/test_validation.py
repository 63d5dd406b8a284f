"""The contract of a message, rule by rule, at its bounds."""

import enum
import itertools
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.strategies import any_json, new_messages
from towpath.message import NewMessage, PayloadRef, PublishError
from towpath.validation import attributes_fault, first_fault, ref_fault, require_messages

ID = "0190a5d2-0000-7000-8000-000000000000"
AWARE = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)
SURROGATE = "\ud800"
HUGE = 10**5_000  # more digits than Python writes


def code(**fields) -> str | None:
    fault = first_fault(NewMessage(**fields))
    return None if fault is None else fault.code


def problem(**fields) -> str:
    fault = first_fault(NewMessage(**fields))
    assert fault is not None
    return fault.message


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Nowhere(tzinfo):
    """A time zone that does not know its offset, which makes a time naive (Python's documentation of datetime)."""

    def utcoffset(self, dt):
        return None


# --- The order of faults ---------------------------------------------------------------------------------------


def test_a_message_of_nothing_keeps_the_contract():
    assert first_fault(NewMessage()) is None


BROKEN = [
    ("InvalidMessageId", {"id": "x"}),
    ("InvalidPayload", {"payload": {1}}),
    ("InvalidAttributes", {"attributes": {"": "v"}}),
    ("InvalidAttributes", {"deliver_after": "soon"}),
    ("InvalidAttributes", {"expires_at": "soon"}),
    ("InvalidPartitionKey", {"partition_key": ""}),
    ("InvalidCorrelationId", {"correlation_id": ""}),
    ("InvalidCorrelationId", {"causation_id": "x"}),
    ("InvalidCorrelationId", {"traceparent": "x"}),
    ("InvalidDeduplication", {"deduplication_key": " "}),
]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(BROKEN, 2)))
def test_of_two_faults_the_first_in_the_documented_order_wins(first, second):
    fields = second[1] | first[1]
    assert code(**fields) == first[0]
    assert problem(**fields) == problem(**first[1])


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: next(iter(broken[1])))
def test_each_fault_alone_has_its_code_and_cannot_pass_by_waiting(broken):
    expected, fields = broken
    fault = first_fault(NewMessage(**fields))
    assert fault is not None
    assert (fault.code, fault.retryable) == (expected, False)


@pytest.mark.parametrize(
    ("code", "fields"), [broken for broken in BROKEN if "deduplication_key" not in broken[1] and "id" not in broken[1]]
)
def test_a_fault_names_its_field(code, fields):
    (field,) = fields
    assert field.removesuffix("s") in problem(**fields)


# --- id --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message_id", [None, ID])
def test_a_uuid_or_no_id_is_accepted(message_id):
    assert code(id=message_id) is None


@pytest.mark.parametrize(
    "message_id", ["", ID.upper(), ID + " ", ID.replace("-", ""), "7", b"x", pytest.param(HUGE, id="huge")]
)
def test_any_other_id_is_refused(message_id):
    assert code(id=message_id) == "InvalidMessageId"


# --- payload and payload_ref -----------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [None, "", {"a": [1, "b", None]}, (1, 2), Colour.RED])
def test_any_json_value_is_a_payload(payload):
    assert code(payload=payload) is None


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        pytest.param(float("nan"), "payload is nan", id="nan"),
        pytest.param({"a": SURROGATE}, "payload.a holds a lone surrogate", id="surrogate"),
        pytest.param(b"bytes", "payload is a bytes", id="bytes"),
        pytest.param([AWARE], "payload[0] is a datetime", id="datetime"),
        pytest.param(HUGE, "payload is an integer of more than 4,300 digits", id="huge"),
    ],
)
def test_what_is_no_json_is_an_invalid_payload_told_with_its_path(payload, told):
    assert code(payload=payload) == "InvalidPayload"
    assert problem(payload=payload).startswith(told)


def test_a_payload_of_more_values_than_any_message_holds_is_too_large_and_sent_elsewhere():
    many = [0] * 300_001
    assert code(payload=many) == "PayloadTooLarge"
    assert problem(payload=many) == (
        "payload holds more than 300,000 values (one that is shared counts each time), and a message at most 261,120 "
        "bytes; store the payload elsewhere and publish a claim check (payload_ref)"
    )


def test_payload_and_payload_ref_exclude_each_other_even_for_null():
    assert code(payload=None, payload_ref=PayloadRef(uri="s3://b/k")) == "InvalidPayload"


@pytest.mark.parametrize("size", [0, 1, 2**63 - 1, Level.HIGH])
def test_a_claim_check_of_every_field_is_accepted(size):
    ref = PayloadRef(uri="s3://b/k", content_type="application/pdf", size_bytes=size, sha256="0123456789abcdef" * 4)
    assert code(payload_ref=ref) is None
    assert code(payload_ref=PayloadRef(uri="u", content_type="ä")) is None


@pytest.mark.parametrize(
    ("ref", "told"),
    [
        (PayloadRef(uri=""), "payload_ref.uri must be non-empty text"),
        (PayloadRef(uri=SURROGATE), "payload_ref.uri must be non-empty text"),
        (PayloadRef(uri=7), "payload_ref.uri must be non-empty text"),
        (PayloadRef(uri=None), "payload_ref.uri must be non-empty text"),
        (PayloadRef(uri="u", content_type=7), "payload_ref.content_type must be text"),
        (PayloadRef(uri="u", content_type=SURROGATE), "payload_ref.content_type must be text"),
        (PayloadRef(uri="u", size_bytes=-1), "payload_ref.size_bytes must be 0 to 9,223,372,036,854,775,807"),
        (PayloadRef(uri="u", size_bytes=2**63), "payload_ref.size_bytes must be 0 to 9,223,372,036,854,775,807"),
        (PayloadRef(uri="u", size_bytes=1.0), "payload_ref.size_bytes must be a whole number"),
        (PayloadRef(uri="u", size_bytes=True), "payload_ref.size_bytes must be a whole number"),
        (PayloadRef(uri="u", size_bytes="1"), "payload_ref.size_bytes must be a whole number"),
        (PayloadRef(uri="u", sha256="0" * 63), "payload_ref.sha256 must be 64 lower-case hexadecimal digits"),
        (PayloadRef(uri="u", sha256="0" * 65), "payload_ref.sha256 must be 64 lower-case hexadecimal digits"),
        (PayloadRef(uri="u", sha256="A" * 64), "payload_ref.sha256 must be 64 lower-case hexadecimal digits"),
        (PayloadRef(uri="u", sha256=b"0" * 64), "payload_ref.sha256 must be 64 lower-case hexadecimal digits"),
        ({"uri": "u"}, "payload_ref must be a PayloadRef, not a dict"),
        ("s3://b/k", "payload_ref must be a PayloadRef, not 's3://b/k'"),
        (PayloadRef, "payload_ref must be a PayloadRef, not a type"),
    ],
)
def test_a_broken_claim_check_is_refused(ref, told):
    assert code(payload_ref=ref) == "InvalidPayload"
    assert problem(payload_ref=ref) == told


def test_a_claim_check_read_as_a_mapping_follows_the_same_rules():
    assert ref_fault({"uri": "u", "size_bytes": 1}) is None
    assert ref_fault({}) == "payload_ref.uri must be non-empty text"


# --- attributes ------------------------------------------------------------------------------------------------


def test_ten_attributes_are_accepted_and_eleven_are_not():
    ten = {f"a{i}": "v" for i in range(10)}
    assert code(attributes=ten) is None
    assert code(attributes=ten | {"b": "v"}) == "InvalidAttributes"


@pytest.mark.parametrize("name", ["a", "A-Z_09", "-", "_", "0", "x" * 64, "tow-path", "a.towpath".replace(".", "-")])
def test_attribute_names_are_1_to_64_letters_digits_hyphens_and_underscores(name):
    assert code(attributes={name: "v"}) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x" * 65,
        "a.b",
        "a b",
        "ä",
        "a\n",
        "$or",
        "towpath",
        "towpath-x",
        "Towpath",
        None,
        pytest.param(HUGE, id="huge"),
    ],
)
def test_other_attribute_names_and_those_of_towpath_are_refused(name):
    assert code(attributes={name: "v"}) == "InvalidAttributes"


@pytest.mark.parametrize(
    "value",
    [
        "v",
        "x" * 256,
        "😀" * 256,
        0,
        -0.0,
        1e9,
        -1e9,
        10**9,
        -(10**9),
        1e-128,
        -1e-128,
        999_999_999.999,
        Level.HIGH,
        [],
        (),
        ["a"],
        ("x" * 256,),
        ["a"] * 50,
        Colour.RED,
    ],
)
def test_attribute_values_are_text_numbers_and_lists_of_text_within_their_bounds(value):
    assert code(attributes={"a": value}) is None


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x" * 257,
        SURROGATE,
        float("nan"),
        float("inf"),
        float("-inf"),
        10**9 + 1,
        -(10**9) - 1,
        1_000_000_000.0000001,
        0.999e-128,
        -5e-324,
        pytest.param(10**400, id="beyond any float"),
        pytest.param(-(10**400), id="below any float"),
        True,
        None,
        b"v",
        {},
        {"a"},
        ["a"] * 51,
        ["a", 1],
        [""],
        ["x" * 257],
        [SURROGATE],
        [["a"]],
        AWARE,
    ],
)
def test_other_attribute_values_are_refused(value):
    assert code(attributes={"a": value}) == "InvalidAttributes"


@pytest.mark.parametrize("attributes", [None, "ab", [("a", "v")], 7])
def test_attributes_must_be_a_mapping(attributes):
    assert code(attributes=attributes) == "InvalidAttributes"


def test_an_attribute_fault_names_the_attribute_and_not_its_value():
    fault = attributes_fault({"kind": "secret" * 100})
    assert fault == "attribute 'kind' must be 1 to 256 characters long, not 600"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("", "must be 1 to 256 characters long, not 0"),
        ("x" * 257, "must be 1 to 256 characters long, not 257"),
        (["ok", ""], "must be 1 to 256 characters long, not 0"),
        (SURROGATE, "holds a lone surrogate, which UTF-8 cannot carry"),
        ("a\0", "holds a control character, U+FFFE or U+FFFF, which SQS does not carry; leave it out"),
        (1e9 + 1, "must be a finite number within -1e9 and 1e9"),
        (float("nan"), "must be a finite number within -1e9 and 1e9"),
        (1e-129, "is nearer to 0 than the numbers that SQS carries (1e-128); write 0"),
        (["a"] * 51, "has 51 items, at most 50 are allowed"),
        (["a", 1], "must be a list of text only"),
        (True, "is a bool; text, a number or a list of text is allowed"),
        (None, "is a NoneType; text, a number or a list of text is allowed"),
        ({"a"}, "is a set; text, a number or a list of text is allowed"),
    ],
)
def test_an_attribute_fault_says_what_is_allowed(value, told):
    assert attributes_fault({"kind": value}) == f"attribute 'kind' {told}"


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        (None, "attributes must be a mapping, not a NoneType"),
        ([("a", "v")], "attributes must be a mapping, not a list"),
        ({f"a{i}": "v" for i in range(11)}, "a message has at most 10 attributes, this one 11"),
        ({"a.b": "v"}, "attribute name 'a.b' must be 1 to 64 of A-Z a-z 0-9 _ -"),
        ({7: "v"}, "attribute name a int must be 1 to 64 of A-Z a-z 0-9 _ -"),
        ({"TowPath-x": "v"}, "attribute name 'TowPath-x' is reserved: names beginning 'towpath' are Towpath's own"),
    ],
)
def test_a_fault_of_the_attributes_says_what_is_allowed(attributes, told):
    assert attributes_fault(attributes) == told


def test_any_mapping_may_hold_attributes():
    assert code(attributes=MappingProxyType({"a": "v"})) is None
    assert code(attributes={Colour.RED: Colour.RED}) is None


def test_a_fault_shows_long_text_in_short():
    fault = attributes_fault({"n" * 200_000: "v"})
    assert fault is not None
    assert len(fault) < 200


# --- partition_key ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "k", " ", "x" * 200, "😀" * 200])
def test_a_partition_key_is_1_to_200_characters(key):
    assert code(partition_key=key) is None


@pytest.mark.parametrize("key", ["", "x" * 201, SURROGATE, "a\0b", 7, b"k"])
def test_any_other_partition_key_is_refused(key):
    assert code(partition_key=key) == "InvalidPartitionKey"


# --- correlation_id, causation_id, traceparent, times ----------------------------------------------------------


@pytest.mark.parametrize("correlation", [None, "!", "~", "a" * 200, ID])
def test_a_correlation_id_is_1_to_200_printable_ascii_characters(correlation):
    assert code(correlation_id=correlation) is None


@pytest.mark.parametrize("correlation", ["", "a" * 201, "a b", "a\n", "\x7f", "ä", "\0", 7])
def test_any_other_correlation_id_is_refused(correlation):
    assert code(correlation_id=correlation) == "InvalidCorrelationId"


@pytest.mark.parametrize("causation", ["", "x", ID.upper(), 7])
def test_a_causation_id_must_be_a_message_id(causation):
    assert code(causation_id=ID) is None
    assert code(causation_id=causation) == "InvalidCorrelationId"


TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def trace(version="00", trace_id=TRACE_ID, parent_id=PARENT_ID, flags="01", more=""):
    return f"{version}-{trace_id}-{parent_id}-{flags}{more}"


@pytest.mark.parametrize(
    "header",
    [
        trace(),
        trace(flags="ff"),
        trace(trace_id="0" * 31 + "1"),
        trace(trace_id="1" + "0" * 31),
        trace(parent_id="0" * 15 + "1"),
        trace("01"),
        trace("fe"),
        trace("cc", more="-what-the-future-holds"),
        trace("cc", more="-"),
        None,
    ],
)
def test_a_traceparent_of_this_or_a_later_version_of_w3c_trace_context_is_accepted(header):
    assert code(traceparent=header) is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        trace("ff"),
        trace("ff", more="-x"),
        trace("0"),
        trace("FE"),
        trace(trace_id="0" * 32),
        trace("01", trace_id="0" * 32),
        trace(trace_id="0" * 31),
        trace(trace_id="0" * 31 + "g"),
        trace(parent_id="0" * 16),
        trace("01", parent_id="0" * 16),
        trace(parent_id="1" * 15),
        trace(parent_id="1" * 17),
        trace(flags="1"),
        trace(flags="001"),
        trace(more="-"),
        trace(more="-more"),
        trace("cc", more="more"),
        trace("cc", more="-a b"),
        trace("cc", more="-ä"),
        trace(more="\n"),
        trace().upper(),
        trace().replace("-", "_"),
        " " + trace(),
        7,
        trace().encode(),
    ],
)
def test_an_invalid_traceparent_is_refused(header):
    assert code(traceparent=header) == "InvalidCorrelationId"
    assert problem(traceparent=header) == "traceparent must be a valid header of W3C Trace Context"


@pytest.mark.parametrize("field", ["deliver_after", "expires_at"])
@pytest.mark.parametrize("moment", [AWARE, datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_aware_times_are_accepted(field, moment):
    assert code(**{field: moment}) is None


@pytest.mark.parametrize("field", ["deliver_after", "expires_at"])
@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 31),  # noqa: DTZ001 - naive on purpose
        datetime(2026, 1, 31, tzinfo=Nowhere()),
        date(2026, 1, 31),
        "2026-01-31T00:00:00Z",
        1_769_817_600,
        datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))),
    ],
)
def test_naive_times_and_those_that_utc_cannot_write_are_refused(field, moment):
    assert code(**{field: moment}) == "InvalidAttributes"
    assert problem(**{field: moment}) == f"{field} must be a datetime with a time zone, in the years 1 to 9999 of UTC"


def test_what_is_due_only_when_it_is_over_is_refused():
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    told = "deliver_after must be earlier than expires_at: what is due only when it is over is never handled"
    for over in (noon, noon - timedelta(microseconds=1), (noon - timedelta(hours=1)).astimezone(timezone.max)):
        assert code(deliver_after=noon, expires_at=over) == "InvalidAttributes"
        assert problem(deliver_after=noon, expires_at=over) == told
    assert code(deliver_after=noon, expires_at=noon + timedelta(microseconds=1)) is None


# --- deduplication ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["k", " k ", "x" * 200])
def test_a_deduplication_key_is_1_to_200_characters_not_all_blank(key):
    assert code(deduplication_key=key) is None


@pytest.mark.parametrize("key", ["", " ", "\u3000", "x" * 201, SURROGATE, "a\0b", 7])
def test_any_other_deduplication_key_is_refused(key):
    assert code(deduplication_key=key) == "InvalidDeduplication"


@pytest.mark.parametrize("ttl", [timedelta(seconds=60), timedelta(days=30)])
def test_a_deduplication_ttl_is_60_seconds_to_30_days(ttl):
    assert code(deduplication_key="k", deduplication_ttl=ttl) is None


@pytest.mark.parametrize(
    "ttl",
    [timedelta(seconds=59.999999), timedelta(days=30, microseconds=1), timedelta(0), timedelta(days=-1), 300, "300"],
)
def test_any_other_deduplication_ttl_is_refused(ttl):
    assert code(deduplication_key="k", deduplication_ttl=ttl) == "InvalidDeduplication"


def test_a_deduplication_ttl_needs_a_key():
    assert code(deduplication_ttl=timedelta(minutes=5)) == "InvalidDeduplication"
    assert problem(deduplication_ttl=timedelta(minutes=5)) == "deduplication_ttl needs a deduplication_key"


def test_a_deduplication_fault_says_what_is_allowed():
    told = "deduplication_key must be 1 to 200 characters, not all blank, none NUL"
    assert problem(deduplication_key="", deduplication_ttl=timedelta(minutes=5)) == told
    assert (
        problem(deduplication_key="k", deduplication_ttl=7) == "deduplication_ttl must be a timedelta of 60 s to 30 d"
    )


def test_a_deduplication_window_is_sliding_or_fixed():
    for window in ("sliding", "fixed"):
        assert code(deduplication_key="k", deduplication_window=window) is None
    for window in ("Fixed", "", None, 60, ["fixed"]):
        assert code(deduplication_key="k", deduplication_window=window) == "InvalidDeduplication"


# --- Whatever is given -----------------------------------------------------------------------------------------

anything = (
    any_json
    | st.binary(max_size=3)
    | st.builds(object)
    | st.datetimes()
    | st.timedeltas()
    | st.sets(st.integers(), max_size=2)
    | st.dictionaries(st.integers() | st.none() | st.tuples(), any_json, max_size=2)
    | st.builds(lambda uri, size: PayloadRef(uri=uri, size_bytes=size), any_json, any_json)
)
FIELDS = list(NewMessage.__dataclass_fields__)


@given(new_messages)
def test_a_message_that_keeps_every_rule_has_no_fault(new):
    assert first_fault(new) is None


@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4))
def test_checking_a_message_never_raises_whatever_its_fields_hold(fields):
    fault = first_fault(NewMessage(**fields))
    assert fault is None or (isinstance(fault, PublishError) and fault.message.encode())


@given(st.sampled_from(["deliver_after", "expires_at"]), st.datetimes(timezones=st.none() | st.timezones()))
def test_checking_a_time_never_raises_whatever_its_zone(field, moment):
    assert code(**{field: moment}) in (None, "InvalidAttributes")


@pytest.mark.parametrize("text", ["\x00", "\x08", "\x0b", "\x0c", "\x0e", "a\x1fb", "\ufffe", "\uffff"])
def test_an_attribute_with_a_character_that_sqs_does_not_carry_is_refused_on_every_transport(text):
    assert first_fault(NewMessage(attributes={"kind": text})).code == "InvalidAttributes"
    assert first_fault(NewMessage(attributes={"kinds": ["ok", text]})).code == "InvalidAttributes"


@pytest.mark.parametrize("text", ["tab\t", "line\r\n", " ", "\x7f", "\x85", "\ufffd", "\U0001fffe", "\U0010ffff"])
def test_an_attribute_may_hold_every_character_that_sqs_carries(text):
    assert first_fault(NewMessage(attributes={"kind": text})) is None


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (NewMessage(), r"write publish\(topic, \[message\]\)"),
        ([NewMessage(), {"a": 1}], "message 1 is a dict"),
        ("text", "not a str"),
        (b"text", "not a bytes"),
        ({1}, "not a set"),
        (None, "not a NoneType"),
    ],
)
def test_what_is_no_list_of_messages_is_a_mistake_in_the_callers_code(messages, problem):
    with pytest.raises(TypeError, match=problem):
        require_messages(messages)


@pytest.mark.parametrize("messages", [[], (), [NewMessage()], (NewMessage(), NewMessage(payload={1}))])
def test_a_sequence_of_messages_is_what_publish_takes_sound_or_not(messages):
    require_messages(messages)
