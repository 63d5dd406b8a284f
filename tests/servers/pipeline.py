"""The commands with which a pipeline looks at a deployment: the gate before it, the check of its bindings after it."""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]


def blocked(folder: Path, *of: str, environment: str, allowed: Collection[str] = ()) -> set[str]:
    """The addresses that ``towpath terraform gate ...`` or ``towpath cdk gate ...``, as ``of`` says, blocks; with
    ``allowed`` in a file of overrides, of which none may be too many.
    """
    options = []
    if allowed:
        entry = {"environment": environment, "expires": "2999-12-31", "reason": "the test removes it"}
        overrides = folder / "overrides.json"
        overrides.write_text(json.dumps({"overrides": [{**entry, "addresses": sorted(allowed)}]}), encoding="utf-8")
        options = ["--allow", str(overrides), "--environment", environment]
    code, told = _told(folder, {}, *of, *options)
    assert told["notes"] == [], told["notes"]
    found = {one["address"] for one in told["blocked"]}
    assert code == (1 if found else 0)
    return found


def findings(folder: Path, reached: Mapping[str, str], manifest: Path, bindings: Path) -> list[dict[str, Any]]:
    """What ``towpath bindings check`` finds on the AWS that ``reached`` leads to."""
    _, told = _told(folder, reached, "bindings", "check", "--bindings", str(bindings), str(manifest))
    found: list[dict[str, Any]] = told["findings"]
    return found


def _told(folder: Path, variables: Mapping[str, str], *arguments: str) -> tuple[int, Any]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TOWPATH_"))}
    done = subprocess.run(
        [sys.executable, "-m", "towpath", *arguments, "--json"],
        cwd=folder,
        env={**inherited, **variables, "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)
