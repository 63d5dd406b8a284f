"""Every command of the reference is called here, on databases and on AWS (moto), or where a table says."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from typer.testing import CliRunner

from tests.fakes.json_shapes import REFERENCE, SHAPES, mismatches
from tests.servers.moto_aws import MotoAws
from tests.servers.provision import provisioned
from tests.servers.topologies import on_database
from towpath.cli.main import build_app
from towpath.errors import TowpathError
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology

SUBSCRIPTIONS = {"letters.read": {"topic": "letters", "handler": "every_app:read", "host": "worker"}}
TOPOLOGY = {"name": "every", "topics": {"letters": {}}, "subscriptions": SUBSCRIPTIONS}
ORDERED = {"letters.filed": {"topic": "letters", "handler": "every_app:read", "partition_mode": "ordered"}}
HANDLER = """
from towpath import Context, DeadLetter, Message

def read(message: Message, context: Context):
    return DeadLetter("unreadable") if message.payload == "bad" else None
"""
WHY = ("--reason", "it is tested")

COMMANDS = re.findall(r"^## `towpath (.*)`$", (REFERENCE / "command-line.md").read_text(), re.MULTILINE)
LOOKING = {
    "audit",
    "backlog",
    "dead-letters export",
    "dead-letters list",
    "dead-letters show",
    "deliveries list",
    "deliveries show",
    "partitions",
    "stats",
}
CHANGING = {
    "apply",
    "dead-letters discard",
    "dead-letters purge",
    "dead-letters replay",
    "deliveries cancel",
    "deliveries discard",
    "deliveries replay",
    "pause",
    "publish",
    "resume",
    "work",
}
OF_DATABASES = {"db check", "db purge", "db upgrade"}
ELSEWHERE = {  # what has no transport, or needs more than one: where it is called
    "bindings check": ("unit/test_bindings_reading.py", '"check"'),
    "bindings from-stack": ("unit/test_bindings_reading.py", "from-stack"),
    "bindings rights": ("unit/test_bindings_reading.py", '"rights"'),
    "bundle build": ("integration/test_bundle.py", '"build"'),
    "bundle verify": ("integration/test_bundle.py", '"verify"'),
    "cdk gate": ("unit/test_cli_gate.py", '"gate"'),
    "completion": ("integration/test_cli_completion.py", '"completion"'),
    "demo": ("acceptance/test_demo.py", '"demo"'),
    "manifest diff": ("unit/test_cli_manifest.py", '"diff"'),
    "manifest render": ("unit/test_cli_manifest.py", '"render"'),
    "manifest schema": ("unit/test_cli_manifest.py", '"schema"'),
    "terraform gate": ("unit/test_cli_gate.py", '"gate"'),
    "topology check": ("unit/test_cli_topology.py", '"check"'),
    "topology schema": ("unit/test_cli_topology.py", '"schema"'),
}


class Session:
    """Calls commands in turn, and keeps which. Each must end as it should and print what the reference says."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def __call__(self, *arguments: str, code: int = 0, refused: str = "", stdin: str | None = None) -> Any:
        """What it printed: JSON where it was asked for, or lines of it. ``refused``: a part of the error that it is."""
        command = next(name for name in COMMANDS if list(arguments[: name.count(" ") + 1]) == name.split())
        with signals_as_they_were():
            result = CliRunner().invoke(build_app(), arguments, input=stdin, env={"COLUMNS": "200", "NO_COLOR": "1"})
        if refused:
            assert isinstance(result.exception, TowpathError), result.output
            assert refused in str(result.exception)
        else:
            assert result.exit_code == code, (arguments, result.output, result.exception)
        self.called.add(command)
        if refused or ("--json" not in arguments and command not in SHAPES["LINES"]):
            return result.stdout
        if command in SHAPES["LINES"]:
            data = [json.loads(line) for line in result.stdout.splitlines()]
            shape: Any = [SHAPES["LINES"][command]]
        else:
            data, shape = json.loads(result.stdout), SHAPES["SHAPES"][command]
        assert list(mismatches(shape, data)) == [], arguments
        return data


