"""Everything that is checked in an unpacked bundle, all of it at once: when it is built, and when it is verified."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from bundling.annotations import require_pydantic
from bundling.archive import too_large_unzipped
from bundling.binaries import foreign_binaries
from bundling.closure import check_imports
from bundling.errors import ForeignBinaries, UnusableProject
from bundling.project import require_module
from bundling.stamp import Stamp
from bundling.tree import Entry
from towpath.errors import TowpathError

_NO_TOWPATH: Final = "add towpath[lambda] to the project's dependencies"
_NO_HANDLER: Final = "neither the project's wheel nor its folder has the handler's module"
_NO_OWNERS: Final[Mapping[str, str]] = {}


def problems(
    tree: Path, files: Sequence[Entry], stamp: Stamp, owners: Mapping[str, str] = _NO_OWNERS
) -> tuple[TowpathError, ...]:
    """Every reason why Lambda could not run the bundle in ``tree``; empty when all is well. ``owners`` names the
    distribution of a file.
    """
    return tuple(_problems(tree, files, stamp, owners))


def _problems(tree: Path, files: Sequence[Entry], stamp: Stamp, owners: Mapping[str, str]) -> Iterator[TowpathError]:
    absent = list(_absent(tree, stamp))
    yield from absent
    if not absent:
        yield from check_imports(tree, stamp.entry_point, stamp.handlers)
    if findings := foreign_binaries(files, stamp.target, owners):
        yield ForeignBinaries(str(stamp.target), findings)
    if (too_large := too_large_unzipped(files)) is not None:
        yield too_large


def _absent(tree: Path, stamp: Stamp) -> Iterator[TowpathError]:
    """Each module that Lambda looks for first and would not find, and what the handlers' annotations need."""
    wanted = [(stamp.entry_module, _NO_TOWPATH), *((name.partition(":")[0], _NO_HANDLER) for name in stamp.handlers)]
    for module, repair in dict(wanted).items():
        try:
            require_module(tree, module, repair)
        except UnusableProject as problem:
            yield problem
    for handler in stamp.handlers:
        try:
            require_pydantic(tree, handler)
        except UnusableProject as problem:
            yield problem
