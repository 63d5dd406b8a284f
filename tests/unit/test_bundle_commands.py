"""``towpath bundle`` as a command group, and what it refuses before it builds anything."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bundling.errors import NotABundle, UnusableProject
from towpath.cli.main import build_app
from towpath.errors import InvalidManifest, SubscriptionNotFound

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def bundle(*arguments: str | Path) -> Result:
    words = ["bundle", *(str(argument) for argument in arguments)]
    return CliRunner().invoke(build_app(), words, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_help_shows_both_commands_and_the_short_form() -> None:
    for arguments in (["--help"], ["-h"], []):
        result = bundle(*arguments)
        for word in ("build", "verify", "towpath bundle SUBSCRIPTION"):
            assert word in result.output


def test_the_short_form_is_build_wherever_the_options_stand() -> None:
    manifest = GOLDEN / "documents.json"
    for arguments in (["nope", "-m", manifest], ["-m", manifest, "nope"], ["build", "nope", "--manifest", manifest]):
        result = bundle(*arguments)
        assert isinstance(result.exception, SubscriptionNotFound), result.output


def test_the_manifest_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(bundle("nope").exception, InvalidManifest)
    monkeypatch.setenv("TOWPATH_MANIFEST", str(GOLDEN / "documents.json"))
    assert isinstance(bundle("nope").exception, SubscriptionNotFound)


@pytest.mark.parametrize("options", [(), ("--target", "host"), ("--runtime", "python3.13", "--architecture", "arm64")])
def test_a_subscription_on_a_worker_is_refused_whatever_the_target(options: tuple[str, ...]) -> None:
    result = bundle("ledger.post", "-m", GOLDEN / "everything.json", *options)
    assert isinstance(result.exception, UnusableProject)
    assert "ledger.post runs on a worker in" in str(result.exception)
    assert "render one for Lambda: towpath manifest render --environment" in str(result.exception)


def test_a_folder_that_is_no_project_is_refused() -> None:
    result = bundle("documents.convert", "-m", GOLDEN / "documents.json", "--target", "host")
    assert "neither requirements.txt nor pyproject.toml" in str(result.exception)
    assert not Path("dist").exists()


def test_verify_needs_an_event() -> None:
    result = bundle("verify", "x.zip")
    assert result.exit_code == 2
    assert "--event" in result.output


def test_verify_refuses_what_is_no_bundle() -> None:
    Path("event.json").write_text("{}")
    Path("text.zip").write_text("text")
    for name, problem in (("nowhere.zip", "does not exist"), ("text.zip", "is no zip")):
        result = bundle("verify", name, "--event", "event.json")
        assert isinstance(result.exception, NotABundle)
        assert problem in str(result.exception)
