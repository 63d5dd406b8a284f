"""Names that a shell may complete: none of what anybody may have written into a manifest does harm."""

import json
import os

import pytest

from towpath.cli.known import subscriptions_of_manifest


class Context:
    def __init__(self, manifest):
        self.params = {"manifest": manifest}


def test_only_names_are_completed(tmp_path):
    file = tmp_path / "manifest.json"
    odd = ["orders.bill", "orders.$(touch x)", "orders.`x`", "orders.a b", "orders.\n", "orders.*", "orders.\x1b[31m"]
    file.write_text(json.dumps({"subscriptions": dict.fromkeys(odd)}))
    assert subscriptions_of_manifest(Context(file), "orders.") == ["orders.bill"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "[" * 100_000, "{", "5", '{"subscriptions": 5}', '{"subscriptions": [5]}', '{"topics": {}}', "\ud800"],
)
def test_a_manifest_that_is_none_has_no_names(tmp_path, text):
    (tmp_path / "manifest.json").write_bytes(text.encode(errors="surrogatepass"))
    assert subscriptions_of_manifest(Context(tmp_path / "manifest.json"), "") == []


def test_what_is_no_file_holds_up_no_shell(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "missing", "a" * 300):
        assert subscriptions_of_manifest(Context(tmp_path / name), "") == []
