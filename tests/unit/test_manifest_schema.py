"""The JSON Schema of the manifest: made of its records, committed, and true of every manifest."""

import importlib
import json
import py_compile
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.unit.golden.__main__ import TOPOLOGIES, rendered
from towpath.manifest import Manifest
from towpath.manifest.schema import manifest_schema, record_schema
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology

SCHEMA = manifest_schema()
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
COMMITTED = Path(__file__).parents[2] / "docs" / "reference" / "manifest.schema.json"
EVERY_GOLDEN = pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)


def everything() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(rendered(next(file for file in TOPOLOGIES if file.stem == "everything")))
    return found


def test_it_is_a_json_schema_and_says_of_which_version() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"] == "urn:towpath:manifest:1"
    assert SCHEMA["properties"]["manifest_version"]["enum"] == [1]


def test_the_committed_schema_is_the_one_of_the_code() -> None:
    assert COMMITTED.read_text(encoding="utf-8") == json.dumps(SCHEMA, indent=2, ensure_ascii=False) + "\n", (
        "run: towpath manifest schema > docs/reference/manifest.schema.json"
    )


@EVERY_GOLDEN
def test_every_golden_manifest_is_valid(file: Path) -> None:
    VALIDATOR.validate(json.loads(rendered(file)))
    VALIDATOR.validate(json.loads(resolve(with_all_on_database(load_topology(file)), "dev").to_json()))


def test_every_record_of_the_manifest_is_in_it_with_every_field_described() -> None:
    records = SCHEMA["$defs"] | {"Manifest": SCHEMA}
    assert {"Topic", "Subscription", "Queue", "Function", "BackOff", "Deployment", "Widget"} < set(records)
    for name, record in records.items():
        assert record["description"], name
        assert record["required"] == list(record["properties"]), name
        for key, held in record["properties"].items():
            assert held["description"].endswith((".", ")")), f"{name}.{key}"
    assert list(SCHEMA["properties"]) == [field.name for field in fields(Manifest)]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("manifest_version",), 2),
        (("colour",), "red"),
        (("topics", "orders", "transport"), "kafka"),
        (("topics", "orders", "aws", "fifo"), None),
        (("subscriptions", "orders.index", "max_attempts"), "5"),
        (("subscriptions", "orders.index", "max_attempts"), 5.5),
        (("subscriptions", "orders.index", "backoff", "max_seconds"), None),
        (("subscriptions", "orders.index", "aws", "queue", "redrive_allow"), "byNobody"),
        (("subscriptions", "orders.index", "aws", "alarms", "age"), {}),
        (("aws", "dashboard", "widgets"), {}),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(path: tuple[str, ...], value: object) -> None:
    written = at = everything()
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not VALIDATOR.is_valid(written)


def test_a_missing_key_is_refused() -> None:
    written = everything()
    del written["subscriptions"]["orders.index"]["handler"]
    assert not VALIDATOR.is_valid(written)


def test_null_is_for_what_may_be_missing() -> None:
    written = everything()
    written["subscriptions"]["orders.index"]["max_processing_seconds"] = None
    VALIDATOR.validate(written)


def test_without_its_source_at_hand_the_schema_lacks_only_descriptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where only compiled files are installed."""
    source = tmp_path / "towpath_test_record.py"
    source.write_text(
        'from dataclasses import dataclass\n@dataclass\nclass Made:\n    "Made."\n    key: int\n    "Key."\n'
    )
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    monkeypatch.syspath_prepend(tmp_path)
    assert record_schema(importlib.import_module("towpath_test_record").Made)["properties"] == {
        "key": {"type": "integer"}
    }
