"""What ``towpath init`` makes is run: its test and its demo, its zip under AWS's runtime client, its deployment as far
as no account is needed.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bundling.uv import find_uv
from tests.conftest import left_out
from tests.servers import cdk, terraform
from tests.servers.terraform import ACCOUNT, Terraform, planned
from towpath.manifest import Manifest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(900)


def environment(**more: str) -> dict[str, str]:
    """Nothing of a user's, the code of this folder, and one copy of Terraform's provider for all."""
    kept = {name: value for name, value in terraform.environment().items() if not name.startswith("TOWPATH_")}
    return kept | cdk.QUIET | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "CI": "true"} | more


def run(folder: Path, *command: str, **more: str) -> str:
    """What the command wrote to standard output."""
    done = subprocess.run(
        command, cwd=folder, env=environment(**more), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def equipped(folder: Path) -> None:
    """The project's environment as ``make setup`` leaves it, lent by the tests' own: nothing is installed."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, runs in {"python": "", "towpath": " -m towpath"}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{runs} "$@"\n')
        (programs / name).chmod(0o755)
    (folder / ".venv" / ".ready").touch()


Make = Callable[..., str]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Runs ``make`` in a new project of a kind; the project is made when it is first asked for."""
    folder = tmp_path_factory.mktemp("projects")

    def made(infrastructure: str, payload: str, *arguments: str) -> str:
        project = folder / f"shop-{infrastructure}-{payload}"
        if not project.exists():
            chosen = ("--infrastructure", infrastructure, "--payload", payload)
            run(folder, sys.executable, "-m", "towpath", "init", project.name[:20], *chosen)
            equipped(project)
        if not arguments:
            return str(project)
        return run(project, "make", *arguments)

    return made


@pytest.mark.parametrize("payload", ["model", "json"])
@pytest.mark.parametrize("infrastructure", ["terraform", "cdk"])
def test_a_new_project_passes_its_own_tests_and_its_demo_handles_messages(
    make: Make, infrastructure: str, payload: str
) -> None:
    shown = make(infrastructure, payload, "test", "demo")
    assert "3 passed" in shown
    assert "4 received: 2 completed, 1 dead, 1 retried" in shown
    assert {"model": "InvalidPayload", "json": "an order needs a number"}[payload] in shown


@pytest.mark.parametrize("payload", ["model", "json"])
def test_its_modules_have_sound_types(make: Make, payload: str) -> None:
    project = Path(make("terraform", payload))
    run(project, sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(project.parent / "mypy"), ".")


@pytest.mark.usefixtures("terraform")
def test_a_terraform_project_bundles_runs_its_zip_and_plans_what_its_manifest_says(make: Make) -> None:
    bundled = make("terraform", "model", "bundle")
    assert "3 records: 1 completed, 1 dead, 1 retried" in bundled
    assert "The configuration is valid." in make("terraform", "model", "synth")

    project = Path(make("terraform", "model"))
    asks_nobody = {"provider": {"aws": {k: v for k, v in terraform.provider({}).items() if k != "endpoints"}}}
    (project / "terraform/asks_nobody_override.tf.json").write_text(json.dumps(asks_nobody))
    root = Terraform(folder=project / "terraform")
    resources = planned(root.plan("-var", f"account_id={ACCOUNT}"), "towpath")
    aws = Manifest.load(project / "aws.json").subscriptions["orders.ship"].aws
    assert aws is not None
    assert resources['aws_sqs_queue.queue["orders.ship"]']["name"] == aws.queue.name
    function = resources['aws_lambda_function.function["orders.ship"]']
    assert function["filename"].endswith("dist/orders.ship.zip")
    (project / "plan.json").write_text(root.run("show", "-json", "plan.tfplan"))
    run(project, ".venv/bin/towpath", "terraform", "gate", "plan.json")


def test_a_cdk_project_bundles_runs_its_zip_and_synthesises_what_its_manifest_says(make: Make) -> None:
    try:
        command = cdk.installed()
    except cdk.CdkUnavailable as error:
        left_out("the CDK", str(error))
    assert "3 records: 1 completed, 1 dead, 1 retried" in make("cdk", "json", "bundle")
    make("cdk", "json", "synth", f"CDK={command}")
    project = Path(make("cdk", "json"))
    manifest = Manifest.load(project / "aws.json")
    templates = [json.loads(path.read_text()) for path in (project / "cdk.out").glob("*.template.json")]
    properties = [one.get("Properties", {}) for template in templates for one in template["Resources"].values()]
    aws = manifest.subscriptions["orders.ship"].aws
    assert aws is not None
    assert aws.function is not None
    assert [one for one in properties if one.get("QueueName") == aws.queue.name]
    (function,) = [one for one in properties if one.get("FunctionName") == aws.function.name and "Runtime" in one]
    assert function["Runtime"] == aws.function.runtime


def test_a_wheel_makes_the_same_project_which_depends_on_that_wheel(tmp_path: Path) -> None:
    uv = find_uv(ROOT)
    uv.run("build", "--wheel", "--out-dir", tmp_path, "--python", sys.executable, ROOT, purpose="build Towpath's wheel")
    (wheel,) = tmp_path.glob("*.whl")
    library = tmp_path / "library"
    uv.run("pip", "install", "--no-deps", "--target", library, wheel, purpose="install it")
    said = run(tmp_path, sys.executable, "-m", "towpath", "init", "shop", "--json", PYTHONPATH=str(library))
    assert f'path = "{Path("..") / wheel.name}"' in (tmp_path / "shop/pyproject.toml").read_text()
    from_clone = json.loads(run(tmp_path, sys.executable, "-m", "towpath", "init", "again", "--json"))
    assert json.loads(said)["files"] == from_clone["files"]
    module = library / "towpath/cli/project/terraform/terraform/towpath"
    assert not [name for name in ("tests", "examples", "README.md") if (module / name).exists()]
    shutil.rmtree(library)
