"""Alarms and the dashboard: every way of failing unseen is watched."""

from typing import Any

import pytest

from tests.unit.resolving import DATABASE, deployment, on_aws
from towpath.manifest import Alarm
from towpath.resolve import resolve
from towpath.topology import parse_topology


def alarm(watches: str, topic: dict[str, Any] | None = None, **keys: Any) -> Alarm:
    return on_aws(topic, **keys).alarms[watches]


def test_each_way_of_failing_unseen_has_an_alarm() -> None:
    found = {
        watches: (a.metric_name, *a.dimensions.values(), a.statistic, a.threshold)
        for watches, a in on_aws().alarms.items()
    }
    assert found == {
        "dead-letters": ("ApproximateNumberOfMessagesVisible", "shop-prod-s-dlq", "Maximum", 0),
        "delivery-failures": ("ApproximateNumberOfMessagesVisible", "shop-prod-s-failed", "Maximum", 0),
        "age": ("ApproximateAgeOfOldestMessage", "shop-prod-s", "Maximum", 3_600),
        "in-flight": ("ApproximateNumberOfMessagesNotVisible", "shop-prod-s", "Maximum", 108_000),
        "errors": ("Errors", "shop-prod-s", "Sum", 0),
        "throttles": ("Throttles", "shop-prod-s", "Sum", 0),
        "time-outs": ("Duration", "shop-prod-s", "Maximum", 50_000),
    }


def test_an_alarm_is_raised_by_one_bad_period_of_five_minutes_and_never_by_silence() -> None:
    for watches, found in on_aws().alarms.items():
        assert found.name == f"shop-prod-s-{watches}"
        assert (found.comparison, found.treat_missing_data) == ("GreaterThanThreshold", "notBreaching")
        assert (found.period_seconds, found.evaluation_periods) == (300, 1)
        of_function = watches in ("errors", "throttles", "time-outs")
        assert found.namespace == ("AWS/Lambda" if of_function else "AWS/SQS")
        assert list(found.dimensions) == ["FunctionName" if of_function else "QueueName"]


def test_an_alarm_says_of_which_subscription_it_is_and_what_to_do() -> None:
    for found in on_aws().alarms.values():
        assert found.description.startswith("s: ")
        assert found.description.endswith(".")
        assert len(found.description) > 40
    assert len({found.description for found in on_aws().alarms.values()}) == 7


def test_the_age_alarm_waits_for_a_deliverys_own_retries() -> None:
    """Four attempts of at most 300 s each, and waits of 1,000, 2,000 and 3,000 s between them."""
    keys = {"max_attempts": 4, "backoff": {"base_seconds": 1_000, "max_seconds": 3_000}, "lease_seconds": 300}
    assert alarm("age", host="worker", **keys).threshold == 4 * 300 + 1_000 + 2_000 + 3_000


def test_the_age_alarm_waits_an_hour_at_least() -> None:
    """One attempt takes 3,600 s or 3,601."""
    assert alarm("age", host="worker", max_attempts=1, lease_seconds=3_600).threshold == 3_600
    assert alarm("age", host="worker", max_attempts=1, lease_seconds=3_601).threshold == 3_601


def test_the_age_alarm_comes_by_half_the_retention_however_many_attempts_there_are() -> None:
    threshold = alarm("age", {"retention_days": 3}, max_attempts=995).threshold
    assert (threshold, type(threshold)) == (3 * 86_400 / 2, int)


@pytest.mark.parametrize(
    ("timeout", "milliseconds"), [(2, 1_600), (10, 8_000), (49, 39_200), (51, 41_000), (900, 890_000)]
)
def test_the_time_out_alarm_is_raised_when_the_deadline_guard_strikes(timeout: int, milliseconds: int) -> None:
    """Ten seconds or a fifth of the time before its end."""
    assert alarm("time-outs", **{"lambda": {"timeout_seconds": timeout}}).threshold == milliseconds


# --- Dashboard ---------------------------------------------------------------------------------------------------


def test_the_dashboard_shows_each_figure_of_all_subscriptions_side_by_side() -> None:
    board = deployment(None, a={}, b={"host": "worker"}).dashboard
    assert board.name == "shop-prod"
    shown = [(w.title, w.namespace, w.metric_name, w.statistic, w.series) for w in board.widgets]
    visible = "ApproximateNumberOfMessagesVisible"
    assert shown == [
        ("Dead letters", "AWS/SQS", visible, "Maximum", {"a": "shop-prod-a-dlq", "b": "shop-prod-b-dlq"}),
        ("Delivery failures", "AWS/SQS", visible, "Maximum", {"a": "shop-prod-a-failed", "b": "shop-prod-b-failed"}),
        ("Waiting", "AWS/SQS", visible, "Maximum", {"a": "shop-prod-a", "b": "shop-prod-b"}),
        (
            "Age of the oldest, in seconds",
            "AWS/SQS",
            "ApproximateAgeOfOldestMessage",
            "Maximum",
            {"a": "shop-prod-a", "b": "shop-prod-b"},
        ),
        (
            "In flight",
            "AWS/SQS",
            "ApproximateNumberOfMessagesNotVisible",
            "Maximum",
            {"a": "shop-prod-a", "b": "shop-prod-b"},
        ),
        ("Duration, in milliseconds", "AWS/Lambda", "Duration", "Maximum", {"a": "shop-prod-a"}),
        ("Errors", "AWS/Lambda", "Errors", "Sum", {"a": "shop-prod-a"}),
        ("Throttles", "AWS/Lambda", "Throttles", "Sum", {"a": "shop-prod-a"}),
    ]
    assert {w.dimension for w in board.widgets if w.namespace == "AWS/SQS"} == {"QueueName"}
    assert {w.dimension for w in board.widgets if w.namespace == "AWS/Lambda"} == {"FunctionName"}
    assert {w.period_seconds for w in board.widgets} == {300}


def test_widgets_stand_two_to_a_row_of_24_columns() -> None:
    places = [(w.x, w.y, w.width, w.height) for w in deployment(None, s={}).dashboard.widgets]
    assert places == [(12 * (n % 2), 6 * (n // 2), 12, 6) for n in range(8)]


def test_no_widget_is_empty() -> None:
    assert len(deployment(None, s={"host": "worker"}).dashboard.widgets) == 5
    assert deployment(None).dashboard.widgets == ()


def test_what_is_on_a_database_is_not_on_the_dashboard() -> None:
    written = {
        "name": "shop",
        "topics": {"t": {}, "d": DATABASE},
        "subscriptions": {"s": {"topic": "t", "handler": "a:b"}, "x": {"topic": "d", "handler": "a:b"}},
    }
    aws = resolve(parse_topology(written), "prod").aws
    assert aws is not None
    assert {name for widget in aws.dashboard.widgets for name in widget.series} == {"s"}
