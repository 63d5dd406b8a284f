"""Shared libraries of a few hundred bytes, as a linker would lay them out."""

import struct
from collections.abc import Sequence

HEADER_BYTES = 64
PROGRAM_HEADER_BYTES = 56
AT = 0x1000  # where the loader would put the file's beginning


def library(machine: int, libraries: Sequence[str] = (), versions: Sequence[tuple[str, Sequence[str]]] = ()) -> bytes:
    """A library for ``machine`` that needs ``libraries``, and of some of them symbol versions."""
    strings, offsets = _strings([*libraries, *(name for name, _ in versions), *(v for _, vs in versions for v in vs)])
    needs = _version_needs(versions, offsets)
    strings_at = HEADER_BYTES + 2 * PROGRAM_HEADER_BYTES
    needs_at = strings_at + len(strings)
    dynamic_at = needs_at + len(needs)
    tags = [(1, offsets[name]) for name in libraries]
    tags += [(5, AT + strings_at), (0x6FFFFFFE, AT + needs_at), (0x6FFFFFFF, len(versions)), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags)
    size = dynamic_at + len(dynamic)
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, AT, AT, size, size, 0x1000)
    dynamic_segment = (2, 4, dynamic_at, AT + dynamic_at, AT + dynamic_at, len(dynamic), len(dynamic), 8)
    return _header(machine) + load + struct.pack("<IIQQQQQQ", *dynamic_segment) + strings + needs + dynamic


def _header(machine: int) -> bytes:
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    rest = (3, machine, 1, 0, HEADER_BYTES, 0, 0, HEADER_BYTES, PROGRAM_HEADER_BYTES, 2, 0, 0, 0)
    return identity + struct.pack("<HHIQQQIHHHHHH", *rest)


def _strings(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    table, offsets = b"\0", {}
    for name in dict.fromkeys(names):
        offsets[name] = len(table)
        table += name.encode() + b"\0"
    return table, offsets


def _version_needs(versions: Sequence[tuple[str, Sequence[str]]], offsets: dict[str, int]) -> bytes:
    table = b""
    for number, (name, wanted) in enumerate(versions):
        following = 0 if number == len(versions) - 1 else 16 + 16 * len(wanted)
        table += struct.pack("<HHIII", 1, len(wanted), offsets[name], 16, following)
        for index, version in enumerate(wanted):
            table += struct.pack("<IHHII", 0, 0, 2, offsets[version], 0 if index == len(wanted) - 1 else 16)
    return table
