"""Commands on the manifest: ``towpath manifest``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from towpath.changes import IMPACTS, Change, Impact, Kind, changes
from towpath.cli.options import TopologyFile
from towpath.cli.output import JsonFlag, print_document, print_failure, print_json, print_sentence, telling, write_whole
from towpath.manifest import Manifest
from towpath.manifest.schema import manifest_schema
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology


class AllOn(StrEnum):
    """Where ``--all-on`` can put every topic."""

    DATABASE = "database"


class FailOn(StrEnum):
    """The least bad change for which ``diff`` exits 1."""

    NONE = "none"
    DESTRUCTIVE = "destructive"
    LOSSY = "lossy"
    ANY = "any"

    @property
    def impacts(self) -> tuple[Impact, ...]:
        """Those that are as bad, or worse."""
        return IMPACTS[: list(FailOn).index(self)]


def manifest_commands() -> typer.Typer:
    """The group ``towpath manifest``."""
    group = typer.Typer(help="Render and compare the manifest that everything else reads.", no_args_is_help=True)
    group.command("render")(_render)
    group.command("diff")(_diff)
    group.command("schema")(_schema)
    return group


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
    written = load_topology(file)
    topology = with_all_on_database(written) if all_on is AllOn.DATABASE else written
    manifest = resolve(topology, environment)
    if output == "-":
        print_document(manifest.to_json())
        return
    _write(manifest, Path(output), [name for name in written.subscriptions if name not in topology.subscriptions])


def _write(manifest: Manifest, path: Path, left_out: Sequence[str]) -> None:
    try:
        write_whole(path, manifest.to_json())
    except OSError as error:
        print_failure(f"{path} cannot be written: {error.strerror}")
        raise typer.Exit(1) from error
    counts = f"topics: {len(manifest.topics)}, subscriptions: {len(manifest.subscriptions)}"
    with telling(f"{path} is written"):
        print_sentence(f"Wrote {path} for the environment {manifest.environment} ({counts}).")
        if left_out:
            print_sentence(f"Left out, since their consumers are not ours: {', '.join(left_out)}.")


def _diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The manifest as it is deployed.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The manifest as it is to be.")],
    as_json: JsonFlag = False,  # noqa: FBT002 - a switch
    fail_on: Annotated[
        FailOn, typer.Option("--fail-on", help="Exit 1 when there is a change as bad as this, or worse.")
    ] = FailOn.DESTRUCTIVE,
) -> None:
    """Say in words what changes for a running system from one manifest to another, the worst first.

    Destructive is what deletes something that runs; lossy, what may cost messages, attempts or a protection; safe, all
    else. Exit 1 when there is a destructive change, or as --fail-on says.

    Example: towpath manifest diff deployed.json manifest.json
    """
    found = changes(Manifest.load(old), Manifest.load(new))
    counts = {impact: sum(change.impact == impact for change in found) for impact in IMPACTS}
    if as_json:
        print_json({"changes": [_plain(change) for change in found], "counts": dict(counts)})
    else:
        for change in found:
            print_sentence(f"{change.impact}: {_KINDS[change.kind].format(change.name)} {change.sentence}")
        print_sentence(_summary(counts) if found else "Nothing changes.")
    if any(counts[impact] for impact in fail_on.impacts):
        raise typer.Exit(1)


_KINDS: Final[Mapping[Kind, str]] = {
    "manifest": "the manifest",
    "topic": "topic {}:",
    "subscription": "subscription {}:",
    "aws": "on AWS,",
}


def _plain(change: Change) -> dict[str, Any]:
    return asdict(change) | {"paths": list(change.paths)}


def _summary(counts: Mapping[Impact, int]) -> str:
    total = sum(counts.values())
    each = ", ".join(f"{count} {impact}" for impact, count in counts.items() if count)
    return f"{total} {'change' if total == 1 else 'changes'}: {each}."


def _schema() -> None:
    """Print the JSON Schema of manifests, for those who read them with other tools.

    Example: towpath manifest schema > manifest.schema.json
    """
    print_json(manifest_schema())


manifest = manifest_commands()
