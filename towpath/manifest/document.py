"""The manifest itself, its topics and its subscriptions; and its text, to be read and written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from towpath.backoff import BackOff
from towpath.errors import InvalidManifest, Mistake
from towpath.manifest.aws import AwsSubscription, AwsTopic
from towpath.manifest.policies import Access
from towpath.records import read_json_record
from towpath.settlement import PartitionMode, SubscriptionPolicy, SubscriptionStatus

TransportName = Literal["aws", "database"]
Host = Literal["lambda", "worker", "external"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Whether a topic takes deduplication keys, and for how long a key counts by default."""

    enabled: bool
    ttl_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What producers address."""

    transport: TransportName
    status: Literal["active", "disabled"]
    max_payload_bytes: int
    retention_days: int
    external_publish: bool
    deduplication: Deduplication
    aws: AwsTopic | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One consumer's stream of a topic. ``filter_policy`` is null when everything is wanted."""

    topic: str
    transport: TransportName
    handler: str | None
    host: Host
    partition_mode: PartitionMode
    filter_policy: dict[str, tuple[Any, ...]] | None
    status: SubscriptionStatus
    max_attempts: int
    backoff: BackOff
    lease_seconds: int
    heartbeat: Literal["auto", "manual"]
    max_processing_seconds: float | None
    accept_foreign: bool
    dead_letter_retention_days: int
    aws: AwsSubscription | None

    def policy(self, name: str) -> SubscriptionPolicy:
        """The part that a worker or a function needs to handle this subscription's deliveries."""
        return SubscriptionPolicy(
            subscription=name,
            topic=self.topic,
            handler=self.handler,
            partition_mode=self.partition_mode,
            status=self.status,
            max_attempts=self.max_attempts,
            backoff=self.backoff,
            lease_seconds=self.lease_seconds,
            heartbeat=self.heartbeat,
            max_processing_seconds=self.max_processing_seconds,
            accept_foreign=self.accept_foreign,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A resolved topology for one environment. Everything else reads this and decides nothing."""

    manifest_version: Literal[1]
    name: str
    environment: str
    topics: dict[str, Topic]
    subscriptions: dict[str, Subscription]
    access: Access

    def to_json(self) -> str:
        """Canonical text: sorted keys, no time stamp, so that it changes only when the topology does."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read a manifest strictly. Raises ``InvalidManifest`` with every mistake."""
        return read_json_record(Manifest, text, InvalidManifest, "the manifest")

    @staticmethod
    def load(path: str | Path) -> Manifest:
        """Read the manifest in the file ``path``. Raises ``InvalidManifest``, also when it is a topology."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            problem = f"cannot be read: {error.strerror}; 'towpath manifest render' writes it"
            raise InvalidManifest(str(path), [Mistake(path="", problem=problem)]) from error
        except UnicodeDecodeError as error:
            raise InvalidManifest(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error
        if _is_topology(Path(path), text):
            problem = f"is a topology; its manifest is wanted, write it with 'towpath manifest render {path} -e NAME'"
            raise InvalidManifest(str(path), [Mistake(path="", problem=problem)])
        return Manifest.from_json(text)


def _is_topology(path: Path, text: str) -> bool:
    if path.suffix == ".toml":
        return True
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "topics" in document and "manifest_version" not in document
