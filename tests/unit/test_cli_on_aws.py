"""Looking after subscriptions on AWS from the command line, on moto in this process."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner, Result

from tests.servers.provision import provisioned
from towpath import NewMessage, connect
from towpath.cli.main import build_app
from towpath.errors import InvalidSelection, SubscriptionNotFound, Unsupported
from towpath.ports import Transport
from towpath.resolve import resolve
from towpath.settlement import DeadLettering, Settled
from towpath.topology import parse_topology

URL = "aws://eu-west-1"
HANDLER = {"topic": "letters", "handler": "app:handle"}
TOPOLOGY = {
    "name": "cli",
    "topics": {"letters": {}},
    "subscriptions": {
        "letters.file": HANDLER | {"host": "worker", "filter": {"kind": ["pdf"]}},
        "letters.off": HANDLER | {"host": "worker", "status": "paused"},
        "letters.read": HANDLER | {"host": "worker"},
        "letters.send": HANDLER | {"filter": {"kind": ["never"]}},
    },
}


class MotoClients:
    region = "eu-west-1"

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=self.region)


@pytest.fixture(scope="module")
def transport(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Transport]:
    """Three messages; of ``letters.read`` all are dead, of ``letters.file`` the one that it gets waits."""
    folder = tmp_path_factory.mktemp("cli-on-aws")
    manifest = resolve(parse_topology(TOPOLOGY), "unit")
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_"))]:
            patch.delenv(name)
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        with provisioned(MotoClients(), manifest) as deployment:
            written = {"MANIFEST": manifest.to_json(), "BINDINGS": deployment.bindings.to_json()}
            for name, text in written.items():
                Path(folder, name).write_text(text)
                patch.setenv(f"TOWPATH_{name}", str(folder / name))
            with connect(URL, folder / "MANIFEST") as opened:
                messages = [NewMessage(payload=n, attributes={"kind": "txt" if n else "pdf"}) for n in range(3)]
                opened.publish("letters", messages)
                consumer = opened.consumer("letters.read")
                letters = [DeadLettering(delivery=d, reason="no use") for d in consumer.receive(3, timedelta(0))]
                assert consumer.dead_letter(letters) == [Settled(state="dead")] * 3
                yield opened


def towpath(*arguments: str) -> Result:
    environment = {"COLUMNS": "250", "NO_COLOR": "1"}
    return CliRunner().invoke(build_app(), [*arguments, "--transport", URL], env=environment)


def rows(result: Result) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.stdout.splitlines() if "│" in line]


def test_stats_show_every_subscription_whatever_its_host(transport: Transport) -> None:
    shown = {row[0]: (row[2], row[4], row[-1]) for row in rows(towpath("stats"))}
    assert shown == {
        "letters.file": ("1", "0", "active"),
        "letters.off": ("3", "0", "paused"),
        "letters.read": ("0", "3", "active"),
        "letters.send": ("0", "0", "active"),
    }


def test_the_backlog_counts_for_a_scaler_and_not_what_is_paused(transport: Transport) -> None:
    shown = rows(towpath("backlog"))
    assert shown == [
        ["letters.file", "1", "0", "1"],
        ["letters.off", "0", "0", "0"],
        ["letters.read", "0", "0", "0"],
        ["letters.send", "0", "0", "0"],
    ]
    (row,) = json.loads(towpath("backlog", "letters.file", "--json").stdout)
    assert row == {
        "subscription": "letters.file",
        "claimable": 1,
        "in_flight": 0,
        "claimable_capped": False,
        "in_flight_capped": False,
        "backlog": 1,
    }
    assert isinstance(towpath("backlog", "letters.flie").exception, SubscriptionNotFound)


def test_dead_letters_are_listed_by_pages_with_the_ids_that_replay_and_discard_take(transport: Transport) -> None:
    first = json.loads(towpath("dead-letters", "list", "--limit", "2", "--json").stdout)
    rest = towpath("dead-letters", "list", "--limit", "2", "--cursor", first["next_cursor"])
    ids = [entry["delivery_id"] for entry in first["dead_letters"]] + [row[0] for row in rows(rest)]
    assert len(set(ids)) == 3
    assert all(one.startswith("letters.read/") for one in ids)
    assert "There are more" not in rest.stdout
    replayed = towpath("dead-letters", "replay", ids[0], "--reason", "it is listed")
    assert (replayed.exit_code, replayed.stdout) == (0, "1 delivery is replayed\n")
    again = towpath("dead-letters", "replay", ids[0], "--reason", "it is listed")
    assert (again.exit_code, again.stdout) == (1, "0 deliveries are replayed\n")
    discarded = towpath("dead-letters", "discard", ids[1], "--reason", "nobody wants it")
    assert (discarded.exit_code, discarded.stdout) == (0, "1 delivery is discarded\n")
    purged = towpath("dead-letters", "purge", "letters.read", "--reason", "clean")
    assert (purged.exit_code, purged.stdout) == (0, "1 delivery is discarded\n")
    (held,) = transport.consumer("letters.read").receive(3, timedelta(0))
    assert held.is_replay


@pytest.mark.parametrize("wrong", ["17-3", "letters.read/"])
def test_what_is_no_id_of_a_dead_letter_is_told_where_ids_are_shown(transport: Transport, wrong: str) -> None:
    error = towpath("dead-letters", "replay", wrong, "--reason", "why not").exception
    assert isinstance(error, InvalidSelection)
    assert "towpath dead-letters list" in str(error)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("letters.send", "and deploy it"), ("letters.read", "stop its workers, or set status")],
)
def test_a_pause_is_refused_with_what_to_do_instead(transport: Transport, name: str, instead: str) -> None:
    error = towpath("pause", name, "--reason", "the disk is full").exception
    assert isinstance(error, Unsupported)
    assert instead in str(error)


def test_a_position_of_one_environment_is_refused_in_another(transport: Transport, tmp_path: Path) -> None:
    (tmp_path / "letters.jsonl").write_text("")
    publish = ("publish", "letters", "--file", str(tmp_path / "letters.jsonl"), "--resume", str(tmp_path / "position"))
    assert towpath(*publish).stdout == "0 accepted, 0 duplicate, 0 rejected\n"
    other = tmp_path / "manifest.json"
    other.write_text(resolve(parse_topology(TOPOLOGY), "prod").to_json())
    refused = towpath(*publish, "--manifest", str(other))
    assert (refused.exit_code, "on 'aws://eu-west-1 (cli, unit)'" in refused.stderr) == (2, True)
