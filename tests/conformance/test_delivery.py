"""The promises of delivery: C01, C02, C04 to C06, C10, C21, C27, C28, C33 and C43, each on every transport."""

import json
from collections import Counter
from itertools import pairwise

import pytest

from tests.conformance.harness import SHORT_LIVED, awaited_dead_letters
from tests.conformance.needs import ONE_PROCESS, leaving_out
from towpath import NewMessage

ONE = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}}}
TWO = {"topics": {"orders": {}}, "subscriptions": {"ship": {"topic": "orders"}, "bill": {"topic": "orders"}}}


def scripted(*actions, **more):
    return NewMessage(payload={"script": list(actions)} | more)


def attempts(running, subscription=None):
    return [observation["attempt"] for observation in running.observations(subscription)]


@pytest.mark.case("C01", "a message reaches every subscription of its topic, attempt 1")
def test_a_message_reaches_every_subscription_of_its_topic(harness):
    with harness.transport(TWO) as running:
        (result,) = running.publish("orders", scripted("complete", number=7))
        running.work(2)
        for subscription in ("ship", "bill"):
            (seen,) = running.observations(subscription)
            assert seen["message_id"] == result.id
            assert seen["attempt"] == 1
            assert seen["payload"]["number"] == 7


@pytest.mark.case("C02", "subscriptions settle independently")
def test_subscriptions_settle_independently(harness):
    with harness.transport(TWO) as running:
        running.publish("orders", NewMessage(payload={"scripts": {"ship": ["retry:1", "complete"], "bill": ["fatal"]}}))
        running.work(2)
        running.advance(2)
        running.work(3)
        assert attempts(running, "ship") == [1, 2]
        assert attempts(running, "bill") == [1]
        assert running.dead_letters("ship") == []
        assert len(awaited_dead_letters(running, "bill", 1)) == 1


@pytest.mark.case("C04", "a completed delivery never comes again")
def test_a_completed_delivery_never_comes_again(harness):
    subscription = {"topic": "orders", "lambda": SHORT_LIVED}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        running.publish("orders", scripted("complete"))
        running.work(1)
        running.advance(harness.lost_lease_seconds)
        running.work()
        assert attempts(running) == [1]


@pytest.mark.case("C05", "a retry hides for its delay, then comes with attempt 2")
def test_a_retry_hides_for_its_delay_and_comes_with_attempt_2(harness):
    with harness.transport(ONE) as running:
        running.publish("orders", scripted("retry:5", "complete"))
        running.work(1)
        running.work()  # at once: it must not come yet, and its start below would show it
        running.advance(6)
        running.work(2)
        first, second = running.observations()
        assert second["attempt"] == 2
        assert second["message_id"] == first["message_id"]
        assert second["started"] - first["ended"] >= 4.5  # visibility counts from when SQS gets the call


@pytest.mark.case("C06", "an expired lease comes again and counts")
def test_an_expired_lease_comes_again_and_counts(harness):
    subscription = {"topic": "orders", "handler": "scripted:crash", "lambda": SHORT_LIVED}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        running.publish("orders", scripted("complete"))
        running.lose_a_worker("ship")
        assert attempts(running) == []
        running.advance(harness.lost_lease_seconds)
        running.work(1)
        assert attempts(running) == [2]


@pytest.mark.case("C10", "a dead letter is listed with reason, error, attempts, message")
def test_a_dead_letter_is_listed_with_reason_error_attempts_and_message(harness):
    subscription = {"topic": "orders", "max_attempts": 2}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        (result,) = running.publish("orders", scripted("error", number=42))
        running.work(1)
        running.advance(3)
        running.work(2)
        for _ in range(2):  # looking at dead letters changes nothing
            (letter,) = awaited_dead_letters(running, "ship", 1)
            assert letter.reason == "MaxAttemptsExceeded"
            assert letter.error.startswith("RuntimeError: scripted error in attempt 2")
            assert letter.attempts == 2
            assert letter.subscription == "ship"
            assert letter.message_id == result.id
            assert json.loads(letter.body)["payload"]["number"] == 42


