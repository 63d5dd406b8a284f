"""Where the Towpath that runs came from, as a project says it that depends on the same: Towpath is on no package index
yet, and a project has to run on the Towpath that made it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from towpath.errors import TowpathError

_CHOOSE: Final = "; say where a clone or a wheel is, which a Lambda zip can take: --towpath PATH"


class UnknownOrigin(TowpathError):
    """No project could depend on the Towpath that runs: where it was installed from is gone, or no zip can take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a ``pyproject.toml`` says of Towpath: ``pin`` after its name, and the table ``sources`` for uv."""

    pin: str = ""
    sources: str = ""


def origin(project: Path, installed: Distribution, code: Path, given: Path | None = None) -> Origin:
    """What the project in the folder ``project`` has to say to get Towpath from ``given``, a clone or a wheel; else
    from the clone that ``code``, the folder of the package that runs, is part of; else from where ``installed`` was
    installed from (PEP 610 tells), which is a package index where nothing is told.

    Raises ``UnknownOrigin``.
    """
    if given is not None:
        return _from_path(given.resolve(), project, "--towpath")
    if _is_clone(code.parent):
        return _from_path(code.parent.resolve(), project, "")
    told = installed.read_text("direct_url.json")
    if told is None:
        return Origin(pin=f"=={installed.version}")
    return _from_url(json.loads(told), project)


def _from_url(told: Mapping[str, Any], project: Path) -> Origin:
    url = urlsplit(told["url"])
    if "vcs_info" in told:
        raise UnknownOrigin(f"this Towpath was installed from version control ({told['url']}){_CHOOSE}")
    if url.scheme == "file":
        return _from_path(Path(unquote(url.path)), project, "this Towpath was installed from")
    if not url.path.endswith(".whl"):
        raise UnknownOrigin(f"this Towpath was installed from {told['url']}, which is no wheel{_CHOOSE}")
    return _sources(f"url = {json.dumps(told['url'])}")


def _from_path(path: Path, project: Path, named_by: str) -> Origin:
    is_wheel = path.suffix == ".whl" and path.is_file()
    if not is_wheel and not _is_clone(path):
        raise UnknownOrigin(f"{named_by} {path}, which is neither a folder of Towpath's source nor a wheel{_CHOOSE}")
    editable = "" if is_wheel else ", editable = true"
    return _sources(f"path = {json.dumps(_seen_from(project, path))}{editable}")


def _sources(where: str) -> Origin:
    told = "# Where this Towpath came from; a package index has none yet."
    return Origin(sources=f"\n{told}\n[tool.uv.sources]\ntowpath = {{ {where} }}\n")


def _seen_from(project: Path, path: Path) -> str:
    """``path``, relative where both lie in one folder, so that they can be moved together."""
    folder = project.resolve()
    if path.is_relative_to(folder.parent) or folder.is_relative_to(path):
        return os.path.relpath(path, folder)
    return str(path)


def _is_clone(folder: Path) -> bool:
    try:
        document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    named: object = document.get("project", {}).get("name")
    return named == "towpath"
