"""Laws of the wire form: what is written is read back as it was, and nothing makes the reader fail in another way."""

import json
import random
from datetime import UTC, datetime

from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.bodies import envelope, full_envelope, notification
from tests.fakes.strategies import any_json, json_values, message_ids, new_messages
from towpath.envelope import Origin, Prepared, Sources, decode, encode, is_foreign, prepare
from towpath.errors import InvalidEnvelope, UnsupportedSchema
from towpath.message import ABSENT, Message, NewMessage, format_time

NOW = datetime(2026, 1, 31, 8, 15, 0, 123_456, tzinfo=UTC)
SOURCES = Sources(clock=lambda: NOW, random_bytes=random.Random(3).randbytes)
ORIGIN = Origin(message_id="transport-id", topic="documents.process", received_at=NOW)


def prepared(new: NewMessage) -> Prepared:
    answer = prepare("documents.process", new, 261_120, SOURCES)
    assert isinstance(answer, Prepared), answer
    return answer


# --- Writing and reading ---------------------------------------------------------------------------------------


@given(new_messages)
def test_what_was_encoded_is_read_back_as_it_was_and_encoded_again_alike(new):
    answer = prepared(new)
    back = decode(answer.body, ORIGIN)
    assert back == answer.message
    assert encode(back) == answer.body
    assert not is_foreign(answer.body)


@given(new_messages)
def test_a_notification_around_an_envelope_changes_nothing(new):
    answer = prepared(new)
    assert decode(notification(answer.body, kind=("String", "other")), ORIGIN) == answer.message


@given(new_messages)
def test_an_envelope_is_text_that_every_transport_carries(new):
    body = prepared(new).body
    body.encode()
    assert not any(character < " " or character in "\ufffe\uffff" for character in body)


def shuffled(value: object, source: random.Random) -> object:
    """The same JSON with the keys of its objects in another order."""
    if isinstance(value, dict):
        pairs = [(key, shuffled(item, source)) for key, item in value.items()]
        source.shuffle(pairs)
        return dict(pairs)
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


@given(message_ids, json_values, st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_other_envelope(message_id, payload, source):
    first, second = (NewMessage(id=message_id, payload=given) for given in (payload, shuffled(payload, source)))
    assert prepared(first).body == prepared(second).body


@given(message_ids, json_values, json_values)
def test_other_json_makes_another_envelope(message_id, one, other):
    bodies = [prepared(NewMessage(id=message_id, payload=payload)).body for payload in (one, other)]
    written = [json.dumps(payload, sort_keys=True) for payload in (one, other)]
    assert (bodies[0] == bodies[1]) is (written[0] == written[1])


@given(json_values.filter(lambda value: not isinstance(value, str)))
def test_foreign_json_is_the_payload_exactly_as_it_stands(document):
    payload = decode(json.dumps(document), ORIGIN).payload
    assert repr(payload) == repr(document)


# --- Whatever the body -----------------------------------------------------------------------------------------


def decoded(body: str) -> Message | None:
    """The message, or ``None`` where the body was refused as it may be; any other error passes.

    What was read can be written in UTF-8, and once more as an envelope.
    """
    try:
        message = decode(body, ORIGIN)
    except (InvalidEnvelope, UnsupportedSchema) as error:
        str(error).encode()
        return None
    json.dumps(message.payload if message.payload is not ABSENT else None, ensure_ascii=False, allow_nan=False).encode()
    json.dumps(message.attributes, ensure_ascii=False, allow_nan=False).encode()
    if message.id != "transport-id":
        assert decode(encode(message), ORIGIN).id == message.id
        assert format_time(message.published_at)
    return message


@given(st.text(st.characters(), max_size=40))
def test_no_text_makes_the_decoder_fail_in_another_way(body):
    message = decoded(body)
    assert is_foreign(body) is (message is not None)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_decoder_fail_in_another_way(body):
    decoded(body.decode("utf-8", "surrogateescape"))
    decoded(body.decode("latin-1"))


@given(any_json)
def test_no_json_makes_the_decoder_fail_in_another_way(document):
    for escaped in (True, False):
        body = json.dumps(document, ensure_ascii=escaped)
        decoded(body)
        decoded(notification(body))


KEYS = [*full_envelope(), "payload_ref", "Type", "TopicArn", "Message", "MessageAttributes"]
tempting = st.sampled_from(
    ["towpath/1", "Notification", envelope()["id"], "2026-01-31T08:15:00Z", "9999-12-31T23:59:59-14:00", "\ud800"]
)
changes = st.dictionaries(st.sampled_from(KEYS), any_json | tempting, max_size=4)


@given(changes, st.sets(st.sampled_from(KEYS), max_size=3))
def test_no_changed_envelope_makes_the_decoder_fail_in_another_way(changed, dropped):
    record = {name: value for name, value in (full_envelope() | changed).items() if name not in dropped}
    message = decoded(json.dumps(record))
    if record.get("schema") == "towpath/1":
        assert message is None or message.id == record["id"]


@given(changes)
def test_no_changed_notification_makes_the_decoder_fail_in_another_way(changed):
    decoded(json.dumps(json.loads(notification(json.dumps(envelope() | changed))) | changed))


@given(st.dictionaries(st.sampled_from(["uri", "content_type", "size_bytes", "sha256", "x"]), any_json))
def test_no_claim_check_makes_the_decoder_fail_in_another_way(reference):
    decoded(json.dumps(envelope(payload=..., payload_ref=reference)))


BODY = json.dumps(full_envelope()).encode()
WRAPPED = notification(BODY.decode(), kind=("String", "pdf"), tags=("String.Array", '["a"]')).encode()


@given(st.sampled_from([BODY, WRAPPED]), st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 7)), max_size=3))
def test_no_flipped_bits_make_the_decoder_fail_in_another_way(body, flips):
    damaged = bytearray(body)
    for place, bit in flips:
        damaged[place % len(damaged)] ^= 1 << bit
    decoded(damaged.decode("utf-8", "surrogateescape"))


@given(st.sampled_from([BODY, WRAPPED]), st.integers(0, 2_000), st.integers(0, 2_000))
@example(BODY, 0, 0)
def test_no_cut_makes_the_decoder_fail_in_another_way(body, start, end):
    decoded(body[start % len(body) : end % len(body)].decode())


@given(st.sampled_from([BODY, WRAPPED]), st.integers(0, 2_000), st.text(st.characters(), max_size=4))
def test_nothing_put_into_a_body_makes_the_decoder_fail_in_another_way(body, place, more):
    text = body.decode()
    place %= len(text)
    decoded(text[:place] + more + text[place:])
