"""What a Linux shared library says of itself in its first and its dynamic part (ELF, 64 bit, little endian)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAGIC: Final = b"\x7fELF"
_64_BIT_LITTLE: Final = b"\x02\x01"
_MACHINE_AT: Final = 18
_PROGRAM_HEADERS_AT: Final = 32
_PROGRAM_HEADER_COUNTS_AT: Final = 54
_LOAD: Final = 1
_DYNAMIC: Final = 2
# Tags of the dynamic part (ELF specification, and its "Symbol Versioning" of the Linux Standard Base).
_NEEDED: Final = 1
_STRING_TABLE: Final = 5
_VERSIONS_NEEDED: Final = 0x6FFFFFFE
_VERSIONS_NEEDED_COUNT: Final = 0x6FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Elf:
    """``machine`` is ELF's number of the processor; ``libraries`` are those that the loader must find; ``versions`` are
    the symbol versions that it must find there, as (``libc.so.6``, ``GLIBC_2.17``).
    """

    machine: int
    libraries: tuple[str, ...] = ()
    versions: tuple[tuple[str, str], ...] = ()


def read_elf(content: bytes) -> Elf | None:
    """Read a whole library. None when it is no ELF file, or one that is cut off or damaged."""
    try:
        return _Reader(content).read() if content.startswith(MAGIC) else None
    except (struct.error, IndexError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class _Segment:
    offset: int
    address: int
    size: int


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._loaded: list[_Segment] = []
        self._dynamic: list[tuple[int, int]] = []

    def read(self) -> Elf:
        (machine,) = self._numbers("<H", _MACHINE_AT)
        if self._content[4:6] != _64_BIT_LITTLE:
            return Elf(machine=machine)  # no processor of Lambda's: that is found by its number
        self._read_program_headers()
        tags = dict(self._dynamic)
        if _STRING_TABLE not in tags:
            return Elf(machine=machine)
        strings = self._offset(tags[_STRING_TABLE])
        return Elf(
            machine=machine,
            libraries=tuple(self._text(strings + value) for tag, value in self._dynamic if tag == _NEEDED),
            versions=tuple(self._versions(tags, strings)),
        )

    def _read_program_headers(self) -> None:
        (start,) = self._numbers("<Q", _PROGRAM_HEADERS_AT)
        size, count = self._numbers("<HH", _PROGRAM_HEADER_COUNTS_AT)
        dynamic = None
        for number in range(count):
            kind, _, offset, address, _, length = self._numbers("<IIQQQQ", start + number * size)
            if kind == _LOAD:
                self._loaded.append(_Segment(offset, address, length))
            elif kind == _DYNAMIC:
                dynamic = _Segment(offset, address, length)
        if dynamic is not None:
            end = dynamic.offset + dynamic.size
            pairs = (self._numbers("<QQ", at) for at in range(dynamic.offset, end, 16))
            self._dynamic = [(tag, value) for tag, value in pairs]

    def _versions(self, tags: dict[int, int], strings: int) -> Iterator[tuple[str, str]]:
        if _VERSIONS_NEEDED not in tags:
            return
        at = self._offset(tags[_VERSIONS_NEEDED])
        for _ in range(tags.get(_VERSIONS_NEEDED_COUNT, 0)):
            _, count, file, first, following = self._numbers("<HHIII", at)
            library, version_at = self._text(strings + file), at + first
            for _ in range(count):
                _, _, _, name, step = self._numbers("<IHHII", version_at)
                yield library, self._text(strings + name)
                version_at += step
            at += following

    def _numbers(self, layout: str, at: int) -> tuple[int, ...]:
        return struct.unpack_from(layout, self._content, at)

    def _offset(self, address: int) -> int:
        """Where in the file lies what the loader puts at ``address``."""
        for segment in self._loaded:
            if segment.address <= address < segment.address + segment.size:
                return address - segment.address + segment.offset
        raise ValueError(address)

    def _text(self, at: int) -> str:
        return self._content[at : self._content.index(b"\0", at)].decode()
