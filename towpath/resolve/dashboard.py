"""The CloudWatch dashboard: each figure of all subscriptions side by side, what needs a person first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from towpath import limits
from towpath.manifest import AwsSubscription, Dashboard, Widget
from towpath.resolve.names import Names

_COLUMNS, _ROWS = 12, 6  # of a widget; a dashboard is 24 columns wide, so two stand side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figure:
    title: str
    metric: str
    of: Literal["queue", "dead_letter_queue", "delivery_failure_queue", "function"]
    statistic: Literal["Sum", "Maximum"] = "Maximum"


_FIGURES: Final = (
    _Figure(title="Dead letters", metric="ApproximateNumberOfMessagesVisible", of="dead_letter_queue"),
    _Figure(title="Delivery failures", metric="ApproximateNumberOfMessagesVisible", of="delivery_failure_queue"),
    _Figure(title="Waiting", metric="ApproximateNumberOfMessagesVisible", of="queue"),
    _Figure(title="Age of the oldest, in seconds", metric="ApproximateAgeOfOldestMessage", of="queue"),
    _Figure(title="In flight", metric="ApproximateNumberOfMessagesNotVisible", of="queue"),
    _Figure(title="Duration, in milliseconds", metric="Duration", of="function"),
    _Figure(title="Errors", metric="Errors", of="function", statistic="Sum"),
    _Figure(title="Throttles", metric="Throttles", of="function", statistic="Sum"),
)


def dashboard(names: Names, subscriptions: Mapping[str, AwsSubscription]) -> Dashboard:
    """The dashboard of all subscriptions on AWS, without a widget that would be empty."""
    shown = [(figure, _series(figure, subscriptions)) for figure in _FIGURES]
    widgets = [(figure, series) for figure, series in shown if series]
    return Dashboard(
        name=names.prefix,
        widgets=tuple(_widget(place, figure, series) for place, (figure, series) in enumerate(widgets)),
    )


def _series(figure: _Figure, subscriptions: Mapping[str, AwsSubscription]) -> dict[str, str]:
    if figure.of == "function":
        return {name: aws.function.name for name, aws in subscriptions.items() if aws.function is not None}
    return {name: getattr(aws, figure.of).name for name, aws in subscriptions.items()}


def _widget(place: int, figure: _Figure, series: dict[str, str]) -> Widget:
    row, column = divmod(place, 2)
    return Widget(
        title=figure.title,
        namespace="AWS/Lambda" if figure.of == "function" else "AWS/SQS",
        metric_name=figure.metric,
        dimension="FunctionName" if figure.of == "function" else "QueueName",
        statistic=figure.statistic,
        period_seconds=limits.ALARM_PERIOD_SECONDS,
        series=series,
        x=column * _COLUMNS,
        y=row * _ROWS,
        width=_COLUMNS,
        height=_ROWS,
    )
