"""The handler's project: its dependencies file, and which of its own files go into the zip."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bundling.errors import UnusableProject

_KINDS: Final = re.compile(r".+\.txt|pylock\.(?:.+\.)?toml|uv\.lock|pyproject\.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with a handler. ``requirements`` is its dependencies file: ``requirements.txt``, which may be locked
    with hashes, ``pylock.toml``, ``uv.lock`` or ``pyproject.toml``. ``dependencies`` are the distributions that
    ``pyproject.toml`` asks for itself; ``is_package`` says whether it can be built into a wheel.
    """

    folder: Path
    requirements: Path
    dependencies: frozenset[str]
    is_package: bool


def read_project(folder: Path, requirements: Path | None = None) -> Project:
    """Find the dependencies file: ``requirements`` if given, else the first that there is of ``requirements.txt``,
    ``pylock.toml``, ``uv.lock`` (the project's, or that of the workspace it is in) and ``pyproject.toml``. Raises
    ``UnusableProject`` when there is none, or it cannot be read.
    """
    pyproject = _read_pyproject(folder / "pyproject.toml")
    found = requirements or next(_dependency_files(folder.resolve()), None)
    if found is None:
        raise UnusableProject(
            f"{folder} has neither requirements.txt nor pyproject.toml, nor a lock (pylock.toml, uv.lock); "
            "one of them must name towpath[lambda]"
        )
    if requirements is not None and not (requirements.is_file() and _KINDS.fullmatch(requirements.name)):
        raise UnusableProject(
            f"{requirements} is no dependencies file; name a file requirements.txt (or another .txt), pylock.toml, "
            "uv.lock or pyproject.toml"
        )
    dependencies = pyproject.get("project", {}).get("dependencies", [])
    return Project(
        folder=folder.resolve(),
        requirements=found.resolve(),
        dependencies=frozenset(distribution_name(dependency) for dependency in dependencies),
        is_package="build-system" in pyproject,
    )


def _dependency_files(folder: Path) -> Iterator[Path]:
    for name in ("requirements.txt", "pylock.toml", "uv.lock"):
        if (folder / name).is_file():
            yield folder / name
    if (folder / "pyproject.toml").is_file():
        if (workspace := _workspace(folder)) and (workspace / "uv.lock").is_file():
            yield workspace / "uv.lock"
        yield folder / "pyproject.toml"


def _workspace(folder: Path) -> Path | None:
    """The folder of the uv workspace that ``folder`` is a member of."""
    for root in folder.parents:
        table = _read_pyproject(root / "pyproject.toml").get("tool", {}).get("uv", {}).get("workspace")
        if table is not None:
            members = {member for pattern in table.get("members", []) for member in root.glob(pattern)}
            return root if folder in members else None
    return None


def distribution_name(requirement: str) -> str:
    """The normalised name at the beginning of a requirement: ``Foo_Bar[x]>=1`` is ``foo-bar``."""
    match = re.match(r"[A-Za-z0-9][A-Za-z0-9._-]*", requirement.strip())
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def copy_handlers(project: Project, handlers: Sequence[str], tree: Path) -> None:
    """Copy the top-level package or module of each handler (``app`` of ``app.documents:process``) into ``tree``,
    without hidden files. Raises ``UnusableProject`` when one is not in the project's folder, or holds what no zip can:
    a link to nothing or to a folder around it, what is no file, a name that is not UTF-8.
    """
    for name in sorted({handler.partition(":")[0].partition(".")[0] for handler in handlers}):
        package, module = project.folder / name, project.folder / f"{name}.py"
        if package.is_dir():
            _copy_package(package, tree / name)
        elif module.is_file():
            shutil.copyfile(module, tree / module.name)
        else:
            raise UnusableProject(
                f"{project.folder} has no package {name}/ and no module {name}.py for the handler; "
                "give the folder that has it with --project, or a [build-system] that makes its wheel"
            )


def require_module(tree: Path, module: str, repair: str) -> None:
    """Raise ``UnusableProject`` with the repair unless ``tree`` holds the dotted module."""
    path = tree.joinpath(*module.split("."))
    compiled = path.parent.glob(f"{path.name}.*.so") if path.parent.is_dir() else ()
    if not (path.with_name(f"{path.name}.py").is_file() or (path / "__init__.py").is_file() or any(compiled)):
        raise UnusableProject(f"the bundle would have no module {module}; {repair}")


def _copy_package(package: Path, to: Path) -> None:
    if fault := next(_faults(package), None):
        raise UnusableProject(f"{fault}, so that it cannot be bundled; remove it or move it out of {package}")
    try:
        shutil.copytree(package, to, ignore=shutil.ignore_patterns(".*"))
    except shutil.Error as error:
        file, _, problem = error.args[0][0]
        raise UnusableProject(f"{file} cannot be bundled: {problem}") from error


def _faults(folder: Path) -> Iterator[str]:
    """What in ``folder`` cannot be copied or named in a zip, each in words; names show escaped what is no text."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        if not _is_utf8(path.name):
            yield f"the name of {str(path)!r} is not UTF-8"
        elif path.is_dir():
            if folder.resolve().is_relative_to(path.resolve()):
                yield f"{path} is a link to a folder that it lies in"
            else:
                yield from _faults(path)
        elif not path.is_file():
            yield f"{path} is a link to nothing" if path.is_symlink() else f"{path} is neither a file nor a folder"


def _is_utf8(name: str) -> bool:
    """Python reads bytes of a file's name that are not UTF-8 as lone surrogates (PEP 383)."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _read_pyproject(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UnusableProject(f"{path} cannot be read: {error}") from error
