"""Runs the sessions of a page: a shell for those that belong together, each command's output held against the page."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.pages.blocks import PROJECT, Block

PACKAGES = ("towpath", "lambda_runtime", "aws_transport", "local_transport", "bundling", "cdk_app", "terraform")
FILES = ("pyproject.toml", "README.md", "LICENSE", "cdk.json", "package.json", "package-lock.json")
SECONDS = 840  # for a page on a machine that does much else
_MARKS = re.compile(r"\n?^<<command \d+>>\n", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A command of a page, and the lines that the page shows of what it prints."""

    command: str
    lines: tuple[str, ...]
    place: str


def clone(folder: Path) -> None:
    """What a user has: the examples and the package, without what a run leaves behind."""
    shutil.copytree(
        PROJECT / "examples", folder / "examples", ignore=shutil.ignore_patterns("*.db*", "results", "dist")
    )
    for name in PACKAGES:
        shutil.copytree(
            PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".terraform*", "*.tfstate*")
        )
    for name in FILES:
        shutil.copy(PROJECT / name, folder / name)
    for name in ("tests", "node_modules"):
        if (PROJECT / name).exists():
            (folder / name).symlink_to(PROJECT / name)


def run(session: Iterable[Block], folder: Path, variables: Mapping[str, str], programs: Path) -> None:
    """Run a page's blocks in ``folder``. Raises ``AssertionError`` for a command that fails, or prints otherwise.

    A command that is not the last of a pipeline, or before ``||``, may fail. Standard error counts as printed too.
    """
    __tracebackhide__ = True
    script, expected = script_of(session)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TOWPATH_"))}
    path = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = kept | {"PATH": path, "COLUMNS": "200", "NO_COLOR": "1"} | variables
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    outputs = _MARKS.split(ran.stdout)[1:]
    last = expected[len(outputs) - 1]
    assert ran.returncode == 0, f"{last.place}: {last.command!r} fails:\n{outputs[-1]}"
    told = [
        f"{each.place}: {each.command!r} does not print {missing}, but:\n{output}"
        for each, output in zip(expected, outputs, strict=True)
        if (missing := [line for line in each.lines if line not in output])
    ]
    assert not told, "\n".join(told)


def script_of(session: Iterable[Block]) -> tuple[str, list[Expectation]]:
    """A shell script that prints a mark before each command, and what each is to print.

    In a ``console`` block ``$ `` begins a command, ``> `` goes on with one, ``...`` stands for more output, and any
    other line is, without the blanks around it, part of what the command prints. An ``sql`` block is run as it is.
    """
    script, expected = ["set -e"], list[Expectation]()
    for block in session:
        if block.kind == "sql":
            script += [_mark(len(expected)), _statements(block)]
            expected.append(Expectation(command="the statements", lines=(), place=block.place))
            continue
        for command, lines in _commands(block):
            script += [_mark(len(expected)), command]
            first = command.partition("\n")[0]
            expected.append(Expectation(command=first, lines=lines, place=block.place))
    return "\n".join(script), expected


def _mark(number: int) -> str:
    """Prints a mark on a line of its own, also after a file without a last line break."""
    return f"printf '\\n<<command {number}>>\\n'"


def _commands(block: Block) -> list[tuple[str, tuple[str, ...]]]:
    commands: list[tuple[list[str], list[str]]] = []
    for line in block.code.splitlines():
        if line.startswith("$ "):
            commands.append(([line[2:]], []))
        elif not commands:
            raise ValueError(f"{block.place}: a session begins with a command: '$ ...'")
        elif line == ">" or line.startswith("> "):
            commands[-1][0].append(line[2:])
        elif line.strip() and line.strip() != "...":
            commands[-1][1].append(line.strip())
    return [("\n".join(command), tuple(lines)) for command, lines in commands]


def _statements(block: Block) -> str:
    program = shlex.join([sys.executable, str(Path(__file__).with_name("statements.py"))])
    return f"{program} <<'END_OF_STATEMENTS'\n{block.code}END_OF_STATEMENTS"
