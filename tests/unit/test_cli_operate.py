"""``towpath apply``, ``stats`` and ``dead-letters list``, over a database."""

import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath import NewMessage, connect
from towpath.cli.entries import print_dead_letters
from towpath.cli.main import build_app
from towpath.errors import InvalidManifest, SubscriptionNotFound
from towpath.ports import DeadLetterEntry, Transport
from towpath.resolve import resolve
from towpath.settlement import DeadLettering, Failure
from towpath.topology import parse_topology

TOPOLOGY = {
    "name": "shop",
    "topics": {"orders.new": {"transport": "database"}},
    "subscriptions": {
        "orders.bill": {"topic": "orders.new", "handler": "app:bill"},
        "orders.ship": {"topic": "orders.new", "handler": "app:ship"},
    },
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("manifest") / "manifest.json"
    file.write_text(resolve(parse_topology(TOPOLOGY), "test").to_json(), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}"


@pytest.fixture(scope="module")
def shop(url: str, manifest: Path) -> Iterator[Transport]:
    """Two messages for two subscriptions; of the first, one is pending and one dead."""
    transport = connect(url)
    assert towpath("apply", manifest, "--database", url).exit_code == 0
    transport.publish("orders.new", [NewMessage(payload={"order": number}) for number in (1, 2)])
    consumer = transport.consumer("orders.bill")
    (delivery,) = consumer.receive(1, timedelta(0))
    failure = Failure(type="ValueError", message="[bad]\nsecond line")
    consumer.dead_letter([DeadLettering(delivery=delivery, reason="no :x: account", failure=failure)])
    yield transport
    transport.close()


def towpath(*arguments: str | Path) -> Result:
    return CliRunner().invoke(build_app(), [str(a) for a in arguments], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.fixture
def operate(url: str, shop: Transport) -> Callable[..., Result]:
    return lambda *arguments: towpath(*arguments, "--transport", url)


# --- apply -----------------------------------------------------------------------------------------------------


def test_apply_says_what_it_added_and_then_that_there_is_nothing_to_change(tmp_path, manifest):
    target = f"sqlite:///{tmp_path / 'new.db'}"
    assert towpath("apply", manifest, "--database", target).stdout == "added orders.new, orders.bill, orders.ship\n"
    assert towpath("apply", manifest, "--database", target).stdout == "nothing to change\n"


def test_apply_as_json_lists_what_changed(url, shop, manifest):
    result = towpath("apply", manifest, "--database", url, "--json")
    assert json.loads(result.stdout) == {"added": [], "changed": [], "removed": []}


@pytest.mark.parametrize("content", [None, "{", "{}", "[]", '{"manifest_version": true}', "\xff"])
def test_a_manifest_that_cannot_be_read_changes_nothing(tmp_path, content):
    file = tmp_path / "manifest.json"
    if content is not None:
        file.write_text(content, encoding="latin-1")
    result = towpath("apply", file, "--database", f"sqlite:///{tmp_path / 'new.db'}")
    assert isinstance(result.exception, InvalidManifest)  # told by the root command, exit 1
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("name", ["topology.toml", "topology.json"])
def test_a_topology_in_the_manifests_place_is_told_as_such(tmp_path, name):
    file = tmp_path / name
    file.write_text('name = "shop"\n' if name.endswith("toml") else json.dumps(TOPOLOGY), encoding="utf-8")
    result = towpath("apply", file, "--database", f"sqlite:///{tmp_path / 'new.db'}")
    assert isinstance(result.exception, InvalidManifest)
    told = f"{file} is a topology; its manifest is wanted, write it with 'towpath manifest render {file} -e NAME'"
    assert str(result.exception) == told


@pytest.mark.parametrize(("seconds", "warned"), [(1, True), (0, False), (-1, False)])
def test_apply_warns_of_a_topology_that_is_newer_than_its_manifest(tmp_path, manifest, seconds, warned):
    copy, topology = tmp_path / "manifest.json", tmp_path / "topology.toml"
    copy.write_bytes(manifest.read_bytes())
    topology.touch()
    os.utime(copy, (1_000, 1_000))
    os.utime(topology, (1_000, 1_000 + seconds))
    result = towpath("apply", copy, "--database", f"sqlite:///{tmp_path / 'new.db'}")
    told = f"warning: {topology} is newer than {copy}: render it again\n"
    assert (result.exit_code, result.stderr) == (0, told if warned else "")


def test_db_upgrade_says_what_comes_next_when_it_made_the_tables(tmp_path):
    target = f"sqlite:///{tmp_path / 'new.db'}"
    assert towpath("db", "upgrade", "--database", target).stdout.endswith("\nNext: towpath apply\n")
    assert "Next" not in towpath("db", "upgrade", "--database", target).stdout


# --- stats -----------------------------------------------------------------------------------------------------


def test_stats_show_how_each_subscription_stands(operate):
    result = operate("stats")
    assert result.exit_code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert [row[:7] for row in rows] == [
        ["orders.bill", "orders.new", "1", "0", "1", "0", "0"],
        ["orders.ship", "orders.new", "2", "0", "0", "0", "0"],
    ]


def test_stats_as_json_have_numbers_and_the_age_in_seconds(operate):
    bill, ship = json.loads(operate("stats", "--json").stdout)
    ages = [bill.pop("oldest_pending_seconds"), bill.pop("oldest_dead_seconds")]
    assert all(0 <= age < 600 for age in ages)
    assert bill == {
        "subscription": "orders.bill",
        "topic": "orders.new",
        "pending": 1,
        "leased": 0,
        "dead": 1,
        "completed": 0,
        "discarded": 0,
        "completed_per_minute": 0.0,
        "dead_per_minute": 0.2,
        "status": "active",
    }
    assert ship["pending"] == 2


# --- backlog ---------------------------------------------------------------------------------------------------


def test_the_backlog_is_what_could_start_and_what_runs(operate):
    result = operate("backlog")
    assert result.exit_code == 0
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]
    assert rows == [["orders.bill", "1", "0", "1"], ["orders.ship", "2", "0", "2"]]


def test_the_backlog_of_one_subscription_as_json_has_the_documented_keys(operate):
    assert json.loads(operate("backlog", "orders.ship", "--json").stdout) == [
        {
            "subscription": "orders.ship",
            "claimable": 2,
            "in_flight": 0,
            "claimable_capped": False,
            "in_flight_capped": False,
            "backlog": 2,
        }
    ]


def test_a_backlog_that_is_not_counted_to_its_end_says_so(manifest, tmp_path):
    target = f"sqlite:///{tmp_path / 'full.db'}"
    assert towpath("apply", manifest, "--database", target).exit_code == 0
    with connect(target) as transport:
        transport.publish("orders.new", [NewMessage(payload=number) for number in range(1_001)])
        transport.consumer("orders.ship").receive(1, timedelta(0))
    shown = towpath("backlog", "orders.bill", "--transport", target).stdout
    assert [cell.strip() for cell in shown.splitlines()[3].split("│")[1:-1]] == ["orders.bill", "1000+", "0", "1000+"]
    (row,) = json.loads(towpath("backlog", "orders.bill", "--transport", target, "--json").stdout)
    assert (row["backlog"], row["claimable_capped"]) == (1_000, True)


def test_the_backlog_of_an_unknown_subscription_is_refused(operate):
    assert isinstance(operate("backlog", "orders.nowhere").exception, SubscriptionNotFound)


# --- dead-letters ----------------------------------------------------------------------------------------------


def entry_ids(shop: Transport) -> list[str]:
    return [entry.delivery_id for entry in shop.operator().dead_letters(None, 10)]


def test_dead_letters_are_listed_with_ids_reason_and_the_errors_first_line(operate, shop):
    result = operate("dead-letters", "list")
    assert result.exit_code == 0
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("│")]
    assert "orders.bill" in row
    assert entry_ids(shop) == [row.split("│")[1].strip()]
    assert "no :x: account" in row
    assert "ValueError: [bad]" in row
    assert "second line" not in result.stdout
    assert "order" not in row.replace("orders.bill", "")  # no payload


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("FatalError: no account", "FatalError"),
        ("FatalError: no account\nTraceback ...", "FatalError"),
        ("ValueError: no account at all", "ValueError: no account at all"),
        ("ValueError: 7\nTraceback ...", "ValueError: 7"),
        ("ValueError", "ValueError"),
        ("", "-"),
    ],
)
def test_an_error_that_only_repeats_the_reason_is_shown_once(capsys, error, shown):
    facts = {"delivery_id": "1", "subscription": "s", "message_id": "m", "attempts": 1, "body": "{}"}
    entry = DeadLetterEntry(**facts, reason="no account", error=error, dead_since=datetime.now(UTC))
    print_dead_letters([entry])
    row = capsys.readouterr().out.splitlines()[3].split("│")
    assert [cell.strip() for cell in row[6:8]] == ["no account", shown]