@pytest.mark.case("C21", "a released delivery comes again, attempt by capability")
def test_a_released_delivery_comes_again(harness):
    subscription = {"topic": "orders", "lambda": {"concurrency": 1, "timeout_seconds": 4}}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        released = running.release_some("orders", "ship")
        assert released
        running.advance(1)
        running.work()
        again = 1 if "release_refunds_attempt" in running.capabilities else 2
        for message_id in released:
            assert [o["attempt"] for o in running.observations() if o["message_id"] == message_id][-1] == again


@pytest.mark.case("C27", "transient failures exhaust max_attempts and are dead-lettered with the last error")
def test_transient_failures_exhaust_max_attempts(harness):
    subscription = {"topic": "orders", "max_attempts": 3}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        running.publish("orders", scripted("transient:1"))
        for attempt in (1, 2, 3):
            running.work(attempt)
            running.advance(2.5)
        running.work()
        assert attempts(running) == [1, 2, 3]
        (letter,) = awaited_dead_letters(running, "ship", 1)
        assert letter.reason == "MaxAttemptsExceeded"
        assert "scripted transient failure" in letter.error
        assert letter.attempts == 3


@pytest.mark.case("C28", "FatalError and an invalid payload are dead-lettered at once")
def test_a_fatal_error_and_an_invalid_payload_are_dead_lettered_at_once(harness):
    subscriptions = {"ship": {"topic": "orders"}, "count": {"topic": "numbers", "handler": "scripted:typed"}}
    with harness.transport({"topics": {"orders": {}, "numbers": {}}, "subscriptions": subscriptions}) as running:
        running.publish("orders", scripted("fatal"))
        running.publish("numbers", NewMessage(payload={"number": "many"}), NewMessage(payload={"number": 3}))
        running.work(2)
        assert attempts(running, "ship") == [1]
        assert [o["payload"] for o in running.observations("count")] == [{"number": 3}]
        (fatal,) = awaited_dead_letters(running, "ship", 1)
        assert fatal.reason == "scripted fatal failure"
        (invalid,) = awaited_dead_letters(running, "count", 1)
        assert invalid.reason == "InvalidPayload"
        assert "number" in invalid.error
        assert "many" not in invalid.error, "an error names fields, never values"


@pytest.mark.case("C43", "a checkpoint is given to the next attempt, by capability")
def test_a_checkpoint_is_given_to_the_next_attempt(harness):
    with harness.transport(ONE) as running:
        running.publish("orders", scripted("save:7", "complete"))
        running.work(1)
        running.advance(1.5)
        running.work(2)
        first, second = running.observations()
        assert (first["attempt"], first["checkpoint"]) == (1, None)
        kept = {"page": 7} if "keeps_progress" in running.capabilities else None
        assert (second["attempt"], second["checkpoint"]) == (2, kept)


@leaving_out(ONE_PROCESS)
@pytest.mark.timeout(600)
@pytest.mark.case(
    "C33", "2 processes of 8 threads each claim 2,000 deliveries: none twice while a lease holds (mode none)"
)
def test_two_processes_of_eight_threads_claim_none_twice_while_a_lease_holds(harness):
    deliveries, lease_seconds = 2_000, 120
    unhurried = {"timeout_seconds": 60}  # a function near its end gives back what it has begun, which then runs again
    subscription = {"topic": "orders", "lease_seconds": lease_seconds, "lambda": unhurried}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        messages = [scripted("complete") for _ in range(deliveries)]
        published = {r.id for i in range(0, deliveries, 100) for r in running.publish("orders", *messages[i : i + 100])}
        took_part = running.drain(processes=2, threads=8, deliveries=deliveries)
        seen = running.observations()
        assert {o["message_id"] for o in seen} == published, "none is lost"
        runs = Counter(o["delivery_id"] for o in seen)
        again = [delivery for delivery, times in runs.items() if times > 1]
        for delivery in again:
            starts = [o["started"] for o in seen if o["delivery_id"] == delivery]
            assert all(later - earlier >= lease_seconds for earlier, later in pairwise(starts)), (
                "one under a live lease"
            )
        assert len({o["pid"] for o in seen}) >= took_part
