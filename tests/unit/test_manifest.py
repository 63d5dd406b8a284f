"""The manifest as a file: strict, canonical, light to import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.golden.__main__ import ENVIRONMENT, TOPOLOGIES, golden, rendered
from towpath.errors import InvalidManifest
from towpath.manifest import Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.topology import Topology, load_topology

GOLDEN = Path(__file__).parent / "golden" / "documents.json"
EVERY_GOLDEN = pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def mistakes(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidManifest) as caught:
        Manifest.from_json(json.dumps(document))
    return [str(mistake) for mistake in caught.value.mistakes]


# --- Written ----------------------------------------------------------------------------------------------------


@EVERY_GOLDEN
def test_a_manifest_is_rendered_byte_for_byte_as_before(file: Path) -> None:
    kept, text = golden(file)
    assert text == kept.read_text(encoding="utf-8"), "if that is meant: python -m tests.unit.golden"


def test_there_are_six_golden_manifests_and_the_largest_has_sixty_subscriptions_on_aws() -> None:
    assert len(TOPOLOGIES) == 6
    counts = [len([s for s in resolve(load_topology(f), "prod").subscriptions.values() if s.aws]) for f in TOPOLOGIES]
    assert (min(counts), max(counts)) == (0, 60)


def test_the_golden_topologies_use_every_key() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in TOPOLOGIES)
    schema = Topology.model_json_schema()
    keys = {key for table in schema["$defs"].values() for key in table["properties"]}
    assert sorted(key for key in keys if key not in text) == []


def test_a_manifest_is_text_with_sorted_keys_and_ends_in_a_newline() -> None:
    text = Manifest.load(GOLDEN).to_json()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# --- Read -------------------------------------------------------------------------------------------------------


def test_a_manifest_is_loaded_from_its_file() -> None:
    manifest = Manifest.load(GOLDEN)
    assert (manifest.name, manifest.environment, manifest.manifest_version) == ("documents", ENVIRONMENT, 1)
    assert manifest.to_json() == GOLDEN.read_text(encoding="utf-8")


@EVERY_GOLDEN
def test_a_manifest_comes_back_from_its_text_as_it_was_and_the_text_from_the_manifest(file: Path) -> None:
    text, topology = rendered(file), load_topology(file)
    manifest = Manifest.from_json(text)
    assert manifest == resolve(topology, ENVIRONMENT)
    assert manifest.to_json() == text
    on_database = resolve(with_all_on_database(topology), "dev")
    assert Manifest.from_json(on_database.to_json()) == on_database


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_manifest_version_is_one_sentence_that_says_what_to_do(version: int) -> None:
    written = {"manifest_version": version, "name": 1, "colour": "red"}
    (told,) = mistakes(written)
    assert told == (
        f"manifest_version: is {version}, and this version of Towpath reads 1; use the Towpath that wrote it, "
        "or render the manifest again with this one: 'towpath manifest render'"
    )


@pytest.mark.parametrize("version", [True, "1", 1.0, {}])
def test_a_manifest_version_that_is_no_number_of_a_version_is_a_mistake_like_others(version: object) -> None:
    assert mistakes(document() | {"manifest_version": version, "colour": "red"}) == [
        "colour: is not a known key",
        f"manifest_version: must be 1, not {json.dumps(version)}",
    ]


def test_a_key_that_a_newer_version_may_know_is_a_mistake() -> None:
    """A rule that a reader does not know would not be kept, so it is not passed over."""
    written = document()
    written["subscriptions"]["documents.convert"]["schedule"] = "daily"
    assert mistakes(written) == ['subscriptions."documents.convert".schedule: is not a known key']


def test_a_default_is_written_out_or_missing() -> None:
    written = document()
    del written["subscriptions"]["documents.convert"]["backoff"]["max_seconds"]
    assert mistakes(written) == ['subscriptions."documents.convert".backoff.max_seconds: is missing']


def test_every_mistake_of_a_manifest_is_told_at_its_path() -> None:
    written = document()
    subscription = written["subscriptions"]["documents.convert"]
    subscription["aws"]["queue"]["max_receive_count"] = "10"
    subscription["aws"]["alarms"]["time-outs"]["threshold"] = None
    del subscription["aws"]["function"]["alias"]
    subscription["partition_mode"] = "both"
    written["topics"]["documents.process"]["colour"] = "red"
    assert mistakes(written) == [
        'topics."documents.process".colour: is not a known key',
        'subscriptions."documents.convert".partition_mode: must be "none" or "exclusive" or "ordered", not "both"',
        'subscriptions."documents.convert".aws.queue.max_receive_count: must be a whole number, not "10"',
        'subscriptions."documents.convert".aws.function.alias: is missing',
        'subscriptions."documents.convert".aws.alarms.time-outs.threshold: must be a whole number, not null',
    ]


@pytest.mark.parametrize("text", ["", "[]", "null", '"text"', "{}", '{"name": "a", "name": "b"}', "NaN"])
def test_what_is_no_manifest_at_all_is_refused_with_the_library_s_own_error(text: str) -> None:
    with pytest.raises(InvalidManifest, match=r"^the manifest "):
        Manifest.from_json(text)


# --- Files ------------------------------------------------------------------------------------------------------


def test_mistakes_of_a_file_are_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(document() | {"colour": "red"}), encoding="utf-8")
    with pytest.raises(InvalidManifest) as caught:
        Manifest.load(tmp_path / "m.json")
    assert str(caught.value) == f"{tmp_path / 'm.json'} has 1 mistake:\n  colour: is not a known key"


def test_a_missing_manifest_is_one_sentence_that_says_what_writes_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest) as caught:
        Manifest.load(tmp_path / "none.json")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'none.json'} cannot be read: ")
    assert message.endswith("'towpath manifest render' writes it")
    assert "\n" not in message


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(b"\xff")
    with pytest.raises(InvalidManifest, match="is not UTF-8 text"):
        Manifest.load(tmp_path / "manifest.json")


@pytest.mark.parametrize(("name", "text"), [("t.toml", 'name = "shop"'), ("t.json", '{"name": "shop", "topics": {}}')])
def test_a_topology_in_place_of_its_manifest_is_told_apart(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidManifest) as caught:
        Manifest.load(file)
    told = f"{file} is a topology; its manifest is wanted, write it with 'towpath manifest render {file} -e NAME'"
    assert str(caught.value) == told


@pytest.mark.parametrize("module", ["towpath", "towpath.manifest", "towpath.function_settings"])
def test_importing_it_loads_nothing_but_the_standard_library(module: str) -> None:
    code = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    top = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert top == {"towpath"}
