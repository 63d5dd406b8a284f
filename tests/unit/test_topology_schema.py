"""The JSON Schema of topologies: it accepts what is right, and refuses what a schema can tell to be wrong."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from towpath.envelope import is_topic_name
from towpath.errors import InvalidTopology
from towpath.handler import is_handler_path
from towpath.topology import parse_topology, topology_schema

PROJECT = Path(__file__).parents[2]
VALIDATOR = Draft202012Validator(topology_schema())
TOPOLOGIES = [
    *sorted((PROJECT / "examples").rglob("topology*.toml")),
    *sorted((PROJECT / "tests" / "unit" / "golden").glob("*.toml")),
]


def test_it_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(topology_schema())


def test_the_committed_one_is_up_to_date() -> None:
    committed = (PROJECT / "docs" / "reference" / "topology.schema.json").read_text(encoding="utf-8")
    assert json.loads(committed) == topology_schema(), "run: python docs/reference/generate.py"


def test_there_are_topologies_to_look_at() -> None:
    assert len(TOPOLOGIES) >= 3


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_every_topology_of_examples_and_tests_is_valid_under_it(file: Path) -> None:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []


def tables(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    yield from schema["$defs"].values()


def test_every_key_has_a_description_and_no_key_that_is_not_there_is_allowed() -> None:
    for table in tables(topology_schema()):
        assert table["additionalProperties"] is False
        for key, schema in table["properties"].items():
            assert schema["description"].endswith("."), key
            assert "``" not in schema["description"]
            assert "\n" not in schema["description"]
            assert "title" not in schema


# --- Patterns say what the rules say ------------------------------------------------------------------------------


def accepts(document: Mapping[str, Any]) -> bool:
    return VALIDATOR.is_valid(document)


def with_handler(handler: object) -> dict[str, Any]:
    return {"name": "shop", "topics": {"t": {}}, "subscriptions": {"s": {"topic": "t", "handler": handler}}}


@given(st.from_regex(r"[a-z0-9._-]{1,12}", fullmatch=True) | st.text("aA0._- ä\n", max_size=8))
def test_names_are_those_of_the_rules(name: str) -> None:
    assert accepts({"name": "shop", "topics": {name: {}}}) == is_topic_name(name) or name.endswith("\n")
    assert not accepts({"name": "shop", "topics": {"x" * 201: {}}})


@given(st.from_regex(r"[A-Za-z_.:0-9]{1,12}", fullmatch=True) | st.text("aé0._:- ()/\n", max_size=9))
def test_handlers_are_those_of_the_rules(path: str) -> None:
    assert accepts(with_handler(path)) == is_handler_path(path) or path.endswith("\n")


def test_patterns_mean_the_same_in_the_dialect_of_json_schema() -> None:
    """ECMA-262 knows ``\\w`` for ASCII alone, and Python's names do not stop there."""
    text = json.dumps(topology_schema())
    assert "\\\\w" not in text
    assert accepts(with_handler("größe.año:läuft"))


# --- What is wrong in both ---------------------------------------------------------------------------------------


def broken(topic: object = None, subscription: object = None, **root: object) -> dict[str, Any]:
    written = {"topic": "t", "handler": "app:run", **(subscription if isinstance(subscription, dict) else {})}
    return {
        "name": "shop",
        "topics": {"t": {} if topic is None else topic},
        "subscriptions": {"s": written if subscription is None or isinstance(subscription, dict) else subscription},
        **root,
    }


