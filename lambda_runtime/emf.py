"""Figures as CloudWatch metrics: one line of the log in the embedded metric format for each invocation.

The line is what Powertools' Metrics writes of the same figures. It is not written by it, since that takes longer than
handling ten quick deliveries; a test holds the two equal. Format: Amazon CloudWatch user guide, "Specification:
Embedded metric format".
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lambda_runtime.figures import Figures

_NAMESPACE: Final = "Towpath"
_COUNTS: Final = ("Processed", "Completed", "Retried", "DeadLettered", "Released", "Failed")
_TRUE: Final = frozenset({"1", "y", "yes", "t", "true", "on"})
_MOST_VALUES: Final = 100  # of one metric in one line


def report_to_log(subscription: str, variables: Mapping[str, str]) -> Callable[[Figures], None] | None:
    """What writes figures to standard output; ``None`` where Powertools' variables turn metrics off.

    ``POWERTOOLS_METRICS_NAMESPACE`` takes the place of the namespace ``Towpath``, ``POWERTOOLS_SERVICE_NAME`` is a
    second dimension.
    """
    if _is_off(variables):
        return None
    service = variables.get("POWERTOOLS_SERVICE_NAME")
    dimensions = {"subscription": subscription} | ({"service": service} if service else {})
    written = _writer(variables.get("POWERTOOLS_METRICS_NAMESPACE") or _NAMESPACE, dimensions)

    def report(figures: Figures) -> None:
        sys.stdout.write(written(figures, int(time.time() * 1000)) + "\n")

    return report


def _is_off(variables: Mapping[str, str]) -> bool:
    disabled = variables.get("POWERTOOLS_METRICS_DISABLED")
    if disabled is None:
        return variables.get("POWERTOOLS_DEV", "").lower() in _TRUE
    return disabled.lower() in _TRUE


def _writer(namespace: str, dimensions: Mapping[str, str]) -> Callable[[Figures, int], str]:
    """How to write figures of a time in milliseconds. What is alike in all lines is written once."""
    named = _json(dimensions)[1:-1]
    heads: dict[tuple[bool, bool], str] = {}
    for is_timed in (False, True):
        for is_aged in (False, True):
            names = [*_COUNTS, *["DurationMs"] * is_timed, *["OldestAgeMs"] * is_aged]
            units = [{"Name": n, "Unit": "Count" if n in _COUNTS else "Milliseconds"} for n in names]
            directive = {"Namespace": namespace, "Dimensions": [list(dimensions)], "Metrics": units}
            heads[is_timed, is_aged] = f',"CloudWatchMetrics":{_json([directive])}}},{named}'

    def written(figures: Figures, milliseconds: int) -> str:
        durations, age = figures.durations_ms, figures.oldest_age_ms
        timed = f',"DurationMs":[{",".join([f"{ms:.3f}" for ms in _chosen(durations)])}]' if durations else ""
        aged = "" if age is None else f',"OldestAgeMs":[{age:.1f}]'
        return (
            f'{{"_aws":{{"Timestamp":{milliseconds}{heads[bool(durations), age is not None]}'
            f',"Processed":[{figures.processed}.0],"Completed":[{figures.completed}.0]'
            f',"Retried":[{figures.retried}.0],"DeadLettered":[{figures.dead_lettered}.0]'
            f',"Released":[{figures.released}.0],"Failed":[{figures.failed}.0]{timed}{aged}}}'
        )

    return written


def _chosen(values: Sequence[float]) -> Sequence[float]:
    """At most as many of ``values`` as a line may hold, spread evenly over their order, with the largest among them."""
    if len(values) <= _MOST_VALUES:
        return values
    ordered = sorted(values)
    step = (len(ordered) - 1) / (_MOST_VALUES - 1)
    return [ordered[round(i * step)] for i in range(_MOST_VALUES)]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
