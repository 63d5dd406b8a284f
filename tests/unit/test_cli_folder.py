"""Commands in a folder that does not have the database: they say so, and make none."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from towpath import connect
from towpath.cli.main import build_app
from towpath.cli.options import hidden_password, nothing_applied, without_password
from towpath.errors import NothingApplied
from towpath.resolve import resolve
from towpath.topology import parse_topology

READING = [["stats"], ["stats", "--json"], ["dead-letters", "list"], ["dead-letters", "list", "s"], ["work", "*"]]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def towpath(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), arguments, env={"TOWPATH_TRANSPORT": "sqlite:///mine.db"})


@pytest.mark.parametrize("command", [*READING, ["work", "s"], ["publish", "t", "1"], ["db", "check"]])
def test_a_file_that_is_not_there_is_told_with_its_whole_path_and_not_made(tmp_path, command):
    error = towpath(*command).exception
    assert isinstance(error, NothingApplied)  # told by the root command, exit 1
    assert str(error) == (
        f"sqlite:///mine.db ({tmp_path}/mine.db) has no subscriptions; run 'towpath apply', "
        "or go to the folder that has your database"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", READING)
def test_a_database_to_which_nothing_is_applied_is_told_the_same(command):
    connect("sqlite:///mine.db").close()
    assert isinstance(towpath(*command).exception, NothingApplied)


@pytest.mark.parametrize("command", [["apply"], ["db", "upgrade"]])
def test_apply_and_db_upgrade_make_the_file(command):
    topology = {"name": "shop", "topics": {"t": {"transport": "database"}}}
    Path("manifest.json").write_text(resolve(parse_topology(topology), "test").to_json(), encoding="utf-8")
    assert towpath(*command).exit_code == 0
    assert Path("mine.db").exists()


def test_a_topic_needs_no_subscription_to_be_published_to():
    topology = {"name": "shop", "topics": {"t": {"transport": "database"}}}
    transport = connect("sqlite:///mine.db")
    transport.apply(resolve(parse_topology(topology), "test"))
    transport.close()
    result = towpath("publish", "t", "1", "--json")
    assert [answer["status"] for answer in json.loads(result.stdout)] == ["accepted"]


def test_a_file_with_a_space_in_its_name_is_found():
    topology = {"name": "shop", "topics": {"t": {"transport": "database"}}}
    with connect("sqlite:///my%20own.db") as transport:
        transport.apply(resolve(parse_topology(topology), "test"))
    assert towpath("publish", "t", "1", "--transport", "sqlite:///my%20own.db").exit_code == 0


def test_a_server_has_no_folder_and_keeps_its_password():
    error = nothing_applied("postgresql://me:s?/@cret@db.example:5432/shop?sslmode=require")
    assert str(error).startswith("postgresql://me:***@db.example:5432/shop has no subscriptions; run 'towpath apply'")
    assert "folder" not in str(error)


def test_a_password_among_the_options_is_hidden_too():
    url = "postgresql://me:one@db.example/shop?password=two&sslmode=require&sslpassword=three"
    assert hidden_password("postgresql://db/shop?user=me&password=two") == "postgresql://db/shop?user=me&password=***"
    assert hidden_password(f"--transport={url}") == (
        "--transport=postgresql://me:***@db.example/shop?password=***&sslmode=require&sslpassword=***"
    )


@pytest.mark.parametrize("url", ["aws://eu-west-1", "sqlite:///mine.db", "postgresql://me@db.example/shop"])
def test_a_url_without_a_password_is_shown_as_it_is(url):
    assert without_password(url) == url
