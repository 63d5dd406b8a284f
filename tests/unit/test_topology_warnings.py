"""What is allowed and probably not wanted: one test or more for each warning, named after it."""

from collections.abc import Mapping
from typing import Any

import pytest

from towpath.topology import parse_topology, warnings_of


def warned(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> list[str]:
    """The warnings of one topic ``t`` and these subscriptions of it."""
    written = {
        name: {k: v for k, v in {"topic": "t", "handler": "app:run", **keys}.items() if v is not None}
        for name, keys in subscriptions.items()
    }
    topology = parse_topology({"name": "shop", "topics": {"t": dict(topic or {})}, "subscriptions": written})
    return [str(warning) for warning in warnings_of(topology)]


DATABASE = {"transport": "database"}
EXCLUSIVE = {"partition_mode": "exclusive"}
EXTERNAL = {"host": "external", "handler": None}


@pytest.mark.parametrize("topic", [{}, DATABASE, {"fifo": True}, {"fair": True, "external_publish": True}])
def test_the_defaults_need_no_warning(topic: dict[str, Any]) -> None:
    assert warned(topic, s={}, r={"host": "worker"}) == []


def test_topology_should_have_topics() -> None:
    assert [str(warning) for warning in warnings_of(parse_topology({"name": "shop"}))] == [
        'topics: is empty, so that nothing is deployed; add for instance: [topics."orders"]'
    ]


@pytest.mark.parametrize("topic", [{}, DATABASE])
def test_topics_should_reach_somebody(topic: dict[str, Any]) -> None:
    problem = "topics.t: has no subscription that takes deliveries: what is published to it goes nowhere"
    assert warned(topic) == [problem]
    assert warned(topic, s={"status": "disabled"}) == [problem]
    assert warned(topic, s={"status": "disabled"}, r={}) == []
    assert warned(topic | {"status": "disabled"}) == []


def test_topics_should_reach_somebody_and_a_paused_subscription_takes_deliveries() -> None:
    assert warned(DATABASE, s={"status": "paused"}) == []


def test_disabled_topics_should_have_no_readers() -> None:
    disabled = {"status": "disabled"}
    assert warned(disabled, s={}, r={}, paused=disabled) == [
        "topics.t.status: is disabled, so that its active subscriptions get nothing new: s, r"
    ]
    assert warned(disabled, s=disabled) == []


def test_disabled_topics_should_have_no_readers_of_their_own() -> None:
    written = {
        "name": "shop",
        "topics": {"t": {}, "u": {"status": "disabled"}},
        "subscriptions": {"s": {"topic": "t", "handler": "app:run"}},
    }
    assert warnings_of(parse_topology(written)) == []


def test_paused_on_aws_loses_what_waits_too_long() -> None:
    paused = {"status": "paused"}
    assert warned({"retention_days": 3}, s=paused, r={}) == [
        "subscriptions.s.status: is paused: SQS deletes what waits longer than the topic's retention_days (3)"
    ]
    assert warned(DATABASE, s=paused) == []


def test_handlers_should_be_in_modules() -> None:
    assert warned(s={"handler": "app.py:run"}, r={"handler": "app.python:py"}, e=EXTERNAL) == [
        'subscriptions.s.handler: names the module py in the package app, not the file app.py; did you mean "app:run"?'
    ]


def test_dead_letters_should_outlive_messages() -> None:
    def kept(messages: int, dead_letters: int, **topic: Any) -> list[str]:
        return warned({"retention_days": messages, **topic}, s={"dead_letter_retention_days": dead_letters})

    assert kept(7, 7) == [
        (
            "subscriptions.s.dead_letter_retention_days: is 7, not longer than the topic's retention_days (7): a "
            "message that SQS sets aside keeps its age and may be deleted at once; write: "
            "dead_letter_retention_days = 14"
        )
    ]
    assert len(kept(13, 13)) == len(kept(14, 13)) == 1
    assert kept(7, 8) == kept(14, 14) == []
    assert kept(7, 7, **DATABASE) == []


def test_retries_should_end_before_retention() -> None:
    """Ten waits of at most 8,640 s are a day."""
    backoff = {"base_seconds": 8_640, "max_seconds": 8_640}

    def retried(attempts: int, topic: dict[str, Any], **keys: Any) -> list[str]:
        return warned({"retention_days": 1, **topic}, s={"max_attempts": attempts, "backoff": backoff, **keys})

    assert retried(11, {}) == []
    assert retried(12, {}) == [
        (
            "subscriptions.s.max_attempts: allows retries for 1.1 days with this backoff, and SQS deletes a message "
            "after the topic's retention_days (1), without a dead letter"
        )
    ]
    assert retried(12, {"retention_days": 2}) == []
    assert retried(12, DATABASE) == []
    assert "max_attempts" not in "".join(retried(12, {}, **EXTERNAL))


def test_backoff_should_grow() -> None:
    assert warned(s={"backoff": {"base_seconds": 900}}) == []
    assert warned(s={"backoff": {"base_seconds": 1_800.5}}) == [
        "subscriptions.s.backoff.base_seconds: is above max_seconds (900), so that no wait is longer than that"
    ]


def test_fifo_batches_burn_receives() -> None:
    def batch(size: int, **keys: Any) -> dict[str, Any]:
        return {"lambda": {"batch_size": size}, **keys}

    assert warned(s=batch(2, **EXCLUSIVE), one=batch(1, **EXCLUSIVE), standard=batch(10)) == [
        (
            "subscriptions.s.lambda.batch_size: is more than 1 on a FIFO queue: messages returned behind a failed one "
            "use up receives of their own"
        )
    ]
    (warning,) = warned(s=batch(2, host="worker", **EXCLUSIVE))
    assert warning.startswith("subscriptions.s.lambda: says nothing")


def test_threads_should_have_messages() -> None:
    assert warned(s={"lambda": {"concurrency": 10}}) == []
    assert warned(s={"lambda": {"concurrency": 11}}) == [
        "subscriptions.s.lambda.concurrency: is 11, more threads than a batch has messages (10)"
    ]
    assert warned(s=EXCLUSIVE | {"lambda": {"concurrency": 2}}) == [
        "subscriptions.s.lambda.concurrency: is 2, more threads than a batch has messages (1)"
    ]
    assert "concurrency" not in "".join(warned(s={"host": "worker", "lambda": {"concurrency": 11}}))


def test_batches_should_end_before_the_function() -> None:
    def processed(seconds: float, size: int, threads: int, **keys: Any) -> list[str]:
        return warned(
            s={"max_processing_seconds": seconds, "lambda": {"batch_size": size, "concurrency": threads}, **keys}
        )

    assert processed(20, 9, 3) == []
    assert processed(20, 10, 3) == [
        (
            "subscriptions.s.lambda.batch_size: is 10, which may need 80 s of a function that has 60 "
            "(max_processing_seconds 20, 4 in turn): what is not reached is returned and uses up a receive"
        )
    ]
    assert processed(60, 10, 10) == []
    assert "batch_size" not in "".join(processed(20, 10, 1, host="worker"))


def test_batches_should_end_before_the_function_when_all_messages_are_of_one_group() -> None:
    def processed(seconds: float) -> list[str]:
        found = warned(s=EXCLUSIVE | {"max_processing_seconds": seconds, "lambda": {"batch_size": 3}})
        return [warning for warning in found if "in turn" in warning]

    assert processed(20) == []
    assert len(processed(20.5)) == 1
    assert "may need 61.5 s" in processed(20.5)[0]


def test_keys_should_mean_something() -> None:
    assert warned({"deduplication_ttl_seconds": 60}, s={}) == [
        "topics.t.deduplication_ttl_seconds: says nothing without: deduplication = true"
    ]
    assert warned({"deduplication_ttl_seconds": 60, "deduplication": True}, s={}) == []
    assert warned({"deduplication_ttl_seconds": 60, **DATABASE}, s={}) == []


@pytest.mark.parametrize(
    ("host", "key", "value", "reason"),
    [
        ("lambda", "heartbeat", "auto", "the queue hides a message for longer than its function can run"),
        ("worker", "lambda", {}, "there is no function"),
        ("external", "lambda", {}, "there is no function"),
        ("external", "accept_foreign", True, "the consumer is not ours"),
        ("external", "backoff", {}, "the consumer is not ours"),
        ("external", "heartbeat", "auto", "the consumer is not ours"),
        ("external", "max_processing_seconds", 5, "the consumer is not ours"),
    ],
)
def test_keys_should_mean_something_with_their_host(host: str, key: str, value: object, reason: str) -> None:
    handler = None if host == "external" else "app:run"
    assert warned(s={"host": host, "handler": handler, key: value}) == [
        f'subscriptions.s.{key}: says nothing with host "{host}", where {reason}'
    ]


def test_keys_should_mean_something_and_these_do_with_every_host() -> None:
    meant = {"max_attempts": 5, "lease_seconds": 60, "dead_letter_retention_days": 14, "filter": {"kind": ["pdf"]}}
    assert warned(s=EXTERNAL | meant, w=meant | {"host": "worker", "heartbeat": "auto"}, f=meant | {"lambda": {}}) == []
