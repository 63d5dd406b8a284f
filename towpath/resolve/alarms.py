"""The CloudWatch alarms of a subscription: one for each way that work can stand still or get lost unseen."""

from __future__ import annotations

from towpath import limits
from towpath.backoff import BackOff
from towpath.manifest import Alarm, Function, Queue
from towpath.resolve.names import Names


def queue_alarms(
    names: Names, subscription: str, queues: tuple[Queue, Queue, Queue], slowest_seconds: int
) -> list[Alarm]:
    """Alarms of the queue, its dead letters and its failed deliveries.

    ``slowest_seconds`` is how old a message may become by its own retries: the age alarm waits longer than that, but
    not beyond half the time that the queue keeps it.
    SQS: developer guide, "Available CloudWatch metrics for Amazon SQS".
    """
    queue, dead_letters, failed = queues
    return [
        _on_queue(names.alarm(subscription, "dead-letters"), dead_letters, "ApproximateNumberOfMessagesVisible", 0),
        _on_queue(names.alarm(subscription, "delivery-failures"), failed, "ApproximateNumberOfMessagesVisible", 0),
        _on_queue(
            names.alarm(subscription, "age"),
            queue,
            "ApproximateAgeOfOldestMessage",
            min(queue.message_retention_seconds // 2, max(limits.ALARM_AGE_SECONDS, slowest_seconds)),
        ),
        _on_queue(
            names.alarm(subscription, "in-flight"),
            queue,
            "ApproximateNumberOfMessagesNotVisible",
            limits.ALARM_IN_FLIGHT,
        ),
    ]


def function_alarms(names: Names, subscription: str, function: Function) -> list[Alarm]:
    """Alarms of the function. Lambda: developer guide, "Types of metrics for Lambda functions"."""
    return [
        _on_function(names.alarm(subscription, "errors"), function, "Errors"),
        _on_function(names.alarm(subscription, "throttles"), function, "Throttles"),
    ]


def slowest_seconds(max_attempts: int, backoff: BackOff, visibility_seconds: int) -> int:
    """How long a delivery's attempts can take, each as long as the queue hides it, with the longest waits between."""
    return max_attempts * visibility_seconds + backoff.longest_total(max_attempts)


def _on_queue(name: str, queue: Queue, metric: str, threshold: int) -> Alarm:
    return _alarm(name, "AWS/SQS", metric, {"QueueName": queue.name}, threshold)


def _on_function(name: str, function: Function, metric: str) -> Alarm:
    return _alarm(name, "AWS/Lambda", metric, {"FunctionName": function.name}, 0)


def _alarm(name: str, namespace: str, metric: str, dimensions: dict[str, str], threshold: int) -> Alarm:
    return Alarm(
        name=name,
        namespace=namespace,
        metric_name=metric,
        dimensions=dimensions,
        statistic="Sum" if namespace == "AWS/Lambda" else "Maximum",
        comparison="GreaterThanThreshold",
        threshold=threshold,
        period_seconds=limits.ALARM_PERIOD_SECONDS,
        evaluation_periods=1,
        treat_missing_data="notBreaching",
    )
