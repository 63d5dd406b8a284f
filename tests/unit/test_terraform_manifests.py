"""The manifests beside the Terraform module are what Towpath renders, so that its tests and examples are about that."""

import pytest

from tests.terraform.__main__ import FOLDERS, manifests


@pytest.mark.parametrize(("file", "text"), [pytest.param(*kept, id=kept[0].name) for kept in manifests()])
def test_the_module_s_manifests_are_rendered_by_this_towpath(file, text):
    assert file.read_text(encoding="utf-8") == text, "python -m tests.terraform writes it anew"


def test_every_manifest_beside_the_module_is_looked_at():
    assert {file for folder in FOLDERS for file in folder.glob("*.json")} == {file for file, _ in manifests()}
