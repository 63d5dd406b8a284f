"""What a project's dependencies can be written in, and how each is refused that cannot go into a zip."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bundling.build import Bundle, BundleRequest, build
from bundling.errors import (
    BundleProblems,
    ForeignBinaries,
    ImportMissing,
    InterpreterMissing,
    UnusableProject,
    UvFailed,
    WheelMissing,
)
from bundling.target import Target, host_target
from bundling.uv import find_uv, this_python
from tests.fakes.elves import library

ROOT = Path(__file__).parents[2]
HANDLER = "from towpath import Complete\n\n\ndef process(message, context):\n    return Complete()\n"
OTHER = "x86_64" if host_target().architecture == "arm64" else "arm64"
WORKSPACE = """
[project]
name = "my-app"
version = "1.0"
requires-python = ">=3.11"
dependencies = ["towpath[lambda]", "my-lib", "colorama; sys_platform == 'win32'"]

[dependency-groups]
dev = ["iniconfig"]

[tool.uv.sources]
my-lib = { workspace = true }

[tool.uv.workspace]
members = ["libraries/*"]
"""
LIBRARY = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "my-lib"
version = "2.0"
requires-python = ">=3.11"
dependencies = ["six==1.17.0"]

[tool.hatch.build.targets.wheel]
packages = ["src/my_lib"]
"""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stands for a package index which has Towpath."""
    folder = tmp_path_factory.mktemp("index")
    find_uv(folder).run("build", ROOT, "--wheel", "--out-dir", folder, *this_python(), purpose="build Towpath")
    return folder


@pytest.fixture
def project(tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a handler, and as yet without dependencies."""
    monkeypatch.setenv("UV_FIND_LINKS", str(index))
    folder = tmp_path / "project"
    write(folder / "app" / "work.py", HANDLER)
    return folder


@pytest.fixture
def workspace(project: Path) -> Path:
    """The project as the root of a workspace, with a library of its own that is editable."""
    write(project / "pyproject.toml", WORKSPACE)
    write(project / "libraries/my-lib/pyproject.toml", LIBRARY)
    write(project / "libraries/my-lib/src/my_lib/__init__.py", "")
    return project


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.name


def bundled(project: Path, target: Target | None = None, requirements: Path | None = None) -> Bundle:
    request = BundleRequest(
        name="app",
        handlers=("app.work:process",),
        entry_point="lambda_runtime.entry.handler",
        target=target or host_target(),
        project=project,
        output=project / "dist",
        bytecode="left out",
        requirements=requirements,
    )
    return build(request)


def distributions(bundle: Bundle) -> set[str]:
    """What is installed in the zip, beside Towpath and what it needs."""
    with zipfile.ZipFile(bundle.path) as archive:
        infos = {name.partition(".dist-info")[0] for name in archive.namelist() if ".dist-info/" in name}
    return {info for info in infos if not info.startswith(("towpath", "aws_lambda", "jmespath", "typing_extensions"))}


def uv(folder: Path, *arguments: str) -> str:
    return find_uv(folder).run(*arguments, *this_python(), purpose="prepare a test")


def test_a_workspace_without_a_lock_is_resolved_with_its_own_libraries(workspace: Path) -> None:
    assert distributions(bundled(workspace)) == {"my_lib-2.0", "six-1.17.0"}


def test_a_lock_of_uv_says_what_goes_in_and_for_which_target(workspace: Path) -> None:
    uv(workspace, "lock")
    bundle = bundled(workspace, replace(host_target(), architecture=OTHER))
    assert bundle.requirements == workspace / "uv.lock"
    assert distributions(bundle) == {"my_lib-2.0", "six-1.17.0"}
    assert [weight.distributions for weight in bundle.weights if weight.name == "my_lib"] == [("my-lib 2.0",)]


def test_a_member_of_a_workspace_goes_in_as_its_wheel_with_what_the_workspaces_lock_says(workspace: Path) -> None:
    member = workspace / "libraries" / "app"
    pyproject = (
        LIBRARY.replace('"my-lib"', '"member"')
        .replace("src/my_lib", "app")
        .replace('"six==1.17.0"', '"my-lib", "towpath[lambda]"')
    )
    write(member / "pyproject.toml", pyproject + "\n[tool.uv.sources]\nmy-lib = { workspace = true }\n")
    (workspace / "app").rename(member / "app")
    uv(workspace, "lock")
    bundle = bundled(member)
    assert bundle.requirements == workspace / "uv.lock"
    assert distributions(bundle) == {"member-2.0", "my_lib-2.0", "six-1.17.0"}


def test_an_editable_folder_of_a_requirements_file_goes_in_as_its_wheel(workspace: Path) -> None:
    write(workspace / "requirements.txt", "towpath[lambda]\n-e ./libraries/my-lib\n")
    (workspace / "pyproject.toml").unlink()
    assert distributions(bundled(workspace)) == {"my_lib-2.0", "six-1.17.0"}


