"""The promises of what goes over the wire: C29 and C30."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.conformance.harness import awaited_dead_letters
from towpath import NewMessage, PayloadRef
from towpath.envelope import Prepared, Sources, prepare
from towpath.limits import MAX_MESSAGE_BYTES

ONE = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}}}
ID = "01890000-0000-7000-8000-000000000001"
# With blanks as json.dumps sets them: LocalStack's event source mapping writes bodies that are JSON anew.
BROKEN = {
    json.dumps({"schema": "towpath/1", "id": "nonsense", "topic": "orders"}): "InvalidEnvelope",
    json.dumps({"schema": "towpath/1", "id": ID, "topic": "orders"})[:-12]: "InvalidEnvelope",
    json.dumps({"schema": "towpath/2", "id": ID, "topic": "orders"}): "UnsupportedSchema",
}
FOREIGN = [
    {"schema": "orders/1", "id": 7, "payload": {"number": 3}},  # keys that an envelope has too
    {"Records": [{"eventName": "ObjectCreated:Put", "s3": {"object": {"key": "a b.pdf"}}}]},
    [1, "two", None],
    0,
    "text, in quotes",
]
TEXT = "no JSON: grüße \N{ROCKET}"
NOTIFICATION = {
    "Type": "Notification",
    "MessageId": "9d6f5d42-0000-5000-8000-000000000001",
    "TopicArn": "arn:aws:sns:eu-west-1:000000000000:elsewhere",
    "Message": json.dumps({"script": ["retry:1", "complete"], "number": 9}),
    "MessageAttributes": {
        "kind": {"Type": "String", "Value": "pdf"},
        "pages": {"Type": "Number", "Value": "12"},
        "tags": {"Type": "String.Array", "Value": '["a","b"]'},
    },
}


def written(value):
    """JSON that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.case(
    "C29",
    "malformed envelopes, other schema versions and foreign bodies go where they should; none blocks its batch",
)
def test_bodies_that_are_no_sound_envelope_go_where_they_should_and_none_blocks_its_batch(harness):
    with harness.transport(ONE) as running:
        sound = []
        foreign_bodies = (*map(json.dumps, FOREIGN), TEXT, json.dumps(NOTIFICATION))
        for bodies in (BROKEN, foreign_bodies):
            for body in bodies:
                running.put("ship", body)
            new = [NewMessage(payload={"name": "sound"})] * 4
            sound += [result.id for result in running.publish("orders", *new)]
        came = len(sound) + len(foreign_bodies)
        running.work(came)
        running.advance(1.5)
        running.work(came + 1)

        seen = running.observations()
        own = [o for o in seen if o["message_id"] in sound]
        assert sorted(o["message_id"] for o in own) == sorted(sound)
        assert {(o["attempt"], written(o["payload"])) for o in own} == {(1, '{"name": "sound"}')}

        foreign = [o for o in seen if o["message_id"] not in sound]
        notified = [o for o in foreign if isinstance(o["payload"], dict) and o["payload"].get("number") == 9]
        others = sorted(written(o["payload"]) for o in foreign if o not in notified)
        assert others == sorted(map(written, [*FOREIGN, TEXT]))
        assert all(o["correlation_id"] == o["message_id"] for o in foreign)
        assert [(o["attempt"], written(o["attributes"])) for o in notified] == [
            (attempt, '{"kind": "pdf", "pages": 12, "tags": ["a", "b"]}') for attempt in (1, 2)
        ]
        assert len({o["message_id"] for o in notified}) == 1, "a foreign message keeps its id over retries"

        letters = awaited_dead_letters(running, "ship", len(BROKEN))
        assert {letter.body: letter.reason for letter in letters} == BROKEN


@pytest.mark.case("C29", "foreign bodies are dead-lettered where the subscription does not accept them")
def test_foreign_bodies_are_dead_lettered_where_they_are_not_accepted(harness):
    subscription = {"topic": "orders", "accept_foreign": False}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        bodies = [json.dumps(FOREIGN[0]), TEXT, json.dumps(NOTIFICATION)]
        for body in bodies:
            running.put("ship", body)
        running.publish("orders", NewMessage(payload={"name": "sound"}))
        running.work(1)
        assert [o["payload"] for o in running.observations()] == [{"name": "sound"}]
        letters = awaited_dead_letters(running, "ship", len(bodies))
        assert sorted(letter.body for letter in letters) == sorted(bodies)
        assert {letter.reason for letter in letters} == {"InvalidEnvelope"}


