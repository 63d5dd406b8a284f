"""Options that several commands share: which transport, which manifest, which bindings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import quote, unquote

import typer

from towpath.errors import NothingApplied
from towpath.manifest import Manifest
from towpath.ports import Transport
from towpath.transports import TopologyStore, connect

TopologyFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The topology, as TOML or JSON.")]
TransportOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--transport",
        envvar="TOWPATH_TRANSPORT",
        help="The transport's URL: sqlite:///dev.db, postgresql://host/name or aws://eu-west-1.",
        show_default=False,
    ),
]
ManifestOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--manifest", envvar="TOWPATH_MANIFEST", help="The rendered manifest (AWS needs it)."),
]
BindingsOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--bindings", envvar="TOWPATH_BINDINGS", help="The bindings that a deployment wrote (AWS needs them)."
    ),
]


@contextmanager
def opened(url: str, manifest: Path | None, bindings: Path | None) -> Iterator[Transport]:
    """The transport at ``url``, closed at the end.

    Raises ``NothingApplied`` for a database file that is not there: only ``apply`` and ``db upgrade`` make one.
    """
    transport = connected(url, manifest, bindings)
    try:
        yield transport
    finally:
        transport.close()


def connected(url: str, manifest: Path | None, bindings: Path | None) -> Transport:
    """The transport at ``url``, to be closed. Raises as ``opened`` does."""
    require_file(url)
    return connect(url, manifest, bindings=bindings)


def is_file(url: str) -> bool:
    """Whether ``url`` names a database file: there is no server that could come back."""
    return _file_of(url) is not None


def require_file(url: str) -> None:
    """Raise ``NothingApplied`` when ``url`` names a database file that could be there and is not."""
    file = _file_of(url)
    if file is not None and file.parent.is_dir() and not file.exists():
        raise nothing_applied(url)


def require_subscriptions(transport: Transport, url: str, found: Collection[object]) -> None:
    """Raise ``NothingApplied`` when nothing was ``found`` of the subscriptions that a database keeps itself."""
    if not found and isinstance(transport, TopologyStore):
        raise nothing_applied(url)


def nothing_applied(url: str) -> NothingApplied:
    """The error for a database without subscriptions; with a file it may be the wrong folder."""
    file = _file_of(url)
    where = f" ({file})" if file is not None else ""
    folder = ", or go to the folder that has your database" if file is not None else ""
    return NothingApplied(f"{without_password(url)}{where} has no subscriptions; run 'towpath apply'{folder}")


def without_password(url: str) -> str:
    """The URL as it may be shown, without its options too."""
    return hidden_password(url).partition("?")[0]


def hidden_password(text: str) -> str:
    """The text with the password of a URL in it hidden, before the host and among the options."""
    hidden = re.sub(r"(://[^/@:]*):.*@", r"\1:***@", text)
    return re.sub(r"([?&][^=&]*password=)[^&]*", r"\1***", hidden, flags=re.IGNORECASE)


def place(url: str, manifest: Path | None) -> str:
    """The transport as a file can name it that is to be used with no other one: with the folder of a database file, and
    on AWS, whose URL is no more than a region, with the environment. Raises ``InvalidManifest``.
    """
    shown = hidden_password(whole_url(url))
    if manifest is None or not url.startswith("aws:"):
        return shown
    deployed = Manifest.load(manifest)
    return f"{shown} ({deployed.name}, {deployed.environment})"


def whole_url(url: str) -> str:
    """The same URL with the whole path of its database file, for a process in another folder."""
    file = _file_of(url)
    if file is None:
        return url
    scheme, options = url.partition(":")[0], "".join(url.partition("?")[1:])
    return f"{scheme}:///{quote(str(file))}{options}"


def _file_of(url: str) -> Path | None:
    """The file of an embedded database, from the root; ``None`` for any other transport."""
    scheme, _, path = url.partition("?")[0].partition(":///")
    is_file = path and path != ":memory:" and scheme.partition("+")[0] == "sqlite"
    return Path(unquote(path)).absolute() if is_file else None
