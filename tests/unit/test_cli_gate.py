"""``towpath terraform gate`` and ``towpath cdk gate``: what they print, and how they exit."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fakes.json_shapes import shaped
from tests.gate.make_plans import PLANS
from towpath.cli.main import build_app, main

SAFE, LOSSY = str(PLANS / "retention-longer.json"), str(PLANS / "retention-shorter.json")
QUEUE = 'module.towpath.aws_sqs_queue.queue["orders.pack"]'


def run(*arguments: str) -> Any:
    return CliRunner().invoke(build_app(), list(arguments))


@pytest.fixture
def overrides(tmp_path: Path) -> Path:
    entry = {"addresses": [QUEUE], "environment": "prod", "expires": "2999-12-31", "reason": "agreed"}
    (tmp_path / "overrides.json").write_text(json.dumps({"overrides": [entry]}))
    return tmp_path / "overrides.json"


def test_a_safe_plan_is_exit_0() -> None:
    ran = run("terraform", "gate", SAFE)
    assert (ran.exit_code, ran.stdout.startswith("Nothing is blocked: ")) == (0, True)


def test_a_lossy_plan_is_exit_1_and_each_address_is_told() -> None:
    ran = run("terraform", "gate", LOSSY)
    assert ran.exit_code == 1
    assert (
        f"blocked, lossy: queue {QUEUE}: its queue keeps a message for 86,400 seconds instead of 604,800" in ran.stdout
    )


def test_what_an_override_allows_is_told_and_exit_0(overrides: Path) -> None:
    ran = run("terraform", "gate", LOSSY, "--allow", str(overrides), "--environment", "prod")
    assert ran.exit_code == 0
    assert f"allowed, lossy: queue {QUEUE}" in ran.stdout
    assert "0 blocked, 1 allowed by overrides" in ran.stdout


def test_an_override_that_is_not_needed_is_told_and_blocks_nothing(overrides: Path) -> None:
    ran = run("terraform", "gate", SAFE, "--allow", str(overrides), "--environment", "prod")
    assert ran.exit_code == 0
    assert f"warning: the override of {QUEUE} is not needed" in ran.stderr


def test_json_has_what_is_blocked_and_allowed_and_what_is_to_be_said(overrides: Path) -> None:
    ran = run("terraform", "gate", LOSSY, "--allow", str(overrides), "--environment", "test", "--json")
    told = shaped("terraform gate", ran.stdout)
    assert ran.exit_code == 1
    assert [(one["address"], one["kind"], one["impact"]) for one in told["blocked"]] == [(QUEUE, "queue", "lossy")]
    assert (told["allowed"], told["notes"]) == ([], [])


@pytest.mark.parametrize("option", [["--allow", "overrides.json"], ["--environment", "prod"]])
def test_overrides_and_environment_go_together(option: list[str]) -> None:
    assert run("terraform", "gate", LOSSY, *option).exit_code == 2


def test_the_cdks_gate_compares_folders(tmp_path: Path) -> None:
    for name, seconds in (("deployed", 604_800), ("cdk.out", 86_400)):
        (tmp_path / name).mkdir()
        queue = {"Type": "AWS::SQS::Queue", "Properties": {"MessageRetentionPeriod": seconds}}
        (tmp_path / name / "one.template.json").write_text(json.dumps({"Resources": {"Q": queue}}))
    ran = run("cdk", "gate", str(tmp_path / "deployed"), str(tmp_path / "cdk.out"))
    assert (ran.exit_code, "blocked, lossy: queue one/Q" in ran.stdout) == (1, True)


@pytest.mark.parametrize("group", ["terraform", "cdk"])
def test_a_file_that_cannot_be_judged_is_exit_2_and_one_sentence(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["towpath", group, "gate", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
