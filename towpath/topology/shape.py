"""Each key by itself: that it is known, there when it must be, and holds what the model of its table allows.

The model finds what is wrong; what is allowed is read from its JSON Schema, so that the words are Towpath's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from towpath.errors import nearest
from towpath.topology.findings import Finding, Path, independent, shown
from towpath.topology.models import BackOffTable, LambdaTable, Subscription, Table, Topic, Topology
from towpath.topology.plain import plain

Schema = Mapping[str, Any]

_TABLES: Final[Mapping[str, type[Table]]] = {
    "the file": Topology,
    "a topic": Topic,
    "a subscription": Subscription,
    "the backoff table": BackOffTable,
    "the lambda table": LambdaTable,
}
# Each of these is easily taken for another one, so that a misspelling is likelier than a wrong table.
_NEVER_MISPLACED: Final = frozenset({"subscriptions", "topic", "topics"})
_EXAMPLES: Final[Mapping[str, str]] = {"name": 'name = "shop"', "topic": 'topic = "orders"'}


def read_shape(document: Mapping[str, Any]) -> tuple[Topology, list[Finding]]:
    """The topology that ``document`` is, and what is wrong in it key by key.

    Where something is wrong the topology has the default instead (empty text where there is none), so that the rest
    can still be checked.
    """
    keys, findings = plain(document)
    try:
        return Topology.model_validate(keys), findings
    except ValidationError as error:
        findings += independent(_findings(error, keys), [finding.doubts for finding in findings])
    return _without_faults(keys), findings


def _without_faults(keys: dict[str, Any]) -> Topology:
    """The topology without what is wrong in ``keys``, which are used up."""
    while True:
        try:
            return Topology.model_validate(keys)
        except ValidationError as error:
            for fault in error.errors(include_url=False, include_context=False, include_input=False):
                _repair(keys, fault["loc"], is_missing=fault["type"] == "missing")


def _repair(keys: dict[str, Any], path: Path, *, is_missing: bool) -> None:
    table: Any = keys
    for key in path[:-1]:
        table = table[key]
    if is_missing:
        table[path[-1]] = ""
    elif _is_entry(path):
        table[path[-1]] = {}
    else:
        table.pop(path[-1], None)


def _is_entry(path: Path) -> bool:
    """Whether ``path`` leads to one topic or one subscription."""
    return len(path) == 2 and path[0] in ("topics", "subscriptions")


def _findings(error: ValidationError, keys: Schema) -> Iterator[Finding]:
    schema = Topology.model_json_schema()
    faults = [(f["type"], f["loc"]) for f in error.errors(include_url=False, include_context=False)]
    unknown = [_unknown(path, schema, keys) for kind, path in faults if kind == "extra_forbidden"]
    missing = [_missing(path) for kind, path in faults if kind == "missing"]
    yield from unknown
    yield from independent(missing, [finding.doubts for finding in unknown])
    for kind, path in faults:
        if kind not in ("extra_forbidden", "missing"):
            yield Finding(path=path, problem=_not_allowed(_schema_at(schema, path), _value_at(keys, path)))


def _missing(path: Path) -> Finding:
    return Finding(path=path, problem=f"is missing; write for instance: {_EXAMPLES[str(path[-1])]}")


# --- Keys that are not known -----------------------------------------------------------------------------------


def _unknown(path: Path, schema: Schema, keys: Schema) -> Finding:
    table, key = path[:-1], str(path[-1])
    known = sorted(_schema_at(schema, table)["properties"])
    near = nearest(key, known)
    if near is None and _is_entry(table) and isinstance(_value_at(keys, path), Mapping):
        example = f'[{table[0]}."{table[1]}.{key}"]'
        problem = f"is not a known table; a name with dots is written in quotes: {example}"
        doubtful = table if table[0] == "subscriptions" else table[:1]  # subscriptions name topics, nothing names them
        return Finding(path=path, problem=problem, doubts=doubtful)
    misplaced = _misplaced(table, key)
    if misplaced is not None:
        return Finding(path=path, problem=misplaced)
    if near is not None:
        doubts = (*table, near) if near != "subscriptions" else None  # nothing else speaks of those that are missing
        return Finding(path=path, problem=f"is not a known key; did you mean {near!r}?", doubts=doubts)
    return Finding(path=path, problem=f"is not a known key; known here are {', '.join(known)}")


def _misplaced(table: Path, key: str) -> str | None:
    """What is said of a key that stands in the wrong table."""
    elsewhere = [told for told, model in _TABLES.items() if key in _written_names(model)]
    if not elsewhere or key in _NEVER_MISPLACED:
        return None
    here = _told_table(table)
    problem = f"is no key of {here}, but of {' and of '.join(elsewhere)}"
    below = {"the backoff table": "backoff", "the lambda table": "lambda"}.get(elsewhere[0])
    return f"{problem}; write: {below} = {{ {key} = ... }}" if here == "a subscription" and below else problem


def _told_table(table: Path) -> str:
    if not table:
        return "the file"
    if len(table) == 3:
        return f"the {table[2]} table"
    return "a topic" if table[0] == "topics" else "a subscription"


def _written_names(model: type[Table]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


# --- Values that are not allowed -------------------------------------------------------------------------------


def _value_at(keys: Schema, path: Path) -> Any:
    value: Any = keys
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
    near = nearest(value, schema["enum"]) if "enum" in schema and isinstance(value, str) else None
    return f"{problem}; did you mean {shown(near)}?" if near is not None else problem


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
        return f"{noun} above {schema['exclusiveMinimum']:,}, at most {schema['maximum']:,}"
    if "minimum" in schema:
        return f"{noun} from {schema['minimum']:,} to {schema['maximum']:,}"
    return noun
