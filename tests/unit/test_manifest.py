"""The manifest as a file: strict, canonical, light to import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import InvalidManifest
from towpath.manifest import Manifest

GOLDEN = Path(__file__).parent / "golden" / "documents.json"


def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def mistakes(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InvalidManifest) as caught:
        Manifest.from_json(json.dumps(document))
    return [str(mistake) for mistake in caught.value.mistakes]


def test_a_manifest_is_loaded_from_its_file() -> None:
    manifest = Manifest.load(GOLDEN)
    assert (manifest.name, manifest.environment, manifest.manifest_version) == ("documents", "prod", 1)
    assert manifest.to_json() == GOLDEN.read_text(encoding="utf-8")


def test_a_manifest_is_text_with_sorted_keys_and_ends_in_a_newline() -> None:
    text = Manifest.load(GOLDEN).to_json()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_another_manifest_version_is_refused() -> None:
    assert mistakes(document() | {"manifest_version": 2}) == ["manifest_version: must be 1, not 2"]


def test_every_mistake_of_a_manifest_is_told_at_its_path() -> None:
    written = document()
    subscription = written["subscriptions"]["documents.convert"]
    subscription["aws"]["queue"]["max_receive_count"] = "10"
    subscription["aws"]["alarms"][1]["threshold"] = None
    del subscription["aws"]["function"]["alias"]
    subscription["partition_mode"] = "both"
    written["topics"]["documents.process"]["colour"] = "red"
    assert mistakes(written) == [
        'topics."documents.process".colour: is not a known key',
        "subscriptions.\"documents.convert\".partition_mode: must be 'none' or 'exclusive' or 'ordered', not 'both'",
        "subscriptions.\"documents.convert\".aws.queue.max_receive_count: must be a whole number, not '10'",
        'subscriptions."documents.convert".aws.function.alias: is missing',
        'subscriptions."documents.convert".aws.alarms[1].threshold: must be a number, not None',
    ]


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


@pytest.mark.parametrize("module", ["towpath", "towpath.manifest", "towpath.function_settings"])
def test_importing_it_loads_nothing_but_the_standard_library(module: str) -> None:
    code = f"import sys; before = set(sys.modules); import {module}; print(*(set(sys.modules) - before))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    top = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert top == {"towpath"}
