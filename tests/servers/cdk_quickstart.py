"""The quickstart, deployed by the CDK's command line to LocalStack, and used.

``python -m tests.servers.cdk_quickstart`` (``make demo-cdk``) does that from a clean state and says what it does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.servers.cdk import CdkUnavailable, bindings_in, run
from tests.servers.localstack import Aws, LocalStackUnavailable, private_localstack
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import load_topology, parse_topology

PROJECT = Path(__file__).resolve().parents[2]
QUICKSTART = PROJECT / "examples/quickstart"
DOCUMENT = "macbeth-act-1"
SUBSCRIPTION = "documents.convert"
BUCKET = "towpath-bundles"
ACCOUNT = "000000000000"  # LocalStack's
HANDLED_SECONDS = 240  # a second or two on an idle machine


@dataclass(frozen=True, kw_only=True)
class Quickstart:
    """The quickstart on ``aws``, its files in ``folder``. What it is deployed from is written there."""

    aws: Aws
    folder: Path
    context: Mapping[str, str] = field(default_factory=lambda: {"synthesis": "bootstrapless"})

    @property
    def variables(self) -> dict[str, str]:
        """What programs need to reach the AWS that it is on."""
        reached = {**self.aws.variables, "AWS_ENDPOINT_URL": self.aws.endpoint, "AWS_REGION": self.aws.region}
        return {**reached, "AWS_DEFAULT_REGION": self.aws.region}

    @property
    def manifest_file(self) -> Path:
        return self.folder / "manifest.json"

    @property
    def bindings_file(self) -> Path:
        return self.folder / "bindings.json"

    def write_manifest(self, **changes: Mapping[str, Any]) -> Manifest:
        """Render the topology into ``manifest.json``, with ``changes`` of subscriptions: keys of the one there is, and
        others whole. Dots in names are written as two underscores.
        """
        document = load_topology(QUICKSTART / "topology.toml").model_dump(
            mode="json", by_alias=True, exclude_unset=True
        )
        for name, keys in changes.items():
            subscriptions = document["subscriptions"]
            subscriptions[name.replace("__", ".")] = subscriptions.get(name.replace("__", "."), {}) | dict(keys)
        manifest = resolve(parse_topology(document), "dev")
        self.manifest_file.write_text(manifest.to_json(), encoding="utf-8")
        return manifest

    def bundle(self) -> None:
        """Build the function's zip for this machine, and upload it where the CDK cannot; ``artifacts.json`` is what the
        command prints.
        """
        options = ["--target", "host", "--output", str(self.folder), "--json"]
        if self.context.get("synthesis") == "bootstrapless":
            s3 = self.aws.client("s3")
            s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": self.aws.region})
            options += ["--upload", f"s3://{BUCKET}"]
        printed = self._towpath("bundle", SUBSCRIPTION, "--manifest", str(self.manifest_file), *options)
        (self.folder / "artifacts.json").write_text(printed, encoding="utf-8")

    def cdk(self, command: str, *options: str) -> str:
        """Run ``cdk deploy`` or ``cdk destroy`` for all stacks; answers what it prints. Raises when it fails."""
        told = {
            "manifest": str(self.manifest_file),
            "environment": "dev",
            "artifacts": str(self.folder / "artifacts.json"),
            "removal_policy": "destroy",
            **self.context,
            "function_environment": json.dumps({SUBSCRIPTION: self._function_variables()}),
        }
        context = [part for key, value in told.items() for part in ("-c", f"{key}={value}")]
        output = ("--output", str(self.folder / "cdk.out"))
        done = run(
            command, "--all", *options, *output, *context, environment={**self.variables, "CDK_VALIDATION": "false"}
        )
        if done.returncode:
            raise RuntimeError(f"cdk {command} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def bootstrap(self) -> None:
        """``cdk bootstrap``: the bucket and the roles that default synthesis needs."""
        where = f"aws://{ACCOUNT}/{self.aws.region}"
        done = run("bootstrap", where, environment=self.variables, folder=self.folder)  # not where an app is
        if done.returncode:
            raise RuntimeError(f"cdk bootstrap failed:\n{done.stdout}\n{done.stderr}")

    def deploy(self) -> None:
        """``cdk deploy``; ``bindings.json`` is written from its outputs."""
        outputs = self.folder / "outputs.json"
        self.cdk("deploy", "--require-approval", "never", "--outputs-file", str(outputs))
        bindings = bindings_in(json.loads(outputs.read_text(encoding="utf-8")))
        self.bindings_file.write_text(json.dumps(bindings), encoding="utf-8")

    def publish(self, document: str = DOCUMENT) -> None:
        """Publish a claim check to ``document`` through the bindings."""
        file = QUICKSTART / f"documents/{document}.md"
        options = ("--transport", f"aws://{self.aws.region}", "--attribute", "kind=text", "--ref", str(file))
        self._towpath("publish", "documents.process", *options)

    def handled(self, document: str = DOCUMENT) -> dict[str, Any]:
        """What the function wrote about ``document``; waits for it."""
        file = self.folder / f"results/{document}.md.json"
        deadline = time.monotonic() + HANDLED_SECONDS
        while time.monotonic() < deadline:
            try:
                found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                time.sleep(0.2)
            else:
                return found
        raise AssertionError(f"no function wrote {file}")

    def _function_variables(self) -> dict[str, str]:
        return {
            "QUICKSTART_DOCUMENTS": str(QUICKSTART / "documents"),
            "QUICKSTART_RESULTS": str(self.folder / "results"),
        }

    def _towpath(self, *arguments: str) -> str:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TOWPATH_"))}
        files = {"TOWPATH_MANIFEST": str(self.manifest_file), "TOWPATH_BINDINGS": str(self.bindings_file)}
        done = subprocess.run(
            [sys.executable, "-m", "towpath", *arguments],
            cwd=QUICKSTART,
            env={**inherited, **self.variables, **files, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"towpath {arguments[0]} failed:\n{done.stdout}\n{done.stderr}")
        return done.stdout


def main() -> None:
    print("LocalStack: install it where it is not there, and start it", flush=True)
    with private_localstack() as endpoint, tempfile.TemporaryDirectory(prefix="towpath-cdk-") as folder:
        quickstart = Quickstart(aws=Aws(endpoint=endpoint, region="eu-west-1"), folder=Path(folder))
        quickstart.write_manifest()
        print(f"towpath bundle {SUBSCRIPTION} --upload s3://{BUCKET}", flush=True)
        quickstart.bundle()
        print("cdk deploy --all", flush=True)
        quickstart.deploy()
        print(f"towpath publish documents.process --ref {DOCUMENT}.md", flush=True)
        quickstart.publish()
        found = quickstart.handled()
        print(f"the function found {found['words']:,} words in {found['document']}", flush=True)
        print("cdk destroy --all", flush=True)
        quickstart.cdk("destroy", "--force")


if __name__ == "__main__":
    try:
        main()
    except (CdkUnavailable, LocalStackUnavailable) as unavailable:
        sys.exit(f"demo-cdk: {unavailable}")
