"""Compiled shared libraries: which processor and which Python they are for, read from their first bytes and names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from bundling.target import Target
from bundling.tree import Entry

_HEADER_BYTES: Final = 20
# ELF: e_ident, then e_type and e_machine. Mach-O (64 bit, little endian): magic, then cputype.
_ELF: Final = b"\x7fELF"
_ELF_MACHINES: Final = {0x3E: "x86_64", 0xB7: "aarch64"}
_MACH_O: Final = b"\xcf\xfa\xed\xfe"
_MACH_O_CPUS: Final = {0x01000007: "x86_64", 0x0100000C: "arm64"}
_CPYTHON: Final = re.compile(r"\.cpython-3(\d+)")


def foreign_binaries(files: Iterable[Entry], target: Target) -> tuple[str, ...]:
    """One finding for each shared library that the target cannot load; empty when all is well."""
    return tuple(finding for entry in files if _is_library(entry.name) for finding in _findings(entry, target))


def library_platform(header: bytes) -> str | None:
    """The system and processor of a shared library (``linux x86_64``) by its first 20 bytes; None when unknown."""
    if header.startswith(_ELF) and len(header) >= _HEADER_BYTES:
        machine = int.from_bytes(header[18:20], "little")
        return f"linux {_ELF_MACHINES.get(machine, f'machine {machine:#x}')}"
    if header.startswith(_MACH_O):
        cpu = int.from_bytes(header[4:8], "little")
        return f"darwin {_MACH_O_CPUS.get(cpu, f'cpu {cpu:#x}')}"
    return None


def _is_library(name: str) -> bool:
    return ".so" in PurePosixPath(name).suffixes or name.endswith(".dylib")


def _findings(entry: Entry, target: Target) -> Iterator[str]:
    with entry.path.open("rb") as file:
        found = library_platform(file.read(_HEADER_BYTES))
    if found is not None and found != f"{target.system} {target.cpu}":
        yield f"{entry.name} is for {found}"
    abi = _CPYTHON.search(PurePosixPath(entry.name).name)
    if abi is not None and f"3.{abi[1]}" != target.python:
        yield f"{entry.name} is for python3.{abi[1]}"
