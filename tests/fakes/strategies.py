"""Hypothesis strategies of messages: those that keep the contract, and JSON of every other kind."""

import string
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from towpath.message import NewMessage, PayloadRef

# --- What keeps the contract -----------------------------------------------------------------------------------

characters = st.characters(exclude_categories=["Cs"])  # all but surrogates, NUL among them
carried = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")  # what SQS takes
printable = st.characters(min_codepoint=0x21, max_codepoint=0x7E)

texts = st.text(characters, max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)

attribute_names = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=12).filter(
    lambda name: not name.lower().startswith("towpath")
)
attribute_texts = st.text(carried, min_size=1, max_size=8)
attribute_numbers = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9).filter(lambda n: n == 0 or abs(n) >= 1e-128)
attribute_values = attribute_texts | attribute_numbers | st.lists(attribute_texts, max_size=3).map(tuple)

message_ids = st.uuids().map(str)
keys = st.text(characters.filter(lambda c: c != "\0"), min_size=1, max_size=8)
moments = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
hexadecimal = "0123456789abcdef"
trace_contexts = st.builds(
    "00-{}-{}-{}".format,
    st.text(hexadecimal, min_size=32, max_size=32).filter(lambda digits: digits.strip("0")),
    st.text(hexadecimal, min_size=16, max_size=16).filter(lambda digits: digits.strip("0")),
    st.text(hexadecimal, min_size=2, max_size=2),
)
claim_checks = st.builds(
    PayloadRef,
    uri=st.text(characters, min_size=1, max_size=12),
    content_type=st.none() | texts,
    size_bytes=st.none() | st.integers(0, 2**63 - 1),
    sha256=st.none() | st.text(hexadecimal, min_size=64, max_size=64),
)

_content = {
    "partition_key": st.none() | keys,
    "attributes": st.dictionaries(attribute_names, attribute_values, max_size=10),
    "id": st.none() | message_ids,
    "correlation_id": st.none() | st.text(printable, min_size=1, max_size=20),
    "causation_id": st.none() | message_ids,
    "traceparent": st.none() | trace_contexts,
    "deliver_after": st.none() | moments,
    "expires_at": st.none() | moments,
}
_ttls = st.none() | st.integers(60, 30 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
_deduplication = st.just((None, None)) | st.tuples(keys.filter(str.strip), _ttls)


def _message(payload, deduplication, **content):
    key, ttl = deduplication
    due, over = content["deliver_after"], content["expires_at"]
    if due is not None and over is not None and due >= over:
        content["expires_at"] = None
    return NewMessage(**payload, deduplication_key=key, deduplication_ttl=ttl, **content)


_payloads = st.one_of(
    st.fixed_dictionaries({"payload": json_values}),
    st.fixed_dictionaries({"payload_ref": claim_checks}),
    st.just({}),
)
new_messages = st.builds(_message, payload=_payloads, deduplication=_deduplication, **_content)
"""Every valid message to publish: with a payload, a claim check or neither, and any of the other fields."""

# --- What keeps nothing ----------------------------------------------------------------------------------------

any_texts = st.text(st.characters(), max_size=6)  # surrogates too
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_texts | st.sampled_from([10**400, "towpath/1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_texts, inner, max_size=3),
    max_leaves=8,
)
"""Whatever Python's ``json`` writes and reads: NaN, infinities and halves of surrogate pairs among it."""
