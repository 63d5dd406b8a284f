"""Ids, times, and the values of publishing."""

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.message import (
    ABSENT,
    RETRYABLE_CODES,
    Message,
    NewMessage,
    PayloadRef,
    PublishCode,
    PublishError,
    format_time,
    is_message_id,
    new_message_id,
    utc_now,
)

MOMENT = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
moments = st.integers(min_value=0, max_value=10**17).map(
    lambda n: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=n)
)


def ones(count: int) -> bytes:
    return b"\xff" * count


def zeros(count: int) -> bytes:
    return b"\x00" * count


# --- Ids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("random_bytes", [ones, zeros])
def test_a_new_id_is_a_version_7_uuid_whatever_the_random_bytes(random_bytes):
    made = UUID(new_message_id(MOMENT, random_bytes))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")


def test_a_new_id_is_accepted_as_a_message_id():
    assert is_message_id(new_message_id(MOMENT, zeros))


@given(moments, st.binary(min_size=10, max_size=10))
def test_a_new_id_holds_the_same_millisecond_that_the_envelope_writes(moment, noise):
    made = UUID(new_message_id(moment, lambda count: noise))
    milliseconds = made.int >> 80
    from_epoch = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert format_time(from_epoch) == format_time(moment)


def test_a_new_id_keeps_74_random_bits():
    low, high = (UUID(new_message_id(MOMENT, source)).int for source in (zeros, ones))
    assert (low ^ high).bit_count() == 74


def test_ids_of_later_milliseconds_sort_after_earlier_ones():
    earlier = new_message_id(MOMENT, ones)
    later = new_message_id(MOMENT + timedelta(milliseconds=1), zeros)
    assert earlier < later


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0190A5D2-0000-7000-8000-000000000000",
        "0190a5d20000700080000000000000000000",
        "{0190a5d2-0000-7000-8000-000000000000}",
        "0190a5d2-0000-7000-8000-00000000000",
        "0190a5d2-0000-7000-8000-0000000000000",
        "0190a5d2-0000-7000-8000-000000000000\n",
        "0190a5d2-0000-7000-8000-00000000000g",
        "٠١٩٠a5d2-0000-7000-8000-000000000000",
        None,
        7,
    ],
)
def test_only_a_lower_case_uuid_in_its_usual_form_is_a_message_id(text):
    assert not is_message_id(text)


def test_a_uuid_of_another_version_is_a_message_id_too():
    assert is_message_id("c56a4180-65aa-42ec-a945-5fd21dec0538")


# --- Times -----------------------------------------------------------------------------------------------------


def test_a_time_is_written_in_utc_with_milliseconds_cut_off_not_rounded():
    assert format_time(datetime(2026, 1, 31, 8, 15, 0, 123_999, tzinfo=UTC)) == "2026-01-31T08:15:00.123Z"


def test_a_time_of_another_zone_is_written_in_utc():
    zone = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 1, 31, 10, 15, tzinfo=zone)) == "2026-01-31T08:15:00.000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_every_time_is_written_in_the_same_24_characters_and_reads_back(moment):
    text = format_time(moment)
    assert len(text) == 24
    assert datetime.fromisoformat(text) == moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def test_the_systems_clock_is_in_utc():
    assert utc_now().utcoffset() == timedelta(0)


# --- Values ----------------------------------------------------------------------------------------------------


def test_absent_is_false_and_says_its_name():
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"
    assert ABSENT.value == "absent"
    assert ABSENT is not None


def test_a_new_message_has_no_payload_unless_given_one():
    assert NewMessage().payload is ABSENT
    assert NewMessage(payload=None).payload is None


@pytest.mark.parametrize(
    "value", [NewMessage(), PayloadRef(uri="s3://b/k"), PublishError(code="TopicNotFound", message="")]
)
def test_values_cannot_be_changed(value):
    name = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, name, "other")


def test_messages_do_not_share_their_attributes():
    first, second = NewMessage(), NewMessage()
    assert first.attributes is not second.attributes


CODES = {  # of the design's table, and whether the same call can succeed later
    "InvalidMessageId": False,
    "InvalidPayload": False,
    "InvalidAttributes": False,
    "InvalidPartitionKey": False,
    "InvalidCorrelationId": False,
    "InvalidDeduplication": False,
    "PayloadTooLarge": False,
    "TopicNotFound": False,
    "TopicDisabled": False,
    "TopicUnbound": True,
    "MessageIdConflict": False,
    "DeduplicationPending": True,
    "DelayUnsupported": False,
    "TransportRejected": False,
    "TransportUnavailable": True,
}


def test_there_are_these_codes_and_no_others():
    assert get_args(PublishCode) == tuple(CODES)
    assert {code for code, retryable in CODES.items() if retryable} == RETRYABLE_CODES


@pytest.mark.parametrize(("code", "retryable"), list(CODES.items()))
def test_a_publish_error_is_retryable_exactly_for_what_can_pass(code, retryable):
    assert PublishError(code=code, message="").retryable is retryable


def test_a_message_keeps_its_payload_type_apart_from_its_fields():
    message = Message(id="i", topic="t", payload={"a": 1}, published_at=MOMENT, correlation_id="c")
    assert (message.partition_key, message.attributes, message.causation_id) == (None, {}, None)


# --- Claim checks ----------------------------------------------------------------------------------------------


def test_a_claim_check_tells_what_there_is_of_it_by_name():
    whole = {"uri": "s3://b/k", "content_type": "text/plain", "size_bytes": 0, "sha256": "0" * 64}
    assert PayloadRef(**whole).record() == whole
    assert PayloadRef(uri="s3://b/k").record() == {"uri": "s3://b/k"}


def test_a_claim_check_to_a_file_has_its_address_size_type_and_digest(tmp_path):
    file = tmp_path / "a b.txt"
    file.write_bytes(b"abc")
    ref = PayloadRef.for_file(file)
    assert ref == PayloadRef(
        uri=file.as_uri(),
        content_type="text/plain",
        size_bytes=3,
        sha256="ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    )
    assert ref.uri.endswith("/a%20b.txt")


def test_a_claim_check_to_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        PayloadRef.for_file(tmp_path / "none")
