"""The manifest itself, its topics and its subscriptions; and its text, to be read and written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from towpath.backoff import BackOff
from towpath.errors import InvalidManifest, Mistake
from towpath.limits import MANIFEST_VERSION
from towpath.manifest.aws import AwsSubscription, AwsTopic, Deployment
from towpath.manifest.consistency import contradictions
from towpath.records import read_json, read_record
from towpath.settlement import PartitionMode, SubscriptionPolicy, SubscriptionStatus

TransportName = Literal["aws", "database"]
Host = Literal["lambda", "worker", "external"]

_SUBJECT = "the manifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deduplication:
    """Whether a topic takes deduplication keys, and for how long a key counts by default."""

    enabled: bool
    """Whether publishers may give deduplication keys."""
    ttl_seconds: int
    """How long a key counts when the publisher does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What producers address."""

    transport: TransportName
    """Where the topic lives."""
    status: Literal["active", "disabled"]
    """A disabled topic rejects what is published to it."""
    max_payload_bytes: int
    """The largest message: envelope and attributes, in bytes of UTF-8."""
    retention_days: int
    """How long a message is kept; on a database, once its history is final."""
    external_publish: bool
    """Whether the topic may be published to over HTTP."""
    deduplication: Deduplication
    """Deduplication keys."""
    aws: AwsTopic | None
    """What it is on AWS; null on a database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One consumer's stream of a topic. ``filter_policy`` is null when everything is wanted."""

    topic: str
    """The topic that it takes its messages from."""
    transport: TransportName
    """Where it lives: with its topic."""
    handler: str | None
    """Import path of the handler, ``package.module:function``; null for host ``external``."""
    host: Host
    """What runs the handler."""
    partition_mode: PartitionMode
    """What holds between deliveries of one partition key."""
    filter_policy: dict[str, tuple[Any, ...]] | None
    """What it wants, in the Amazon SNS filter-policy language over attributes; null when that is everything."""
    status: SubscriptionStatus
    """``paused`` gets deliveries and hands none out; ``disabled`` gets none."""
    max_attempts: int
    """How often a delivery is tried before it becomes a dead letter."""
    backoff: BackOff
    """The wait between attempts."""
    lease_seconds: int
    """How long a worker holds a delivery without renewing."""
    heartbeat: Literal["auto", "manual"]
    """Who renews the lease while the handler runs: Towpath, or the handler's own heartbeats."""
    max_processing_seconds: float | None
    """When a running handler is asked to stop; null when only lease and host say."""
    accept_foreign: bool
    """Whether bodies that are no Towpath envelope are handled; otherwise they become dead letters."""
    dead_letter_retention_days: int
    """How long a dead letter is kept."""
    aws: AwsSubscription | None
    """What it is on AWS; null on a database."""

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
    """Version of the manifest's form. A reader reads exactly the version that it knows."""
    name: str
    """Name of the topology, which begins every resource's name."""
    environment: str
    """Name of the environment, which comes next."""
    topics: dict[str, Topic]
    """The topics by name."""
    subscriptions: dict[str, Subscription]
    """The subscriptions by name."""
    aws: Deployment | None
    """What they have in common on AWS; null when everything is on a database."""

    def to_json(self) -> str:
        """Canonical text: sorted keys, no time stamp, so that it changes only when the topology does."""
        return json.dumps(asdict(self), indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read a manifest strictly. Raises ``InvalidManifest`` with every mistake.

        Every key must be there and no other, even those of which a newer version might know more: a rule that a
        reader passes over would not be kept. What keys mean together must hold as ``resolve`` makes it.
        """
        return _read(text, _SUBJECT)

    @staticmethod
    def load(path: str | Path) -> Manifest:
        """Read the manifest in the file ``path``. Raises ``InvalidManifest`` about it, also when it is a topology."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            problem = f"cannot be read: {error.strerror}; 'towpath manifest render' writes it"
            raise InvalidManifest(str(path), [Mistake(path="", problem=problem)]) from error
        except UnicodeDecodeError as error:
            raise InvalidManifest(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error
        if Path(path).suffix == ".toml":
            raise InvalidManifest(str(path), [_topology(str(path))])
        return _read(text, str(path))


def _read(text: str, subject: str) -> Manifest:
    document = read_json(text, InvalidManifest, subject)
    mistake = _other_form(document, subject)
    if mistake is not None:
        raise InvalidManifest(subject, [mistake])
    manifest = read_record(Manifest, document, InvalidManifest, subject, defaults="refused")
    mistakes = list(contradictions(manifest))
    if mistakes:
        raise InvalidManifest(subject, mistakes)
    return manifest


def _other_form(document: object, subject: str) -> Mistake | None:
    """The one thing to say of a document that is of another version, or no manifest at all."""
    if not isinstance(document, dict):
        return None
    version = document.get("manifest_version")
    if version is None:
        return _topology(subject) if "topics" in document else None
    if isinstance(version, int) and version != MANIFEST_VERSION and not isinstance(version, bool):
        problem = (
            f"is {version}, and this version of Towpath reads {MANIFEST_VERSION}; use the Towpath that wrote it, "
            "or render the manifest again with this one: 'towpath manifest render'"
        )
        return Mistake(path="manifest_version", problem=problem)
    return None


def _topology(source: str) -> Mistake:
    file = "" if source == _SUBJECT else f" {source}"
    problem = f"is a topology; its manifest is wanted, write it with 'towpath manifest render{file} -e NAME'"
    return Mistake(path="", problem=problem)
