"""What becomes of a batch whose function does not end in time, with real functions."""

import time

import pytest

from towpath import NewMessage

LOG_SECONDS = 30


@pytest.mark.parametrize("harness", ["aws-lambda"], indirect=True)
def test_what_completed_before_a_function_ran_out_of_time_never_runs_again_and_nothing_else_is_lost(harness):
    """One handler in the batch ignores that time is over, until the function's process ends without an answer."""
    subscription = {"topic": "orders", "lambda": {"concurrency": 2, "timeout_seconds": 10, "batch_window_seconds": 1}}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        stuck = NewMessage(payload={"script": ["sleep:60", "complete"]})
        others = [NewMessage(payload={"script": ["sleep:0.7", "complete"]}) for _ in range(9)]
        results = running.publish("orders", *others[:4], stuck, *others[4:])
        running.work(10)
        running.advance(3)
        running.work(10)
        seen = running.observations()
        assert {o["message_id"] for o in seen} == {result.id for result in results}, "none is lost"
        ended = [o["message_id"] for o in seen if o["action"] == "sleep" or o["attempt"] > 1]
        assert len(ended) == len(set(ended)) == 10, "each is completed once, and those before the guard never again"
        assert [o["attempt"] for o in seen if o["message_id"] == results[4].id] == [2]
        assert running.dead_letters("ship") == []


@pytest.mark.parametrize("harness", ["aws-lambda"], indirect=True)
def test_what_completed_before_lambda_killed_a_function_never_runs_again_and_nothing_else_is_lost(harness):
    """The process hangs in the middle of its last seconds, so that it cannot even end itself: Lambda kills it."""
    timeout, guard = 20, 16
    limits = {"concurrency": 2, "timeout_seconds": timeout, "batch_window_seconds": 1}
    subscription = {"topic": "orders", "lambda": limits}
    with harness.transport({"topics": {"orders": {}}, "subscriptions": {"ship": subscription}}) as running:
        # What a killed function held comes again after the visibility time-out, which need not be six function times.
        # A poll that is under way keeps the old one: the first message ends it.
        running.sqs.set_queue_attributes(QueueUrl=running.queue_urls[0], Attributes={"VisibilityTimeout": "22"})
        running.publish("orders", NewMessage(payload={"script": ["complete"]}))
        running.work(1)
        frozen = NewMessage(payload={"script": ["freeze:2", "complete"]})
        others = [NewMessage(payload={"script": ["sleep:2.5", "complete"]}) for _ in range(9)]
        results = running.publish("orders", *others[:4], frozen, *others[4:])
        running.work(1 + 10)
        seen = running.observations()[1:]
        assert {o["message_id"] for o in seen} == {result.id for result in results}, "none is lost"
        assert [o["attempt"] for o in seen if o["message_id"] == results[4].id] == [2], "the frozen one told nothing"
        in_time = seen[0]["started"] + guard - 1
        before = [o["message_id"] for o in seen if o["ended"] < in_time]
        assert len(before) >= 4, "some were done by then"
        assert all(sum(o["message_id"] == done for o in seen) == 1 for done in before), "and never run again"
        assert running.dead_letters("ship") == []
        assert_logged(harness, f"Task timed out after {timeout}.00 seconds")


def assert_logged(harness, text):
    """The functions of this test's deployment are the only ones that ran so long."""
    deadline = time.monotonic() + LOG_SECONDS
    while not any(text in message for message in logged(harness)):
        assert time.monotonic() < deadline, f"no log says {text!r}"
        time.sleep(0.5)


def logged(harness):
    logs = harness.aws.client("logs")
    groups = logs.get_paginator("describe_log_groups").paginate(
        logGroupNamePrefix=f"/aws/lambda/{harness.aws.topology}-"
    )
    for name in [group["logGroupName"] for page in groups for group in page["logGroups"]]:
        yield from (event["message"] for event in logs.filter_log_events(logGroupName=name)["events"])
