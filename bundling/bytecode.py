"""Compiled Python files: Lambda cannot write any beside the code, and so compiles every module at every cold start
that has none.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from bundling.errors import InterpreterMissing, UvFailed
from bundling.target import Target, host_target
from bundling.uv import Uv

TASK_ROOT: Final = "/var/task"  # where Lambda unpacks a zip


def find_interpreter(uv: Uv, target: Target, repair: str) -> Path:
    """An interpreter of the target's Python on this machine, whatever the target's processor: compiled Python files
    depend on the minor version alone. Raises ``InterpreterMissing`` with the repair.
    """
    if target.python == host_target().python:
        return Path(sys.executable)
    try:
        found = uv.run("python", "find", f"cpython@{target.python}", "--no-python-downloads", purpose="find a Python")
    except UvFailed as error:
        raise InterpreterMissing(target.python, repair) from error
    return Path(found.strip())


def compile_tree(interpreter: Path, tree: Path) -> tuple[str, ...]:
    """Compile every module of ``tree``; returns the names of those that are no valid Python and stay source.

    The files name paths as on Lambda. They are marked as never to be checked against their source ("unchecked
    hash", PEP 552): a check by time would fail on every file, since a reproducible zip has no true times.
    """
    mode = ["--invalidation-mode", "unchecked-hash"]
    paths = ["-s", str(tree), "-p", TASK_ROOT, str(tree)]
    subprocess.run(  # noqa: S603 - this interpreter, or one that uv found
        [interpreter, "-m", "compileall", "-qq", *mode, *paths],
        env={"PYTHONHASHSEED": "0"},
        check=False,  # it fails when one file fails, and compiles the others
    )
    return tuple(
        sorted(
            source.relative_to(tree).as_posix()
            for source in tree.rglob("*.py")
            if not any((source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"))
        )
    )
