"""Options that several commands share: which transport, which manifest, which bindings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from towpath.ports import Transport
from towpath.transports import connect

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
    """The transport at ``url``, closed at the end."""
    transport = connect(url, manifest, bindings=bindings)
    try:
        yield transport
    finally:
        transport.close()
