"""Resolves a project's dependencies for a target and installs them into a folder: wheels only, built here only from
folders that the project names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bundling.errors import UnusableProject, UvFailed, WheelMissing
from bundling.project import Project
from bundling.target import LAMBDA_PYTHONS, Target, host_target
from bundling.uv import Uv, this_python

_NO_WHEEL: Final = re.compile(
    r"(?P<all>all versions of )?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:==(?P<version>[^\s,]+))? "
    r"ha(?:s|ve) no (?:usable wheels|wheels with a matching)"
)
_NOT_STATIC: Final = re.compile(
    r"Building source distributions (?:for `(?P<name>[^`]+)` )?is disabled"
    r"(?:, but attempted to build `(?P<other>[^`]+)`)?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Everything that goes in: ``pinned`` requirements (``name==version``, ``name @ url``), and the folders of the
    ``local`` distributions by name.
    """

    pinned: tuple[str, ...]
    local: dict[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a project needs on a target, through uv."""

    uv: Uv
    project: Project
    target: Target

    def resolve(self) -> Resolution:
        """Ask uv which versions fit the target. Raises ``WheelMissing``, ``UnusableProject`` (a folder that would have
        to be built for its metadata) or ``UvFailed``.
        """
        requirements = self.project.requirements
        try:
            lock = self.uv.run(
                *_compile(self.target), requirements, purpose=f"resolve {requirements} for {self.target}"
            )
        except UvFailed as error:
            raise _explained(self.uv, self.target, error) from error
        return read_lock(lock, self.project.folder)

    def build_wheel(self, folder: Path, output: Path) -> Path:
        """Build the wheel of a local distribution into ``output``, an empty folder. Raises ``UvFailed``, and
        ``UnusableProject`` when the wheel is compiled for this machine and the target is another.
        """
        purpose = f"build the wheel of {folder}"
        self.uv.run("build", folder, "--wheel", "--out-dir", output, *this_python(), purpose=purpose)
        wheel = next(output.glob("*.whl"))
        if not wheel.name.endswith("-any.whl") and self.target != host_target():
            raise UnusableProject(
                f"{folder} builds {wheel.name}, which is compiled for this machine and not for {self.target}; "
                "build its wheel on such a machine and depend on that"
            )
        return wheel

    def install(self, resolution: Resolution, wheels: Mapping[str, Path], tree: Path) -> None:
        """Install exactly what was resolved, and the wheels built here, into ``tree``. uv checks the hashes that
        ``requirements.txt`` gives. Raises ``UvFailed``.
        """
        built = [f"{name} @ {wheel.as_uri()}" for name, wheel in sorted(wheels.items())]
        resolved_file, built_file = tree.with_name("resolved.txt"), tree.with_name("built.txt")
        resolved_file.write_text("\n".join([*resolution.pinned, *built]), encoding="utf-8")
        built_file.write_text("\n".join(built), encoding="utf-8")
        options: list[str | Path] = ["-r", resolved_file, "--override", built_file]
        if self.project.requirements.suffix == ".txt":
            options += ["-r", self.project.requirements]
        command = ("pip", "install", "--no-deps", "--target", tree, *_for(self.target), *options)
        self.uv.run(*command, purpose=f"install the dependencies of {self.project.folder}")


def read_lock(lock: str, folder: Path) -> Resolution:
    """Read uv's resolution in the ``pylock.toml`` format (PEP 751); its paths are relative to ``folder``."""
    pinned: list[str] = []
    local: dict[str, Path] = {}
    for package in tomllib.loads(lock).get("packages", []):
        name = package["name"]
        if "directory" in package:
            local[name] = (folder / package["directory"]["path"]).resolve()
        elif "archive" in package:
            archive = package["archive"]
            pinned.append(f"{name} @ {archive.get('url') or (folder / archive['path']).resolve().as_uri()}")
        elif "version" in package and "vcs" not in package:
            pinned.append(f"{name}=={package['version']}")
        else:
            raise UnusableProject(f"{name} comes from version control; depend on its wheel or on a folder instead")
    return Resolution(pinned=tuple(pinned), local=local)


def _compile(target: Target) -> list[str]:
    return ["pip", "compile", "--format", "pylock.toml", *_for(target)]


def _for(target: Target) -> list[str]:
    options = ["--python-version", target.python, "--python-platform", target.platform, "--only-binary", ":all:"]
    return [*this_python(), *options]


def _explained(uv: Uv, target: Target, error: UvFailed) -> Exception:
    """uv's complaint in our words: the missing wheel by name with the nearest choices, or the folder whose version and
    dependencies are not written down.
    """
    if unknown := _NOT_STATIC.search(error.detail):
        return UnusableProject(
            f"{unknown['name'] or unknown['other'] or 'a dependency'} does not state its version and dependencies in a "
            "[project] table; write them there, or depend on its wheel"
        )
    missing = _NO_WHEEL.search(error.detail)
    if missing is None:
        return error
    requirement = f"{missing['name']}=={missing['version']}" if missing["version"] else missing["name"]
    alternatives = list(_alternatives(uv, missing["name"], requirement, target))
    return WheelMissing(requirement, str(target), alternatives)


def _alternatives(uv: Uv, name: str, requirement: str, target: Target) -> Iterator[str]:
    """The newest other version for this target, the nearest other Python, the other architecture: as far as wheels
    are found there.
    """
    if requirement != name and (version := _wheel_version(uv, name, target)):
        yield f"{name}=={version}"
    distance = {python: abs(_minor(python) - _minor(target.python)) for python in LAMBDA_PYTHONS}
    for python in sorted(distance, key=distance.__getitem__):
        if distance[python] and _wheel_version(uv, requirement, replace(target, python=python)):
            yield f"python{python}"
            break
    other = replace(target, architecture="x86_64" if target.architecture == "arm64" else "arm64")
    if _wheel_version(uv, requirement, other):
        yield other.architecture


def _wheel_version(uv: Uv, requirement: str, target: Target) -> str | None:
    """The version that has a wheel for the target, if any."""
    try:
        lock = uv.run(*_compile(target), "--no-deps", "-", purpose="look for a wheel", text=requirement)
    except UvFailed:
        return None
    return str(tomllib.loads(lock)["packages"][0]["version"])


def _minor(python: str) -> int:
    return int(python.partition(".")[2])
