"""What a Lambda function is told of its subscription. Apart from the manifest, since every cold start reads it."""

from __future__ import annotations

import json
from dataclasses import asdict

from towpath.errors import InvalidManifest
from towpath.frozen import Record
from towpath.limits import DEADLINE_GUARD_SECONDS, DEADLINE_GUARD_SHARE
from towpath.records import read_json_record
from towpath.settlement import SubscriptionPolicy


class FunctionSettings(metaclass=Record):
    """The rules of a subscription and of its function, as JSON in the variable ``TOWPATH_SUBSCRIPTION``."""

    policy: SubscriptionPolicy
    fifo: bool
    concurrency: int
    timeout_seconds: int

    def to_json(self) -> str:
        """Canonical text without a blank, as short as it gets: Lambda has 4 KB for all variables."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> FunctionSettings:
        """Read the settings strictly. Raises ``InvalidManifest`` with every mistake."""
        return read_json_record(FunctionSettings, text, InvalidManifest, "TOWPATH_SUBSCRIPTION")


def deadline_guard_seconds(timeout_seconds: float) -> float:
    """How much of a function's time, at its end, is kept free: no record starts in it, and what runs is aborted.

    What comes later would likely be cut off, and Lambda answers nothing for a batch that it cuts off.
    """
    return min(DEADLINE_GUARD_SECONDS, DEADLINE_GUARD_SHARE * timeout_seconds)
