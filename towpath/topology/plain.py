"""What no key of a topology can hold, whichever it is. What is left, everything after this can bear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from towpath import limits
from towpath.json_values import is_text
from towpath.topology.findings import Finding, Path

_KEY_DEPTH: Final = 3  # topics, its name, its key
_INTEGER_BITS: Final = 64  # as TOML v1.0.0 says under "Integer"


def plain(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """A copy of ``document`` without what no key can hold, and a finding for each thing that was left out.

    The copy consists of dicts and lists of its own, at most ``TOPOLOGY_DEPTH`` in each other; its text has no half
    of a surrogate pair, and its whole numbers have 64 bits.
    """
    findings: list[Finding] = []
    return _table(document, (), findings), findings


def _table(table: Mapping[Any, Any], path: Path, findings: list[Finding]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in table.items():
        if not is_text(key):
            findings.append(_finding(path, f"has the key {key!a}, which is no text"))
        elif _is_kept(value, (*path, key), findings):
            kept[key] = _copy(value, (*path, key), findings)
    return kept


def _copy(value: object, path: Path, findings: list[Finding]) -> Any:
    if isinstance(value, Mapping):
        return _table(value, path, findings)
    if isinstance(value, list | tuple):
        items = [((*path, index), item) for index, item in enumerate(value)]
        return [_copy(item, at, findings) for at, item in items if _is_kept(item, at, findings)]
    return value


def _is_kept(value: object, path: Path, findings: list[Finding]) -> bool:
    fault = _fault(value, path)
    if fault is not None:
        findings.append(_finding(path, fault))
    return fault is None


def _finding(path: Path, problem: str) -> Finding:
    """What is left of the key of a table cannot be judged, however deep in it something was left out."""
    return Finding(path=path, problem=problem, doubts=path[:_KEY_DEPTH])


def _fault(value: object, path: Path) -> str | None:
    if isinstance(value, str) and not is_text(value):
        return f"is no text: {value!a} has half of a surrogate pair"
    if isinstance(value, int) and not -(1 << (_INTEGER_BITS - 1)) <= value < 1 << (_INTEGER_BITS - 1):
        return f"is a whole number of more than {_INTEGER_BITS} bits"
    if isinstance(value, Mapping | list | tuple) and len(path) >= limits.TOPOLOGY_DEPTH:
        return f"is deeper than {limits.TOPOLOGY_DEPTH} tables and lists in each other"
    return None
