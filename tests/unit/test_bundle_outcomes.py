"""What became of an event's records, from what a function answered, logged and asked of SQS."""

import json

from bundling.outcomes import RecordOutcome, log_lines, record_outcomes


def records(*ids: str) -> dict:
    return {"Records": [{"messageId": message_id, "receiptHandle": f"{message_id}#1"} for message_id in ids]}


def failures(*ids: str) -> dict:
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in ids]}


def settled(delivery_id: str, state: str, **fields: str) -> str:
    return json.dumps(
        {"level": "INFO", "message": f"delivery {state}", "delivery_id": delivery_id, "state": state, **fields}
    )


def test_a_record_that_is_not_reported_and_not_spoken_of_is_completed() -> None:
    outcomes = record_outcomes(records("a", "b"), failures(), "plain text\n", {})
    assert outcomes == (
        RecordOutcome(message_id="a", state="completed"),
        RecordOutcome(message_id="b", state="completed"),
    )


def test_a_retry_has_its_reason_and_how_long_it_is_hidden() -> None:
    logs = settled("b", "pending", reason="ValueError: no", error="ValueError: no", traceback="Traceback ...")
    outcomes = record_outcomes(records("a", "b"), failures("b"), logs, {"b#1": 7})
    assert outcomes[1] == RecordOutcome(message_id="b", state="pending", why="ValueError: no", hidden_seconds=7)


def test_dead_letters_and_discarded_records_are_not_completed() -> None:
    logs = "\n".join(
        [
            settled("a", "dead", reason="InvalidPayload", error="InvalidPayload: number: is missing"),
            settled("b", "discarded", reason="Expired"),
        ]
    )
    outcomes = record_outcomes(records("a", "b"), failures(), logs, {})
    assert outcomes == (
        RecordOutcome(message_id="a", state="dead", why="InvalidPayload: number: is missing"),
        RecordOutcome(message_id="b", state="discarded", why="Expired"),
    )


def test_the_last_error_stands_beside_a_reason_that_does_not_tell_it() -> None:
    logs = settled("a", "dead", reason="MaxAttemptsExceeded", error="ValueError: no")
    (outcome,) = record_outcomes(records("a"), failures(), logs, {})
    assert outcome.why == "MaxAttemptsExceeded; ValueError: no"


def test_a_settle_that_failed_has_the_handlers_error_and_its_own() -> None:
    line = {"message": "could not settle: no boto3", "delivery_id": "a", "state": "failed", "reason": "ValueError: no"}
    (outcome,) = record_outcomes(records("a"), failures("a"), json.dumps(line), {})
    assert (outcome.state, outcome.why) == ("failed", "ValueError: no; could not settle: no boto3")


def test_a_reported_record_without_a_line_comes_again() -> None:
    (outcome,) = record_outcomes(records("a"), failures("a"), "", {"a#1": 0})
    assert outcome == RecordOutcome(message_id="a", state="pending", hidden_seconds=0)


def test_what_is_no_sqs_event_or_no_batch_response_has_no_outcomes() -> None:
    for event, response in (
        ({"do": "it"}, failures()),
        (records("a"), {"ok": True}),
        ([], None),
        ({"Records": [1]}, failures()),
    ):
        assert record_outcomes(event, response, "", {}) == ()


def test_log_lines_are_fields_or_text() -> None:
    assert list(log_lines('{"message": "m", "level": "INFO"}\n{"no": 1}\n[]\ntext\n')) == [
        {"message": "m", "level": "INFO"},
        {"message": '{"no": 1}'},
        {"message": "[]"},
        {"message": "text"},
    ]


def test_a_log_line_that_another_thread_wrote_after_half_a_printed_line_is_still_read() -> None:
    (outcome,) = record_outcomes(records("a"), failures(), 'did {"it"' + settled("a", "dead", reason="no") + "\n\n", {})
    assert (outcome.state, outcome.why) == ("dead", "no")
    assert list(log_lines('did {"it"{"message": "m"}\n\n')) == [{"message": 'did {"it"'}, {"message": "m"}]