@contextmanager
def signals_as_they_were() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder with the handler, and none of our variables."""
    (tmp_path / "every_app.py").write_text(HANDLER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "every_app", raising=False)
    for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TOWPATH_ACTOR", "ada")
    return tmp_path


def written(folder: Path, name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / name).write_text(text)
    monkeypatch.setenv(f"TOWPATH_{name.partition('.')[0].upper()}", str(folder / name))


def test_every_command_for_a_database_works_on_it(
    database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = on_database({"letters": {}}, SUBSCRIPTIONS | ORDERED)
    written(folder, "manifest.json", manifest.to_json(), monkeypatch)
    monkeypatch.setenv("TOWPATH_TRANSPORT", database_url)
    call = Session()
    call("db", "upgrade", "--json")
    call("apply", "manifest.json", "--json")
    call("db", "check", "--json")
    lines = [{"payload": text, "partition_key": text, "attributes": {"n": 1}} for text in ("bad", "bad", "good")]
    call("publish", "letters", "-", "--lines", "messages", "--json", stdin="\n".join(map(json.dumps, lines)))
    assert [row["pending"] for row in call("stats", "--json")] == [3, 3]
    assert [row["claimable"] for row in call("backlog", "--json")] == [2, 3]
    assert len(call("partitions", "letters.filed", "--json")["partitions"]) == 2
    assert call("work", "letters.read", "--once", "--json")["dead"] == 2
    completed = call("deliveries", "list", "--where", "state=completed", "--json")["deliveries"]
    dead = [one["delivery_id"] for one in call("dead-letters", "list", "--json")["dead_letters"]]
    assert (len(completed), len(dead)) == (1, 2)
    for one in (completed[0]["delivery_id"], dead[0]):
        assert call("deliveries", "show", one, "--json")[0]["message"]["attributes"] == {"n": 1}
    assert call("dead-letters", "show", dead[0], "--payload", "--json")[0]["payload"] == "bad"
    assert [one["delivery_id"] for one in call("dead-letters", "export")] == dead
    call("dead-letters", "replay", dead[0], *WHY, "--json")
    call("deliveries", "replay", dead[1], "--edit", "-", *WHY, "--json", stdin='"good"')
    call("work", "letters.read", "--once", "--json")
    call("deliveries", "cancel", "--all", *WHY, "--json")
    call("dead-letters", "discard", "--all", "--limit", "1", *WHY, "--json")
    call("dead-letters", "purge", "letters.read", *WHY, "--json")
    assert call("deliveries", "discard", "--all", *WHY, "--json")["discarded"] == 3
    assert call("pause", "letters.read", *WHY, "--json")["changed"]
    assert call("resume", "letters.read", *WHY, "--json")["changed"]
    actions = [entry["action"] for entry in call("audit", "--json")["entries"]]
    assert actions == ["resume", "pause", "discard", "discard", "replay edited", "replay"]
    about = call("audit", "--about", dead[0], "--json")["entries"]
    assert [entry["action"] for entry in about] == ["discard", "replay"]
    call("db", "purge", "--dry-run", "--json")
    call("db", "purge", "--json")
    assert call.called == LOOKING | CHANGING | OF_DATABASES


def test_every_command_for_aws_works_on_it_or_is_refused_in_one_sentence(
    folder: Path, sqlite_tables_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = resolve(parse_topology(TOPOLOGY), "unit")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with mock_aws(), provisioned(MotoAws(), manifest) as deployment:
        written(folder, "manifest.json", manifest.to_json(), monkeypatch)
        written(folder, "bindings.json", deployment.bindings.to_json(), monkeypatch)
        monkeypatch.setenv("TOWPATH_TRANSPORT", "aws://eu-west-1")
        call = Session()
        on_aws(call, manifest)
        call("audit", refused="set TOWPATH_AUDIT_DATABASE")
        monkeypatch.setenv("TOWPATH_AUDIT_DATABASE", sqlite_tables_url)
        call("dead-letters", "purge", "letters.read", *WHY, "--json")
        assert [entry["action"] for entry in call("audit", "--json")["entries"]] == ["purge"]
    assert call.called == LOOKING | CHANGING


def on_aws(call: Callable[..., Any], manifest: Manifest) -> None:
    call("apply", "manifest.json", refused="deploy it with terraform apply or cdk deploy")
    call("publish", "letters", "-", "--json", stdin="\n".join(['"bad"'] * 5 + ['"good"']))
    assert [row["pending"] for row in call("stats", "--json")] == [6]
    assert [row["backlog"] for row in call("backlog", "--json")] == [6]
    call("partitions", "letters.read", refused="SQS does not list the partition keys")
    assert call("work", "letters.read", "--once", "--json") == {"received": 6, "completed": 1, "dead": 5}
    dead = [one["delivery_id"] for one in call("dead-letters", "list", "--json")["dead_letters"]]
    call("deliveries", "list", refused="--where state=dead")
    call(
        "deliveries", "list", "--where", "state=completed", refused="SQS keeps nothing of deliveries that are completed"
    )
    assert len(call("deliveries", "list", "--where", "state=dead", "--json")["deliveries"]) == 5
    assert call("deliveries", "show", dead[0], "--payload", "--json")[0]["payload"] == "bad"
    call("dead-letters", "show", dead[0], "--json")
    assert len(call("dead-letters", "export")) == 5
    assert call("dead-letters", "replay", dead[0], *WHY, "--json")["replayed"] == 1
    call("deliveries", "replay", dead[1], "--edit", "-", *WHY, "--json", stdin='"good"')
    assert call("dead-letters", "discard", dead[2], *WHY, "--json")["discarded"] == 1
    assert call("deliveries", "discard", dead[3], *WHY, "--json")["discarded"] == 1
    call("deliveries", "discard", "--all", *WHY, refused="--where state=dead")
    call("deliveries", "cancel", "--all", *WHY, refused="towpath dead-letters")
    call("pause", "letters.read", *WHY, refused="stop its workers")
    call("resume", "letters.read", *WHY, refused="SQS keeps no such flag")


def test_every_other_command_is_called_by_a_test_of_its_own() -> None:
    assert set(COMMANDS) == LOOKING | CHANGING | OF_DATABASES | ELSEWHERE.keys()
    tests = Path(__file__).parents[1]
    assert [name for name, (file, text) in ELSEWHERE.items() if text not in (tests / file).read_text()] == []


def test_every_command_that_prints_json_has_a_shape_in_the_reference() -> None:
    sections = re.split(r"^## `towpath ", (REFERENCE / "command-line.md").read_text(), flags=re.MULTILINE)[1:]
    printing = {section.partition("`")[0] for section in sections if "| `--json` |" in section}
    assert printing == SHAPES["SHAPES"].keys()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_of_it(command: str) -> None:
    result = CliRunner().invoke(build_app(), [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Example: towpath {command.removesuffix(' build')}" in result.output
