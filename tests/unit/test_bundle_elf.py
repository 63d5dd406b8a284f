"""Shared libraries read from their bytes."""

import pytest

from bundling.elf import Elf, read_elf
from tests.fakes.elves import library

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
