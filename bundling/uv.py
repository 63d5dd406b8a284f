"""uv's command line: one call and its failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from bundling.errors import UvFailed

Tell: TypeAlias = Callable[[str], None]


def untold(step: str) -> None:
    """Tell nobody what is done now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uv:
    """uv, run in ``folder``, so that the project's own uv settings (indexes, sources) count. ``tell`` is told what is
    begun, in words such as ``install the dependencies of /my/project``.
    """

    executable: str
    folder: Path
    tell: Tell = untold

    def run(self, *arguments: str | Path, purpose: str, text: str = "") -> str:
        """uv's standard output, ``text`` being its input. Raises ``UvFailed`` with the purpose and uv's own words."""
        self.tell(purpose)
        environment = {**os.environ, "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}
        environment.pop("VIRTUAL_ENV", None)
        result = subprocess.run(  # noqa: S603 - uv with arguments of our own
            [self.executable, *arguments],
            cwd=self.folder,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise UvFailed(f"uv could not {purpose}", _gist(result.stderr))
        return result.stdout


def find_uv(folder: Path, tell: Tell = untold) -> Uv:
    """The uv of this Python environment, or the one on the PATH. Raises ``UvFailed`` when there is none."""
    try:
        from uv import find_uv_bin

        executable: str | None = find_uv_bin()
    except (ImportError, FileNotFoundError):
        executable = shutil.which("uv")
    if executable is None:
        raise UvFailed("uv, which resolves the dependencies, is not installed", "pip install 'towpath[bundling]'")
    return Uv(executable=executable, folder=folder, tell=tell)


def this_python() -> list[str]:
    """The option that makes uv use this very interpreter, instead of searching the machine for one."""
    return ["--python", sys.executable]


def _gist(stderr: str) -> str:
    """uv's error in one line, without the warnings before it."""
    words = " ".join(stderr.split())
    start = max(words.find("error: "), 0)
    return words[start:].removeprefix("error: ") or "it gave no reason"
