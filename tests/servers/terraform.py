"""Terraform for the tests: roots of their own around the module, planned offline or applied to LocalStack."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
MODULE = PROJECT / "terraform"
PLUGINS = PROJECT / ".tools" / "terraform"
SERVICES = ("cloudwatch", "dynamodb", "iam", "kms", "lambda", "logs", "sns", "sqs", "sts")
ACCOUNT = "000000000000"  # LocalStack's
REGION = "eu-west-1"


class TerraformUnavailable(Exception):
    """There is no Terraform; the text says what to do."""


class TerraformFailed(Exception):
    """A command of Terraform's failed; the text is what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terraform:
    """Terraform in a folder that holds a root module, with the folder's own state."""

    folder: Path

    def initialise(self) -> "Terraform":
        """Install the provider: a link to the one copy that all tests have."""
        self.run("init", "-input=false")
        return self

    def run(self, *arguments: str) -> str:
        """What the command wrote to standard output. Raises ``TerraformFailed``."""
        done = subprocess.run(
            [binary(), arguments[0], "-no-color", *arguments[1:]],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise TerraformFailed(f"terraform {' '.join(arguments)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def plan(self, *arguments: str) -> dict[str, Any]:
        """A plan as the document that ``terraform show -json`` prints; the plan itself is in ``plan.tfplan``."""
        self.run("plan", "-input=false", "-lock=false", "-out=plan.tfplan", *arguments)
        document: dict[str, Any] = json.loads(self.run("show", "-json", "plan.tfplan"))
        return document

    def apply(self) -> None:
        """Apply what was planned last."""
        self.run("apply", "-input=false", "-parallelism=30", "plan.tfplan")

    def destroy(self) -> None:
        """Delete everything."""
        self.run("destroy", "-input=false", "-auto-approve", "-parallelism=30", "-refresh=false")

    def output(self, name: str) -> Any:
        """One output of the deployment."""
        return json.loads(self.run("output", "-json", name))


def binary() -> str:
    """Where Terraform is. Raises ``TerraformUnavailable``."""
    found = shutil.which("terraform")
    if found is None:
        raise TerraformUnavailable("there is no terraform; install 1.7 or newer (developer.hashicorp.com/terraform/install)")
    return found


def environment() -> dict[str, str]:
    """Nothing of a user's AWS; one copy of the provider for all roots, unless a configuration says where it is."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TF_"))}
    given = {"TF_IN_AUTOMATION": "1", "CHECKPOINT_DISABLE": "1"}
    configured = os.environ.get("TF_CLI_CONFIG_FILE")
    if configured is not None:
        return inherited | given | {"TF_CLI_CONFIG_FILE": configured}
    PLUGINS.mkdir(parents=True, exist_ok=True)
    cache = {"TF_PLUGIN_CACHE_DIR": str(PLUGINS), "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1"}
    return inherited | given | cache


def provider(endpoints: Mapping[str, str]) -> dict[str, Any]:
    """A provider that asks nobody who it is."""
    return {
        "region": REGION,
        "access_key": "test",
        "secret_key": "test",
        "skip_credentials_validation": True,
        "skip_metadata_api_check": True,
        "skip_requesting_account_id": True,
        "endpoints": [dict(endpoints)],
    }


def on_localstack(endpoint: str, moto: str | None = None) -> dict[str, str]:
    """Endpoints of all that the module needs; KMS and DynamoDB are moto's where it is given."""
    others = {} if moto is None else {"kms": moto, "dynamodb": moto}
    return dict.fromkeys(SERVICES, endpoint) | others


def root(folder: Path, modules: Mapping[str, Mapping[str, Any]], endpoints: Mapping[str, str]) -> Terraform:
    """Write a root with the module in it, once for each of ``modules``, which are inputs by name; each output is the
    outputs of the module of that name. ``initialise`` comes next, once.
    """
    given = {"source": str(MODULE), "region": REGION, "account_id": ACCOUNT}
    document = {
        "provider": {"aws": [provider(endpoints)]},
        "module": {name: given | inputs for name, inputs in modules.items()},
        "output": {name: {"value": f"${{module.{name}}}"} for name in modules},
    }
    (folder / "main.tf.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    return Terraform(folder=folder)


def planned(plan: Mapping[str, Any], module: str) -> dict[str, dict[str, Any]]:
    """The resources of ``module`` in a plan, by their addresses in it: what they are to be."""
    modules = {one["address"]: one["resources"] for one in plan["planned_values"]["root_module"]["child_modules"]}
    address = f"module.{module}"
    return {one["address"].removeprefix(f"{address}."): one["values"] for one in modules[address]}


def actions(plan: Mapping[str, Any]) -> dict[str, list[str]]:
    """What a plan does to the resources that it changes, by their addresses without their modules."""
    changes = {one["address"]: one["change"]["actions"] for one in plan["resource_changes"]}
    return {address.split(".", 2)[2]: done for address, done in changes.items() if done != ["no-op"]}
