"""What ``towpath init`` writes: a project's files, from the templates beside this module."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from towpath.cli.origin import Origin
from towpath.topology import is_prefix_name

Infrastructure = Literal["terraform", "cdk"]
Payload = Literal["model", "json"]

_PROJECT_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_TAKEN: Final = frozenset({"aws-cdk-lib", "pydantic", "pytest", "towpath"})  # none can depend on its own name
_REQUIRED: Final = re.compile(r"[A-Za-z0-9._-]+")
# Under their own names git and the linters would obey the templates here.
_NAMES: Final[Mapping[str, str]] = {"gitignore": ".gitignore", "pyproject": "pyproject.toml"}
_TOKEN: Final = re.compile(r"__([A-Z]+)__")
MODULE: Final = "terraform/towpath/"  # the Terraform module, whose files are copied as they are
_MODULE: Final = PurePosixPath(MODULE)
_EXTRAS: Final = ("aws", "bundling", "cli", "local")
_INFRASTRUCTURES: Final[Mapping[Infrastructure, Mapping[str, str]]] = {
    "terraform": {
        "INFRASTRUCTURE": "Terraform: a root, and Towpath's module in `terraform/towpath/`",
        "FILES": "terraform/",
        "NEEDS": "It needs Terraform 1.7 or newer; the region is in `terraform/variables.tf`.",
    },
    "cdk": {
        "INFRASTRUCTURE": "the CDK; `package.json` has its command line",
        "FILES": "cdk.json",
        "NEEDS": "It needs Node.js 20 or newer with npm, and `cdk bootstrap` once for an account.",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a new project is to be. ``python`` is the minor version that its function gets, as in ``3.13``."""

    name: str
    infrastructure: Infrastructure
    payload: Payload
    origin: Origin
    python: str


def name_problem(name: str, needed: Collection[str] = ()) -> str | None:
    """Why no project can have this ``name``, which begins the names of its resources too; ``None`` when one can.

    ``needed`` are packages that Towpath needs.
    """
    if not (is_prefix_name(name) and _PROJECT_NAME.fullmatch(name)):
        return f"{name!r} is no name for a project: take 1 to 20 of a-z, 0-9 and -, without a - at either end"
    return (
        f"{name!r} is a package that the project depends on: take another name" if name in {*_TAKEN, *needed} else None
    )


def needed_by(package: str, requires: Callable[[str], Sequence[str]]) -> set[str]:
    """The packages that ``package`` needs with any of its extras, and what these need in turn.

    ``requires`` answers requirements as metadata has them, none for a package that is not there.
    """
    found: set[str] = set()
    waiting = [*requires(package)]
    while waiting:
        named = _REQUIRED.match(waiting.pop())
        name = re.sub(r"[-_.]+", "-", named[0]).lower() if named is not None else package
        if name not in (package, *found):
            found.add(name)
            waiting += [one for one in requires(name) if "extra ==" not in one]
    return found


def project_files(start: Start) -> dict[str, str]:
    """The project's files by their paths, which are relative to its folder and written with ``/``."""
    templates = files("towpath.cli").joinpath("project")
    words = _words(start)
    found = {
        path.with_name(_NAMES.get(path.name, path.name)): text
        for part in ("any", start.payload, start.infrastructure)
        for path, text in _texts(templates.joinpath(part), PurePosixPath())
    }
    return {
        path.as_posix(): text if _MODULE in path.parents else _TOKEN.sub(lambda token: words[token[1]], text)
        for path, text in sorted(found.items())
    }


def _texts(folder: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    """The files below ``folder``; of the Terraform module, those that deploy."""
    for entry in folder.iterdir():
        inner = path / entry.name
        if entry.is_dir() and path != _MODULE and entry.name != "__pycache__":
            yield from _texts(entry, inner)
        elif entry.is_file() and (path != _MODULE or inner.suffix == ".tf"):
            yield inner, entry.read_text(encoding="utf-8")


def _words(start: Start) -> Mapping[str, str]:
    extras = sorted((*_EXTRAS, "cdk")) if start.infrastructure == "cdk" else _EXTRAS
    needed = [f"towpath[lambda]{start.origin.pin}", *(["pydantic>=2.10"] if start.payload == "model" else [])]
    return {
        **_INFRASTRUCTURES[start.infrastructure],
        "NAME": start.name,
        "RUNTIME": f"python{start.python}",
        "PYTHON": start.python,
        "EXTRAS": ",".join(extras),
        "DEPENDENCIES": ", ".join(map(json.dumps, needed)),
        "SOURCES": start.origin.sources,
    }


def present(folder: Path, paths: Mapping[str, str]) -> list[str]:
    """Those of ``paths`` at which ``folder`` holds something already."""
    return [path for path in paths if (folder / path).exists() or (folder / path).is_symlink()]


def write_project(folder: Path, texts: Mapping[str, str]) -> None:
    """Write all of ``texts`` or none: what was made is removed again when one cannot be written, or a signal comes.

    Raises ``OSError``, with the file's name.
    """
    with ExitStack() as undone:
        for path, text in texts.items():
            file = folder / path
            try:
                _write(file, text, undone)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(file)) from error
        undone.pop_all()


def _write(file: Path, text: str, undone: ExitStack) -> None:
    for missing in reversed([above for above in file.parents if not above.exists()]):
        missing.mkdir()
        undone.callback(_without_fault, missing.rmdir)
    with file.open("x", encoding="utf-8") as new:
        undone.callback(_without_fault, file.unlink)
        new.write(text)


def _without_fault(remove: Callable[[], None]) -> None:
    with suppress(OSError):
        remove()
