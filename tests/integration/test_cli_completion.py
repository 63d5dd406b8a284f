"""Completion, as shells ask for it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.topologies import on_database

TOWPATH = str(Path(sys.executable).with_name("towpath"))
Ask = Callable[..., list[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell's, with a manifest."""
    manifest = on_database(
        {"orders.new": {}}, {"orders.bill": {"topic": "orders.new"}, "mails": {"topic": "orders.new"}}
    )
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    return kept | {"TOWPATH_MANIFEST": str(tmp_path / "manifest.json"), "COLUMNS": "200"}


def script(shell: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [TOWPATH, "completion", shell], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_bash_completes_commands_options_and_names_once_the_script_is_sourced(environment: dict[str, str]) -> None:
    lines = [script("bash", environment)]
    for words in (
        ["deliv"],
        ["dead-letters", ""],
        ["publish", "--res"],
        ["pause", "orders."],
        ["work", "ord"],
        ["publish", ""],
    ):
        quoted = " ".join(f"'{word}'" for word in ("towpath", *words))
        lines.append(f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMPREPLY=()")
        lines.append(f"_towpath_completion {TOWPATH}; echo ${{COMPREPLY[@]}}")
    ran = subprocess.run(["bash", "-c", "\n".join(lines)], env=environment, capture_output=True, text=True, check=True)
    assert [line.split() for line in ran.stdout.splitlines()] == [
        ["deliveries"],
        ["list", "export", "show", "replay", "discard", "purge"],
        ["--resume"],
        ["orders.bill"],
        ["orders.bill"],
        ["orders.new"],
    ]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_have_a_script_whose_question_is_answered(environment: dict[str, str], shell: str) -> None:
    assert f"_TOWPATH_COMPLETE=complete_{shell}" in script(shell, environment)
    asked = {"_TOWPATH_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_ARGS": "towpath pause ord"}
    asked |= {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ran = subprocess.run([TOWPATH], env=environment | asked, capture_output=True, text=True, check=False)
    assert "orders.bill" in ran.stdout
    assert "mails" not in ran.stdout
