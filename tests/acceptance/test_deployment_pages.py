"""The pages on changing and deploying: their workflows are YAML, and each command in them is one, with its options."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command, get_group

from aws_transport.commands import app as bindings
from towpath.cli.main import build_app

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
PAGES = ("change-a-topology.md", "check-bindings.md", "deploy-from-github-actions.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"^\s*(?:- run: |\$ )?(towpath [^\n]*)$", re.MULTILINE)


def blocks(page: str, *languages: str) -> list[str]:
    return [code for language, code in FENCE.findall((HOW_TO / page).read_text()) if language in languages]


CALLS = sorted(
    {(page, call) for page in PAGES for code in blocks(page, "sh", "console", "yaml") for call in CALL.findall(code)}
)


def test_the_pages_call_what_they_are_about() -> None:
    called = {" ".join(call.split()[:3]) for _, call in CALLS}
    assert called >= {
        "towpath terraform gate",
        "towpath cdk gate",
        "towpath bindings check",
        "towpath bindings from-stack",
        "towpath bindings rights",
    }


@pytest.mark.parametrize(("page", "call"), CALLS, ids=[f"{page}: {call[:60]}" for page, call in CALLS])
def test_every_command_exists_with_its_options(page: str, call: str) -> None:
    words = shlex.split(re.split(r"\s+(?:\||\|\||>|#)\s*", call)[0])[1:]
    command: Any = get_command(build_app())
    while hasattr(command, "get_command"):
        name = words.pop(0)
        command = get_group(bindings) if name == "bindings" else command.get_command(None, name)
        assert command is not None, name
    known = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("-") and word not in known] == []


@pytest.mark.parametrize("code", blocks("deploy-from-github-actions.md", "yaml"), ids=lambda code: code.splitlines()[0])
def test_every_workflow_is_yaml_with_steps_that_do_one_thing(code: str) -> None:
    document = yaml.safe_load(code)
    jobs = document.get("jobs") or {"only": {**document, "runs-on": "any"}}
    for job in jobs.values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) is not ("uses" in step)
            assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"])
    if "jobs" in document:
        assert document[True]  # what YAML 1.1 makes of "on"
        assert document["permissions"]["id-token"] == "write"


def test_what_is_applied_needs_a_plan_that_passed_and_a_person() -> None:
    deploy = yaml.safe_load(blocks("deploy-from-github-actions.md", "yaml")[0])
    apply = deploy["jobs"]["apply"]
    assert (apply["needs"], apply["environment"]) == ("plan", "prod")
    gates = [step["run"] for step in deploy["jobs"]["plan"]["steps"] if "towpath terraform gate" in step.get("run", "")]
    assert len(gates) == 1
