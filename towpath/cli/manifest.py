"""Commands on the manifest: ``towpath manifest``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.options import TopologyFile
from towpath.cli.output import (
    JsonFlag,
    print_document,
    print_failure,
    print_json,
    print_sentence,
    print_table,
    telling,
)
from towpath.manifest import Manifest
from towpath.manifest.diff import compare
from towpath.manifest.schema import manifest_schema
from towpath.records import key_path
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
    group.command("diff")(_diff)
    group.command("schema")(_schema)
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


def _diff(
    old: Annotated[Path, typer.Argument(help="The manifest that is deployed.")],
    new: Annotated[Path, typer.Argument(help="The manifest that is to be deployed.")],
    *,
    as_json: JsonFlag = False,
) -> None:
    """Say what changes for a running system from one manifest to the next; exit 1 when a change is destructive.

    Example: towpath manifest diff deployed.json manifest.json
    """
    changes = compare(Manifest.load(old), Manifest.load(new))
    if as_json:
        print_json([{"path": key_path(c.path), "change": c.sentence, "destructive": c.destructive} for c in changes])
    elif changes:
        rows = ((key_path(c.path), c.sentence, "destructive" if c.destructive else "") for c in changes)
        print_table(["what", "change", ""], rows)
    else:
        print_sentence("Nothing changes.")
    if any(change.destructive for change in changes):
        raise typer.Exit(1)


def _schema() -> None:
    """Print the JSON Schema of manifests, for editors and readers in other languages.

    Example: towpath manifest schema > manifest.schema.json
    """
    print_json(manifest_schema())


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
