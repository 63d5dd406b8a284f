"""Nothing changes silently: every place of a manifest, edited alone, is told; and of any two, every difference."""

import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.golden.__main__ import FOLDER, TOPOLOGIES
from tests.unit.resolving import topology
from towpath.changes import IMPACTS, aws, changes
from towpath.changes.deployment import MANIFEST_RULES, deployment_rules
from towpath.changes.differences import differences
from towpath.changes.permissions import Resources
from towpath.changes.rules import Rule
from towpath.changes.subscriptions import HANDLING
from towpath.changes.topics import RULES as TOPIC_RULES
from towpath.manifest import Manifest
from towpath.records import key_path
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology

EVERYTHING = resolve(load_topology(FOLDER / "everything.toml"), "prod")
DATABASE = resolve(load_topology(FOLDER / "database.toml"), "prod")


def edits(value: Any, wanted: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every copy of ``value`` that differs from it in one place, as its type ``wanted`` allows, with that place."""
    if type(None) in typing.get_args(wanted):
        (wanted,) = (argument for argument in typing.get_args(wanted) if argument is not type(None))
        if value is not None:
            yield path, None
    if is_dataclass(value):
        hints = typing.get_type_hints(type(value))
        for field in fields(value):
            for place, edited in edits(getattr(value, field.name), hints[field.name], (*path, field.name)):
                yield place, replace(value, **{field.name: edited})
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), {k: v for k, v in value.items() if k != key}
            held = Any if wanted is Any else typing.get_args(wanted)[1]
            for place, edited in edits(item, held, (*path, key)):
                yield place, {**value, key: edited}
    elif isinstance(value, tuple):
        yield from ((path, value[:n] + value[n + 1 :]) for n in range(len(value)))
        yield from [(path, value[::-1])] * (len(value) > 1)
        for n, item in enumerate(value):
            for _, edited in edits(item, typing.get_args(wanted)[0]):
                yield path, (*value[:n], edited, *value[n + 1 :])
    else:
        yield from ((path, other) for other in others(value, wanted))


def others(value: Any, wanted: Any) -> list[Any]:
    """Other values of the type. What can only be one value today is another in a newer Towpath's."""
    if typing.get_origin(wanted) is typing.Literal:
        return [other for other in typing.get_args(wanted) if other != value] or [f"not {value}"]
    if wanted is bool:
        return [not value]
    if wanted in (int, float):
        return [(value or 0) + 1, (value or 2) - 1]
    return ["another"] if wanted in (str, Any) else []


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_between_a_manifest_and_itself_nothing_changes(file: Path) -> None:
    manifest = resolve(load_topology(file), "prod")
    assert changes(manifest, manifest) == ()
    assert changes(manifest, Manifest.from_json(manifest.to_json())) == ()


@pytest.mark.parametrize("manifest", [EVERYTHING, DATABASE], ids=["everything", "database"])
def test_every_place_of_a_manifest_edited_alone_is_told_in_one_change(manifest: Manifest) -> None:
    count = 0
    for place, edited in edits(manifest, Manifest):
        old, new = (manifest, edited) if count % 2 else (edited, manifest)
        (change,) = changes(old, new)
        assert change.sentence, place
        assert change.impact in IMPACTS
        assert all(path.startswith(key_path(place)) for path in change.paths), place
        count += 1
    assert count > 100


PLACES: list[dict[str, Any]] = [
    {},
    {"partition_mode": "exclusive"},
    {"host": "worker"},
    {"host": "external"},
    {"status": "paused"},
    {"status": "disabled"},
    {"filter": {"kind": ["a"]}},
    {"max_attempts": 3, "backoff": {"base_seconds": 1, "max_seconds": 5}},
    {"lease_seconds": 700, "heartbeat": "manual", "max_processing_seconds": 30},
    {"accept_foreign": False, "dead_letter_retention_days": 2},
    {"lambda": {"timeout_seconds": 300, "batch_size": 3, "architecture": "x86_64", "maximum_concurrency": 9}},
]
TOPICS: list[dict[str, Any]] = [
    {},
    {"fifo": True},
    {"deduplication": True, "deduplication_ttl_seconds": 60},
    {"retention_days": 3, "status": "disabled", "external_publish": True, "max_payload_bytes": 2_000},
    {"transport": "database"},
]
CHOSEN = st.tuples(
    st.sampled_from(TOPICS),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(PLACES)),
    st.sampled_from(["prod", "dev"]),
)


def manifest_of(chosen: tuple[dict[str, Any], dict[str, dict[str, Any]], str]) -> Manifest:
    topic, subscriptions, environment = chosen
    on_database = topic.get("transport") == "database"
    fitting = {
        name: {key: value for key, value in keys.items() if not (on_database and key in ("host", "lambda"))}
        for name, keys in subscriptions.items()
    }
    return resolve(topology(topic, **fitting), environment)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(CHOSEN, CHOSEN)
def test_of_any_two_manifests_every_difference_is_in_exactly_one_change(one: Any, other: Any) -> None:
    old, new = manifest_of(one), manifest_of(other)
    told = [path for change in changes(old, new) for path in change.paths]
    different = [key_path(difference.path) for difference in differences(old, new)]
    assert sorted(told) == sorted(different)
    assert all(change.sentence for change in changes(old, new))


# --- The rules themselves ----------------------------------------------------------------------------------------

RESOURCES = Resources.of(EVERYTHING, EVERYTHING)
SUBSCRIPTION_RULES = (*HANDLING, *aws.rules(RESOURCES))


def places(*records: Any) -> list[str]:
    """All places of the records, dotted, those of records within them too."""
    found: list[str] = []

    def visit(value: Any, path: tuple[str, ...]) -> None:
        found.append(".".join(path))
        if is_dataclass(value) and not isinstance(value, type):
            for field in fields(value):
                visit(getattr(value, field.name), (*path, field.name))
        elif isinstance(value, dict):
            for key, item in [*value.items(), ("another", None)]:
                visit(item, (*path, key))
        elif isinstance(value, tuple):
            found.append(".".join((*path, "called")))

    for record in records:
        visit(record, ())
    return found


KINDS: dict[str, tuple[tuple[Rule, ...], list[str]]] = {
    "manifest": (MANIFEST_RULES, places(EVERYTHING)),
    "topic": (TOPIC_RULES, places(*EVERYTHING.topics.values())),
    "subscription": (SUBSCRIPTION_RULES, places(*EVERYTHING.subscriptions.values())),
    "aws": (deployment_rules(RESOURCES), places(EVERYTHING.aws)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_speaks_of_something_and_follows_something(kind: str) -> None:
    rules, own = KINDS[kind]
    for rule in rules:
        for pattern in rule.paths:
            spoken_of = [path for path in own if fnmatchcase(path, pattern)]
            assert any(
                next(r for r in rules if any(fnmatchcase(path, p) for p in r.paths)) is rule for path in spoken_of
            ), pattern
        for follows in rule.follows:
            where, _, pattern = follows.rpartition(":")
            assert any(fnmatchcase(path, pattern) for path in KINDS[where or kind][1]), follows


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_rule_speaks_of_everything(kind: str) -> None:
    assert KINDS[kind][0][-1].paths == ("*",)


def test_a_move_to_the_database_is_told_topic_by_topic() -> None:
    found = changes(EVERYTHING, resolve(with_all_on_database(load_topology(FOLDER / "everything.toml")), "prod"))
    moved = [change.name for change in found if change.kind == "topic"]
    assert sorted(moved) == ["orders", "orders.changes", "orders.imports"]
    assert {change.impact for change in found if change.kind == "topic"} == {"destructive"}
