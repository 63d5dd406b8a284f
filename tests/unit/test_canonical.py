"""The quick way to read an envelope answers as the strict reading does, or not at all."""

import json
import random
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.strategies import json_values, new_messages
from towpath import limits
from towpath.canonical import read_canonical
from towpath.envelope import Origin, Prepared, Sources, decode, prepare, read_strictly
from towpath.message import NewMessage, PayloadRef

NOW = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
SOURCES = Sources(clock=lambda: NOW, random_bytes=random.Random(3).randbytes)
ORIGIN = Origin(message_id="transport-id", topic="documents.process", received_at=NOW)
ID = "019c1234-5678-7abc-8def-0123456789ab"
FULL = NewMessage(
    id=ID,
    payload={"documents": [{"name": "a.pdf", "pages": 3, "share": 0.5, "tags": []}], "none": None, "yes": True},
    partition_key="tenant acme",
    attributes={"kind": "pdf", "pages": 12, "depth": -3},
    correlation_id="order-17",
    causation_id=ID,
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    deliver_after=NOW,
    expires_at=datetime(9999, 12, 31, tzinfo=UTC),
)
REFERENCE = NewMessage(
    id=ID,
    payload_ref=PayloadRef(uri="s3://bucket/key", content_type="text/plain", size_bytes=0, sha256="ab" * 32),
    attributes={"kind": "pdf"},
)
# What an edit may put into a body: pieces that matter to JSON, to the envelope, or to a rule of the contract.
PIECES = st.one_of(
    st.sampled_from(
        ['"', "\\", "\\u0041", "\\ud800", "{", "}", "[", "]", ",", ":", " ", "\n", "0", "00", "-", "1e400", "NaN"]
    ),
    st.sampled_from(
        ['"towpath-x":"1",', '"TOWPATH":"1",', '"schema":"towpath/2",', '"id":1,', "null", "true", "é", "٣"]
    ),
    st.sampled_from(
        ["2026-13-01T00:00:00.000Z", "Z", "T", '"payload":1,', '"payload_ref":{"uri":""},', "\ud800", "\ufeff"]
    ),
    st.sampled_from(["9" * 5000, "[" * 120]),
    st.text(max_size=3),
)


def body_of(new: NewMessage) -> str:
    made = prepare("documents.process", new, 261_120, SOURCES)
    assert isinstance(made, Prepared), made
    return made.body


def agrees(body: str) -> bool:
    """Hold the two readings against each other; whether the quick one answered."""
    quick = read_canonical(body)
    if quick is not None:
        assert quick == read_strictly(body, ORIGIN)
        assert repr(quick) == repr(read_strictly(body, ORIGIN))  # 1, 1.0 and True are equal
    return quick is not None


@pytest.mark.parametrize("new", [NewMessage(payload=None), NewMessage(payload="text"), FULL, REFERENCE])
def test_what_the_publisher_writes_is_read_the_quick_way(new):
    assert agrees(body_of(new))


@given(new_messages)
def test_any_published_message_is_read_alike(new):
    agrees(body_of(new))


@given(json_values)
def test_any_payload_is_read_alike(payload):
    body = body_of(NewMessage(payload=None)).replace('"payload":null', '"payload":' + json.dumps(payload))
    agrees(body)


@given(
    st.sampled_from([NewMessage(id=ID, payload=[1]), FULL, REFERENCE]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), PIECES), min_size=1, max_size=3),
)
@example(REFERENCE, [(0.0, 0, "")])
def test_an_edited_body_is_read_alike_or_left_to_the_strict_reading(new, edits):
    body = body_of(new)
    for place, length, piece in edits:
        at = int(place * len(body))
        body = body[:at] + piece + body[at + length :]
    agrees(body)


@given(st.sampled_from([FULL, REFERENCE]), st.data())
def test_one_character_more_less_or_other_is_read_alike(new, data):
    body = body_of(new)
    at = data.draw(st.integers(0, len(body) - 1))
    character = data.draw(st.sampled_from(sorted({*body, *"gA_~ \x7f٣"})))
    for edited in (
        body[:at] + body[at + 1 :],
        body[:at] + character + body[at:],
        body[:at] + character + body[at + 1 :],
    ):
        agrees(edited)


@pytest.mark.parametrize(
    "payload",
    [
        "[" * limits.PAYLOAD_DEPTH + "]" * limits.PAYLOAD_DEPTH,
        "[" * (limits.PAYLOAD_DEPTH + 1) + "]" * (limits.PAYLOAD_DEPTH + 1),
        json.dumps([{"a": [n]} for n in range(200)]),
        json.dumps([1] * 300 + [[{}] * 200]),
        '["[","{"]',
        "9" * limits.PAYLOAD_INTEGER_DIGITS,
        "9" * (limits.PAYLOAD_INTEGER_DIGITS + 1),
        "1e308",
        "1e309",
        "-1e400",
        "NaN",
        "01",
        "-0",
        '"\\ud800"',
        '"\\u0041"',
        '"\\\\u"',
        '{"a":1,"a":2}',
        '"é\U0001f600"',
        '"\udc80"',
    ],
)
def test_payloads_at_the_limits_are_read_alike(payload):
    body = body_of(NewMessage(payload=None)).replace('"payload":null', '"payload":' + payload)
    if agrees(body):
        assert decode(body, ORIGIN) == read_strictly(body, ORIGIN)


def test_many_flat_values_are_still_read_the_quick_way():
    assert agrees(body_of(NewMessage(payload=[{"page": n, "tags": ["a"]} for n in range(200)])))


def test_what_is_too_deep_is_left_to_the_strict_reading():
    deep = "[" * (limits.PAYLOAD_DEPTH + 1) + "]" * (limits.PAYLOAD_DEPTH + 1)
    assert read_canonical(body_of(NewMessage(payload=None)).replace('"payload":null', '"payload":' + deep)) is None
