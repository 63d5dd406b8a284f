"""Resolves a project's dependencies for a target and installs them into a folder: wheels only, built here only from
folders that the project names.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bundling.bytecode import find_interpreter
from bundling.errors import InterpreterMissing, UnusableProject, UvFailed, WheelMissing, raise_all
from bundling.locks import Resolution, locked_version, read_lock, read_resolution, without
from bundling.project import Project, distribution_name
from bundling.target import Target, host_target
from bundling.uv import Uv, this_python
from bundling.wheels import explained, for_target, missing_wheel, nearest

_MISSING_AT_MOST: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """What a project needs on a target, through uv."""

    uv: Uv
    project: Project
    target: Target

    def resolve(self) -> Resolution:
        """What the lock says, or which versions uv says fit the target. Raises ``WheelMissing`` (``BundleProblems`` for
        several), ``UnusableProject`` (such as a folder that would have to be built for its metadata) or ``UvFailed``.
        """
        source = self.project.requirements
        if source.name == "uv.lock":
            return read_lock(self._export(), source, self.project.folder, self.target.python)
        if source.suffix == ".toml" and source.name.startswith("pylock."):
            return read_lock(_text(source), source, source.parent, self.target.python)
        return self._resolve_anew()

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
        """Install exactly what was resolved, and the wheels built here, into ``tree``. uv checks the hashes that a lock
        or ``requirements.txt`` gives. Raises ``WheelMissing`` (``BundleProblems`` for several), ``ForeignBinaries`` or
        ``UvFailed``.
        """
        if resolution.lock:
            self._install_lock(resolution.lock, tree)
        markers = {distribution_name(name): f" ; {marker}" for name, marker in resolution.markers.items()}
        built = [f"{name} @ {wheel.as_uri()}{markers.get(name, '')}" for name, wheel in sorted(wheels.items())]
        resolved_file, built_file = tree.with_name("resolved.txt"), tree.with_name("built.txt")
        resolved_file.write_text("\n".join([*resolution.pinned, *built]), encoding="utf-8")
        built_file.write_text("\n".join(built), encoding="utf-8")
        options: list[str | Path] = ["-r", resolved_file, "--override", built_file]
        if self.project.requirements.suffix == ".txt":
            options += ["-r", self.project.requirements]
        try:
            what = "what is on no package index" if resolution.lock else f"what {self.project.requirements} names"
            self._install(tree, what, *options)
        except UvFailed as error:
            raise explained(self.target, error) from error

    def _export(self) -> str:
        """uv's lock in the format of ``pylock.toml``. uv sees whether it is up to date, with a Python that the project
        allows: the target's, where it is at hand.
        """
        purpose, python = f"read {self.project.requirements}", Path(sys.executable)
        with suppress(InterpreterMissing):
            python = find_interpreter(self.uv, self.target, "")
        options = ["--locked", "--no-default-groups", "--no-header", "--format", "pylock.toml"]
        try:
            return self.uv.run("export", *options, "--python", python, purpose=purpose)
        except UvFailed as error:
            raise explained(self.target, error) from error

    def _resolve_anew(self) -> Resolution:
        requirements, missing = self.project.requirements, dict[str, WheelMissing]()
        while True:
            # What has no wheel is left out to find what else has none: the override says it is never needed.
            never = "\n".join(f"{name} ; sys_platform == 'never'" for name in missing)
            options = [*for_target(self.target), *(["--override", "-"] if missing else [])]
            purpose = f"resolve {requirements} for {self.target}"
            try:
                lock = self.uv.run(
                    *("pip", "compile", "--format", "pylock.toml", *options), requirements, purpose=purpose, text=never
                )
            except UvFailed as error:
                self._note_missing(error, missing, "")
                continue
            raise_all(list(missing.values()))
            return read_resolution(lock, self.project.folder)

    def _install_lock(self, lock: str, tree: Path) -> None:
        missing: dict[str, WheelMissing] = {}
        while True:
            file = tree.with_name("pylock.toml")
            file.write_text(without(lock, missing), encoding="utf-8")
            try:
                what = f"what {self.project.requirements} names"
                self._install(tree, what, *(["--dry-run"] if missing else []), "-r", file)
            except UvFailed as error:
                self._note_missing(error, missing, lock)
                continue
            raise_all(list(missing.values()))
            return

    def _install(self, tree: Path, what: str, *options: str | Path) -> None:
        command = ("pip", "install", "--no-deps", "--target", tree, *for_target(self.target), *options)
        self.uv.run(*command, purpose=f"install {what}")

    def _note_missing(self, error: UvFailed, missing: dict[str, WheelMissing], lock: str) -> None:
        """Add the package without a wheel that uv complains of to ``missing``. Raises all of them when it is known
        already, and what else uv complains of.
        """
        found = missing_wheel(error)
        if found is None or found.name in missing or len(missing) >= _MISSING_AT_MOST:
            raise_all(list(missing.values()))
            raise explained(self.target, error) from error
        if found.version is None and lock:
            found = replace(found, version=locked_version(lock, found.name))
        missing[found.name] = WheelMissing(found.requirement, str(self.target), nearest(self.uv, found, self.target))


def _text(source: Path) -> str:
    try:
        return source.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnusableProject(f"{source} cannot be read: {error}") from error
