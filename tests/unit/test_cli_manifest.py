"""``towpath manifest diff`` and ``schema``, and what ``render --all-on database`` says, as a person runs them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.json_shapes import shaped
from tests.unit.resolving import resolved
from towpath.cli.main import build_app
from towpath.cli.output import write_whole
from towpath.errors import InvalidManifest
from towpath.manifest.schema import manifest_schema

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def three_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``lossy.json``, ``safe.json`` and ``destructive.json`` differ from ``deployed.json`` by one change."""
    monkeypatch.chdir(tmp_path)
    for name, subscriptions in {
        "deployed": {"s": {}},
        "lossy": {"s": {"max_attempts": 3}},
        "safe": {"s": {"max_attempts": 9}},
        "destructive": {},
    }.items():
        manifest = resolved({"transport": "database"}, **subscriptions)
        Path(f"{name}.json").write_text(manifest.to_json(), encoding="utf-8")


def towpath(*arguments: str | Path) -> Result:
    return CliRunner().invoke(build_app(), [str(a) for a in arguments], env={"COLUMNS": "60", "NO_COLOR": "1"})


def test_diff_says_one_line_for_each_change_and_how_many_there_are() -> None:
    result = towpath("manifest", "diff", "deployed.json", "lossy.json")
    assert result.exit_code == 0
    assert result.stdout == (
        "lossy: subscription s: attempts are 3 instead of 5: deliveries that were tried 3 times or more become dead "
        "letters without another try\n"
        "1 change: 1 lossy.\n"
    )


def test_diff_says_of_what_a_change_is() -> None:
    old, new = resolved(None, s={}, gone={}), resolved({"retention_days": 3}, s={})
    Path("old.json").write_text(old.to_json(), encoding="utf-8")
    Path("new.json").write_text(new.to_json(), encoding="utf-8")
    told = towpath("manifest", "diff", "old.json", "new.json").stdout.splitlines()
    assert [line.split(" ")[1] for line in told[:-1]] == ["subscription", "topic", "on", "on"]
    assert told[2].startswith("safe: on AWS, operators may no longer ")
    assert told[-1] == "4 changes: 1 destructive, 1 lossy, 2 safe."


def test_diff_of_another_environment_speaks_of_the_manifest() -> None:
    Path("dev.json").write_text(Path("deployed.json").read_text().replace('"prod"', '"dev"'), encoding="utf-8")
    told = towpath("manifest", "diff", "deployed.json", "dev.json").stdout
    assert told.startswith("safe: the manifest is of shop in dev instead of shop in prod")


def test_diff_of_equal_manifests_is_nothing() -> None:
    result = towpath("manifest", "diff", "deployed.json", "deployed.json", "--fail-on", "any")
    assert (result.exit_code, result.stdout) == (0, "Nothing changes.\n")


def test_diff_as_json_has_every_change_with_its_paths_and_the_counts() -> None:
    result = towpath("manifest", "diff", "deployed.json", "lossy.json", "--json")
    found = shaped("manifest diff", result.stdout)
    assert found["counts"] == {"destructive": 0, "lossy": 1, "safe": 0}
    (change,) = found["changes"]
    assert change.pop("sentence").startswith("attempts are 3 instead of 5")
    assert change == {
        "impact": "lossy",
        "kind": "subscription",
        "name": "s",
        "paths": ["subscriptions.s.max_attempts"],
    }


@pytest.mark.parametrize(
    ("change", "level", "exit_code"),
    [
        ("destructive", "destructive", 1),
        ("lossy", "destructive", 0),
        ("safe", "destructive", 0),
        ("destructive", "lossy", 1),
        ("lossy", "lossy", 1),
        ("safe", "lossy", 0),
        ("destructive", "any", 1),
        ("lossy", "any", 1),
        ("safe", "any", 1),
        ("destructive", "none", 0),
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_diff_fails_on_changes_as_bad_as_it_is_told_or_worse(
    change: str, level: str, exit_code: int, form: list[str]
) -> None:
    result = towpath("manifest", "diff", "deployed.json", f"{change}.json", "--fail-on", level, *form)
    assert result.exit_code == exit_code
    assert change in result.stdout


@pytest.mark.parametrize(("change", "exit_code"), [("destructive", 1), ("lossy", 0), ("safe", 0)])
def test_diff_fails_on_destructive_changes_unless_it_is_told_otherwise(change: str, exit_code: int) -> None:
    assert towpath("manifest", "diff", "deployed.json", f"{change}.json").exit_code == exit_code


def test_diff_of_a_file_that_is_no_manifest_is_told_with_its_name() -> None:
    result = towpath("manifest", "diff", "deployed.json", GOLDEN / "tiny.toml")
    assert isinstance(result.exception, InvalidManifest)
    assert str(result.exception).startswith(f"{GOLDEN / 'tiny.toml'} is a topology")
    assert isinstance(towpath("manifest", "diff", "none.json", "deployed.json").exception, InvalidManifest)


@pytest.mark.parametrize("arguments", [["deployed.json"], ["deployed.json", "safe.json", "--fail-on", "much"]])
def test_wrong_use_of_diff_is_exit_2(arguments: list[str]) -> None:
    assert towpath("manifest", "diff", *arguments).exit_code == 2


def test_schema_is_the_json_schema_of_manifests() -> None:
    assert json.loads(towpath("manifest", "schema").stdout) == manifest_schema()


def test_render_all_on_database_says_whom_it_leaves_out() -> None:
    arguments = ("-e", "dev", "--all-on", "database")
    result = towpath("manifest", "render", GOLDEN / "everything.toml", *arguments)
    assert result.stdout == (
        "Wrote manifest.json for the environment dev (topics: 4, subscriptions: 11).\n"
        "Left out, since their consumers are not ours: orders.partner.\n"
    )
    assert "Left out" not in towpath("manifest", "render", GOLDEN / "tiny.toml", *arguments).stdout


@pytest.mark.parametrize("command", ["render", "diff", "schema"])
def test_every_command_shows_an_example_in_its_help(command: str) -> None:
    told = " ".join(towpath("manifest", command, "--help").stdout.split())
    assert f"Example: towpath manifest {command}" in told


def test_a_manifest_that_cannot_be_read_is_no_finding() -> None:
    result = CliRunner().invoke(build_app(), ["manifest", "diff", "deployed.json", "missing.json"])
    assert isinstance(result.exception, InvalidManifest)  # for which the command line exits 2, and 1 for a finding


def test_a_manifest_that_cannot_be_written_leaves_the_one_that_is_there(tmp_path: Path) -> None:
    target = tmp_path / "manifest.json"
    target.write_text("as it was", encoding="utf-8")
    with pytest.raises(UnicodeEncodeError):  # as good as a full disk: it comes in the middle of writing
        write_whole(target, "x" * 100_000 + "\ud800")
    assert target.read_text(encoding="utf-8") == "as it was"
    assert [file.name for file in tmp_path.glob(".manifest*")] == []


def test_a_manifest_is_written_through_a_link_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("as it was", encoding="utf-8")
    target.chmod(0o600)
    link.symlink_to(target)
    write_whole(link, "as it is")
    assert (target.read_text(encoding="utf-8"), target.stat().st_mode & 0o777) == ("as it is", 0o600)
    assert link.is_symlink()


def test_what_is_no_file_is_written_to() -> None:
    write_whole(Path("/dev/null"), "nothing")
    assert not Path("/dev/null").is_file()
