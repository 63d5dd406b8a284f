"""What a Lambda function is told of its subscription. Apart from the manifest, since every cold start reads it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from towpath.errors import InvalidManifest
from towpath.records import read_json_record
from towpath.settlement import SubscriptionPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSettings:
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
