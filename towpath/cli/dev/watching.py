"""Notices changes of a project's files: of its Python modules, and of the topology."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from watchfiles import Change, DefaultFilter, watch

from towpath.cli.dev.happenings import Changed, Happening, Said

Tell = Callable[[Happening], None]

_MADE: Final = (*DefaultFilter.ignore_dirs, ".terraform", ".tools", "cdk.out", "dist", "site-packages", "venv")
_SETTLED_MS: Final = 300  # an editor writes a file in several steps


class Sources(DefaultFilter):
    """Lets through what the workers are made of: Python modules, and the file of the topology."""

    def __init__(self, topology: Path) -> None:
        super().__init__(ignore_dirs=_MADE)
        self._topology = topology

    def __call__(self, change: Change, path: str) -> bool:
        """Whether a change at ``path`` matters."""
        return (path.endswith(".py") or Path(path) == self._topology) and super().__call__(change, path)


@contextmanager
def watched(topology: Path, tell: Tell) -> Iterator[None]:
    """While this lasts, ``tell`` is told of changes in the folder of ``topology``, a whole path, by another thread."""
    stop = threading.Event()
    thread = threading.Thread(target=_watch, args=(topology, stop, tell), name="dev-watch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=2)


def _watch(topology: Path, stop: threading.Event, tell: Tell) -> None:
    folder = topology.parent
    try:
        for changes in watch(
            folder, watch_filter=Sources(topology), debounce=_SETTLED_MS, stop_event=stop, raise_interrupt=False
        ):
            tell(Changed(paths=tuple(sorted({str(Path(path).relative_to(folder)) for _, path in changes}))))
    except OSError as error:
        tell(Said(sentence=f"changes of {folder} are not noticed: {error}; press q and start again after a change"))