BROKEN: dict[str, dict[str, Any]] = {
    "no name": {"topics": {}},
    "name": broken(name="Shop"),
    "long name": broken(name="x" * 21),
    "name of another type": broken(name=3),
    "root key": broken(topc={}),
    "topics in a list": broken(topics=[{"name": "t"}]),
    "topic name": broken(topics={"t": {}, "T": {}}),
    "topic that is no table": broken("aws"),
    "topic key": broken({"fare": True}),
    "transport": broken({"transport": "asw"}),
    "max_payload_bytes": broken({"max_payload_bytes": 511}),
    "max_payload_bytes above": broken({"max_payload_bytes": 261_121}),
    "a fraction": broken({"max_payload_bytes": 1000.5}),
    "retention_days": broken({"retention_days": 0}),
    "retention_days on aws": broken({"retention_days": 15}),
    "retention_days on a database": broken({"transport": "database", "retention_days": 3_651}),
    "a number for true": broken({"fair": 1}),
    "text for true": broken({"fifo": "true"}),
    "fifo on a database": broken({"transport": "database", "fifo": False}),
    "fair on a database": broken({"transport": "database", "fair": True}),
    "no deduplication on a database": broken({"transport": "database", "deduplication": False}),
    "fair and fifo": broken({"fair": True, "fifo": True}),
    "deduplication_ttl_seconds": broken({"deduplication_ttl_seconds": 59}),
    "topic status": broken({"status": "paused"}),
    "subscription name": broken(subscriptions={"a b": {"topic": "t", "handler": "app:run"}}),
    "subscription that is no table": broken(subscription="t"),
    "no topic": broken(subscriptions={"s": {"handler": "app:run"}}),
    "no handler": broken(subscriptions={"s": {"topic": "t"}}),
    "no handler by null": broken(subscription={"handler": None}),
    "no handler of a worker": broken(subscriptions={"s": {"topic": "t", "host": "worker"}}),
    "handler": broken(subscription={"handler": "app.run"}),
    "handler of an external consumer": broken(subscription={"host": "external"}),
    "paused external consumer": broken(subscriptions={"s": {"topic": "t", "host": "external", "status": "paused"}}),
    "host": broken(subscription={"host": "lambada"}),
    "partition_mode": broken(subscription={"partition_mode": "exclusiv"}),
    "subscription status": broken(subscription={"status": "off"}),
    "max_attempts": broken(subscription={"max_attempts": 0}),
    "max_attempts above": broken(subscription={"max_attempts": 996}),
    "lease_seconds": broken(subscription={"lease_seconds": 4}),
    "lease_seconds above": broken(subscription={"lease_seconds": 43_201}),
    "heartbeat": broken(subscription={"heartbeat": True}),
    "max_processing_seconds": broken(subscription={"max_processing_seconds": 0}),
    "max_processing_seconds above": broken({"transport": "database"}, {"max_processing_seconds": 2_592_000.5}),
    "dead_letter_retention_days": broken(subscription={"dead_letter_retention_days": 0}),
    "backoff": broken(subscription={"backoff": 3}),
    "backoff key": broken(subscription={"backoff": {"base": 3}}),
    "base_seconds": broken(subscription={"backoff": {"base_seconds": -0.5}}),
    "max_seconds": broken(subscription={"backoff": {"max_seconds": 43_201}}),
    "filter": broken(subscription={"filter": "pdf"}),
    "filter without keys": broken(subscription={"filter": {}}),
    "filter of six keys": broken(subscription={"filter": {f"k{n}": ["v"] for n in range(6)}}),
    "filter without conditions": broken(subscription={"filter": {"kind": []}}),
    "filter of a value alone": broken(subscription={"filter": {"kind": "pdf"}}),
    "lambda key": broken(subscription={"lambda": {"memory": 512}}),
    "timeout_seconds": broken(subscription={"lambda": {"timeout_seconds": 1}}),
    "timeout_seconds above": broken(subscription={"lambda": {"timeout_seconds": 901}}),
    "memory_mb": broken(subscription={"lambda": {"memory_mb": 127}}),
    "architecture": broken(subscription={"lambda": {"architecture": "arm"}}),
    "runtime": broken(subscription={"lambda": {"runtime": "python3.9"}}),
    "maximum_concurrency": broken(subscription={"lambda": {"maximum_concurrency": 1}}),
    "batch_size": broken(subscription={"lambda": {"batch_size": 0}}),
    "batch_window_seconds": broken(subscription={"lambda": {"batch_window_seconds": 301}}),
    "concurrency": broken(subscription={"lambda": {"concurrency": 1_001}}),
}


def test_what_the_broken_ones_are_made_of_is_right() -> None:
    assert accepts(broken())
    assert parse_topology(broken())


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_wrong_for_the_schema_is_wrong_for_the_parser_too(kind: str) -> None:
    assert not accepts(BROKEN[kind])
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(BROKEN[kind])
    assert len(caught.value.mistakes) == 1


RIGHT: dict[str, dict[str, Any]] = {
    "null for what may be left out": broken({"fifo": None, "deduplication": None}, {"filter": None, "host": None}),
    "external consumer": broken(subscriptions={"s": {"topic": "t", "host": "external", "handler": None}}),
    "on a database": broken({"transport": "database", "retention_days": 3_650, "fair": False, "deduplication": True}),
    "nulls on a database": broken({"transport": "database", "fifo": None, "deduplication": None}),
    "at most": broken(
        {"max_payload_bytes": 261_120, "retention_days": 14, "fifo": True},
        {"max_attempts": 995, "lease_seconds": 43_200, "filter": {f"k{n}": ["v"] for n in range(5)}},
    ),
    "at least": broken(
        {"max_payload_bytes": 512, "retention_days": 1, "deduplication_ttl_seconds": 60},
        {"max_attempts": 1, "lease_seconds": 5, "max_processing_seconds": 0.1, "backoff": {"base_seconds": 0}},
    ),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_right_for_the_parser_is_right_for_the_schema_too(kind: str) -> None:
    assert parse_topology(RIGHT[kind])
    assert accepts(RIGHT[kind])
