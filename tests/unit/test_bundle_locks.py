"""Locks in the format of pylock.toml."""

from pathlib import Path

import pytest

from bundling.errors import UnusableProject
from bundling.locks import locked_version, read_lock, without

LOCK = """
lock-version = "1.0"
created-by = "uv"
requires-python = ">=3.12"

[[packages]]
name = "six"
version = "1.17.0"
wheels = [{ url = "https://example.org/six-1.17.0-py3-none-any.whl", hashes = { sha256 = "00" } }]

[[packages]]
name = "app-lib"
marker = "python_version >= '3.12'"

[packages.directory]
path = "../lib"
editable = true

[[packages]]
name = "mine"
version = "1"
marker = "sys_platform == 'linux'"
archive = { path = "wheels/mine-1-py3-none-any.whl", hashes = { sha256 = "abc" } }

[[packages]]
name = "tomli"
version = "2"
marker = "python_version < '3.11'"
"""
SOURCE = Path("/p/app/pylock.toml")


def test_folders_and_files_are_taken_out_of_the_lock_with_their_conditions() -> None:
    resolution = read_lock(LOCK, SOURCE, SOURCE.parent, "3.13")
    assert resolution.local == {"app-lib": Path("/p/lib")}
    assert resolution.markers == {"app-lib": "python_version >= '3.12'"}
    assert resolution.pinned == (
        "mine @ file:///p/app/wheels/mine-1-py3-none-any.whl#sha256=abc ; sys_platform == 'linux'",
    )
    assert "app-lib" not in resolution.lock
    assert "mine" not in resolution.lock
    assert resolution.lock.startswith('\nlock-version = "1.0"\ncreated-by = "uv"\n\n[[packages]]\n')
    assert 'version = "1.17.0"' in resolution.lock
    assert "python_version < '3.11'" in resolution.lock


def test_packages_can_be_left_out_by_name() -> None:
    assert without(LOCK, ["six", "app-lib", "mine", "tomli"]) == (
        '\nlock-version = "1.0"\ncreated-by = "uv"\nrequires-python = ">=3.12"\n\n'
    )
    assert without(LOCK, []) == LOCK


def test_a_locks_version_of_a_package_is_known_where_it_says_one() -> None:
    assert [locked_version(LOCK, name) for name in ("six", "app-lib", "other")] == ["1.17.0", None, None]


@pytest.mark.parametrize("text", ["[[packages]\n", "[[packages]]\nversion = '1'\n", "packages = 1\n"])
def test_what_is_no_lock_is_told_with_its_path(text: str) -> None:
    with pytest.raises(UnusableProject, match=r"^/p/app/pylock\.toml is no lock in the format of pylock\.toml"):
        read_lock(text, SOURCE, SOURCE.parent, "3.13")


def test_a_lock_in_another_layout_is_refused() -> None:
    with pytest.raises(UnusableProject, match=r"does not have each package as a \[\[packages\]\] table"):
        read_lock('packages = [{ name = "six", version = "1" }]\n', SOURCE, SOURCE.parent, "3.13")


def test_everything_from_version_control_is_refused_by_name() -> None:
    lock = "".join(f'[[packages]]\nname = "{name}"\nvcs = {{ type = "git", url = "x" }}\n' for name in ("one", "two"))
    with pytest.raises(UnusableProject, match="takes one, two from version control"):
        read_lock(lock, SOURCE, SOURCE.parent, "3.13")


@pytest.mark.parametrize(
    ("specifiers", "allowed"),
    [
        ("", True),
        (">=3.11", True),
        (">=3.13.5", True),
        (">=3.14", False),
        (">=3.9, <3.13", False),
        (">=3.9,<3.13.0", False),
        ("<3.13.4", True),
        ("<3.14,!=3.12.1", True),
        ("<3.9", False),
        ("<4", True),
    ],
)
def test_a_lock_for_another_python_than_the_targets_is_refused(specifiers: str, allowed: bool) -> None:
    lock = f'lock-version = "1.0"\nrequires-python = "{specifiers}"\n'
    if allowed:
        assert read_lock(lock, SOURCE, SOURCE.parent, "3.13").lock == 'lock-version = "1.0"\n'
    else:
        with pytest.raises(UnusableProject, match=r"pylock\.toml is for Python .*, and the bundle for 3\.13"):
            read_lock(lock, SOURCE, SOURCE.parent, "3.13")
