"""Builds a bundle: dependencies, handler and stamp in a folder, pruned, compiled, checked, and zipped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bundling.archive import sha256, write_zip, zipped_sizes
from bundling.binaries import missing_libraries
from bundling.bytecode import compile_tree, find_interpreter
from bundling.contents import problems
from bundling.dependencies import Dependencies
from bundling.errors import noting, raise_all
from bundling.locks import Resolution
from bundling.project import Project, copy_handlers, distribution_name, read_project
from bundling.stamp import Stamp, write_stamp
from bundling.target import Target
from bundling.tree import Boto3, Entry, Weight, entries, owners, prune, tree_hash, weigh
from bundling.uv import Tell, Uv, find_uv, untold
from towpath.errors import TowpathError
from towpath.limits import LAMBDA_DIRECT_UPLOAD_BYTES, LAMBDA_UNZIPPED_BYTES

Bytecode: TypeAlias = Literal["compiled", "left out"]
Route: TypeAlias = Literal["direct upload", "S3"]

# From S3, Lambda limits what it unpacks alone, and a zip is no larger than that.
_ZIP_LIMITS: Final[dict[Route, int]] = {"direct upload": LAMBDA_DIRECT_UPLOAD_BYTES, "S3": LAMBDA_UNZIPPED_BYTES}


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What to build. ``handlers`` are the import paths (``app.documents:process``) that must be in the zip, which
    is written as ``{name}.zip`` into ``output``. ``requirements`` is the dependencies file where it is not the first of
    ``project``; ``route`` is how the zip will come to Lambda, which decides how large it may be.
    """

    name: str
    handlers: tuple[str, ...]
    entry_point: str
    target: Target
    project: Path
    output: Path
    bytecode: Bytecode = "compiled"
    boto3: Boto3 = "left out"
    requirements: Path | None = None
    route: Route = "direct upload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A zip that was built. Sizes are bytes. ``left_out`` names the distributions that Lambda's own runtime has,
    ``uncompiled`` the modules that are no valid Python for the target and so have no ``.pyc``, ``requirements`` is the
    file that named the dependencies, ``warnings`` is what may be wrong.
    """

    path: Path
    name: str
    target: Target
    requirements: Path
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
    warnings: tuple[str, ...]


def build(request: BundleRequest, tell: Tell = untold) -> Bundle:
    """Build the zip. The same project, locked dependencies and target give the same bytes, in whichever folder.
    ``tell`` is told each step as it begins.

    Raises ``UnusableProject``, ``UvFailed``, ``WheelMissing``, ``InterpreterMissing``, ``ForeignBinaries``,
    ``ImportUnwanted``, ``ImportMissing`` or ``TooLarge``, and ``BundleProblems`` for several of them; a zip that was
    there before is then still there.
    """
    project = read_project(request.project, request.requirements)
    with tempfile.TemporaryDirectory(prefix="towpath-bundle-") as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        contents = _make(request, project, tree, tell)
        path = request.output / f"{request.name}.zip"
        tell(f"write {path}, {len(contents.files)} files")
        write_zip(contents.files, path, _ZIP_LIMITS[request.route])
        return _bundle(request, project, contents, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    """The finished tree, and what became of its parts."""

    files: tuple[Entry, ...]
    owned: Mapping[str, str]
    left_out: tuple[str, ...]
    uncompiled: tuple[str, ...]


def _make(request: BundleRequest, project: Project, tree: Path, tell: Tell) -> _Contents:
    """Fill the tree, take out what no function needs, check it and compile it."""
    interpreter = _fill(request, project, find_uv(project.folder, tell), tree)
    owned = owners(tree)
    left_out = prune(tree, request.boto3, project.dependencies)
    stamp = Stamp(name=request.name, entry_point=request.entry_point, handlers=request.handlers, target=request.target)
    write_stamp(stamp, tree)
    tell(f"check what is in it for {request.target}")
    raise_all(problems(tree, entries(tree), stamp, owned))
    uncompiled: tuple[str, ...] = ()
    if interpreter is not None:
        tell(f"compile it with {interpreter}")
        uncompiled = compile_tree(interpreter, tree)
    return _Contents(files=entries(tree), owned=owned, left_out=left_out, uncompiled=uncompiled)


def _bundle(request: BundleRequest, project: Project, contents: _Contents, path: Path) -> Bundle:
    digest, files = sha256(path), contents.files
    return Bundle(
        path=path,
        name=request.name,
        target=request.target,
        requirements=project.requirements,
        bytecode=request.bytecode,
        sha256=digest,
        s3_key=f"{request.name}/{digest}.zip",
        tree_hash=tree_hash(files),
        zip_bytes=path.stat().st_size,
        unzipped_bytes=sum(entry.size for entry in files),
        files=len(files),
        weights=weigh(files, zipped_sizes(path), contents.owned),
        left_out=contents.left_out,
        uncompiled=contents.uncompiled,
        warnings=missing_libraries(files, request.target),
    )


def _fill(request: BundleRequest, project: Project, uv: Uv, tree: Path) -> Path | None:
    """Install the dependencies and the handlers' own code; answers the interpreter to compile it with, if it is to be.

    What can be known to be wrong before anything is installed is raised together.
    """
    found: list[TowpathError] = []
    dependencies = Dependencies(uv=uv, project=project, target=request.target)
    interpreter, resolution, own = None, None, tree.with_name("own")
    own.mkdir()
    with noting(found):
        interpreter = _compiler(uv, request.target) if request.bytecode == "compiled" else None
    with noting(found):
        resolution = dependencies.resolve()
    with noting(found):
        if not project.is_package:
            copy_handlers(project, request.handlers, own)
    raise_all(found)
    if resolution is not None:
        dependencies.install(resolution, _build_wheels(dependencies, resolution, tree), tree)
    shutil.copytree(own, tree, dirs_exist_ok=True)
    return interpreter


def _build_wheels(dependencies: Dependencies, resolution: Resolution, tree: Path) -> dict[str, Path]:
    """The wheels of everything that lies in a folder, the project's own included, by the distribution's name."""
    project, local = dependencies.project, dict(resolution.local)
    if project.is_package and project.folder not in local.values():
        local["project"] = project.folder
    found: list[TowpathError] = []
    wheels: dict[str, Path] = {}
    for name, folder in local.items():
        with noting(found):
            wheel = dependencies.build_wheel(folder, tree.with_name(f"wheel-{name}"))
            wheels[distribution_name(wheel.name.partition("-")[0])] = wheel
    raise_all(found)
    return wheels


def _compiler(uv: Uv, target: Target) -> Path:
    repair = f"get one with 'uv python install {target.python}', or leave compiled files out with --no-pyc"
    return find_interpreter(uv, target, repair)
