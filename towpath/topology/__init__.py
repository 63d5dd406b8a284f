"""The topology: what a person writes in ``topology.toml``, read and checked whole before anything else happens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from towpath.errors import InvalidTopology, Mistake
from towpath.topology.files import no_lines, parse_json, parse_toml, read_text, toml_lines
from towpath.topology.findings import LineOf, independent, mistakes_of
from towpath.topology.models import (
    BackOffTable,
    Host,
    LambdaTable,
    Runtime,
    Subscription,
    Topic,
    Topology,
    TransportName,
)
from towpath.topology.rules import RULES, is_prefix_name, large_fifo_batches
from towpath.topology.shape import read_shape

__all__ = [
    "BackOffTable",
    "Host",
    "LambdaTable",
    "Runtime",
    "Subscription",
    "Topic",
    "Topology",
    "TransportName",
    "is_prefix_name",
    "load_topology",
    "parse_topology",
    "topology_schema",
    "warnings_of",
]


def load_topology(path: str | Path) -> Topology:
    """Read the file at ``path``: JSON when its name ends in ``.json``, TOML otherwise.

    Raises ``InvalidTopology`` about that file with every mistake in it, in TOML with their lines.
    """
    file, source = Path(path), str(path)
    text = read_text(file)
    if file.suffix == ".json":
        return _checked(parse_json(text, source), source, no_lines)
    return _checked(parse_toml(text, source), source, toml_lines(text))


def parse_topology(document: Mapping[str, Any], source: str = "the topology") -> Topology:
    """Check a document with the keys of ``topology.toml``. Raises ``InvalidTopology`` about ``source``."""
    return _checked(document, source, no_lines)


def _checked(document: Mapping[str, Any], source: str, line_of: LineOf) -> Topology:
    topology, findings = read_shape(document)
    for rule in RULES:  # in their order: what breaks one rule is in doubt for those after it
        doubtful = [path for finding in findings for path in (finding.path, finding.meant) if path is not None]
        findings.extend(independent(rule(topology), doubtful))
    if findings:
        raise InvalidTopology(source, mistakes_of(findings, line_of))
    return topology


def warnings_of(topology: Topology) -> list[Mistake]:
    """What is allowed and probably not wanted."""
    return mistakes_of(large_fifo_batches(topology), no_lines)


def topology_schema() -> dict[str, Any]:
    """The JSON Schema of the file, for editors. What keys mean together it cannot say; ``parse_topology`` does."""
    return Topology.model_json_schema()