FAR = datetime(2099, 12, 31, 23, 59, 59, 999_000, UTC)
CAUSE = "01890000-0000-7000-8000-00000000cafe"
EVERY_FIELD = NewMessage(
    payload_ref=PayloadRef(
        uri="s3://bucket/key%20with%20blanks?versionId=1",
        content_type="application/pdf",
        size_bytes=5_000_000_000,
        sha256=hashlib.sha256(b"content").hexdigest(),
    ),
    attributes={
        "text": "grüße \N{ROCKET}",
        "whole": -7,
        "fraction": 0.5,
        "list": ["a", "b c", "ß"],
        "longest": "x" * 256,
    },
    correlation_id="!-~" + "c" * 197,
    causation_id=CAUSE,
    traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    expires_at=FAR,
)
EVERY_KIND = {
    "script": ["retry:1", "complete"],
    "text": 'quotes " \\ and lines\r\n\t, NUL \0, \N{ROCKET}, \uffff, \u2028, e\u0301',
    "numbers": [0, -1, 2**53 - 1, 0.1, 1e-300, 1.0, -0.0],
    "words": [True, False, None, "", {}, []],
    "nested": {"a": {"b": [{"c": [[[1]]]}]}},
    "": "a key without letters",
}


def sized(size_bytes):
    """A message of exactly this size, of which most characters take more than one byte."""
    sources = Sources(clock=lambda: datetime.now(UTC), random_bytes=bytes)

    def made(text):
        return NewMessage(id=ID, payload={"text": text}, attributes={"kind": "large", "n": 1.5})

    empty = prepare("orders", made(""), MAX_MESSAGE_BYTES, sources)
    assert isinstance(empty, Prepared)
    wide, narrow = divmod(size_bytes - empty.size_bytes, 4)
    return made("\N{ROCKET}" * wide + "x" * narrow)


@pytest.mark.case(
    "C30",
    "payload_ref, correlation, causation, traceparent, attributes and a 256 KiB envelope come back equal, "
    "one byte more is refused",
)
def test_every_field_and_the_largest_envelope_come_back_equal(harness):
    largest = sized(MAX_MESSAGE_BYTES)
    messages = [
        EVERY_FIELD,
        NewMessage(payload=EVERY_KIND),
        NewMessage(payload=None),
        NewMessage(attributes={"only": "these"}),
        largest,
    ]
    with harness.transport(ONE) as running:
        (refused,) = running.transport.publish("orders", [sized(MAX_MESSAGE_BYTES + 1)])
        assert (refused.status, refused.error.code, refused.error.retryable) == ("rejected", "PayloadTooLarge", False)
        assert " 1 over " in refused.error.message
        began = datetime.now(UTC) - timedelta(milliseconds=1)  # an envelope has whole ones
        ids = [result.id for result in running.publish("orders", *messages)]
        ended = datetime.now(UTC)
        running.work(5)
        running.advance(1.5)
        running.work(6)
        seen = {}
        for observation in running.observations():
            seen.setdefault(observation["message_id"], []).append(observation)
        assert sorted(seen) == sorted(ids)
        fields, kinds, null, without, large = (seen[message_id] for message_id in ids)

        assert_told(fields, EVERY_FIELD, EVERY_FIELD.correlation_id)
        for observations, sent, message_id in zip((kinds, null, without), messages[1:4], ids[1:4], strict=True):
            assert_told(observations, sent, message_id)
        assert [o["attempt"] for o in kinds] == [1, 2]
        assert written(large[0]["payload"]) == written(
            {"sha256": hashlib.sha256(written(largest.payload).encode()).hexdigest()}
        )
        assert written(large[0]["attributes"]) == written(dict(largest.attributes))
        for observations in seen.values():
            assert all(began <= datetime.fromisoformat(o["published_at"]) <= ended for o in observations)


def assert_told(observations, sent, correlation_id):
    """Every attempt was given what was sent, to the type of each number."""
    has_payload = sent.payload_ref is None and sent.payload is not NewMessage().payload
    for told in observations:
        assert told["has_payload"] == has_payload
        assert written(told["payload"]) == written(sent.payload if has_payload else None)
        assert told["payload_ref"] == (sent.payload_ref and sent.payload_ref.record())
        assert written(told["attributes"]) == written(dict(sent.attributes))
        assert told["correlation_id"] == correlation_id
        assert (told["causation_id"], told["traceparent"]) == (sent.causation_id, sent.traceparent)
        assert told["expires_at"] == (sent.expires_at and sent.expires_at.isoformat())
