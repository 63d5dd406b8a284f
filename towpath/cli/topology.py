"""Commands on the topology's file: ``towpath topology``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from towpath.cli.options import TopologyFile
from towpath.cli.output import JsonFlag, print_json, print_sentence, print_table
from towpath.errors import InvalidTopology, Mistake
from towpath.resolve.foresight import foresee
from towpath.topology import Topology, read_topology, topology_schema


def topology_commands() -> typer.Typer:
    """The group ``towpath topology``."""
    group = typer.Typer(help="Check a topology, and show what it may hold.", no_args_is_help=True)
    group.command("check")(_check)
    group.command("schema")(_schema)
    return group


def _check(
    file: TopologyFile = Path("topology.toml"),
    environments: Annotated[
        list[str] | None,
        typer.Option(
            "--environment", "-e", help="Check it for this environment only; may be repeated. Otherwise for all."
        ),
    ] = None,
    as_json: JsonFlag = False,  # noqa: FBT002 - a switch
) -> None:
    """Report every mistake of a topology at once, or show its topics and subscriptions, and warnings of what is allowed
    and probably not wanted.

    Exit 0 when it can be deployed, 2 when it has mistakes. Example: towpath topology check topology.toml
    """
    try:
        topology, warnings = _sound(file, environments or [])
    except InvalidTopology as error:
        if not as_json:
            raise
        print_json({"file": str(file), "mistakes": _told(error.mistakes), "warnings": []})
        raise typer.Exit(2) from error
    if as_json:
        facts = {"topics": _topics(topology), "subscriptions": _subscriptions(topology)}
        print_json({"file": str(file), "mistakes": [], "warnings": _told(warnings), **facts})
        return
    _print_rows(_topics(topology))
    _print_rows(_subscriptions(topology))
    if warnings:
        print_table(["line", "key", "warning"], [(w.line, w.path, w.problem) for w in warnings])
    print_sentence(f"{file} has no mistakes{', but see the warnings above' if warnings else ''}.")


def _sound(file: Path, environments: Sequence[str]) -> tuple[Topology, list[Mistake]]:
    """The topology and its warnings. Raises ``InvalidTopology``, also about what shows only when it is rendered."""
    read = read_topology(file)
    foresight = foresee(read.topology, environments)
    if foresight.mistakes:
        raise InvalidTopology(str(file), read.placed(foresight.mistakes))
    return read.topology, read.placed([*read.warnings(), *foresight.warnings])


def _told(mistakes: Sequence[Mistake]) -> list[Any]:
    return [{"path": mistake.path, "problem": mistake.problem, "line": mistake.line} for mistake in mistakes]


def _topics(topology: Topology) -> list[dict[str, str | None]]:
    return [
        {
            "topic": name,
            "transport": topic.transport,
            "type": "FIFO" if topology.is_fifo(name) else None,
            "status": topic.status,
        }
        for name, topic in topology.topics.items()
    ]


def _subscriptions(topology: Topology) -> list[dict[str, str | None]]:
    return [
        {
            "subscription": name,
            "topic": s.topic,
            "host": topology.host_of(s),
            "partition_mode": s.partition_mode,
            "handler": s.handler,
            "status": s.status,
        }
        for name, s in topology.subscriptions.items()
    ]


def _print_rows(rows: Sequence[dict[str, str | None]]) -> None:
    if rows:
        print_table([heading.replace("_", " ") for heading in rows[0]], [list(row.values()) for row in rows])


def _schema() -> None:
    """Print the JSON Schema of topology files, for editors. Example: towpath topology schema > topology.schema.json"""
    print_json(topology_schema())


topology = topology_commands()
