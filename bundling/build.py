"""Builds a bundle: dependencies, handler and stamp in a folder, pruned, compiled, checked, and zipped."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from bundling.annotations import require_pydantic
from bundling.archive import sha256, write_zip
from bundling.binaries import foreign_binaries
from bundling.bytecode import compile_tree, find_interpreter
from bundling.dependencies import Dependencies
from bundling.errors import ForeignBinaries
from bundling.project import Project, copy_handlers, distribution_name, read_project, require_module
from bundling.stamp import Stamp, write_stamp
from bundling.target import Target
from bundling.tree import Boto3, Weight, entries, prune, tree_hash, weigh
from bundling.uv import find_uv

Bytecode: TypeAlias = Literal["compiled", "left out"]

_TOWPATH_MISSING = "add towpath[lambda] to the project's dependencies"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What to build. ``handlers`` are the import paths (``app.documents:process``) that must be in the zip, which
    is written as ``{name}.zip`` into ``output``.
    """

    name: str
    handlers: tuple[str, ...]
    entry_point: str
    target: Target
    project: Path
    output: Path
    bytecode: Bytecode = "compiled"
    boto3: Boto3 = "left out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A zip that was built. Sizes are bytes. ``left_out`` names the distributions that Lambda's own runtime has,
    ``uncompiled`` the modules that are no valid Python for the target and so have no ``.pyc``.
    """

    path: Path
    name: str
    target: Target
    bytecode: Bytecode
    sha256: str
    s3_key: str
    tree_hash: str
    zip_bytes: int
    unzipped_bytes: int
    files: int
    weights: tuple[Weight, ...]
    left_out: tuple[str, ...]
    uncompiled: tuple[str, ...]


def build(request: BundleRequest) -> Bundle:
    """Build the zip. The same project, locked dependencies and target give the same bytes, in whichever folder.

    Raises ``UnusableProject``, ``UvFailed``, ``WheelMissing``, ``InterpreterMissing``, ``ForeignBinaries`` or
    ``TooLarge``; a zip that was there before is then still there.
    """
    project = read_project(request.project)
    interpreter = _compiler(request) if request.bytecode == "compiled" else None
    with tempfile.TemporaryDirectory(prefix="towpath-bundle-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        _fill(request, project, tree)
        left_out = prune(tree, request.boto3, project.dependencies)
        write_stamp(Stamp(name=request.name, entry_point=request.entry_point, target=request.target), tree)
        uncompiled = compile_tree(interpreter, tree) if interpreter else ()
        files = entries(tree)
        if findings := foreign_binaries(files, request.target):
            raise ForeignBinaries(str(request.target), findings)
        path = request.output / f"{request.name}.zip"
        write_zip(files, path)
        digest = sha256(path)
        return Bundle(
            path=path,
            name=request.name,
            target=request.target,
            bytecode=request.bytecode,
            sha256=digest,
            s3_key=f"{request.name}/{digest}.zip",
            tree_hash=tree_hash(files),
            zip_bytes=path.stat().st_size,
            unzipped_bytes=sum(entry.size for entry in files),
            files=len(files),
            weights=weigh(files),
            left_out=left_out,
            uncompiled=uncompiled,
        )


def _fill(request: BundleRequest, project: Project, tree: Path) -> None:
    """Install the dependencies and the handlers' own code, and see that what Lambda will import is there."""
    dependencies = Dependencies(uv=find_uv(project.folder), project=project, target=request.target)
    resolution = dependencies.resolve()
    local = dict(resolution.local)
    if project.is_package and project.folder not in local.values():
        local["project"] = project.folder
    wheels = {}
    for name, folder in local.items():
        wheel = dependencies.build_wheel(folder, tree.with_name(f"wheel-{name}"))
        wheels[distribution_name(wheel.name.partition("-")[0])] = wheel
    dependencies.install(resolution, wheels, tree)
    if not project.is_package:
        copy_handlers(project, request.handlers, tree)
    _require_what_handlers_import(tree, request.handlers, request.entry_point)


def _require_what_handlers_import(tree: Path, handlers: Sequence[str], entry_point: str) -> None:
    require_module(tree, entry_point.rpartition(".")[0], _TOWPATH_MISSING)
    for handler in handlers:
        require_module(tree, handler.partition(":")[0], "the wheel of the project does not have the handler's module")
        require_pydantic(tree, handler)


def _compiler(request: BundleRequest) -> Path:
    python = request.target.python
    repair = f"get one with 'uv python install {python}', or leave compiled files out with --no-pyc"
    return find_interpreter(find_uv(request.project), request.target, repair)
