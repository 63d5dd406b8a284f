"""The manifest and the bindings as their files have them, read again when a deployment has written them anew."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aws_transport.bindings import Bindings
from towpath.errors import MistakesFound
from towpath.manifest import Manifest
from towpath.settlement import SubscriptionPolicy

_State = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A manifest and the bindings of what it became."""

    manifest: Manifest
    bindings: Bindings

    def policies(self) -> Mapping[str, SubscriptionPolicy]:
        """Of the subscriptions on AWS that a worker may serve."""
        served = {name: s for name, s in self.manifest.subscriptions.items() if s.aws is not None}
        return {name: s.policy(name) for name, s in served.items() if s.host == "worker"}


@dataclass(slots=True, eq=False, kw_only=True)
class DeploymentFiles:
    """Where a deployment is written, and what was read there last. Thread-safe.

    Files that do not fit each other, as while they are being written, are as if they had not changed: it is told once.
    """

    manifest_file: Path
    bindings_file: Path
    region: str
    current: Deployment
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("towpath.aws"))
    policies: Mapping[str, SubscriptionPolicy] = field(init=False)
    _seen: _State = field(init=False)
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._seen = self._state()
        self.policies = self.current.policies()

    def look(self) -> None:
        """Read the files if they are others than before."""
        with self._lock:
            state = self._state()
            if state == self._seen:
                return
            self._seen = state
            try:
                manifest, bindings = Manifest.load(self.manifest_file), Bindings.load(self.bindings_file)
                bindings.check(manifest, self.region)
            except MistakesFound as error:
                self.log.warning("the manifest and the bindings stay as they were: %s", error)
                return
            self.current = Deployment(manifest=manifest, bindings=bindings)
            self.policies = self.current.policies()

    def _state(self) -> _State:
        return tuple(_stamp(file) for file in (self.manifest_file, self.bindings_file))


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
