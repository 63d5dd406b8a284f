"""Compiled shared libraries against the target."""

from pathlib import Path

import pytest

from bundling.binaries import foreign_binaries, library_platform, missing_libraries
from bundling.target import Target, lambda_target
from bundling.tree import entries
from tests.fakes.elves import library

ARM = lambda_target("python3.13", "arm64")


def elf(machine: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + (3).to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(40)


def mach_o(cpu: int) -> bytes:
    return b"\xcf\xfa\xed\xfe" + cpu.to_bytes(4, "little") + bytes(24)


def findings(folder: Path, target: Target, **files: bytes) -> tuple[str, ...]:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return foreign_binaries(entries(folder), target)


def test_a_library_tells_its_system_and_processor() -> None:
    assert library_platform(elf(0x3E)) == "linux x86_64"
    assert library_platform(elf(0xB7)) == "linux aarch64"
    assert library_platform(elf(0xF3)) == "linux machine 0xf3"
    assert library_platform(mach_o(0x0100000C)) == "darwin arm64"
    assert library_platform(b"\x7fELF") is None
    assert library_platform(b"INPUT ( libc.so.6 )  ") is None


def test_libraries_of_the_target_are_fine(tmp_path: Path) -> None:
    fine = {
        "a__cpython-313-aarch64-linux-gnu__so": elf(0xB7),
        "b__abi3__so": elf(0xB7),
        "libc__so__6": elf(0xB7),
        "so__py": b"",
    }
    assert findings(tmp_path, ARM, **fine) == ()


def test_a_library_of_another_processor_is_found_by_its_content(tmp_path: Path) -> None:
    assert findings(tmp_path, ARM, libz__so__1=elf(0x3E)) == ("libz.so.1 is for linux x86_64",)


def test_a_library_of_another_python_is_found_by_its_name(tmp_path: Path) -> None:
    found = findings(tmp_path, ARM, **{"a__cpython-312-aarch64-linux-gnu__so": elf(0xB7)})
    assert found == ("a.cpython-312-aarch64-linux-gnu.so is for python3.12",)


def test_a_library_of_macos_is_fine_on_macos_alone(tmp_path: Path) -> None:
    mac = Target(python="3.13", architecture="arm64", system="darwin")
    assert findings(tmp_path, mac, a__so=mach_o(0x0100000C)) == ()
    assert findings(tmp_path, ARM) == ("a.so is for darwin arm64",)


def test_a_library_that_needs_a_newer_c_library_than_lambdas_is_found(tmp_path: Path) -> None:
    needs = [("libc.so.6", ["GLIBC_2.17", "GLIBC_2.38", "GLIBC_2.36"]), ("libm.so.6", ["GLIBC_2.29", "GLIBC_PRIVATE"])]
    assert findings(tmp_path, ARM, a__so=library(0xB7, ["libc.so.6"], needs)) == (
        "a.so needs GLIBC_2.38, and Lambda's python3.13 has GLIBC_2.34",
    )


def test_each_runtime_has_its_own_c_and_c_plus_plus_libraries(tmp_path: Path) -> None:
    needs = [("libc.so.6", ["GLIBC_2.34"]), ("libstdc++.so.6", ["GLIBCXX_3.4.29", "CXXABI_1.3.9"])]
    (tmp_path / "a.so").write_bytes(library(0xB7, [], needs))
    assert foreign_binaries(entries(tmp_path), ARM) == ()
    assert foreign_binaries(entries(tmp_path), lambda_target("python3.11", "arm64")) == (
        "a.so needs GLIBC_2.34, and Lambda's python3.11 has GLIBC_2.26",
        "a.so needs GLIBCXX_3.4.29, and Lambda's python3.11 has GLIBCXX_3.4.24",
    )


def test_a_c_plus_plus_library_that_a_wheel_brings_along_may_be_newer(tmp_path: Path) -> None:
    needs = [("libstdc++-1a2b.so.6", ["GLIBCXX_3.4.32"])]
    assert findings(tmp_path, ARM, a__so=library(0xB7, ["libstdc++-1a2b.so.6"], needs)) == ()


def test_a_library_for_alpine_is_found(tmp_path: Path) -> None:
    found = findings(tmp_path, ARM, a__so=library(0xB7, ["libc.musl-aarch64.so.1"]))
    assert found == ("a.so is for musl (Alpine), and Lambda's python3.13 has glibc",)


@pytest.mark.parametrize(("tag", "python"), [("cpython-313t", "python3.13t"), ("pypy311-pp73", "pypy311")])
def test_a_library_of_another_kind_of_python_is_found_by_its_name(tmp_path: Path, tag: str, python: str) -> None:
    found = findings(tmp_path, ARM, **{f"a__{tag}-aarch64-linux-gnu__so": elf(0xB7)})
    assert found == (f"a.{tag}-aarch64-linux-gnu.so is for {python}",)


def test_a_library_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    found = findings(
        tmp_path, ARM, **{"a__cpython-313-aarch64-linux-gnu__so": b"version https://git-lfs", "b__so": b"\x7fELF"}
    )
    assert [text.partition(":")[0] for text in found] == [
        "a.cpython-313-aarch64-linux-gnu.so is no library that can be read",
        "b.so is no library that can be read",
    ]


def test_a_library_of_windows_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path, ARM, a__pyd=b"MZ\x90\x00") == ("a.pyd is for windows",)


def test_a_finding_names_the_distribution(tmp_path: Path) -> None:
    (tmp_path / "fast.so").write_bytes(elf(0x3E))
    found = foreign_binaries(entries(tmp_path), ARM, {"fast.so": "fast 1.0"})
    assert found == ("fast.so of fast 1.0 is for linux x86_64",)


def test_a_library_that_neither_the_bundle_nor_lambda_has_is_told(tmp_path: Path) -> None:
    (tmp_path / "own.libs").mkdir()
    (tmp_path / "own.libs" / "libown-1.so.2").write_bytes(library(0xB7, ["libm.so.6", "ld-linux-aarch64.so.1"]))
    (tmp_path / "cv.so").write_bytes(library(0xB7, ["libGL.so.1", "libown-1.so.2", "libstdc++.so.6", "libc.so.6"]))
    files = entries(tmp_path)
    told = ("cv.so needs libGL.so.1, which neither the bundle nor Lambda has",)
    assert missing_libraries(files, ARM) == told
    assert missing_libraries(files, Target(python="3.13", architecture="arm64", system="darwin")) == ()


def test_a_library_with_packed_relocations_needs_the_c_library_that_brought_them(tmp_path: Path) -> None:
    found = findings(tmp_path, ARM, a__so=library(0xB7, [], [("libc.so.6", ["GLIBC_ABI_DT_RELR"])]))
    assert found == ("a.so needs GLIBC_2.36, and Lambda's python3.13 has GLIBC_2.34",)


def test_what_the_loader_does_not_load_may_be_anything(tmp_path: Path) -> None:
    assert findings(tmp_path, ARM, libc__so=b"GROUP ( libc.so.6 )", tool=elf(0x3E), notes__txt=b"MZ") == ()
