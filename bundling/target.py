"""What a bundle is built for: the Python and the processor that will run it."""

from __future__ import annotations

import platform
import re
import sys
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from bundling.errors import UnusableProject

Architecture: TypeAlias = Literal["arm64", "x86_64"]
System: TypeAlias = Literal["linux", "darwin"]

LAMBDA_PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")  # AWS: "Lambda runtimes", as far as Towpath runs on them
# Lambda's Python 3.12 and newer run on Amazon Linux 2023, 3.11 on Amazon Linux 2: their C libraries are glibc 2.34 and
# 2.26 (release notes of both), their C++ libraries those of GCC 11 and 7 (GCC manual, "ABI Policy and Guidelines").
_ON_AMAZON_LINUX_2: Final = ("3.11",)
_MACHINES: Final[dict[str, Architecture]] = {
    "aarch64": "arm64",
    "arm64": "arm64",
    "amd64": "x86_64",
    "x86_64": "x86_64",
}
_CPUS: Final[dict[Architecture, str]] = {"arm64": "aarch64", "x86_64": "x86_64"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemLibraries:
    """The newest symbol versions of the C and C++ libraries that a runtime has: (2, 34) is ``GLIBC_2.34``."""

    glibc: tuple[int, ...]
    libstdcxx: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A Python's minor version (``3.13``), a processor as Lambda names it, and the system, which is Lambda's Linux
    except where a bundle is only to be tried on a developer's macOS.
    """

    python: str
    architecture: Architecture
    system: System = "linux"

    def __str__(self) -> str:
        suffix = "" if self.system == "linux" else f" on {self.system}"
        return f"python{self.python} {self.architecture}{suffix}"

    @property
    def cpu(self) -> str:
        """The processor as wheels and shared libraries name it."""
        return self.architecture if self.system == "darwin" else _CPUS[self.architecture]

    @property
    def platform(self) -> str:
        """uv's name of the platform: the newest that it knows and the runtime's C library can load."""
        if self.system == "darwin":
            return f"{_CPUS[self.architecture]}-apple-darwin"
        glibc = "2_17" if self.python in _ON_AMAZON_LINUX_2 else "2_34"
        return f"{self.cpu}-manylinux_{glibc}"


def system_libraries(target: Target) -> SystemLibraries | None:
    """What Lambda's runtime for the target has; None for a target that is no runtime of Lambda's."""
    if target.system != "linux":
        return None
    if target.python in _ON_AMAZON_LINUX_2:
        return SystemLibraries(glibc=(2, 26), libstdcxx=(3, 4, 24))
    return SystemLibraries(glibc=(2, 34), libstdcxx=(3, 4, 29))


def host_target() -> Target:
    """This machine's own. Raises ``UnusableProject`` where no bundle can run: neither Linux nor macOS."""
    architecture = _MACHINES.get(platform.machine().lower())
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if architecture is None or sys.platform not in ("linux", "darwin"):
        raise UnusableProject(f"a bundle cannot run on {sys.platform} {platform.machine()}; name a Lambda target")
    return Target(python=python, architecture=architecture, system="darwin" if sys.platform == "darwin" else "linux")


def lambda_target(runtime: str, architecture: str) -> Target:
    """The target of a Lambda runtime such as ``python3.13``. Raises ``UnusableProject`` for any that cannot run it."""
    match = re.fullmatch(r"python(3\.\d+)", runtime)
    if match is None or match[1] not in LAMBDA_PYTHONS:
        allowed = ", ".join(f"python{python}" for python in LAMBDA_PYTHONS)
        raise UnusableProject(f"there is no bundle for runtime {runtime!r}; choose one of {allowed}")
    if architecture not in _CPUS:
        raise UnusableProject(f"there is no bundle for architecture {architecture!r}; choose arm64 or x86_64")
    return Target(python=match[1], architecture=_MACHINES[architecture])
