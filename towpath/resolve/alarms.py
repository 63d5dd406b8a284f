"""The CloudWatch alarms of a subscription: one for each way that work can stand still or get lost unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from towpath import limits
from towpath.backoff import BackOff
from towpath.function_settings import deadline_guard_seconds
from towpath.manifest import Alarm, Function, Queue
from towpath.resolve.names import Names

_VISIBLE: Final = "ApproximateNumberOfMessagesVisible"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmMaker:
    """Makes the alarms of one subscription, by what they watch."""

    names: Names
    subscription: str

    def of_queues(self, queues: tuple[Queue, Queue, Queue], slowest_seconds: int) -> dict[str, Alarm]:
        """Alarms of the queue, its dead letters and its failed deliveries.

        ``slowest_seconds`` is how old a message may become by its own retries: the age alarm waits longer than that,
        but not beyond half the time that the queue keeps it.
        SQS: developer guide, "Available CloudWatch metrics for Amazon SQS".
        """
        queue, dead_letters, failed = queues
        age = min(queue.message_retention_seconds // 2, max(limits.ALARM_AGE_SECONDS, slowest_seconds))
        return {
            "dead-letters": self._on_queue("dead-letters", dead_letters, _VISIBLE, 0),
            "delivery-failures": self._on_queue("delivery-failures", failed, _VISIBLE, 0),
            "age": self._on_queue("age", queue, "ApproximateAgeOfOldestMessage", age),
            "in-flight": self._on_queue(
                "in-flight", queue, "ApproximateNumberOfMessagesNotVisible", limits.ALARM_IN_FLIGHT
            ),
        }

    def of_function(self, function: Function) -> dict[str, Alarm]:
        """Alarms of the function. Lambda: developer guide, "Types of metrics for Lambda functions".

        Lambda counts no time-outs: an invocation has none to spare when it takes until the deadline guard strikes.
        """
        guarded = function.timeout_seconds - deadline_guard_seconds(function.timeout_seconds)
        return {
            "errors": self._on_function("errors", function, "Errors", "Sum", 0),
            "throttles": self._on_function("throttles", function, "Throttles", "Sum", 0),
            "time-outs": self._on_function("time-outs", function, "Duration", "Maximum", round(1_000 * guarded)),
        }

    def _on_queue(self, watches: str, queue: Queue, metric: str, threshold: int) -> Alarm:
        return self._alarm(watches, "AWS/SQS", metric, {"QueueName": queue.name}, ("Maximum", threshold))

    def _on_function(
        self, watches: str, function: Function, metric: str, statistic: Literal["Sum", "Maximum"], threshold: int
    ) -> Alarm:
        return self._alarm(watches, "AWS/Lambda", metric, {"FunctionName": function.name}, (statistic, threshold))

    def _alarm(
        self,
        watches: str,
        namespace: str,
        metric: str,
        dimensions: dict[str, str],
        above: tuple[Literal["Sum", "Maximum"], int],
    ) -> Alarm:
        statistic, threshold = above
        return Alarm(
            name=self.names.alarm(self.subscription, watches),
            description=f"{self.subscription}: {_MEANINGS[watches]}",
            namespace=namespace,
            metric_name=metric,
            dimensions=dimensions,
            statistic=statistic,
            comparison="GreaterThanThreshold",
            threshold=threshold,
            period_seconds=limits.ALARM_PERIOD_SECONDS,
            evaluation_periods=1,
            treat_missing_data="notBreaching",
        )


_MEANINGS: Final = {
    "dead-letters": "deliveries were set aside as dead letters. Read their reasons, then replay or discard them.",
    "delivery-failures": "SNS could not deliver messages to the queue. Compare the queue and its policy with the "
    "manifest, then send the messages to the queue.",
    "age": "messages wait longer than all their attempts take. See whether the consumer runs and keeps up.",
    "in-flight": "nearly as many messages are in flight as SQS allows. See what keeps handlers from ending.",
    "errors": "invocations of the function failed. Its log says why.",
    "throttles": "invocations of the function were throttled. Raise the account's concurrency or lower the function's.",
    "time-outs": "an invocation took nearly all its time, so that deliveries came back unfinished. Raise the timeout "
    "or lower the batch size.",
}


def slowest_seconds(max_attempts: int, backoff: BackOff, visibility_seconds: int) -> int:
    """How long a delivery's attempts can take, each as long as the queue hides it, with the longest waits between."""
    return max_attempts * visibility_seconds + backoff.longest_total(max_attempts)
