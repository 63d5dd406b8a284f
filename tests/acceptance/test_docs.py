"""The documentation is run: every console session, every Python block, every topology in it."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from towpath.topology import load_topology

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted([PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md"), *(PROJECT / "examples").glob("*/README.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")


def test_every_page_is_in_the_table_of_contents():
    index = PROJECT / "docs/README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    assert [page for page in PAGES if index.parent in page.parents and not linked & {page, page.parent}] == [index]


@pytest.mark.parametrize(
    "page", [*PAGES, PROJECT / "CHANGELOG.md", PROJECT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_every_link_leads_to_something(page):
    assert [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()] == []


def blocks(language):
    found = {page: [c for name, c in FENCE.findall(page.read_text()) if name == language] for page in PAGES}
    return [pytest.param(code, id=str(page.relative_to(PROJECT))) for page, code in found.items() if code]


def clone(folder):
    """What a user has: the examples and the package, without what a run leaves behind."""
    shutil.copytree(
        PROJECT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.db*", "results", "dist")
    )
    for name in ("towpath", "lambda_runtime", "aws_transport", "local_transport", "bundling", "cdk_app"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, folder / name)


def session_script(sessions):
    """One shell for all sessions of a page. Each command's output is printed after a line that says which it was."""
    lines = ["set -e"]
    expected = []
    for line in "".join(sessions).splitlines():
        if line.startswith("$ "):
            lines += [f"echo '<<{len(expected)}>>'", line[2:]]
            expected.append((line[2:], []))
        elif line == ">" or line.startswith("> "):  # a here-document goes on
            lines.append(line[2:])
        elif line.strip() and line.strip() != "...":
            expected[-1][1].append(line.strip())
    return "\n".join(lines), expected


@pytest.mark.parametrize("sessions", blocks("console"))
def test_every_console_session_runs_and_prints_what_the_page_says(sessions, tmp_path):
    clone(tmp_path)
    script, expected = session_script(sessions)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOWPATH_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": "200", "NO_COLOR": "1"}
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    outputs = re.split(r"^<<\d+>>\n", ran.stdout, flags=re.MULTILINE)[1:]
    assert ran.returncode == 0, f"{expected[len(outputs) - 1][0]}\n{ran.stdout}\n{ran.stderr}"
    for (command, lines), output in zip(expected, outputs, strict=True):
        for line in lines:
            assert line in output, f"{command!r} does not print {line!r}, but:\n{output}"


@pytest.mark.parametrize("sources", blocks("python"))
def test_every_python_block_runs(sources, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for source in sources:
        namespace = {"__name__": "documentation"}
        exec(compile(textwrap.dedent(source), "documentation", "exec"), namespace)


@pytest.mark.parametrize("sources", blocks("toml"))
def test_every_topology_is_accepted(sources, tmp_path):
    for source in sources:
        (tmp_path / "topology.toml").write_text(source)
        assert load_topology(tmp_path / "topology.toml").subscriptions


def test_every_relative_link_leads_somewhere():
    broken = [
        f"{page.relative_to(PROJECT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
