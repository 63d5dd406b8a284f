"""Writes the templates that the tests of the gate judge: ``python -m tests.gate.make_templates``

Each case's are what the CDK app synthesises for it, whole; they are kept together, compressed. It needs Node.
``tests/deployment/test_gate_fixtures.py`` compares what is kept with a fresh run.
"""

import gzip
import json
from pathlib import Path
from typing import Any

from tests.gate.cases import CASES, Case
from tests.servers.cdk import start, templates
from towpath.errors import InvalidManifest
from towpath.manifest import Manifest

FILE = Path(__file__).parent / "templates.json.gz"

Stacks = dict[str, dict[str, Any]]


def made() -> dict[str, Stacks]:
    """The stacks of each case, by their names, and of what is deployed before, as ``base``. Cases that the CDK app
    refuses, or that are of Terraform's alone, are left out.
    """
    found = {"base": _stacks(Case(name="base"))}
    for case in CASES:
        if case.forgets or case.in_module:
            continue
        try:
            found[case.name] = _stacks(case) if case.module_is_there else {}
        except InvalidManifest:
            continue
    return found


def _stacks(case: Case) -> Stacks:
    start()
    from cdk_app import S3Artifact

    deployed = case.deployed()
    given = dict(deployed.inputs)
    codes = {name: one["filename"] for name, one in given.pop("artifacts").items()}
    artifacts = {
        name: S3Artifact(s3_bucket="bundles", s3_key=code, sha256=("1" if code == "app-1.zip" else "2") * 64)
        for name, code in codes.items()
    }
    more = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    return templates(Manifest.from_json(json.dumps(deployed.manifest)), artifacts=artifacts, **more)


def kept() -> dict[str, Stacks]:
    """What is in the file."""
    stacks: dict[str, Stacks] = json.loads(gzip.decompress(FILE.read_bytes()))
    return stacks


def main() -> None:
    text = json.dumps(made(), sort_keys=True)
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"{FILE.name}: {len(json.loads(text))} cases")


if __name__ == "__main__":
    main()
