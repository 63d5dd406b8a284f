"""Compiled shared libraries against the target."""

from pathlib import Path

from bundling.binaries import foreign_binaries, library_platform
from bundling.target import Target, lambda_target
from bundling.tree import entries

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
