"""One run of the function: how much time it has left, and whether a record may still start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from towpath.context import AbortSignal
from towpath.function_settings import deadline_guard_seconds
from towpath.message import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """The time of one run. Without Lambda's context (a call by hand) there is no deadline and always time.

    ``abort`` is shared by all handlers of the run: whoever guards the deadline stops them all with ``shutdown``.
    """

    started_at: datetime
    deadline: datetime | None
    guard_milliseconds: float
    remaining_milliseconds: Callable[[], float] | None
    abort: AbortSignal = field(default_factory=AbortSignal)

    def may_start(self) -> bool:
        """Whether there is time to start another record."""
        if self.abort.reason is not None:
            return False
        return self.remaining_milliseconds is None or self.remaining_milliseconds() >= self.guard_milliseconds


def begin(lambda_context: Any, timeout_seconds: float, clock: Clock) -> Invocation:
    """The run that ``lambda_context`` stands for."""
    remaining: Callable[[], float] | None = getattr(lambda_context, "get_remaining_time_in_millis", None)
    now = clock()
    return Invocation(
        started_at=now,
        deadline=None if remaining is None else now + timedelta(milliseconds=remaining()),
        guard_milliseconds=1000 * deadline_guard_seconds(timeout_seconds),
        remaining_milliseconds=remaining,
    )
