"""Commands on the manifest: ``towpath manifest``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.options import TopologyFile
from towpath.cli.output import print_document, print_failure, print_sentence, telling
from towpath.manifest import Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology


class AllOn(StrEnum):
    """Where ``--all-on`` can put every topic."""

    DATABASE = "database"


def manifest_commands() -> typer.Typer:
    """The group ``towpath manifest``."""
    group = typer.Typer(help="Render the manifest that everything else reads.", no_args_is_help=True)
    group.callback()(_manifest)
    group.command("render")(_render)
    return group


def _manifest() -> None:
    """Render the manifest that everything else reads."""


def _render(
    environment: Annotated[str, typer.Option("--environment", "-e", help="Name of the environment, such as prod.")],
    file: TopologyFile = Path("topology.toml"),
    all_on: Annotated[AllOn | None, typer.Option("--all-on", help="Put every topic there, for development.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write it; - is standard output.")] = (
        "manifest.json"
    ),
) -> None:
    """Write the manifest of a topology in one environment, with every default and derived value.

    Example: towpath manifest render topology.toml --environment prod
    """
    topology = load_topology(file)
    if all_on is AllOn.DATABASE:
        topology = with_all_on_database(topology)
    manifest = resolve(topology, environment)
    if output == "-":
        print_document(manifest.to_json())
        return
    _write(manifest, Path(output))


def _write(manifest: Manifest, path: Path) -> None:
    try:
        path.write_text(manifest.to_json(), encoding="utf-8")
    except OSError as error:
        print_failure(f"{path} cannot be written: {error.strerror}")
        raise typer.Exit(1) from error
    counts = f"topics: {len(manifest.topics)}, subscriptions: {len(manifest.subscriptions)}"
    with telling(f"{path} is written"):
        print_sentence(f"Wrote {path} for the environment {manifest.environment} ({counts}).")


manifest = manifest_commands()
