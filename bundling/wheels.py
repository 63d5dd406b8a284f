"""Which wheel a target lacks: uv's complaints in our words, and the nearest choices."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from bundling.errors import ForeignBinaries, UnusableProject, UvFailed
from bundling.target import LAMBDA_PYTHONS, Target
from bundling.uv import Uv, this_python
from towpath.errors import TowpathError

_NO_WHEEL: Final = re.compile(
    r"(?P<all>all versions of )?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:==(?P<version>[^\s,]+))? "
    r"ha(?:s|ve) no (?:usable wheels|wheels with a matching)"
)
_NOT_LOCKED: Final = re.compile(r"Package `(?P<name>[^`]+)` can't be installed because ")
_NOT_STATIC: Final = re.compile(
    r"Building source distributions (?:for `(?P<name>[^`]+)` )?is disabled"
    r"(?:, but attempted to build `(?P<other>[^`]+)`)?"
)
_OTHER_PYTHON: Final = re.compile(
    r"resolved to Python (?P<python>\S+), which is incompatible with the project's Python"
)
_FOREIGN: Final = re.compile(r"(?P<wheel>[^\s/()]+\.whl)\S* dependency is incompatible with the current platform")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A package that has no wheel; ``version`` is None for any."""

    name: str
    version: str | None

    @property
    def requirement(self) -> str:
        """``name==version``."""
        return f"{self.name}=={self.version}" if self.version else self.name


def for_target(target: Target) -> list[str]:
    """uv's options that choose wheels for the target, and never build."""
    options = ["--python-version", target.python, "--python-platform", target.platform, "--only-binary", ":all:"]
    return [*this_python(), *options]


def missing_wheel(error: UvFailed) -> Wanted | None:
    """The package without a wheel that uv complains of, if it does."""
    if missing := _NO_WHEEL.search(error.detail):
        return Wanted(name=missing["name"], version=missing["version"])
    locked = _NOT_LOCKED.search(error.detail)
    return Wanted(name=locked["name"], version=None) if locked else None


def explained(target: Target, error: UvFailed) -> TowpathError:
    """uv's other complaints in our words: a folder whose version and dependencies are not written down, a project
    that this Python is too old for, a wheel for another platform that the project names itself.
    """
    if unknown := _NOT_STATIC.search(error.detail):
        return UnusableProject(
            f"{unknown['name'] or unknown['other'] or 'a dependency'} does not state its version and dependencies in a "
            "[project] table; write them there, or depend on its wheel"
        )
    if other := _OTHER_PYTHON.search(error.detail):
        return UnusableProject(
            f"the project does not allow Python {other['python']}, and uv needs one that it allows to read uv.lock; "
            f"get one with 'uv python install {target.python}'"
        )
    if foreign := _FOREIGN.search(error.detail):
        return ForeignBinaries(str(target), [f"{foreign['wheel']} is for {_made_for(foreign['wheel'])}"])
    return error


def nearest(uv: Uv, wanted: Wanted, target: Target) -> tuple[str, ...]:
    """The newest other version for this target, the nearest other Python, the other architecture: as far as wheels
    are found there.
    """
    return tuple(_nearest(uv, wanted, target))


def _nearest(uv: Uv, wanted: Wanted, target: Target) -> Iterator[str]:
    if wanted.version is not None and (version := _wheel_version(uv, wanted.name, target)):
        yield f"{wanted.name}=={version}"
    distance = {python: abs(_minor(python) - _minor(target.python)) for python in LAMBDA_PYTHONS}
    for python in sorted(distance, key=distance.__getitem__):
        if distance[python] and _wheel_version(uv, wanted.requirement, replace(target, python=python)):
            yield f"python{python}"
            break
    other = replace(target, architecture="x86_64" if target.architecture == "arm64" else "arm64")
    if _wheel_version(uv, wanted.requirement, other):
        yield other.architecture


def _wheel_version(uv: Uv, requirement: str, target: Target) -> str | None:
    """The version that has a wheel for the target, if any."""
    command = ("pip", "compile", "--format", "pylock.toml", *for_target(target), "--no-deps", "-")
    try:
        lock = uv.run(*command, purpose=f"look for a wheel of {requirement} for {target}", text=requirement)
    except UvFailed:
        return None
    return str(tomllib.loads(lock)["packages"][0]["version"])


def _made_for(wheel: str) -> str:
    """``cp311 on manylinux2014_x86_64`` of a wheel's name, which ends with tags of Python, ABI and platforms."""
    _, python, _, platforms = PurePosixPath(wheel).stem.rsplit("-", 3)
    return f"{python} on {platforms.partition('.')[0]}"


def _minor(python: str) -> int:
    return int(python.partition(".")[2])