def test_a_lock_of_a_project_that_this_python_is_too_old_for_says_what_it_takes(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    uv(workspace, "lock")
    for file in (workspace / "pyproject.toml", workspace / "libraries/my-lib/pyproject.toml", workspace / "uv.lock"):
        file.write_text(file.read_text().replace('">=3.11"', '">=3.99"'))
    with pytest.raises(UnusableProject, match=r"does not allow Python 3\.\d.*'uv python install 3\.1\d'"):
        bundled(workspace, replace(host_target(), python="3.14" if host_target().python != "3.14" else "3.13"))


def test_a_lock_that_is_not_up_to_date_is_refused(workspace: Path) -> None:
    uv(workspace, "lock")
    write(workspace / "pyproject.toml", WORKSPACE.replace('"my-lib",', '"my-lib", "iniconfig",'))
    with pytest.raises(UvFailed, match=r"uv\.lock.* needs to be updated"):
        bundled(workspace)


def test_a_pylock_says_what_goes_in(workspace: Path, tmp_path: Path) -> None:
    lock = uv(workspace, "export", "--no-default-groups", "--format", "pylock.toml")
    (workspace / "uv.lock").unlink()
    newer = '">=3.12"' if host_target().python == "3.11" else '">=3.11"'  # than this Python, and not than the target's
    write(workspace / "pylock.toml", lock.replace('">=3.11"', newer))
    bundle = bundled(workspace, Target(python="3.13", architecture="arm64"))
    assert bundle.requirements == workspace / "pylock.toml"
    assert distributions(bundle) == {"my_lib-2.0", "six-1.17.0"}


def test_a_pylock_may_name_wheels_beside_it(project: Path, index: Path) -> None:
    (wheel,) = index.glob("*.whl")
    lock = uv(project, "pip", "compile", "--format", "pylock.toml", write(project / "in.txt", "aws-lambda-powertools"))
    path = os.path.relpath(wheel, project)
    package = f'[[packages]]\nname = "towpath"\nversion = "0.1.0"\nwheels = [{{ path = "{path}", hashes = {{}} }}]\n'
    write(project / "pylock.toml", f"{lock}\n{package}")
    assert distributions(bundled(project)) == set()


def test_a_pylock_whose_hash_is_not_that_of_the_package_is_refused(project: Path, index: Path) -> None:
    (wheel,) = index.glob("*.whl")
    wrong = f'{{ url = "{wheel.as_uri()}", hashes = {{ sha256 = "{"0" * 64}" }} }}'
    package = f'[[packages]]\nname = "towpath"\nversion = "0.1.0"\nwheels = [{wrong}]\n'
    write(project / "pylock.toml", f'lock-version = "1.0"\ncreated-by = "a test"\n{package}')
    with pytest.raises(UvFailed, match="Hash mismatch"):
        bundled(project)


def test_every_package_without_a_wheel_is_named_at_once_with_the_nearest_choice(project: Path) -> None:
    write(project / "requirements.txt", "towpath[lambda]\npydantic-core==2.20.0\nujson==5.8.0\n")
    with pytest.raises(BundleProblems) as caught:
        bundled(project, Target(python="3.14", architecture="arm64"))
    missing = {problem.requirement: problem.alternatives for problem in caught.value.problems}
    assert missing.keys() == {"pydantic-core==2.20.0", "ujson==5.8.0"}
    assert "python3.13" in missing["pydantic-core==2.20.0"]


def test_a_package_of_a_lock_without_a_wheel_is_named_with_its_version(project: Path) -> None:
    write(project / "requirements.in", "towpath[lambda]\nujson==5.8.0\n")
    lock = uv(project, "pip", "compile", "--universal", "--format", "pylock.toml", "requirements.in")
    write(project / "pylock.toml", lock)
    with pytest.raises(
        WheelMissing, match=r"^ujson==5\.8\.0 has no wheel for python3\.14 arm64; the nearest choice is"
    ):
        bundled(project, Target(python="3.14", architecture="arm64"))


def wheel(folder: Path, tag: str, machine: int) -> Path:
    """A wheel named ``fast`` with a compiled module for ``machine``, whatever its tag says."""
    path = folder / f"fast-1.0-{tag}.whl"
    info = "fast-1.0.dist-info"
    files = {
        "fast.so": library(machine),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return path


def test_a_wheel_for_another_architecture_is_refused_by_its_name(project: Path, tmp_path: Path) -> None:
    arm = wheel(tmp_path, "py3-none-manylinux2014_aarch64", 0xB7)
    write(project / "requirements.txt", f"towpath[lambda]\nfast @ {arm.as_uri()}\n")
    bundled(project, Target(python="3.13", architecture="arm64"))
    with pytest.raises(ForeignBinaries) as caught:
        bundled(project, Target(python="3.13", architecture="x86_64"))
    assert f"the bundle is for python3.13 x86_64, but {arm.name} is for py3 on manylinux2014_aarch64" in str(
        caught.value
    )


def test_a_wheel_that_lies_about_its_architecture_is_refused_by_its_name_with_all_else(
    project: Path, tmp_path: Path
) -> None:
    intel = wheel(tmp_path, "py3-none-any", 0x3E)
    write(project / "requirements.txt", f"towpath[lambda]\nfast @ {intel.as_uri()}\n")
    write(project / "app" / "work.py", "import requests\n" + HANDLER)
    with pytest.raises(BundleProblems) as caught:
        bundled(project, Target(python="3.13", architecture="arm64"))
    missing, foreign = caught.value.problems
    assert isinstance(missing, ImportMissing)
    assert "app.work, line 1, imports requests" in str(missing)
    assert "but fast.so of fast 1.0 is for linux x86_64; depend on wheels for that target" in str(foreign)
    assert not (project / "dist").exists()


def test_what_is_wrong_with_the_project_its_lock_and_this_machine_is_told_at_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "none"))
    write(project / "pylock.toml", '[[packages]]\nname = "mine"\nvcs = { type = "git", url = "x" }\n')
    python = "3.14" if host_target().python != "3.14" else "3.13"
    with pytest.raises(BundleProblems) as caught:
        build(
            BundleRequest(
                name="app",
                handlers=("other.work:process",),
                entry_point="lambda_runtime.entry.handler",
                target=Target(python=python, architecture="arm64"),
                project=project,
                output=project / "dist",
            )
        )
    interpreter, lock, handler = caught.value.problems
    assert isinstance(interpreter, InterpreterMissing)
    assert "takes mine from version control" in str(lock)
    assert isinstance(handler, UnusableProject)
    assert "has no package other/" in str(handler)
