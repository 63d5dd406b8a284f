"""What a bundle is built for."""

import sys

import pytest

from bundling.errors import UnusableProject
from bundling.target import Target, host_target, lambda_target


def test_the_hosts_target_is_this_python() -> None:
    assert host_target().python == f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("runtime", "architecture", "platform"),
    [
        ("python3.11", "x86_64", "x86_64-manylinux_2_17"),
        ("python3.12", "x86_64", "x86_64-manylinux_2_34"),
        ("python3.13", "arm64", "aarch64-manylinux_2_34"),
    ],
)
def test_a_runtime_has_the_platform_of_its_amazon_linux(runtime: str, architecture: str, platform: str) -> None:
    assert lambda_target(runtime, architecture).platform == platform


def test_a_target_on_macos_is_not_lambdas() -> None:
    target = Target(python="3.13", architecture="arm64", system="darwin")
    assert target.platform == "aarch64-apple-darwin"
    assert target != lambda_target("python3.13", "arm64")
    assert str(target) == "python3.13 arm64 on darwin"


@pytest.mark.parametrize("runtime", ["python3.10", "python3", "nodejs22.x", "3.13", "python3.13 "])
def test_a_runtime_that_towpath_does_not_run_on_is_refused_with_those_it_does(runtime: str) -> None:
    with pytest.raises(UnusableProject, match=r"choose one of python3\.11, "):
        lambda_target(runtime, "arm64")


def test_an_architecture_that_lambda_does_not_have_is_refused() -> None:
    with pytest.raises(UnusableProject, match="choose arm64 or x86_64"):
        lambda_target("python3.13", "aarch64")
