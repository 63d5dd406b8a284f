"""The quickstart on LocalStack by Terraform: ``make demo-terraform``. Each step is told as it begins."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.localstack import Aws, LocalStackUnavailable, private_localstack
from tests.servers.terraform import PROJECT, REGION, Terraform, TerraformFailed, TerraformUnavailable, binary
from tests.servers.terraform import on_localstack, root

QUICKSTART = PROJECT / "examples/quickstart"
SUBSCRIPTION = "documents.convert"
HANDLED_SECONDS = 120


def main() -> None:
    """Deploy, publish one document, wait for the function's result, remove everything."""
    argparse.ArgumentParser(prog="python -m tests.terraform.demo", description=__doc__).parse_args()
    try:
        binary()
        with private_localstack() as endpoint, tempfile.TemporaryDirectory(prefix="towpath-terraform-") as folder:
            demonstrate(Aws(endpoint=endpoint, region=REGION), Path(folder))
    except (LocalStackUnavailable, TerraformUnavailable, TerraformFailed) as error:
        sys.exit(f"error: {error}")


def demonstrate(aws: Aws, folder: Path) -> None:
    """The whole way, with all files in ``folder``."""
    tell("render the manifest, bundle the handler")
    towpath("manifest", "render", str(QUICKSTART / "topology.toml"), "-e", "demo", "-o", str(folder / "manifest.json"))
    bundled = ("--project", str(QUICKSTART), "--manifest", str(folder / "manifest.json"), "--output", str(folder))
    artifact = json.loads(towpath("bundle", SUBSCRIPTION, "--target", "host", *bundled, "--json"))
    terraform = deployed(aws, folder, artifact)
    try:
        tell("publish one document through the bindings that Terraform wrote")
        (folder / "bindings.json").write_text(json.dumps(terraform.output("towpath")["bindings"]))
        act = "documents/macbeth-act-1.md"
        print(published(aws, folder, act).strip(), flush=True)
        tell("wait for the function")
        print(json.dumps(result(folder / "results/macbeth-act-1.md.json"), indent=1), flush=True)
    finally:
        tell("remove everything")
        terraform.destroy()


def deployed(aws: Aws, folder: Path, artifact: dict[str, object]) -> Terraform:
    """The module, applied; the function reads the quickstart's documents and writes its results into ``folder``."""
    tell("terraform init, plan and apply: queues take a while")
    variables = {"QUICKSTART_DOCUMENTS": str(QUICKSTART / "documents"), "QUICKSTART_RESULTS": str(folder / "results")}
    inputs = {
        "manifest_path": "manifest.json",
        "artifacts": {SUBSCRIPTION: {"path": artifact["path"], "sha256": artifact["sha256"]}},
        "function_environment": {SUBSCRIPTION: variables},
    }
    terraform = root(folder, {"towpath": inputs}, on_localstack(aws.endpoint)).initialise()
    plan = terraform.plan()
    print(f"{len(plan['resource_changes'])} resources", flush=True)
    terraform.apply()
    return terraform


def published(aws: Aws, folder: Path, document: str) -> str:
    """What ``towpath publish`` says of one document by reference."""
    variables = {
        **aws.variables,
        "TOWPATH_TRANSPORT": f"aws://{aws.region}",
        "TOWPATH_MANIFEST": str(folder / "manifest.json"),
        "TOWPATH_BINDINGS": str(folder / "bindings.json"),
    }
    return towpath("publish", "documents.process", "--ref", document, "--attribute", "kind=text", **variables)


def result(file: Path) -> object:
    """What the function wrote, once it did."""
    end = time.monotonic() + HANDLED_SECONDS
    while not file.exists():
        if time.monotonic() > end:
            sys.exit(f"error: the function wrote no {file.name} within {HANDLED_SECONDS} s")
        time.sleep(0.3)
    return json.loads(file.read_text(encoding="utf-8"))


def towpath(*arguments: str, **variables: str) -> str:
    """What a command of Towpath's prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    command = [sys.executable, "-m", "towpath", *arguments]
    done = subprocess.run(
        command, cwd=QUICKSTART, env=inherited | variables, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def tell(step: str) -> None:
    """Say what comes now."""
    print(f"--- {step} ---", flush=True)


if __name__ == "__main__":
    main()
