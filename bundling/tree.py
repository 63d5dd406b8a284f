"""The unpacked bundle, a folder: what is left out of it, its hash and its weight."""

from __future__ import annotations

import hashlib
import shutil
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from bundling.project import distribution_name

Boto3: TypeAlias = Literal["left out", "included"]

_INSTALLERS_NOTES: Final = frozenset(
    {"RECORD", "INSTALLER", "REQUESTED", "WHEEL", "direct_url.json", "uv_build.json", "uv_cache.json"}
)
_SCRAPS: Final = frozenset({"__pycache__", "tests", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
_BOTO3: Final = frozenset({"boto3", "botocore"})
# Parts of Towpath that cannot run, or are not called, without another package: left out unless that is in the bundle.
_PARTS: Final = {
    "aws_transport/checking": "typer",
    "bundling": "uv",
    "cdk_app": "aws_cdk",
    "local_transport": "sqlalchemy",
    "towpath/changes": "typer",
    "towpath/cli": "typer",
    "towpath/gate": "typer",
    "towpath/resolve": "pydantic",
    "towpath/topology": "pydantic",
}
# Powertools' API documentation pages, over a sixth of a small bundle. A queue's function serves no pages.
_SWAGGER_UI: Final = PurePosixPath("aws_lambda_powertools/event_handler/openapi/swagger_ui")
_NOTHING: Final[Mapping[str, int]] = {}
_NO_OWNERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One file of the bundle: its name in the zip, where it lies, its size in bytes, whether it can be run."""

    name: str
    path: Path
    size: int
    executable: bool

    @property
    def mode(self) -> int:
        """Its permissions in the zip, independent of this machine's umask."""
        return 0o755 if self.executable else 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """How much of the bundle one top-level name makes up, in bytes: unzipped, and in the zip. ``distributions`` are
    those that it comes from (``xxhash 4.1.0``); none for a file of the project's own.
    """

    name: str
    size: int
    zipped: int
    distributions: tuple[str, ...] = ()


def owners(tree: Path) -> dict[str, str]:
    """The distribution (``six 1.17.0``) of each file that one installed, by the file's name; the notes that say so are
    pruned.
    """
    return {
        file.as_posix(): f"{distribution.name} {distribution.version}"
        for distribution in distributions(path=[str(tree)])
        for file in distribution.files or []
    }


def prune(tree: Path, boto3: Boto3, direct: frozenset[str]) -> tuple[str, ...]:
    """Delete what a function does not need; returns the distributions that were left out. ``direct`` are those that
    the project itself asks for.
    """
    installed = {distribution_name(found.name): found for found in distributions(path=[str(tree)])}
    requires = {name: _required(found) for name, found in installed.items()}
    unneeded = only_for_boto3(requires, direct) if boto3 == "left out" else frozenset()
    for name in unneeded:
        _delete(installed[name], tree)
    for part, needed in _PARTS.items():
        if needed not in installed:
            shutil.rmtree(tree / part, ignore_errors=True)
    for path in tree.rglob("*"):
        if not path.is_dir() and is_scrap(PurePosixPath(path.relative_to(tree).as_posix())):
            path.unlink()
    return tuple(sorted(unneeded))


def only_for_boto3(requires: Mapping[str, frozenset[str]], direct: frozenset[str]) -> frozenset[str]:
    """boto3 and botocore, which Lambda's Python runtimes have, and whatever nothing but these needs. ``requires``
    maps each installed distribution to those it can need; what the project asks for itself stays.
    """
    unneeded = set(_BOTO3 & requires.keys())
    while True:
        more = {
            name
            for name in requires.keys() - unneeded - direct
            if (users := {user for user, needed in requires.items() if name in needed}) and users <= unneeded
        }
        if not more:
            return frozenset(unneeded)
        unneeded |= more


def is_scrap(name: PurePosixPath) -> bool:
    """Whether a file is of no use to a queue's function: console scripts, an installer's notes, tests, caches."""
    if name.parts[0] == "bin" or name.suffix in (".pyc", ".pyo") or name.name == ".lock":
        return True
    if name.parent.suffix == ".dist-info" and name.name in _INSTALLERS_NOTES:
        return True
    if name.parent == _SWAGGER_UI and name.suffix in (".css", ".js"):
        return True
    return not _SCRAPS.isdisjoint(name.parts[:-1])


def entries(tree: Path) -> tuple[Entry, ...]:
    """Every file of the bundle, sorted by name."""
    found = []
    for path in tree.rglob("*"):
        status = path.stat()
        if stat.S_ISREG(status.st_mode):
            name = path.relative_to(tree).as_posix()
            executable = bool(status.st_mode & stat.S_IXUSR)
            found.append(Entry(name=name, path=path, size=status.st_size, executable=executable))
    return tuple(sorted(found, key=lambda entry: entry.name))


def tree_hash(files: Iterable[Entry]) -> str:
    """SHA-256 over names, modes and contents: unlike the zip's, the same whichever zlib did the compression."""
    digest = hashlib.sha256()
    for entry in files:
        content = hashlib.sha256(entry.path.read_bytes()).hexdigest()
        digest.update(f"{content} {entry.mode:o} {entry.name}\n".encode())
    return digest.hexdigest()


def weigh(
    files: Iterable[Entry], zipped: Mapping[str, int] = _NOTHING, owned: Mapping[str, str] = _NO_OWNERS
) -> tuple[Weight, ...]:
    """The top-level packages and modules, heaviest first; a distribution's metadata counts as itself. ``zipped`` are
    the sizes in the zip, ``owned`` the distributions, by the file's name.
    """
    sizes, in_zip, found = Counter[str](), Counter[str](), defaultdict[str, set[str]](set)
    for entry in files:
        top, _, rest = entry.name.partition("/")
        name = f"{rest.partition('.')[0]}.py" if top == "__pycache__" else top
        sizes[name] += entry.size
        in_zip[name] += zipped.get(entry.name, 0)
        found[name] |= {owned[entry.name]} if entry.name in owned else set()
    return tuple(
        Weight(name=name, size=size, zipped=in_zip[name], distributions=tuple(sorted(found[name])))
        for name, size in sizes.most_common()
    )


def _required(distribution: Distribution) -> frozenset[str]:
    """What a distribution can need, on any system and with any extra: when in doubt, it is kept."""
    return frozenset(distribution_name(text) for text in distribution.requires or [])


def _delete(distribution: Distribution, tree: Path) -> None:
    for file in distribution.files or []:
        path = Path(str(distribution.locate_file(file))).resolve()
        if path.is_relative_to(tree.resolve()):
            path.unlink(missing_ok=True)
