"""Output that cannot be written: what was done is done, and is told on standard error."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from towpath import connect
from towpath.cli.output import CannotPrint, print_failure, print_json, print_sentence, stderr, telling
from towpath.resolve import resolve
from towpath.topology import parse_topology

TOPOLOGY = {
    "name": "shop",
    "topics": {"orders": {"transport": "database"}},
    "subscriptions": {"bill": {"topic": "orders", "handler": "app:process"}},
}
NOWHERE = ("/dev/full", "&-")
Towpath = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def towpath(tmp_path: Path) -> Towpath:
    """Runs the command line with a shell's redirections, on a database that has the topology."""
    manifest = resolve(parse_topology(TOPOLOGY), "test")
    (tmp_path / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    transport = connect(f"sqlite:///{tmp_path}/shop.db")
    transport.apply(manifest)
    transport.close()

    def run(*arguments: str, redirect: str = "", **streams: object) -> subprocess.CompletedProcess:
        variables = {"TOWPATH_TRANSPORT": "sqlite:///shop.db", "COLUMNS": "200", "NO_COLOR": "1"}
        return subprocess.run(
            ["/bin/sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", "towpath", *arguments],
            **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams),
            cwd=tmp_path,
            env={name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")} | variables,
            text=True,
            timeout=60,
            check=False,
        )

    return run


def pending(towpath: Towpath) -> int:
    (row,) = json.loads(towpath("stats", "--json").stdout)
    return row["pending"]


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("output", NOWHERE)
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_what_was_published_is_no_failure_though_it_cannot_be_printed(towpath, output, options):
    ran = towpath("publish", "orders", "1", "--count", "3", *options, redirect=f">{output}")
    assert ran.returncode == 0
    assert ran.stderr.startswith("warning: standard output cannot be written: ")
    assert ran.stderr.endswith("; 3 messages were published\n")
    assert ran.stderr.count("\n") == 1
    assert pending(towpath) == 3


def test_a_refused_message_is_a_failure_whether_or_not_it_can_be_printed(towpath):
    ran = towpath("publish", "orders", "-", redirect=">/dev/full", input="1\nno\n")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: standard input, line 2: InvalidPayload: ")
    assert ran.stderr.endswith("; 1 message was published\n")
    assert pending(towpath) == 1


def test_a_topology_is_applied_and_a_manifest_written_though_it_cannot_be_printed(towpath, tmp_path):
    applied = towpath("apply", "manifest.json", "--database", "sqlite:///new.db", redirect=">/dev/full")
    assert (applied.returncode, applied.stderr.count("\n")) == (0, 1)
    assert applied.stderr.endswith("; manifest.json is applied\n")
    assert (tmp_path / "new.db").is_file()
    (tmp_path / "topology.toml").write_text('name = "shop"\n', encoding="utf-8")
    rendered = towpath("manifest", "render", "--environment", "test", "--output", "new.json", redirect=">/dev/full")
    assert (rendered.returncode, rendered.stderr.count("\n")) == (0, 1)
    assert rendered.stderr.endswith("; new.json is written\n")


@pytest.mark.parametrize("output", NOWHERE)
@pytest.mark.parametrize("command", [["stats"], ["stats", "--json"], ["--version"]])
def test_output_that_was_asked_for_and_cannot_be_written_is_a_failure_in_one_sentence(towpath, output, command):
    ran = towpath(*command, redirect=f">{output}")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: standard output cannot be written: ")
    assert ran.stderr.count("\n") == 1


def test_a_pipe_that_nobody_reads_is_silent(towpath, unread):
    published = towpath("publish", "orders", "1", stdout=unread)
    assert (published.returncode, published.stderr) == (0, "")
    assert pending(towpath) == 1
    for options in ([], ["--json"]):
        shown = towpath("stats", *options, stdout=unread)
        assert (shown.returncode, shown.stderr) == (1, "")


@pytest.mark.parametrize("errors", [*NOWHERE, "pipe"])
def test_failures_that_cannot_be_told_stop_no_publishing(towpath, errors, unread):
    streams = {"stderr": unread} if errors == "pipe" else {"redirect": f"2>{errors}"}
    ran = towpath("publish", "orders", "-", **streams, input="1\nno\n3\n")
    assert (ran.returncode, ran.stdout) == (1, "2 accepted, 0 duplicate, 1 rejected\n")
    assert pending(towpath) == 2


def test_standard_input_that_is_closed_is_wrong_use(towpath):
    ran = towpath("publish", "orders", "-", redirect="<&-")
    assert ran.returncode == 2
    assert "standard input is closed" in ran.stderr
    assert pending(towpath) == 0


class Ascii:
    """A standard output that knows few letters, or none."""

    encoding = "ascii"

    def write(self, text: str) -> None:
        text.encode("ascii")

    def flush(self) -> None:
        """Nothing is kept back."""

    def isatty(self) -> bool:
        return False


@pytest.mark.parametrize("show", [print_json, print_sentence])
def test_a_letter_that_standard_output_has_not_is_told(monkeypatch, capsys, show):
    monkeypatch.setattr(sys, "stdout", Ascii())
    with pytest.raises(CannotPrint, match=r"^standard output cannot be written: its encoding, ascii, has no 'ü'"):
        show("grün")
    with telling("it is done"):
        show("grün")
    assert capsys.readouterr().err.endswith("it is done\n")


class Broken(Ascii):
    """A standard error that can be written no more."""

    def __init__(self, error: OSError) -> None:
        self._error = error

    def write(self, text: str) -> None:
        raise self._error


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_what_cannot_be_told_on_standard_error_stops_nothing(monkeypatch, error):
    monkeypatch.setattr(sys, "stderr", Broken(error))
    stderr().print("a worker's progress")
    print_failure("a failure")
    monkeypatch.setattr(sys, "stderr", None)
    stderr().print("a worker's progress")
