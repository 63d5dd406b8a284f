"""``render --all-on database``: the same topology for development and on-premises use, whatever it says of AWS."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.golden.__main__ import FOLDER, TOPOLOGIES
from tests.unit.resolving import DATABASE, EXCLUSIVE, topology
from towpath.manifest import Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import load_topology, parse_topology

EVERY_GOLDEN = pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
EVERYTHING = load_topology(FOLDER / "everything.toml")


def on_database(topic: dict[str, Any] | None = None, **keys: Any) -> Manifest:
    return resolve(with_all_on_database(topology(topic, s=keys)), "dev")


@EVERY_GOLDEN
def test_all_on_database_leaves_nothing_of_aws(file: Path) -> None:
    manifest = resolve(with_all_on_database(load_topology(file)), "dev")
    assert {topic.transport for topic in manifest.topics.values()} == {"database"}
    assert all(topic.aws is None for topic in manifest.topics.values())
    assert {(s.transport, s.host, s.aws) for s in manifest.subscriptions.values()} == {("database", "worker", None)}
    assert manifest.aws is None


@EVERY_GOLDEN
def test_all_on_database_is_a_topology_that_the_rules_accept(file: Path) -> None:
    changed = with_all_on_database(load_topology(file))
    assert parse_topology(changed.model_dump(by_alias=True, exclude_defaults=True)) == changed


@EVERY_GOLDEN
def test_all_on_database_changes_no_rule_of_handling(file: Path) -> None:
    written = load_topology(file)
    before, after = resolve(written, "dev"), resolve(with_all_on_database(written), "dev")
    for name, subscription in after.subscriptions.items():
        assert subscription.policy(name) == before.subscriptions[name].policy(name)
        assert subscription.filter_policy == before.subscriptions[name].filter_policy
        assert subscription.dead_letter_retention_days == before.subscriptions[name].dead_letter_retention_days
    for name, topic in after.topics.items():
        was = before.topics[name]
        assert (topic.status, topic.max_payload_bytes) == (was.status, was.max_payload_bytes)
        assert (topic.retention_days, topic.external_publish) == (was.retention_days, was.external_publish)
        assert topic.deduplication.ttl_seconds == was.deduplication.ttl_seconds


@EVERY_GOLDEN
def test_all_on_database_twice_is_once(file: Path) -> None:
    once = with_all_on_database(load_topology(file))
    assert with_all_on_database(once) == once


def test_external_subscriptions_stay_away_with_their_consumers() -> None:
    gone = set(EVERYTHING.subscriptions) - set(with_all_on_database(EVERYTHING).subscriptions)
    assert gone == {"orders.partner"}


def test_a_topic_without_other_subscriptions_than_external_ones_stays() -> None:
    manifest = on_database(host="external")
    assert (list(manifest.topics), manifest.subscriptions) == (["t"], {})


def test_ordered_subscriptions_stay_ordered() -> None:
    assert on_database(DATABASE, partition_mode="ordered").subscriptions["s"].partition_mode == "ordered"


def test_exclusive_subscriptions_stay_exclusive_and_their_topics_fifo_goes() -> None:
    manifest = on_database({"fifo": True}, **EXCLUSIVE)
    assert manifest.subscriptions["s"].partition_mode == "exclusive"
    assert manifest.topics["t"].aws is None


def test_none_on_a_fifo_topic_stays_none() -> None:
    assert on_database({"fifo": True}).subscriptions["s"].partition_mode == "none"


def test_fair_goes_with_sns() -> None:
    assert on_database({"fair": True}).topics["t"].transport == "database"


@pytest.mark.parametrize("deduplication", [True, False])
def test_deduplication_keys_are_always_taken(deduplication: bool) -> None:
    assert on_database({"deduplication": deduplication}).topics["t"].deduplication.enabled is True


def test_a_lambda_table_says_nothing_more() -> None:
    table = {"timeout_seconds": 900, "batch_size": 500, "batch_window_seconds": 5, "maximum_concurrency": 2}
    with_table, without = on_database(host="lambda", **{"lambda": table}), on_database()
    assert with_table == without


def test_a_retention_beyond_aws_is_kept() -> None:
    assert on_database({**DATABASE, "retention_days": 3_650}, dead_letter_retention_days=400) == resolve(
        topology({**DATABASE, "retention_days": 3_650}, s={"dead_letter_retention_days": 400}), "dev"
    )


def test_statuses_stay() -> None:
    manifest = on_database({"status": "disabled"}, status="paused")
    assert (manifest.topics["t"].status, manifest.subscriptions["s"].status) == ("disabled", "paused")
