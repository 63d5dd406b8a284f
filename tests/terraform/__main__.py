"""Writes the manifests of the Terraform module's tests anew: ``python -m tests.terraform``.

Those beside a topology are its manifest. The others are ``single`` as a person might edit it by hand, and wrong.
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from towpath.resolve import resolve
from towpath.topology import load_topology

PROJECT = Path(__file__).parents[2]
FOLDERS = (
    PROJECT / "terraform/tests/manifests",
    PROJECT / "terraform/examples/basic",
    PROJECT / "terraform/examples/complete",
)
ENVIRONMENT = "test"


def manifests() -> Iterator[tuple[Path, str]]:
    """Every file that is kept, and what must be in it."""
    for folder in FOLDERS:
        for topology in sorted(folder.glob("*.toml")):
            name = "manifest.json" if topology.name == "topology.toml" else f"{topology.stem}.json"
            yield folder / name, resolve(load_topology(topology), ENVIRONMENT).to_json()
    single = json.loads(resolve(load_topology(FOLDERS[0] / "single.toml"), ENVIRONMENT).to_json())
    for edit in EDITS:
        edited = copy.deepcopy(single)
        edit(edited)
        text = json.dumps(edited, indent=2, sort_keys=True) + "\n"
        yield FOLDERS[0] / f"{edit.__name__.replace('_', '-')}.json", text


def of_version_2(manifest: dict[str, Any]) -> None:
    manifest["manifest_version"] = 2


def ordered_on_aws(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["partition_mode"] = "ordered"


def exclusive_on_standard(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["partition_mode"] = "exclusive"


def named_twice(manifest: dict[str, Any]) -> None:
    convert, index = (manifest["subscriptions"][name]["aws"] for name in ("documents.convert", "documents.index"))
    index["queue"]["name"] = convert["queue"]["name"]


def incomplete(manifest: dict[str, Any]) -> None:
    del manifest["subscriptions"]["documents.convert"]["aws"]["dead_letter_queue"]


def of_another_kind(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["aws"]["queue"]["visibility_timeout_seconds"] = "long"


def without_policies(manifest: dict[str, Any]) -> None:
    manifest["aws"] = None


def without_queues(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["aws"] = None


def without_mapping(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["aws"]["event_source_mapping"] = None


def without_topic(manifest: dict[str, Any]) -> None:
    manifest["topics"] = {}


def enveloped(manifest: dict[str, Any]) -> None:
    manifest["subscriptions"]["documents.convert"]["aws"]["sns_subscription"]["raw_message_delivery"] = False


EDITS: tuple[Callable[[dict[str, Any]], None], ...] = (
    of_version_2,
    ordered_on_aws,
    exclusive_on_standard,
    named_twice,
    incomplete,
    of_another_kind,
    without_policies,
    without_queues,
    without_mapping,
    without_topic,
    enveloped,
)

if __name__ == "__main__":
    for file, text in manifests():
        file.write_text(text, encoding="utf-8")
