"""Mutation testing of one module: ``python -m tests.mutation towpath/backoff.py [tests ...]``.

Works in a copy of the tree, so that nothing here changes. Each mutant is tried in a process forked from one that has
imported pytest and the packages already, which makes it several times as fast as a pytest started for each.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
PRELOADED = ("alembic", "boto3", "hypothesis.strategies", "psycopg", "pydantic", "pytest", "sqlalchemy", "typer")
PYTEST = ("-x", "-q", "-p", "no:cacheprovider", "--assert=plain")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Mutation testing of one module.")
    parser.add_argument("module", help="the module's file, such as towpath/backoff.py")
    parser.add_argument("tests", nargs="*", help="test files, or anything that pytest takes; default: its unit tests")
    parser.add_argument("--lines", default="1:1000000", help="mutate these lines only, such as 40:80")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at a time (default 1)")
    parser.add_argument("--show", action="store_true", help="list the mutants and run nothing")
    options = parser.parse_intermixed_args()
    tests = options.tests or [f"tests/unit/test_{Path(options.module).stem}.py"]
    original = (ROOT / options.module).read_text()
    first, last = (int(number) for number in options.lines.split(":"))
    chosen = [mutant for mutant in mutants(original) if first <= mutant.line <= last]
    if options.show:
        for mutant in chosen:
            print(mutant.diff(original))
        return 0
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        survivors = Trial(Path(folder), options.module, tests).survivors(chosen, options.jobs)
    for mutant in survivors:
        print(f"\n{options.module}:{mutant.line} survived\n{mutant.diff(original)}")
    killed = len(chosen) - len(survivors)
    print(f"\n{options.module}: {killed} of {len(chosen)} mutants killed, {killed / max(1, len(chosen)):.1%}")
    return 0


class Trial:
    """Copies of the tree in which mutants of ``module`` are tried, one copy for each that runs at the same time."""

    def __init__(self, folder: Path, module: str, tests: list[str]) -> None:
        self._folder = folder
        self._module = module
        self._tests = tests
        for name in PRELOADED:
            importlib.import_module(name)

    def survivors(self, chosen: list[Mutant], jobs: int) -> list[Mutant]:
        """Those of ``chosen`` that the tests do not notice. Ends the program when they fail without a mutant."""
        copies = [self._copied(number) for number in range(jobs)]
        seconds = max(self._unchanged(copy) for copy in copies)
        free, running, survivors = copies, {}, []
        for number, mutant in enumerate(chosen, 1):
            if sys.stderr.isatty():
                print(f"\r{number} of {len(chosen)}, {len(survivors)} survived ", end="", file=sys.stderr, flush=True)
            if not free:
                free.append(self._ended(running, survivors))
            copy = free.pop()
            (copy / self._module).write_text(mutant.source)
            running[self._started(copy)] = (mutant, copy, time.monotonic() + 20 + 5 * seconds)
        while running:
            self._ended(running, survivors)
        return sorted(survivors, key=lambda mutant: mutant.line)

    def _copied(self, number: int) -> Path:
        copy = self._folder / str(number)
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
        copy.mkdir()
        tar = ["tar", "--create", "--null", "--ignore-failed-read", "--files-from=-"]
        packed = subprocess.run(tar, cwd=ROOT, input=names, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract"], cwd=copy, input=packed, check=True)
        return copy

    def _unchanged(self, copy: Path) -> float:
        """Runs the tests as they are; how long they took. Leaves bytecode of everything but the module behind."""
        began = time.monotonic()
        child = self._started(copy, bytecode=True)
        _, status = os.waitpid(child, 0)
        if status != 0:
            sys.exit(f"the tests fail without a mutant:\n{(copy / 'mutation.out').read_text()[-5_000:]}")
        for stale in (copy / self._module).parent.glob(f"__pycache__/{Path(self._module).stem}.*.pyc"):
            stale.unlink()
        return time.monotonic() - began

    def _started(self, copy: Path, *, bytecode: bool = False) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                status = _tested(copy, self._tests, bytecode=bytecode)
            os._exit(status)
        return child

    def _ended(self, running: dict[int, tuple[Mutant, Path, float]], survivors: list[Mutant]) -> Path:
        """Waits for one that ends, or takes too long and is ended; its copy, which is free now."""
        ready = _first_ended(running)
        child = ready if ready is not None else min(running, key=lambda child: running[child][2])
        mutant, copy, _ = running.pop(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and what the tests left running
        _, status = os.waitpid(child, 0)
        if status == 0:
            survivors.append(mutant)
        return copy


def _first_ended(running: dict[int, tuple[Mutant, Path, float]]) -> int | None:
    """The first of ``running`` that ends, or ``None`` when one is past its time before that."""
    with contextlib.ExitStack() as stack:
        files = {os.pidfd_open(child): child for child in running}
        for file in files:
            stack.callback(os.close, file)
        patience = min(deadline for _, _, deadline in running.values()) - time.monotonic()
        ready, _, _ = select.select(list(files), [], [], max(0, patience))
        return files[ready[0]] if ready else None


def _tested(copy: Path, tests: Iterable[str], *, bytecode: bool) -> int:
    """In a child: pytest's exit status for ``tests`` of the tree at ``copy``."""
    os.setsid()
    os.chdir(copy)
    output = os.open("mutation.out", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    sys.path[:] = [str(copy), *(entry for entry in sys.path if entry not in ("", str(ROOT)))]
    os.environ["PYTHONPATH"] = str(copy)
    if not bytecode:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"

    import hypothesis
    import pytest

    found = (hypothesis.Phase.explicit, hypothesis.Phase.generate)  # a mutant's smallest counterexample is of no use
    hypothesis.settings.register_profile("mutation", deadline=None, database=None, derandomize=True, phases=found)
    hypothesis.settings.load_profile("mutation")
    return int(pytest.main([*PYTEST, *tests]))


if __name__ == "__main__":
    sys.exit(main())
