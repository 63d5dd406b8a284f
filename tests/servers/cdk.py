"""The CDK for tests: stacks synthesised in this process, and the real command line.

``aws_cdk`` starts Node when it is imported, so nothing here imports it before a test asks for a stack.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from towpath.manifest import Manifest

PROJECT = Path(__file__).resolve().parents[2]
COMMAND = PROJECT / "node_modules/.bin/cdk"
# Node 20 is past its end; and the CDK's own validation of a template takes ten times as long as making it, so only
# the command line, and cfn-lint in a test, look at what is synthesised.
QUIET = {
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "NODE_NO_WARNINGS": "1",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
}
UNVALIDATED = {"CDK_VALIDATION": "false"}
PATHS = {"aws:cdk:enable-path-metadata": True}  # as the command line has it
SHA256 = "5f" * 32


class CdkUnavailable(Exception):
    """Node or the CDK's command line is not there; the text says what to do."""


@lru_cache(maxsize=1)
def start() -> None:
    """Start Node, quietly; raises ``CdkUnavailable`` without one. From here on ``cdk_app`` may be imported."""
    if shutil.which("node") is None:
        raise CdkUnavailable("there is no node on the PATH; install Node.js 20 or newer")
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {**QUIET, **UNVALIDATED}.items():
            environment.setenv(name, value)
        import aws_cdk  # noqa: F401 - this starts Node, which keeps these variables


def artifacts(manifest: Manifest) -> dict[str, Any]:
    """A zip in S3 for each function of the manifest."""
    start()
    from cdk_app import S3Artifact

    return {
        name: S3Artifact(s3_bucket="bundles", s3_key=f"{name}/{SHA256}.zip", sha256=SHA256)
        for name, one in manifest.subscriptions.items()
        if one.aws is not None and one.aws.function is not None
    }


def template(manifest: Manifest, **inputs: Any) -> dict[str, Any]:
    """The template of one stack that holds everything in ``manifest``; with zips in S3 where no artifacts are given."""
    start()
    from aws_cdk import App, assertions

    from cdk_app import Inputs, TowpathStack

    given = Inputs(**{"artifacts": artifacts(manifest), **inputs})
    stack = TowpathStack(App(context=PATHS), "all", manifest=manifest, inputs=given)
    made: dict[str, Any] = assertions.Template.from_stack(stack).to_json()
    return made


def templates(manifest: Manifest, **inputs: Any) -> dict[str, dict[str, Any]]:
    """The templates of all stacks that ``manifest`` names, by their names."""
    start()
    from aws_cdk import App

    from cdk_app import Inputs, towpath_stacks

    app = App(context=PATHS)
    towpath_stacks(app, manifest, Inputs(**{"artifacts": artifacts(manifest), **inputs}))
    return {stack.stack_name: stack.template for stack in app.synth().stacks}


def installed() -> Path:
    """The CDK's command line. Raises ``CdkUnavailable`` where ``npm ci`` has not installed it."""
    if shutil.which("node") is None or not COMMAND.exists():
        raise CdkUnavailable("the CDK's command line is not installed: 'make cdk' installs it, with npm")
    return COMMAND


def run(
    *arguments: str, environment: Mapping[str, str] | None = None, folder: Path = PROJECT
) -> "subprocess.CompletedProcess[str]":
    """Run ``cdk`` in the project's folder, where ``cdk.json`` is, with this Python for the app."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TOWPATH_", "CDK_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(installed()), "--no-notices", "--no-color", *arguments],
        cwd=folder,
        env={**inherited, **QUIET, "PATH": path, "CI": "true", "PYTHONPATH": str(PROJECT), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def bindings_in(outputs: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The bindings in the file that ``cdk deploy --outputs-file`` writes, of all its stacks."""
    together: dict[str, Any] = {"topics": {}, "subscriptions": {}}
    for of_stack in outputs.values():
        for kind, entries in json.loads(of_stack["Bindings"]).items():
            together[kind] |= entries
    return together
