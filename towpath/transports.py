"""Finding the transport that serves a URL, through the entry points of installed packages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from towpath.errors import UnknownTransport
from towpath.manifest import Manifest
from towpath.ports import Transport

_GROUP = "towpath.transports"
_EXTRAS = {"aws": "aws", "postgresql": "local", "sqlite": "local"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a transport may need besides its URL. AWS needs both; a database has the topology applied to it.

    ``manifest_file`` is where ``manifest`` was read, if in a file: it may be written anew.
    """

    manifest: Manifest | None
    bindings: Path | None
    manifest_file: Path | None = None


class OpenTransport(Protocol):
    """What an entry point of the group ``towpath.transports`` is; its name is the URL scheme that it serves."""

    def __call__(self, url: str, options: Options) -> Transport:
        """Open ``url``. Raises one of Towpath's errors when that cannot work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What applying a manifest changed: names of topics and subscriptions."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


@runtime_checkable
class TopologyStore(Protocol):
    """A transport that keeps its own topics and subscriptions: a database."""

    def apply(self, manifest: Manifest) -> Applied:
        """Make topics and subscriptions equal to ``manifest``, in one transaction.

        Raises ``ApplyRefused``, with nothing changed, when deliveries would be lost or change their partition mode.
        """


def connect(
    url: str, manifest: str | Path | Manifest | None = None, *, bindings: str | Path | None = None
) -> Transport:
    """Open the transport at ``url``: ``sqlite:///dev.db``, ``postgresql://...`` or ``aws://eu-west-1``.

    ``manifest`` is a rendered manifest or the path of one; ``bindings`` the file that a deployment wrote (AWS).
    Raises ``UnknownTransport`` when no installed package serves the scheme, and what the transport raises.
    """
    scheme = url.partition(":")[0].partition("+")[0]
    found = entry_points(group=_GROUP, name=scheme)
    if not found:
        raise UnknownTransport(_unknown(url, scheme))
    try:
        open_transport = cast("OpenTransport", next(iter(found)).load())
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get(scheme, "all")
        problem = f"the transport {scheme}:// needs {error.name!r}; install towpath[{extra}]"
        raise UnknownTransport(problem) from error
    resolved = manifest if isinstance(manifest, Manifest | None) else Manifest.load(manifest)
    options = Options(
        manifest=resolved,
        bindings=Path(bindings) if bindings is not None else None,
        manifest_file=Path(manifest) if isinstance(manifest, str | Path) else None,
    )
    return open_transport(url, options)


def _unknown(url: str, scheme: str) -> str:
    if "://" not in url:
        shown = re.sub(r".*@", "***@", url)  # it may be a URL that lost its beginning, with a password
        return f"{shown!r} is no transport URL; it looks like sqlite:///dev.db, postgresql://host/name or aws://region"
    known = ", ".join(sorted(entry_points(group=_GROUP).names))
    return f"no transport serves {scheme}://; installed are: {known}"
