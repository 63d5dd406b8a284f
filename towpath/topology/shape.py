"""Each key by itself: that it is known, there when it must be, and holds what the model of its table allows.

The model finds what is wrong; what is allowed is read from its JSON Schema, so that the words are Towpath's own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from towpath.topology.findings import Finding, Path, independent, shown
from towpath.topology.models import Topology

Schema = Mapping[str, Any]


def read_shape(document: Mapping[str, Any]) -> tuple[Topology, list[Finding]]:
    """The topology that ``document`` is, and what is wrong in it key by key.

    Where something is wrong the topology has the default instead (empty text where there is none), so that the rest
    can still be checked.
    """
    try:
        return Topology.model_validate(document), []
    except ValidationError as error:
        findings = list(_findings(error, document))
    return _without_faults(document), findings


def _without_faults(document: Mapping[str, Any]) -> Topology:
    repaired = copy.deepcopy(dict(document))
    while True:
        try:
            return Topology.model_validate(repaired)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                _repair(repaired, tuple(map(str, fault["loc"])), missing=fault["type"] == "missing")


def _repair(document: dict[str, Any], path: Path, *, missing: bool) -> None:
    table: Any = document
    for key in path[:-1]:
        table = table[key]
    if missing:
        table[path[-1]] = ""
    elif _is_entry(path):
        table[path[-1]] = {}
    else:
        table.pop(path[-1], None)


def _is_entry(path: Path) -> bool:
    """Whether ``path`` leads to one topic or one subscription."""
    return len(path) == 2 and path[0] in ("topics", "subscriptions")


def _findings(error: ValidationError, document: Mapping[str, Any]) -> Iterator[Finding]:
    schema = Topology.model_json_schema()
    faults = [(fault["type"], tuple(map(str, fault["loc"]))) for fault in error.errors(include_url=False)]
    unknown = [_unknown(path, schema, document) for kind, path in faults if kind == "extra_forbidden"]
    missing = [Finding(path=path, problem="is missing") for kind, path in faults if kind == "missing"]
    yield from unknown
    yield from independent(missing, [finding.meant for finding in unknown if finding.meant is not None])
    for kind, path in faults:
        if kind not in ("extra_forbidden", "missing"):
            yield Finding(path=path, problem=_not_allowed(_schema_at(schema, path), _value_at(document, path)))


def _unknown(path: Path, schema: Schema, document: Mapping[str, Any]) -> Finding:
    table, key = path[:-1], path[-1]
    if _is_entry(table) and isinstance(_value_at(document, path), Mapping):
        example = f'[{table[0]}."{table[1]}.{key}"]'
        problem = f"is not a known table; a name with dots is written in quotes: {example}"
        doubtful = table if table[0] == "subscriptions" else table[:1]  # subscriptions name topics, nothing names them
        return Finding(path=path, problem=problem, meant=doubtful)
    known = sorted(_schema_at(schema, table)["properties"])
    nearest = get_close_matches(key, known, n=1)
    if nearest:
        problem = f"is not a known key; did you mean {nearest[0]!r}?"
        return Finding(path=path, problem=problem, meant=(*table, nearest[0]))
    return Finding(path=path, problem=f"is not a known key; known here are {', '.join(known)}")


def _value_at(document: Mapping[str, Any], path: Path) -> Any:
    value: Any = document
    for key in path:
        value = value[key]
    return value


def _schema_at(schema: Schema, path: Path) -> Schema:
    found = schema
    for key in path:
        found = found["properties"][key] if key in found.get("properties", {}) else found["additionalProperties"]
        found = next((s for s in found.get("anyOf", ()) if s.get("type") != "null"), found)
        if "$ref" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]]
    return found


def _not_allowed(schema: Schema, value: object) -> str:
    problem = f"must be {_allowed(schema)}, not {shown(value)}"
    nearest = get_close_matches(value, schema["enum"], n=1) if "enum" in schema and isinstance(value, str) else ()
    return f"{problem}; did you mean {shown(nearest[0])}?" if nearest else problem


def _allowed(schema: Schema) -> str:
    if "enum" in schema:
        *others, last = map(shown, schema["enum"])
        return f"{', '.join(others)} or {last}"
    noun = {
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "object": "a table",
        "string": "text",
    }[schema["type"]]
    if "exclusiveMinimum" in schema:
        return f"{noun} above {schema['exclusiveMinimum']:,}"
    if "minimum" in schema:
        return f"{noun} from {schema['minimum']:,} to {schema['maximum']:,}"
    return noun
