"""Commands on the topology's file: ``towpath topology`` and ``towpath manifest``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.output import (
    JsonFlag,
    print_document,
    print_failure,
    print_json,
    print_sentence,
    print_table,
    telling,
)
from towpath.errors import InvalidTopology, Mistake
from towpath.manifest import Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import Topology, load_topology, topology_schema, warnings_of

TopologyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The topology, as TOML or JSON.")]


class AllOn(StrEnum):
    """Where ``--all-on`` can put every topic."""

    DATABASE = "database"


def topology_commands() -> typer.Typer:
    """The group ``towpath topology``."""
    group = typer.Typer(help="Check a topology, and show what it may hold.", no_args_is_help=True)
    group.command("check")(_check)
    group.command("schema")(_schema)
    return group


def manifest_commands() -> typer.Typer:
    """The group ``towpath manifest``."""
    group = typer.Typer(help="Render the manifest that everything else reads.", no_args_is_help=True)
    group.callback()(_manifest)
    group.command("render")(_render)
    return group


def _check(file: TopologyFile = Path("topology.toml"), as_json: JsonFlag = False) -> None:  # noqa: FBT002 - a switch
    """Report every mistake of a topology at once, or show its topics and subscriptions.

    Exit 0 when it can be deployed, 2 when it has mistakes. Example: towpath topology check topology.toml
    """
    try:
        topology = load_topology(file)
    except InvalidTopology as error:
        if not as_json:
            raise
        print_json({"file": str(file), "mistakes": [_mistake(mistake) for mistake in error.mistakes]})
        raise typer.Exit(2) from error
    warnings = warnings_of(topology)
    if as_json:
        print_json({"file": str(file), "mistakes": [], "warnings": [_mistake(w) for w in warnings]})
        return
    _print_tables(topology)
    for warning in warnings:
        print_sentence(f"warning: {warning}")
    print_sentence(f"{file} has no mistakes.")


def _mistake(mistake: Mistake) -> dict[str, str | int | None]:
    return {"path": mistake.path, "problem": mistake.problem, "line": mistake.line}


def _print_tables(topology: Topology) -> None:
    topics = (
        (name, topic.transport, "FIFO" if topology.is_fifo(name) else None, topic.status)
        for name, topic in topology.topics.items()
    )
    print_table(["topic", "transport", "type", "status"], topics)
    subscriptions = (
        (name, s.topic, topology.host_of(s), s.partition_mode, s.handler, s.status)
        for name, s in topology.subscriptions.items()
    )
    print_table(["subscription", "topic", "host", "partition mode", "handler", "status"], subscriptions)


def _schema() -> None:
    """Print the JSON Schema of topology files, for editors. Example: towpath topology schema > topology.schema.json"""
    print_json(topology_schema())


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


topology = topology_commands()
manifest = manifest_commands()
