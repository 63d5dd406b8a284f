"""What changes from one manifest to the next: told whole, in words, with what destroys something marked."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from towpath.cli.main import build_app
from towpath.manifest import Manifest
from towpath.manifest.diff import _RULES, _between, _general, compare
from towpath.resolve import resolve
from towpath.topology import parse_topology

GOLDEN = [f for f in sorted((Path(__file__).parent / "golden").glob("*.json")) if ".digests" not in f.name]
TOPIC, SUBSCRIPTION = ("topics", "documents.process"), ("subscriptions", "documents.convert")


def _manifest(topic=None, subscription=None, environment="prod", **changes):
    document = {
        "name": "documents",
        "topics": {TOPIC[1]: {"retention_days": 7, **(topic or {})}},
        "subscriptions": {SUBSCRIPTION[1]: {"topic": TOPIC[1], "handler": "app:convert", **(subscription or {})}},
        **changes,
    }
    return resolve(parse_topology(document), environment)


def _changes(old, new):
    return {change.path: change for change in compare(old, new)}


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_manifest_does_not_differ_from_itself(file):
    manifest = Manifest.load(file)
    assert compare(manifest, Manifest.load(file)) == []


def _leaves(path, value):
    if isinstance(value, dict) and value and _general(path) != ("subscriptions", "*", "filter_policy"):
        for key, inner in value.items():
            yield from _leaves((*path, key), inner)
    else:
        yield path


def _value(document, path):
    for key in path:
        document = document[key]
    return document


def _set(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def test_no_value_changes_silently():
    manifest = Manifest.load(next(file for file in GOLDEN if file.stem == "everything"))
    paths = list(_leaves((), asdict(manifest)))
    assert len(paths) > 500
    old, new = asdict(manifest), asdict(manifest)
    for path in paths:
        value = _value(old, path)
        _set(new, path, (1 if value == 0 else 0) if isinstance(value, int) else "changed")
        found = list(_between((), old, new))
        assert [change.path for change in found] == [path]
        assert found[0].sentence
        _set(new, path, value)


def test_every_rule_speaks_of_a_value_that_manifests_have():
    known = {_general(path) for file in GOLDEN for path in _leaves((), asdict(Manifest.load(file)))}
    assert set(_RULES) - known == set()


def test_a_subscription_that_is_removed_takes_its_queue_with_it():
    new = _manifest(subscriptions={})
    change = _changes(_manifest(), new)[SUBSCRIPTION]
    assert change.destructive
    assert change.sentence == "is removed: its queue and its dead letters are deleted with what they hold"


def test_on_a_database_a_removed_subscription_is_refused_while_deliveries_are_open():
    old = _manifest(topic={"transport": "database"})
    new = _manifest(topic={"transport": "database"}, subscriptions={})
    assert "refuses that while deliveries are open" in _changes(old, new)[SUBSCRIPTION].sentence


def test_a_topic_that_is_removed_is_destructive_and_a_new_one_is_not():
    other = {TOPIC[1]: {}, "documents.more": {}}
    old, new = _manifest(topics=other), _manifest()
    assert _changes(old, new)[("topics", "documents.more")].destructive
    assert not _changes(new, old)[("topics", "documents.more")].destructive


def test_a_new_subscription_gets_what_is_published_from_now_on():
    change = _changes(_manifest(subscriptions={}), _manifest())[SUBSCRIPTION]
    assert (change.sentence, change.destructive) == ("is new, and gets what is published from now on", False)


def test_another_partition_mode_is_destructive_and_so_are_the_queues_that_it_replaces():
    changes = _changes(_manifest(), _manifest(subscription={"partition_mode": "exclusive"}))
    for path in ((*SUBSCRIPTION, "partition_mode"), (*SUBSCRIPTION, "aws", "queue", "name"), (*TOPIC, "aws", "fifo")):
        assert changes[path].destructive


@pytest.mark.parametrize(("days", "destructive"), [(3, True), (9, False)])
def test_less_retention_is_destructive_and_more_is_not(days, destructive):
    changes = _changes(_manifest(), _manifest(topic={"retention_days": days}))
    assert changes[(*TOPIC, "retention_days")].destructive is destructive
    queue = (*SUBSCRIPTION, "aws", "queue", "message_retention_seconds")
    assert changes[queue].destructive is destructive


def test_dead_letters_that_are_kept_for_less_long_are_destroyed():
    old, new = _manifest(), _manifest(subscription={"dead_letter_retention_days": 10})
    assert _changes(old, new)[(*SUBSCRIPTION, "dead_letter_retention_days")].destructive
    assert not _changes(new, old)[(*SUBSCRIPTION, "dead_letter_retention_days")].destructive


def test_a_topic_that_moves_to_a_database_leaves_what_waits_behind():
    changes = _changes(_manifest(), _manifest(topic={"transport": "database"}, subscription={"host": "worker"}))
    assert changes[(*TOPIC, "transport")].destructive
    assert changes[(*SUBSCRIPTION, "transport")].destructive


def test_two_environments_have_nothing_in_common():
    change = _changes(_manifest(), _manifest(environment="test"))[("environment",)]
    assert (change.destructive, change.sentence) == (
        True,
        "is test instead of prod: this compares two deployments",
    )


def test_a_filter_is_told_whole_and_only_for_messages_to_come():
    changes = _changes(_manifest(), _manifest(subscription={"filter": {"kind": ["pdf"]}}))
    change = changes[(*SUBSCRIPTION, "filter_policy")]
    assert change.sentence.startswith('is {"kind": ["pdf"]} instead of unset, for messages published from now on')
    assert not change.destructive


def test_what_no_rule_speaks_of_is_told_as_it_was_and_as_it_becomes():
    changes = _changes(_manifest(), _manifest(subscription={"lambda": {"memory_mb": 1024}}))
    assert changes[(*SUBSCRIPTION, "aws", "function", "memory_mb")].sentence == "is 1,024 instead of 512"


@pytest.fixture
def files(tmp_path):
    def write(name, manifest):
        (tmp_path / name).write_text(manifest.to_json())
        return str(tmp_path / name)

    return write


def _diff(*arguments):
    done = CliRunner().invoke(build_app(), ["manifest", "diff", *arguments])
    return done.exit_code, done.stdout


def test_the_command_exits_1_for_a_destructive_change_only(files):
    old = files("old.json", _manifest())
    harmless = files("harmless.json", _manifest(subscription={"max_attempts": 7}))
    destructive = files("destructive.json", _manifest(subscriptions={}))
    assert _diff(old, old) == (0, "Nothing changes.\n")
    assert _diff(old, harmless)[0] == 0
    code, told = _diff(old, destructive)
    assert code == 1
    assert "destructive" in told


def test_the_command_has_json_for_programs(files):
    old, new = files("old.json", _manifest()), files("new.json", _manifest(subscription={"status": "paused"}))
    code, told = _diff(old, new, "--json")
    found = {entry["path"]: entry for entry in json.loads(told)}
    path = 'subscriptions."documents.convert".status'
    assert (code, found[path]["destructive"]) == (0, False)
    assert found[path]["change"].startswith("is paused, it was active")
