"""The contract of a message, rule by rule, at its bounds."""

import enum
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.message import NewMessage, PayloadRef, PublishError
from towpath.validation import attributes_fault, first_fault, json_fault, ref_fault, require_messages

ID = "0190a5d2-0000-7000-8000-000000000000"
AWARE = datetime(2026, 1, 31, 8, 15, tzinfo=UTC)
SURROGATE = "\ud800"
HUGE = 10**5_000  # more digits than Python writes


def code(**fields) -> str | None:
    fault = first_fault(NewMessage(**fields))
    return None if fault is None else fault.code


def nested(depth: int, kind: type = list) -> object:
    value: object = 1
    for _ in range(depth):
        value = kind([value])
    return value


class Colour(enum.StrEnum):
    RED = "red"


class Nowhere(tzinfo):
    """A time zone that does not know its offset, which makes a time naive (Python's documentation of datetime)."""

    def utcoffset(self, dt):
        return None


# --- The order of faults ---------------------------------------------------------------------------------------


def test_a_message_of_nothing_keeps_the_contract():
    assert first_fault(NewMessage()) is None


def test_the_first_fault_wins_in_the_documented_order():
    broken = {
        "id": "x",
        "payload": {1},
        "attributes": {"": "v"},
        "partition_key": "",
        "correlation_id": "",
        "deduplication_key": " ",
    }
    order = []
    while broken:
        order.append(code(**broken))
        broken.pop(next(iter(broken)))
    assert order == [
        "InvalidMessageId",
        "InvalidPayload",
        "InvalidAttributes",
        "InvalidPartitionKey",
        "InvalidCorrelationId",
        "InvalidDeduplication",
    ]


def test_no_fault_of_a_message_is_retryable():
    fault = first_fault(NewMessage(id="x"))
    assert fault is not None
    assert not fault.retryable


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


@pytest.mark.parametrize(
    "payload",
    [None, True, 0, -1, 10**30, 1.5, -0.0, "", "ä\0", [], {}, [1, "a", None], (1, 2), {"a": {"b": [{}]}}, Colour.RED],
)
def test_any_json_value_is_a_payload(payload):
    assert code(payload=payload) is None


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        (float("nan"), "payload is nan"),
        ([float("inf")], "payload[0] is inf"),
        ({"a": float("-inf")}, "payload.a is -inf"),
        ({"a": [0, {1, 2}]}, "payload.a[1] is a set"),
        ({1: "a"}, "payload has the key a int"),
        pytest.param({HUGE: "a"}, "payload has the key a int", id="huge key"),
        ({None: "a"}, "payload has the key a NoneType"),
        (SURROGATE, "payload holds a lone surrogate"),
        ({"a": ["x" + SURROGATE]}, "payload.a[0] holds a lone surrogate"),
        ({SURROGATE: 1}, "payload has the key '\\ud800'"),
        (b"bytes", "payload is a bytes"),
        (AWARE, "payload is a datetime"),
        (MappingProxyType({}), "payload is a mappingproxy"),
        (object(), "payload is a object"),
    ],
)
def test_what_is_no_json_is_refused_with_its_path(payload, where):
    fault = first_fault(NewMessage(payload=payload))
    assert fault is not None
    assert fault.code == "InvalidPayload"
    assert fault.message.startswith(where)


def test_a_payload_may_be_nested_100_deep():
    assert code(payload=nested(100)) is None


def test_tuples_nest_as_deep_as_lists():
    assert code(payload=nested(100, tuple)) is None
    assert code(payload=nested(101, tuple)) == "InvalidPayload"


def test_a_payload_nested_101_deep_is_refused():
    fault = first_fault(NewMessage(payload=nested(101)))
    assert fault is not None
    assert fault.code == "InvalidPayload"
    assert "nested more than 100 deep" in fault.message


def test_a_payload_that_contains_itself_is_refused():
    loop: list = []
    loop.append(loop)
    assert code(payload=loop) == "InvalidPayload"


def test_the_path_of_a_deep_fault_stays_short():
    fault = json_fault({"k" * 5_000: nested(150)})
    assert fault is not None
    assert len(fault) < 200


def test_payload_and_payload_ref_exclude_each_other_even_for_null():
    assert code(payload=None, payload_ref=PayloadRef(uri="s3://b/k")) == "InvalidPayload"


def test_a_claim_check_of_every_field_is_accepted():
    ref = PayloadRef(uri="s3://b/k", content_type="application/pdf", size_bytes=0, sha256="0" * 64)
    assert code(payload_ref=ref) is None


