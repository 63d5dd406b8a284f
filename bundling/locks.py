"""Locks in the format of ``pylock.toml`` (PEP 751): what they pin, and what of it lies in folders or files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from bundling.errors import UnusableProject

_REQUIRES_PYTHON: Final = re.compile(r"^requires-python[ \t]*=.*\n", re.MULTILINE)
_WHEEL_PATH: Final = re.compile(r'(?P<key>\bpath[ \t]*=[ \t]*)"(?P<path>[^"]*)"')
_BOUND: Final = re.compile(r"(?P<operator>>=|<)\s*3\.(?P<minor>\d+)(?P<patch>\.\d+)?")
_PACKAGE: Final = re.compile(r"^[ \t]*\[\[[ \t]*packages[ \t]*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Everything that goes in: ``pinned`` requirements (``name==version``, ``name @ url``), and the folders of the
    ``local`` distributions by name. ``lock`` is a lock's own text for the packages that a registry has: these are then
    not among the pinned. ``markers`` are the conditions under which a local distribution is needed, where it has any.
    """

    pinned: tuple[str, ...]
    local: dict[str, Path]
    lock: str = ""
    markers: Mapping[str, str]


def read_resolution(lock: str, folder: Path) -> Resolution:
    """Read uv's resolution for one target, whose paths are relative to ``folder``."""
    pinned: list[str] = []
    local: dict[str, Path] = {}
    for package in tomllib.loads(lock).get("packages", []):
        name = package["name"]
        if "directory" in package:
            local[name] = _local(package, folder)
        elif "archive" in package:
            pinned.append(_archive(package, folder))
        elif "version" in package and "vcs" not in package:
            pinned.append(f"{name}=={package['version']}")
        else:
            raise UnusableProject(f"{name} comes from version control; depend on its wheel or on a folder instead")
    return Resolution(pinned=tuple(pinned), local=local, markers={})


def read_lock(lock: str, source: Path, folder: Path, python: str) -> Resolution:
    """Read a lock for any target, from the file ``source``, whose paths are relative to ``folder``. Raises
    ``UnusableProject``, also when the lock is not for ``python`` (``3.13``).
    """
    packages = _packages(lock, source)
    allowed = str(tomllib.loads(lock).get("requires-python", ""))
    if not _allows(allowed, python):
        raise UnusableProject(f"{source} is for Python {allowed}, and the bundle for {python}; name another --runtime")
    outside = [package for package in packages if "directory" in package or "archive" in package]
    if refused := [str(package.get("name")) for package in packages if "vcs" in package]:
        raise UnusableProject(
            f"{source} takes {', '.join(refused)} from version control; depend on a wheel or on a folder instead"
        )
    folders = [package for package in outside if "directory" in package]
    return Resolution(
        pinned=tuple(_archive(package, folder) for package in outside if "archive" in package),
        local={package["name"]: _local(package, folder) for package in folders},
        lock=_movable(without(lock, {package["name"] for package in outside}), folder),
        markers={package["name"]: package["marker"] for package in folders if "marker" in package},
    )


def without(lock: str, names: Collection[str]) -> str:
    """The lock's text without the packages of these names."""
    head, *blocks = _blocks(lock)
    return head + "".join(block for block in blocks if tomllib.loads(block)["packages"][0]["name"] not in names)


def locked_version(lock: str, name: str) -> str | None:
    """The version of a package in a lock, where it states one."""
    packages = tomllib.loads(lock).get("packages", [])
    return next((package.get("version") for package in packages if package["name"] == name), None)


def _movable(lock: str, folder: Path) -> str:
    """The lock as it can be installed from anywhere, and by any Python: with whole paths of wheels, and without the
    Python that it is for, since uv would hold its own against that and not the target's.
    """
    whole = _WHEEL_PATH.sub(lambda match: f'{match["key"]}"{(folder / match["path"]).resolve()}"', lock)
    return _REQUIRES_PYTHON.sub("", whole, count=1)


def _allows(specifiers: str, python: str) -> bool:
    """Whether the bounds leave a patch version of ``python``; what is no plain bound is left to the wheels."""
    minor = int(python.partition(".")[2])
    for bound in filter(None, map(_BOUND.fullmatch, map(str.strip, specifiers.split(",")))):
        limit = int(bound["minor"])
        if bound["operator"] == ">=" and minor < limit:
            return False
        if bound["operator"] == "<" and (minor > limit or (minor == limit and bound["patch"] in (None, ".0"))):
            return False
    return True


def _packages(lock: str, source: Path) -> list[Any]:
    try:
        packages = tomllib.loads(lock).get("packages", [])
        names = [package["name"] for package in packages]
        apart = [tomllib.loads(block)["packages"][0]["name"] for block in list(_blocks(lock))[1:]]
    except (ValueError, KeyError, TypeError) as error:
        raise UnusableProject(f"{source} is no lock in the format of pylock.toml ({error}); lock anew") from error
    if names != apart:
        raise UnusableProject(f"{source} does not have each package as a [[packages]] table; lock anew with uv")
    return list(packages)


def _blocks(lock: str) -> Iterator[str]:
    """What stands before the packages, and the text of each."""
    starts = [0, *(match.start() for match in _PACKAGE.finditer(lock)), len(lock)]
    return (lock[start:end] for start, end in pairwise(starts))


def _local(package: Mapping[str, Any], folder: Path) -> Path:
    return folder.joinpath(package["directory"]["path"]).resolve()


def _archive(package: Mapping[str, Any], folder: Path) -> str:
    """A requirement of an archive, with the condition under which it is needed."""
    archive, marker = package["archive"], package.get("marker")
    url = archive.get("url") or (folder / archive["path"]).resolve().as_uri()
    digest = archive.get("hashes", {}).get("sha256")
    hashed = f"{url}#sha256={digest}" if digest and "#" not in url else url
    return f"{package['name']} @ {hashed}" + (f" ; {marker}" if marker else "")
