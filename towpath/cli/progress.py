"""How far long work has come, on standard error where that is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from towpath.cli.output import print_failure, stderr


class Progress:
    """Shows failures, and nothing else: standard error is no terminal, or a program reads along."""

    def advance(self, count: int, done: int | None = None) -> None:
        """``count`` more are through; ``done`` of the total by now, where there is one."""

    def fail(self, sentence: str) -> None:
        """Say what went wrong, above what is shown."""
        print_failure(sentence)


class _Shown(Progress):
    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task
        self._count = 0

    def advance(self, count: int, done: int | None = None) -> None:
        self._count += count
        self._bar.update(self._task, count=f"{self._count:,}", completed=self._count if done is None else done)

    def fail(self, sentence: str) -> None:
        print_failure(sentence, self._bar.console)


@contextmanager
def progress(what: str, *, total: int | None = None, enabled: bool = True) -> Iterator[Progress]:
    """A bar with a count of ``what`` and the time that is left where the ``total`` is known, else a running count.

    It is gone at the end.
    """
    if not (enabled and sys.stderr is not None and sys.stderr.isatty()):
        yield Progress()
        return
    from rich import progress as rich

    known: tuple[Any, ...] = (rich.BarColumn(), rich.TaskProgressColumn(), rich.TimeRemainingColumn())
    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn(f"{{task.fields[count]}} {what}"),
        *(known if total else ()),
        rich.TimeElapsedColumn(),
    )
    with rich.Progress(*columns, console=stderr(), transient=True) as bar:
        yield _Shown(bar, bar.add_task(what, total=total, count="0"))
