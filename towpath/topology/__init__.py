"""The topology: what a person writes in ``topology.toml``, read and checked whole before anything else happens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.errors import InvalidTopology, Mistake
from towpath.json_values import shown
from towpath.topology.files import read_document
from towpath.topology.findings import Finding, LineOf, independent, mistakes_of, no_lines, placed
from towpath.topology.lines import line_finder
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
from towpath.topology.rules import RULES, WARNINGS, is_prefix_name
from towpath.topology.schema import topology_schema
from towpath.topology.shape import read_shape

__all__ = [
    "BackOffTable",
    "Host",
    "LambdaTable",
    "Runtime",
    "Subscription",
    "Topic",
    "Topology",
    "TopologyFile",
    "TransportName",
    "is_prefix_name",
    "load_topology",
    "parse_topology",
    "read_topology",
    "topology_schema",
    "warnings_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyFile:
    """A topology without mistakes, and where its keys stand in the file that it was read from."""

    path: Path
    topology: Topology
    line_of: LineOf

    def warnings(self) -> list[Mistake]:
        """What is allowed and probably not wanted, with its lines."""
        return placed(warnings_of(self.topology), self.line_of)

    def placed(self, mistakes: Iterable[Mistake]) -> list[Mistake]:
        """Mistakes that show later, when the topology is resolved, with their lines."""
        return placed(mistakes, self.line_of)


def read_topology(path: str | Path) -> TopologyFile:
    """Read the file at ``path``: JSON when its name ends in ``.json``, TOML otherwise.

    Raises ``InvalidTopology`` about that file with every mistake in it and the line of each.
    """
    document = read_document(Path(path))
    line_of = line_finder(document.places)
    topology = _checked(document.keys, document.findings, str(path), line_of)
    return TopologyFile(path=Path(path), topology=topology, line_of=line_of)


def load_topology(path: str | Path) -> Topology:
    """The topology in the file at ``path``. Raises ``InvalidTopology`` as ``read_topology`` does."""
    return read_topology(path).topology


def parse_topology(document: Mapping[str, Any], source: str = "the topology") -> Topology:
    """Check a document with the keys of ``topology.toml``. Raises ``InvalidTopology`` about ``source``."""
    given: object = document  # whatever the caller read from somewhere
    if not isinstance(given, Mapping):
        problem = f"must be a table with the keys of topology.toml, not {shown(given)}"
        raise InvalidTopology(source, [Mistake(path="", problem=problem)])
    return _checked(document, (), source, no_lines)


def _checked(document: Mapping[str, Any], found: Iterable[Finding], source: str, line_of: LineOf) -> Topology:
    topology, findings = read_shape(document)
    findings = [*found, *findings]
    for rule in RULES:  # in their order: what breaks one rule is in doubt for those after it
        doubtful = [path for finding in findings for path in (finding.path, finding.doubts)]
        findings.extend(independent(rule(topology), doubtful))
    if findings:
        raise InvalidTopology(source, mistakes_of(findings, line_of))
    return topology


def warnings_of(topology: Topology) -> list[Mistake]:
    """What is allowed and probably not wanted."""
    return mistakes_of((finding for rule in WARNINGS for finding in rule(topology)), no_lines)
