"""Compiled shared libraries: which processor, Python and C library they are for, by what is in them and their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from bundling.elf import MAGIC, Elf, read_elf
from bundling.target import SystemLibraries, Target, system_libraries
from bundling.tree import Entry

_ELF_MACHINES: Final = {0x3E: "x86_64", 0xB7: "aarch64"}
# Mach-O (64 bit, little endian): magic, then cputype.
_MACH_O: Final = b"\xcf\xfa\xed\xfe"
_MACH_O_CPUS: Final = {0x01000007: "x86_64", 0x0100000C: "arm64"}
_WINDOWS: Final = b"MZ"
# Python's names of extension modules: the tag of its ABI (PEP 3149), where "abi3" is any Python 3's.
_PYTHON: Final = re.compile(r"\.(?:cpython-3(?P<minor>\d+)(?P<flags>[a-z]*)|(?P<other>(?:pypy|graalpy)\d*))(?=[.-])")
_SINCE: Final = {"GLIBC_ABI_DT_RELR": (2, 36)}  # what no number names: glibc 2.36's release notes
_MUSL: Final = "libc.musl-"
# What AWS's base images for Python have, both the processes' own and what the manylinux standard lets wheels expect
# (PEP 600), but for a desktop's libraries (X11, GL, GLib), which they do not have.
_OF_THE_SYSTEM: Final = re.compile(
    r"ld-linux-(?:x86-64|aarch64)\.so\.\d"
    r"|lib(?:anl|c|crypt|crypto|dl|expat|gcc_s|m|mvec|nsl|pthread|resolv|rt|ssl|stdc\+\+|util|z)\.so\.\d+"
)
_NO_OWNERS: Final[Mapping[str, str]] = {}


def foreign_binaries(files: Iterable[Entry], target: Target, owners: Mapping[str, str] = _NO_OWNERS) -> tuple[str, ...]:
    """One finding for each reason why the target cannot load a shared library; empty when all is well. ``owners`` names
    the distribution (``xxhash 4.1.0``) that installed a file.
    """
    return tuple(
        f"{entry.name}{_of(owners.get(entry.name))} {finding}"
        for entry in files
        if _is_library(entry.name)
        for finding in _findings(entry, target)
    )


def missing_libraries(files: Sequence[Entry], target: Target) -> tuple[str, ...]:
    """A sentence for each library that another one needs, and neither the bundle nor Lambda has. Such a library may be
    for a case that does not come, so it is no more than a warning.
    """
    if system_libraries(target) is None:
        return ()
    libraries = [entry for entry in files if _is_library(entry.name)]
    present = {PurePosixPath(entry.name).name for entry in files}
    return tuple(
        f"{entry.name} needs {name}, which neither the bundle nor Lambda has"
        for entry in libraries
        if (elf := read_elf(entry.path.read_bytes())) is not None
        for name in elf.libraries
        if name not in present and not _OF_THE_SYSTEM.fullmatch(name)
    )


def library_platform(content: bytes) -> str | None:
    """The system and processor of a shared library (``linux x86_64``); None when unknown."""
    elf = read_elf(content)
    if elf is not None:
        return f"linux {_ELF_MACHINES.get(elf.machine, f'machine {elf.machine:#x}')}"
    if content.startswith(_MACH_O):
        cpu = int.from_bytes(content[4:8], "little")
        return f"darwin {_MACH_O_CPUS.get(cpu, f'cpu {cpu:#x}')}"
    return "windows" if content.startswith(_WINDOWS) else None


def _of(owner: str | None) -> str:
    return "" if owner is None else f" of {owner}"


def _is_library(name: str) -> bool:
    return ".so" in PurePosixPath(name).suffixes or name.endswith((".dylib", ".pyd"))


def _findings(entry: Entry, target: Target) -> Iterator[str]:
    content = entry.path.read_bytes()
    found = library_platform(content)
    if found is None and (content.startswith(MAGIC) or _PYTHON.search(entry.name)):
        yield "is no library that can be read: it is damaged, or a pointer to a file that was not fetched"
    elif found is not None and found != f"{target.system} {target.cpu}":
        yield f"is for {found}"
    elif (elf := read_elf(content)) is not None and (limits := system_libraries(target)) is not None:
        yield from _missing_on(elf, limits, target)
    if (python := _python(PurePosixPath(entry.name).name)) not in (None, target.python):
        yield f"is for {'python' if python and python[0].isdigit() else ''}{python}"


def _python(name: str) -> str | None:
    """The Python that alone can load an extension module of this name; None for any."""
    tag = _PYTHON.search(name)
    if tag is None:
        return None
    return tag["other"] or f"3.{tag['minor']}{tag['flags']}"


def _missing_on(elf: Elf, limits: SystemLibraries, target: Target) -> Iterator[str]:
    """What the library needs of the system's C and C++ libraries beyond the versions that the runtime has."""
    if any(library.startswith(_MUSL) for library in elf.libraries):
        yield f"is for musl (Alpine), and Lambda's python{target.python} has glibc"
    for prefix, highest in (("GLIBC", limits.glibc), ("GLIBCXX", limits.libstdcxx)):
        needed = max((found for found in _versions(elf, prefix) if found > highest), default=None)
        if needed is not None:
            has, wants = (".".join(map(str, version)) for version in (highest, needed))
            yield f"needs {prefix}_{wants}, and Lambda's python{target.python} has {prefix}_{has}"


def _versions(elf: Elf, prefix: str) -> Iterator[tuple[int, ...]]:
    """The numbers of the versions so named that are needed of the system's libraries, not of a wheel's own copies."""
    for library, version in elf.versions:
        name, _, number = version.partition("_")
        if name == prefix and (prefix != "GLIBCXX" or library == "libstdc++.so.6"):
            yield _SINCE.get(version) or tuple(int(part) for part in number.split(".") if part.isdigit())
