"""Wrong input on the command line: a clear sentence, the documented exit code, and nothing lost or written."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]

TOPOLOGY = """
name = "shop"
[topics.orders]
max_payload_bytes = 1000
[subscriptions.ship]
topic = "orders"
handler = "shop:ship"
"""


@pytest.fixture
def shop(tmp_path):
    """A project with an applied topology and a handler."""
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    (tmp_path / "shop.py").write_text("def ship(message, context):\n    return None\n")
    run = runner(tmp_path)
    assert run("manifest", "render", "--environment", "test", "--all-on", "database").returncode == 0
    assert run("apply", "manifest.json", "--database", "sqlite:///shop.db").returncode == 0
    return run


def runner(folder):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment |= {"COLUMNS": "200", "NO_COLOR": "1"}

    def run(*arguments, transport="sqlite:///shop.db", **more):
        given = {"TOWPATH_TRANSPORT": transport} if arguments[0] in ("publish", "work", "stats") else {}
        return subprocess.run(
            [sys.executable, "-m", "towpath", *arguments],
            cwd=folder,
            env=environment | given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **more,
        )

    return run


def pending(run):
    (row,) = json.loads(run("stats", "--json").stdout)
    return row["pending"]


def assert_one_sentence(ran, *words):
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, ran.stderr
    for word in words:
        assert word in lines[0]


def test_a_topology_with_five_mistakes_prints_five_and_exits_2(tmp_path):
    (tmp_path / "topology.toml").write_text(
        'name = "Shop!"\n'
        "[topics.orders]\nretention_days = 30\n"
        '[subscriptions.ship]\ntopic = "order"\nhandler = "shop"\nmax_attemps = 3\n'
    )
    ran = runner(tmp_path)("topology", "check")
    assert ran.returncode == 2
    printed = ran.stdout + ran.stderr
    assert "5 mistakes" in printed
    for word in ("Shop!", "retention_days", "order", "shop", "max_attempts"):
        assert word in printed


def test_publishing_to_an_unknown_topic_is_one_sentence_and_writes_nothing(shop):
    ran = shop("publish", "order", "{}")
    assert ran.returncode == 1
    assert_one_sentence(ran, "TopicNotFound", "order")
    assert pending(shop) == 0


def test_a_payload_over_the_limit_is_one_sentence_and_writes_nothing(shop):
    ran = shop("publish", "orders", json.dumps("x" * 1000))
    assert ran.returncode == 1
    assert_one_sentence(ran, "PayloadTooLarge", "1,000", "claim check")
    assert pending(shop) == 0


def test_an_invalid_attribute_is_one_sentence_and_writes_nothing(shop):
    ran = shop("publish", "orders", "{}", "--attribute", "kind=")
    assert ran.returncode == 1
    assert_one_sentence(ran, "InvalidAttributes", "'kind'")
    assert pending(shop) == 0


def test_bad_lines_among_json_lines_are_named_and_the_others_are_published(shop):
    ran = shop("publish", "orders", "-", input='{"n": 1}\n{"n": \n\n{"n": 3}\n')
    assert ran.returncode == 1
    assert_one_sentence(ran, "standard input, line 2", "not JSON")
    assert "2 accepted" in ran.stdout
    assert pending(shop) == 2


def test_a_handler_path_that_does_not_resolve_ends_the_worker_and_claims_nothing(shop, tmp_path):
    shop("publish", "orders", "{}")
    (tmp_path / "shop.py").unlink()
    ran = shop("work", "ship", "--once")
    assert ran.returncode == 1
    assert_one_sentence(ran, "shop:ship", "no module 'shop'")
    assert pending(shop) == 1


def test_an_unknown_subscription_ends_the_worker_with_one_sentence(shop):
    ran = shop("work", "shop", "--once")
    assert ran.returncode == 1
    assert_one_sentence(ran, "shop", "ship")


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        ("shop.db", ["no transport URL", "sqlite:///"]),
        ("mysql://localhost/shop", ["mysql", "sqlite"]),
        ("sqlite:////no/such/folder/shop.db", ["/no/such/folder"]),
        ("postgresql://user:secret@127.0.0.1:1/shop", ["127.0.0.1"]),
    ],
)
def test_a_transport_that_cannot_be_opened_is_one_sentence_without_secrets(shop, transport, words):
    ran = shop("stats", transport=transport)
    assert ran.returncode == 1
    assert_one_sentence(ran, *words)
    assert "secret" not in ran.stderr


def test_a_missing_manifest_is_one_sentence(tmp_path):
    ran = runner(tmp_path)("apply", "manifest.json", "--database", "sqlite:///shop.db")
    assert ran.returncode == 2
    assert "towpath manifest render" in ran.stderr
