"""What a run is to be: written to its folder by whoever starts it, read there by its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random

from tests.servers.topologies import on_database
from towpath.manifest import Manifest

TOPIC = "documents"
SUBSCRIPTIONS = ("exclusive", "free", "ordered")
FOLDER_VARIABLE = "TOWPATH_HISTORY"  # tells a handler where the run is


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run: ``concurrency`` has the handler threads of each worker process for each subscription."""

    url: str
    seed: int
    messages: int
    keys: int
    lease_seconds: int = 2
    max_attempts: int = 8
    concurrency: tuple[int, ...] = (2, 2, 3)
    holders: int = 2
    publishers: int = 3
    pause_seconds: float = 0.02  # of a publisher between two calls, at most

    @property
    def is_sqlite(self) -> bool:
        """Whether all writers of the database wait for each other."""
        return self.url.startswith("sqlite")

    def random(self, *purpose: object) -> Random:
        """Choices for one purpose, the same whenever the run is repeated."""
        return Random("/".join(str(part) for part in (self.seed, *purpose)))

    def manifest(self) -> Manifest:
        """One topic, and a subscription of each mode. The leases are shorter than a topology may have them."""
        rules = {"max_attempts": self.max_attempts, "backoff": {"base_seconds": 1, "max_seconds": 2}}
        modes = {"exclusive": "exclusive", "free": "none", "ordered": "ordered"}
        written = {
            name: {"topic": TOPIC, "handler": "tests.history.handling:handle", "partition_mode": mode, **rules}
            for name, mode in modes.items()
        }
        manifest = on_database({TOPIC: {}}, written)
        shorter = {
            name: replace(subscription, lease_seconds=self.lease_seconds)
            for name, subscription in manifest.subscriptions.items()
        }
        return replace(manifest, subscriptions=shorter)

    def save(self, folder: Path) -> None:
        """Leave it for the processes."""
        (folder / "plan.json").write_text(json.dumps(asdict(self)))

    @staticmethod
    def of(folder: Path) -> Plan:
        """What was saved."""
        facts = json.loads((folder / "plan.json").read_text())
        return Plan(**{**facts, "concurrency": tuple(facts["concurrency"])})


def quiet(folder: Path) -> Path:
    """The file that says, once it exists, that everything shall go well from now on."""
    return folder / "quiet"
