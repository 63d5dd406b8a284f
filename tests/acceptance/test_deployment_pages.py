"""The pages on changing and deploying: their workflows have steps that a runner takes, and the gate is among them."""

import re
from pathlib import Path

import pytest
import yaml

from tests.pages.calls import calls_in_code

HOW_TO = Path(__file__).resolve().parents[2] / "docs/how-to"
PAGES = ("change-a-topology.md", "check-bindings.md", "deploy-from-github-actions.md")
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, *languages: str) -> list[str]:
    return [code for language, code in FENCE.findall((HOW_TO / page).read_text()) if language in languages]


CALLS = sorted(
    {(page, call) for page in PAGES for code in blocks(page, "sh", "console", "yaml") for call in calls_in_code(code)}
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
