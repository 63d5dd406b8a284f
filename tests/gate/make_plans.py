"""Writes the plans that the tests of the gate judge: ``python -m tests.gate.make_plans``

They are of one real plan. The module is applied to LocalStack once; then Terraform plans for a root module that
calls it once for each case, edited as the case says, from a state in which each of these calls has what was applied. A
case's plan is its call's part. What the gate never reads is left out, and what no two runs have in common: ports, ids,
times. It needs Terraform and its AWS provider; ``tests/deployment/test_gate_fixtures.py`` compares a fresh run.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gate.cases import CASES, Deployed
from tests.servers.localstack import private_localstack
from towpath.gate.terraform import FORMS

PROJECT = Path(__file__).resolve().parents[2]
PLANS = Path(__file__).parent / "plans"
ACCOUNT, REGION = "000000000000", "eu-west-1"
SERVICES = ("cloudwatch", "cloudwatchlogs", "dynamodb", "iam", "kms", "lambda", "sns", "sqs", "sts")
RUN_SECONDS = 900

# What differs from run to run, and what it becomes.
VOLATILE = (
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://sqs.test"),
    (
        re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
        "00000000-0000-4000-8000-000000000000",
    ),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*(?:Z|[+-]\d\d:?\d\d)"), "2026-01-01T00:00:00Z"),
    (re.compile(r"ARO[A-Z0-9]{10,}"), "AROATEST"),
)


class TerraformFailed(Exception):
    """A command of Terraform's failed; the text is what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A folder with the module beside a root module of its own, so that no plan names a place on this machine."""

    folder: Path
    endpoint: str

    def write(self, calls: Mapping[str, Deployed], root: Mapping[str, Any] | None = None) -> None:
        """A root module that calls the module as ``calls`` say, each by its name."""
        modules = {name: self._call(name, deployed) for name, deployed in calls.items()}
        provider = {
            "region": REGION,
            "access_key": "test",
            "secret_key": "test",
            "skip_credentials_validation": True,
            "skip_metadata_api_check": True,
            "skip_requesting_account_id": True,
            "endpoints": [dict.fromkeys(SERVICES, self.endpoint)],
        }
        written = {
            "terraform": {"required_providers": {"aws": {"source": "hashicorp/aws"}}},
            "provider": {"aws": provider},
            "module": modules,
            **(root or {}),
        }
        (self.folder / "main.tf.json").write_text(json.dumps(written, indent=2), encoding="utf-8")
        self.terraform("init", "-input=false", "-no-color")

    def _call(self, name: str, deployed: Deployed) -> dict[str, Any]:
        manifest = f"manifest-{name}.json"
        (self.folder / manifest).write_text(json.dumps(deployed.manifest), encoding="utf-8")
        place = {"manifest_path": manifest, "region": REGION, "account_id": ACCOUNT}
        module = "module" if deployed.in_module is None else self._edited(f"module-{name}", *deployed.in_module)
        return {"source": f"./{module}", **place, **deployed.inputs}

    def _edited(self, copy: str, text: str, instead: str) -> str:
        shutil.copytree(self.folder / "module", self.folder / copy)
        topics = self.folder / copy / "topics.tf"
        before = topics.read_text(encoding="utf-8")
        assert before.count(text) == 1, f"the module's topics.tf does not say {text!r} once"
        topics.write_text(before.replace(text, instead), encoding="utf-8")
        return copy

    def copy_state(self, names: Iterable[str]) -> None:
        """Has the state hold what was applied once for each of ``names``, as calls of the module by these names."""
        path = self.folder / "terraform.tfstate"
        state = json.loads(path.read_text(encoding="utf-8"))
        applied = json.dumps([one for one in state["resources"] if one["mode"] == "managed"])
        copies = [json.loads(applied.replace("module.towpath", f"module.{name}")) for name in names]
        state |= {"resources": [one for copy in copies for one in copy], "serial": state["serial"] + 1, "outputs": {}}
        path.write_text(json.dumps(state), encoding="utf-8")

    def terraform(self, *arguments: str) -> str:
        """What the command printed. Raises ``TerraformFailed``."""
        ran = subprocess.run(
            ["terraform", *arguments],
            cwd=self.folder,
            env={**os.environ, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        if ran.returncode != 0:
            raise TerraformFailed(f"terraform {' '.join(arguments)}\n{ran.stdout}\n{ran.stderr}")
        return ran.stdout


def plans(endpoint: str) -> dict[str, str]:
    """The text of each case's plan, from what is applied to the LocalStack at ``endpoint``."""
    with tempfile.TemporaryDirectory(prefix="towpath-gate-", ignore_cleanup_errors=True) as folder:
        workspace = Workspace(folder=Path(folder), endpoint=endpoint)
        shutil.copytree(
            PROJECT / "terraform", workspace.folder / "module", ignore=shutil.ignore_patterns(".terraform*")
        )
        for number in (1, 2):
            with zipfile.ZipFile(workspace.folder / f"app-{number}.zip", "w") as archive:
                archive.writestr(zipfile.ZipInfo("app.py"), f"version = {number}\n")
        workspace.write({"towpath": Deployed.base()})
        workspace.terraform("apply", "-auto-approve", "-input=false", "-no-color", "-parallelism=40")
        workspace.copy_state(case.name for case in CASES)
        forgotten = [
            {"from": f"module.{case.name}", "lifecycle": [{"destroy": False}]} for case in CASES if case.forgets
        ]
        calls = {case.name: case.deployed() for case in CASES if case.module_is_there}
        workspace.write(calls, {"removed": forgotten})
        workspace.terraform("plan", "-refresh=false", "-input=false", "-lock=false", "-out=plan", "-parallelism=40")
        plan = json.loads(workspace.terraform("show", "-json", "plan"))
    idle = set(lines_of(plan, "nothing-changes"))  # what LocalStack does not keep, so that each plan sets it again
    version = str(plan["format_version"])
    return {
        case.name: text_of(version, [one for one in lines_of(plan, case.name) if one not in idle]) for case in CASES
    }


def lines_of(plan: Mapping[str, Any], call: str) -> list[str]:
    """The part of one call of the module: what the gate reads of what changes, one resource to a line."""
    changes = [
        _kept(one)
        for one in plan["resource_changes"]
        if one["module_address"] == f"module.{call}"
        and one["type"] in FORMS
        and one["change"]["actions"] not in (["no-op"], ["read"])
    ]
    return [_steady(json.dumps(one, sort_keys=True)).replace(f"module.{call}", "module.towpath") for one in changes]


def text_of(version: str, lines: Iterable[str]) -> str:
    """A plan as it is kept."""
    changes = ",\n".join(lines)
    return f'{{"format_version": "{version}", "planned_values": {{}}, "resource_changes": [\n{changes}\n]}}\n'


def _steady(text: str) -> str:
    for pattern, instead in VOLATILE:
        text = pattern.sub(instead, text)
    return text


def _kept(one: Mapping[str, Any]) -> dict[str, Any]:
    change = one["change"]
    before, after, unknown = (change.get(key) or {} for key in ("before", "after", "after_unknown"))
    form = FORMS[one["type"]]
    guarded = {*form.named, *(str(part.path[0]) for part in form.fields)}
    moved = {key for key in {*before, *after} if before and after and before.get(key) != after.get(key)}
    keys = guarded | moved | ({key for key, value in unknown.items() if value is True} if before else set())
    trimmed = {
        key: {name: value for name, value in change[key].items() if name in keys}
        if change.get(key)
        else change.get(key)
        for key in ("before", "after", "after_unknown")
    }
    kept = {
        key: one[key]
        for key in ("address", "previous_address", "mode", "type", "deposed", "action_reason")
        if key in one
    }
    return kept | {"change": {"actions": change["actions"], **trimmed}}


def main() -> None:
    PLANS.mkdir(exist_ok=True)
    with private_localstack() as endpoint:
        made = plans(endpoint)
    for name, text in made.items():
        (PLANS / f"{name}.json").write_text(text, encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