@pytest.mark.parametrize(
    "ref",
    [
        PayloadRef(uri=""),
        PayloadRef(uri=SURROGATE),
        PayloadRef(uri=7),
        PayloadRef(uri="u", content_type=7),
        PayloadRef(uri="u", content_type=SURROGATE),
        PayloadRef(uri="u", size_bytes=-1),
        PayloadRef(uri="u", size_bytes=1.0),
        PayloadRef(uri="u", size_bytes=True),
        PayloadRef(uri="u", sha256="0" * 63),
        PayloadRef(uri="u", sha256="0" * 65),
        PayloadRef(uri="u", sha256="A" * 64),
        PayloadRef(uri="u", sha256=b"0" * 64),
        {"uri": "u"},
        "s3://b/k",
        PayloadRef,
    ],
)
def test_a_broken_claim_check_is_refused(ref):
    assert code(payload_ref=ref) == "InvalidPayload"


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
        5e-324,
        999_999_999.999,
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


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_traceparent_of_this_or_a_later_version_is_accepted():
    assert code(traceparent=TRACE) is None
    assert code(traceparent="cc" + TRACE[2:] + "-what-the-future-holds") is None


@pytest.mark.parametrize(
    "trace", ["", TRACE.upper(), TRACE[:-1], TRACE + "1", TRACE + "\n", TRACE.replace("-", "_"), 7]
)
def test_a_malformed_traceparent_is_refused(trace):
    assert code(traceparent=trace) == "InvalidCorrelationId"


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


def test_a_deduplication_window_is_sliding_or_fixed():
    for window in ("sliding", "fixed"):
        assert code(deduplication_key="k", deduplication_window=window) is None
    for window in ("Fixed", "", None, 60, ["fixed"]):
        assert code(deduplication_key="k", deduplication_window=window) == "InvalidDeduplication"


# --- Whatever is given -----------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.binary(max_size=3)
    | st.sampled_from([10**400, SURROGATE])
    | st.builds(object)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=2) | st.integers() | st.none(), inner, max_size=3)
        | st.builds(lambda uri, size: PayloadRef(uri=uri, size_bytes=size), inner, inner)
    ),
    max_leaves=8,
)
FIELDS = list(NewMessage.__dataclass_fields__)


@given(st.dictionaries(st.sampled_from(FIELDS), anything, max_size=4))
def test_checking_a_message_never_raises_whatever_its_fields_hold(fields):
    fault = first_fault(NewMessage(**fields))
    assert fault is None or (isinstance(fault, PublishError) and fault.message)


@given(st.sampled_from(["deliver_after", "expires_at"]), st.datetimes(timezones=st.none() | st.timezones()))
def test_checking_a_time_never_raises_whatever_its_zone(field, moment):
    assert code(**{field: moment}) in (None, "InvalidAttributes")


@pytest.mark.parametrize("field", ["deliver_after", "expires_at"])
@pytest.mark.parametrize("value", [datetime(2026, 1, 1), 60, timedelta(minutes=5), "2026-01-01"])  # noqa: DTZ001
def test_a_time_that_is_no_datetime_with_a_zone_is_refused(field, value):
    fault = first_fault(NewMessage(payload={}, **{field: value}))
    assert fault.code == "InvalidAttributes"
    assert field in fault.message


@pytest.mark.parametrize("text", ["\x00", "a\x1fb", "\ufffe", "\uffff"])
def test_an_attribute_with_a_character_that_sqs_does_not_carry_is_refused_on_every_transport(text):
    assert first_fault(NewMessage(attributes={"kind": text})).code == "InvalidAttributes"
    assert first_fault(NewMessage(attributes={"kinds": ["ok", text]})).code == "InvalidAttributes"


@pytest.mark.parametrize("text", ["tab\t", "line\r\n", "\ufffd", "\U0010ffff"])
def test_an_attribute_may_hold_every_character_that_sqs_carries(text):
    assert first_fault(NewMessage(attributes={"kind": text})) is None


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (NewMessage(), r"write publish\(topic, \[message\]\)"),
        ([NewMessage(), {"a": 1}], "message 1 is a dict"),
        ("text", "not a str"),
        (None, "not a NoneType"),
    ],
)
def test_what_is_no_list_of_messages_is_a_mistake_in_the_callers_code(messages, problem):
    with pytest.raises(TypeError, match=problem):
        require_messages(messages)
