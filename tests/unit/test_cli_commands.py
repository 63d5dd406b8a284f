"""The root command: which commands there are, what is missing for them, and how a word that is none is told."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.main import build_app


def without(*modules: str, call: list[str]) -> subprocess.CompletedProcess:
    """The command line of a Python that lacks ``modules``."""
    program = f"import sys\nfor name in {modules!r}: sys.modules[name] = None\nfrom towpath.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *call], capture_output=True, text=True, timeout=60, check=False
    )


def towpath(*arguments: str) -> Result:
    return CliRunner().invoke(build_app(), arguments, env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.mark.parametrize("missing", [["typer"], ["rich"], ["typer", "rich"]])
def test_without_what_the_command_line_needs_it_says_so(missing):
    ran = without(*missing, call=["stats"])
    assert ran.returncode == 1
    assert ran.stderr == "error: the command line needs typer and rich: pip install 'towpath[cli]'\n"


@pytest.mark.parametrize(
    ("missing", "call", "told"),
    [
        ("pydantic", ["topology", "check"], "this needs pydantic: pip install 'towpath[cli]'"),
        ("sqlalchemy", ["db", "check"], "this needs sqlalchemy: pip install 'towpath[local]'"),
        (
            "alembic",
            ["db", "upgrade", "--database", "sqlite:///{}"],
            "this needs alembic: pip install",
        ),
    ],
)
def test_a_command_without_its_extra_names_the_extra(tmp_path, missing, call, told):
    ran = without(missing, call=[word.format(tmp_path / "x.db") for word in call])
    assert ran.returncode == 1
    assert ran.stderr.startswith(f"error: {told}")
    assert ran.stderr.count("\n") == 1


def test_a_transport_without_its_extra_names_the_extra():
    ran = without("boto3", call=["publish", "t", "1", "--transport", "aws://eu-west-1"])
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1


def test_the_help_lists_the_commands_that_are_installed():
    ran = without("sqlalchemy", call=["--help"])
    assert ran.returncode == 0
    assert " publish " in ran.stdout
    assert " db " not in ran.stdout


@pytest.mark.parametrize(("typo", "meant"), [("pubish", "publish"), ("stat", "stats"), ("deadletters", "dead-letters")])
def test_a_command_that_is_none_is_told_the_nearest(typo, meant):
    result = towpath(typo)
    assert result.exit_code == 2
    assert f"No such command {typo!r}. Did you mean {meant!r}" in result.stderr


def test_a_command_like_no_other_is_told_nothing():
    assert "Did you mean" not in towpath("xyzzy").stderr


@pytest.mark.parametrize("call", [["stats"], ["dead-letters", "list"], ["work", "s"], ["publish", "t", "1"]])
def test_a_missing_transport_is_told_with_an_example(monkeypatch, call):
    monkeypatch.delenv("TOWPATH_TRANSPORT", raising=False)
    result = towpath(*call)
    assert result.exit_code == 2
    told = "Missing option '--transport' (env var: 'TOWPATH_TRANSPORT'). For example: --transport sqlite:///dev.db"
    assert told in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize("call", [["apply"], ["db", "upgrade"]])
def test_a_missing_database_is_told_with_an_example(monkeypatch, call):
    monkeypatch.delenv("TOWPATH_TRANSPORT", raising=False)
    told = " ".join(towpath(*call).stderr.replace("│", " ").split())
    assert "(env var: 'TOWPATH_TRANSPORT'). For example: --database sqlite:///dev.db" in told


def test_version_is_that_of_the_package():
    result = towpath("--version")
    assert (result.exit_code, result.stdout) == (0, f"towpath {version('towpath')}\n")
