"""The examples: each has what its index says, and its own tests pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/topology.toml"))
TESTS = sorted(EXAMPLES.glob("*/test_*.py"))


def test_the_tests_of_all_examples_pass():
    """In one process, as each takes longer to start than to run; nothing in the clone tells them where things are."""
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-c", "/dev/null"]
    ran = subprocess.run(
        [*command, "--rootdir", ".", *(str(test.relative_to(EXAMPLES)) for test in TESTS)],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_modules_of_examples_that_are_tested_together_have_names_of_their_own():
    modules = [path.stem for test in TESTS for path in test.parent.glob("*.py")]
    assert sorted(modules) == sorted(set(modules))


def test_the_index_names_every_example():
    index = (EXAMPLES / "README.md").read_text()
    linked = {target.partition("/")[0] for target in re.findall(r"\]\(([^)]+)\)", index)}
    assert {folder.name for folder in FOLDERS} <= linked
    assert [target for target in re.findall(r"\]\(([^)#]+)", index) if not (EXAMPLES / target).exists()] == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_handler_stands_in_its_own_folder(folder):
    named = re.findall(r'^handler = "([\w.]+):', (folder / "topology.toml").read_text(), re.MULTILINE)
    assert named
    assert [name for name in named if not (folder / f"{name.replace('.', '/')}.py").is_file()] == []
