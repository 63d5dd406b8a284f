"""Resolving dependencies, with a stand-in for uv."""

from pathlib import Path

import pytest

from bundling.dependencies import Dependencies
from bundling.errors import BundleProblems, UnusableProject, UvFailed, WheelMissing
from bundling.locks import read_resolution
from bundling.project import Project
from bundling.target import lambda_target
from bundling.wheels import explained

LOCK = """
[[packages]]
name = "six"
version = "1.17.0"

[[packages]]
name = "towpath"
directory = { path = "../..", editable = true }

[[packages]]
name = "mine"
version = "1"
archive = { path = "wheels/mine-1-py3-none-any.whl" }

[[packages]]
name = "theirs"
version = "2"
archive = { url = "https://example.org/theirs-2-py3-none-any.whl" }
"""


class FakeUv:
    """Has wheels for some requirements at some platforms, and complains about the rest in uv's words."""

    def __init__(self, complaint: str, wheels: dict[tuple[str, str, str], str]) -> None:
        self._complaint = complaint
        self._wheels = wheels

    def run(self, *arguments: str | Path, purpose: str, text: str = "") -> str:
        words = [str(argument) for argument in arguments]
        python, platform = words[words.index("--python-version") + 1], words[words.index("--python-platform") + 1]
        version = self._wheels.get((text, python, platform))
        if version is None:
            raise UvFailed(f"uv could not {purpose}", self._complaint)
        return f'[[packages]]\nname = "found"\nversion = "{version}"\n'


def resolving(complaint: str, **wheels: str) -> None:
    """Resolve for python3.13 on arm64; ``wheels`` are written as ``requirement|python|platform``."""
    found = {tuple(place.split("|")): version for place, version in wheels.items()}
    project = Project(
        folder=Path("/p"), requirements=Path("/p/requirements.txt"), dependencies=frozenset(), is_package=False
    )
    target = lambda_target("python3.13", "arm64")
    Dependencies(uv=FakeUv(complaint, found), project=project, target=target).resolve()


def test_a_lock_is_read_into_pins_and_local_folders(tmp_path: Path) -> None:
    folder = tmp_path / "examples" / "quickstart"
    resolution = read_resolution(LOCK, folder)
    assert resolution.pinned == (
        "six==1.17.0",
        f"mine @ {(folder / 'wheels/mine-1-py3-none-any.whl').as_uri()}",
        "theirs @ https://example.org/theirs-2-py3-none-any.whl",
    )
    assert resolution.local == {"towpath": tmp_path}


def test_a_project_without_dependencies_locks_nothing(tmp_path: Path) -> None:
    assert read_resolution("lock-version = '1.0'\n", tmp_path).pinned == ()


def test_a_dependency_from_version_control_is_refused_by_name(tmp_path: Path) -> None:
    lock = '[[packages]]\nname = "mine"\nversion = "1"\nvcs = { type = "git", url = "https://example.org/mine" }\n'
    with pytest.raises(UnusableProject, match="mine comes from version control"):
        read_resolution(lock, tmp_path)


@pytest.mark.parametrize(
    "complaint",
    [
        "Because numpy==1.26.0 has no wheels with a matching Python ABI tag (e.g., `cp313`) and you require numpy",
        "Because only numpy==1.26.0 is available and numpy==1.26.0 has no usable wheels and you require numpy",
    ],
)
def test_a_missing_wheel_is_named_with_the_nearest_choices(complaint: str) -> None:
    with pytest.raises(WheelMissing) as caught:
        resolving(
            complaint,
            **{
                "numpy|3.13|aarch64-manylinux_2_34": "2.1.0",
                "numpy==1.26.0|3.11|aarch64-manylinux_2_17": "1.26.0",
                "numpy==1.26.0|3.12|aarch64-manylinux_2_34": "1.26.0",
                "numpy==1.26.0|3.13|x86_64-manylinux_2_34": "1.26.0",
            },
        )
    assert str(caught.value) == (
        "numpy==1.26.0 has no wheel for python3.13 arm64; the nearest choice is numpy==2.1.0 or python3.12 or x86_64"
    )


def test_a_package_without_any_wheel_is_named_too() -> None:
    with pytest.raises(WheelMissing, match=r"^docopt has no wheel for python3\.13 arm64; none was found"):
        resolving("Because all versions of docopt have no usable wheels and you require docopt")


@pytest.mark.parametrize(
    "complaint",
    [
        "Failed to build `mine @ file:///m` cause: Building source distributions for `mine` is disabled",
        "Building source distributions is disabled, but attempted to build `mine`",
    ],
)
def test_a_folder_without_static_metadata_is_named(complaint: str) -> None:
    with pytest.raises(UnusableProject, match=r"^mine does not state its version and dependencies"):
        resolving(complaint)


def test_any_other_complaint_of_uv_is_passed_on() -> None:
    with pytest.raises(UvFailed, match=r"could not resolve /p/requirements\.txt for python3\.13 arm64: no network"):
        resolving("no network")


class UvWithoutWheels:
    """Resolves once everything that has no wheel is overridden away."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self.overrides: list[str] = []

    def run(self, *arguments: str | Path, purpose: str, text: str = "") -> str:
        if purpose.startswith("look for a wheel"):
            raise UvFailed(f"uv could not {purpose}", "no")
        self.overrides.append(text)
        for name in self._names:
            if name not in text:
                raise UvFailed(
                    f"uv could not {purpose}", f"Because {name}==1.0 has no usable wheels and you require {name}"
                )
        return ""


def test_every_package_without_a_wheel_is_found_in_one_go() -> None:
    uv = UvWithoutWheels("one", "two", "three")
    project = Project(
        folder=Path("/p"), requirements=Path("/p/pyproject.toml"), dependencies=frozenset(), is_package=False
    )
    with pytest.raises(BundleProblems) as caught:
        Dependencies(uv=uv, project=project, target=lambda_target("python3.13", "arm64")).resolve()
    assert [problem.requirement for problem in caught.value.problems] == ["one==1.0", "two==1.0", "three==1.0"]
    assert (
        uv.overrides[-1]
        == "one ; sys_platform == 'never'\ntwo ; sys_platform == 'never'\nthree ; sys_platform == 'never'"
    )


@pytest.mark.parametrize("kind", ["A path", "A URL"])
def test_a_wheel_for_another_platform_is_told_by_its_name(kind: str) -> None:
    wheel = "fast-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
    complaint = f"{kind} (wheels/{wheel}) dependency is incompatible with the current platform hint: more"
    told = explained(lambda_target("python3.13", "arm64"), UvFailed("uv could not install", complaint))
    assert f"but {wheel} is for cp311 on manylinux2014_x86_64; depend on wheels for that target" in str(told)
