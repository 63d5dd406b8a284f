"""Who may import whom, and what is loaded with what: the distribution goes into every Lambda zip."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITH_OTHERS = {
    "cli",
    "topology",
    "resolve",
    "__main__",
    "pytest_plugin",
}  # these may load pydantic, Typer, Rich, pytest
CORE = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "towpath").rglob("*.py")
    if path.relative_to(ROOT).with_suffix("").parts[1] not in WITH_OTHERS
)
LOADED = """
import json, sys
before = set(sys.modules)
for name in json.loads(sys.argv[1]):
    __import__(name, fromlist=json.loads(sys.argv[2]))
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(*modules: str, names: Sequence[str] = ()) -> set[str]:
    """What a fresh process has loaded once it has imported ``modules``, and ``names`` from them."""
    command = [sys.executable, "-c", LOADED, json.dumps(modules), json.dumps(names)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return set(json.loads(done.stdout))


def foreign(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"towpath"}


def test_every_import_contract_is_kept():
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


def test_importing_towpath_loads_nothing_else():
    assert loaded_by("towpath") == {"__future__", "towpath"}


HANDLERS_NAMES = ["Complete", "Context", "DeadLetter", "FatalError", "Message", "NewMessage", "Retry", "TransientError"]
HEAVY = {
    "asyncio",
    "concurrent",
    "email",
    "http",
    "importlib.metadata",
    "logging",
    "pathlib",
    "socket",
    "tomllib",
    "urllib",
}


def test_what_a_handler_imports_loads_little_of_the_standard_library_and_nothing_more():
    loaded = loaded_by("towpath", names=HANDLERS_NAMES)
    assert foreign(loaded) == set()
    assert not HEAVY & loaded
    names = ("context", "errors", "frozen", "json_values", "limits", "message", "outcome", "patterns")
    assert {name for name in loaded if name.startswith("towpath.")} == {f"towpath.{name}" for name in names}


def test_the_core_without_topology_and_commands_loads_the_standard_library_only():
    assert len(CORE) > 15
    loaded = loaded_by(*(name.removesuffix(".__init__") for name in CORE))
    assert foreign(loaded) == set()
    assert "tomllib" not in loaded


def test_the_plugin_for_pytest_costs_a_run_that_does_not_use_it_nothing():
    assert loaded_by("towpath.pytest_plugin") - loaded_by("pytest") == {"towpath", "towpath.pytest_plugin"}


def test_a_transport_is_loaded_only_when_it_is_asked_for():
    loaded = loaded_by("towpath.transports", "towpath.worker")
    assert not {"aws_transport", "local_transport", "lambda_runtime", "bundling", "cdk_app"} & foreign(loaded)


def test_what_a_user_needs_comes_from_towpath_itself():
    import towpath

    names = {"Complete", "Context", "DeadLetter", "FatalError", "Message", "NewMessage", "Outcome", "Retry", "connect"}
    assert names <= set(towpath.__all__)
    assert all(hasattr(towpath, name) for name in towpath.__all__)
    assert dir(towpath) == sorted(towpath.__all__)


def test_towpath_has_nothing_else():
    import towpath

    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = towpath.nothing
