"""The root command as a process: exit codes, one sentence for a failure, commands of other packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from towpath.cli.main import build_app

TOWPATH = str(Path(sys.executable).with_name("towpath"))


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **variables}
    return subprocess.run(
        [TOWPATH, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_failure_is_one_sentence_and_exit_1(tmp_path):
    done = run(tmp_path, "stats", "--transport", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "error: 'nowhere' is no transport URL; it looks like sqlite:///dev.db, postgresql://host/name or aws://region\n"
    )


def test_with_debug_a_failure_shows_its_traceback(tmp_path):
    done = run(tmp_path, "--debug", "stats", "--transport", "nowhere")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "UnknownTransport" in done.stderr
    assert "Traceback" in run(tmp_path, "stats", "--transport", "nowhere", TOWPATH_DEBUG="1").stderr


def test_a_wrong_topology_is_exit_2_with_all_its_mistakes(tmp_path):
    (tmp_path / "topology.toml").write_text('name = "Shop"\n[topics.t]\nfare = 1\n', encoding="utf-8")
    done = run(tmp_path, "topology", "check")
    assert done.returncode == 2
    assert "has 2 mistakes" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_nobody_expected_is_one_sentence_too(tmp_path):
    """A transport that another package serves, and that fails in a way of its own."""
    package = tmp_path / "strange-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n", encoding="utf-8")
    (package / "entry_points.txt").write_text("[towpath.transports]\nstrange = strange:open\n", encoding="utf-8")
    (tmp_path / "strange.py").write_text("def open(url, options): return {}[url]\n", encoding="utf-8")
    done = run(tmp_path, "stats", "--transport", "strange://x", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: KeyError: 'strange://x'; ")
    assert "--debug" in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_command_the_help_is_shown():
    result = CliRunner().invoke(build_app(), [])
    assert "publish" in result.output
    assert "dead-letters" in result.output


@pytest.mark.parametrize("command", [["nothing"], ["work"], ["publish"], ["work", "a", "--transport"]])
def test_wrong_use_is_exit_2(command):
    assert CliRunner().invoke(build_app(), command).exit_code == 2


@pytest.mark.parametrize(
    "command",
    ["demo", "apply", "publish", "work", "stats", "dead-letters list", "topology check", "manifest render", "bundle"],
)
def test_every_command_has_help_with_an_example(command):
    result = CliRunner().invoke(build_app(), [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "Example: towpath" in result.output or command == "bundle"
