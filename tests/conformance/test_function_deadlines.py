"""What becomes of a batch whose function does not end in time, with real functions."""

import pytest

from towpath import NewMessage


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
