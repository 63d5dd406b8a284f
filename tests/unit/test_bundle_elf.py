"""Shared libraries read from their bytes."""

import platform
import re
import sys
from pathlib import Path

import pytest
from pydantic_core import _pydantic_core

from bundling.elf import Elf, read_elf
from tests.fakes.elves import HEADER_BYTES, library

NEEDS = (("libc.so.6", ("GLIBC_2.17", "GLIBC_2.34")), ("libstdc++.so.6", ("GLIBCXX_3.4.29",)))


def test_a_library_tells_its_processor_what_it_needs_and_in_which_versions() -> None:
    assert read_elf(library(0xB7, ("libstdc++.so.6", "libc.so.6"), NEEDS)) == Elf(
        machine=0xB7,
        libraries=("libstdc++.so.6", "libc.so.6"),
        versions=(("libc.so.6", "GLIBC_2.17"), ("libc.so.6", "GLIBC_2.34"), ("libstdc++.so.6", "GLIBCXX_3.4.29")),
    )


def test_a_library_that_needs_nothing_says_so() -> None:
    assert read_elf(library(0x3E)) == Elf(machine=0x3E)


def test_of_32_bits_the_processor_is_enough() -> None:
    content = bytearray(library(0x28))
    content[4] = 1
    assert read_elf(bytes(content)) == Elf(machine=0x28)


@pytest.mark.parametrize("length", [4, 19, 70, 180, 250])
def test_a_library_that_is_cut_off_is_none(length: int) -> None:
    assert read_elf(library(0x3E, ("libc.so.6",), NEEDS)[:length]) is None


def test_what_is_no_elf_file_is_none() -> None:
    assert read_elf(b"") is None
    assert read_elf(b"INPUT ( libc.so.6 )") is None


def test_a_library_without_a_dynamic_part_tells_its_processor_alone() -> None:
    content = bytearray(library(0xB7, ("libc.so.6",), NEEDS))
    content[56:58] = bytes(2)  # no program headers
    assert read_elf(bytes(content)) == Elf(machine=0xB7)


def test_a_library_whose_tables_lie_outside_of_what_is_loaded_is_none() -> None:
    content = bytearray(library(0xB7, ("libc.so.6",), NEEDS))
    content[HEADER_BYTES + 16 : HEADER_BYTES + 24] = (0x900000).to_bytes(8, "little")  # where the file is loaded
    assert read_elf(bytes(content)) is None


@pytest.mark.skipif(
    sys.platform != "linux", reason="reads a library of this machine, which are ELF files on Linux alone"
)
def test_a_library_that_a_linker_made_tells_what_it_needs() -> None:
    found = read_elf(Path(_pydantic_core.__file__).read_bytes())
    assert found is not None
    assert found.machine == {"x86_64": 0x3E, "aarch64": 0xB7}[platform.machine()]
    assert any(name.startswith("libc.") for name in found.libraries)
    assert {library for library, _ in found.versions} <= set(found.libraries)
    assert all(re.fullmatch(r"[A-Z]+_[\w.]+", version) for _, version in found.versions)