def test_dead_letters_as_json_carry_the_whole_error_and_the_body(operate):
    listed = json.loads(operate("dead-letters", "list", "orders.bill", "--json").stdout)
    (entry,) = listed.pop("dead_letters")
    assert listed == {"next_cursor": None}
    assert (entry["subscription"], entry["reason"], entry["attempts"]) == ("orders.bill", "no :x: account", 1)
    assert "second line" in entry["error"]
    assert json.loads(entry["body"])["payload"] == {"order": 1}
    assert datetime.fromisoformat(entry["dead_since"]).tzinfo is not None


def test_a_subscription_without_dead_letters_lists_none(operate):
    listed = json.loads(operate("dead-letters", "list", "orders.ship", "--json").stdout)
    assert listed == {"dead_letters": [], "next_cursor": None}


def test_dead_letters_are_listed_page_by_page_over_all_subscriptions(tmp_path, manifest):
    target = f"sqlite:///{tmp_path / 'dead.db'}"
    assert towpath("apply", manifest, "--database", target).exit_code == 0
    with connect(target) as transport:
        transport.publish("orders.new", [NewMessage(payload=number) for number in range(3)])
        for name in ("orders.bill", "orders.ship"):
            consumer = transport.consumer(name)
            letters = [DeadLettering(delivery=held, reason="bad") for held in consumer.receive(3, timedelta(0))]
            consumer.dead_letter(letters)
        known = {entry.delivery_id for entry in transport.operator().dead_letters(None, 10)}

    def page(*options: str) -> Result:
        return towpath("dead-letters", "list", "--limit", "4", *options, "--transport", target)

    first = json.loads(page("--json").stdout)
    assert f"There are more: --cursor {first['next_cursor']}" in page().stdout
    rest = json.loads(page("--json", "--cursor", first["next_cursor"]).stdout)
    ids = [entry["delivery_id"] for entry in (*first["dead_letters"], *rest["dead_letters"])]
    assert (len(first["dead_letters"]), len(ids), set(ids)) == (4, 6, known)
    assert rest["next_cursor"] is None
    assert "There are more" not in page("--cursor", first["next_cursor"]).stdout
    replayed = towpath("dead-letters", "replay", ids[0], "--reason", "it is listed", "--transport", target)
    assert (replayed.exit_code, replayed.stdout) == (0, "1 delivery is replayed\n")


def test_dead_letters_of_an_unknown_subscription_are_refused(operate):
    result = operate("dead-letters", "list", "orders.nowhere")
    assert isinstance(result.exception, SubscriptionNotFound)  # told by the root command, exit 1


def test_listing_changes_nothing(operate, shop):
    operate("dead-letters", "list")
    assert [row.dead for row in shop.operator().stats()] == [1, 0]


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_is_at_least_one(operate, limit):
    assert operate("dead-letters", "list", "--limit", limit).exit_code == 2
