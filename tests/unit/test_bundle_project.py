"""The handler's project: its dependencies file and its own files."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bundling.errors import UnusableProject
from bundling.project import Project, copy_handlers, distribution_name, read_project, require_module


def write(folder: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def copied(folder: Path, *handlers: str) -> set[str]:
    tree = folder / "tree"
    tree.mkdir()
    project = Project(
        folder=folder, requirements=folder / "requirements.txt", dependencies=frozenset(), is_package=False
    )
    copy_handlers(project, handlers, tree)
    return names(tree)


def test_a_lock_comes_before_the_file_that_it_was_made_from(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml")
    assert read_project(tmp_path).requirements == tmp_path / "pyproject.toml"
    write(tmp_path, "requirements.txt")
    assert read_project(tmp_path).requirements == tmp_path / "requirements.txt"


def test_locks_come_in_the_order_of_the_design(tmp_path: Path) -> None:
    found = []
    for name in ("pyproject.toml", "uv.lock", "pylock.toml", "requirements.txt"):
        write(tmp_path, name)
        found.append(read_project(tmp_path).requirements.name)
    assert found == ["pyproject.toml", "uv.lock", "pylock.toml", "requirements.txt"]


def test_a_member_of_a_workspace_has_the_workspaces_lock(tmp_path: Path) -> None:
    workspace = '[tool.uv.workspace]\nmembers = ["apps/*"]\n'
    write(tmp_path, "pyproject.toml", text=workspace)
    write(tmp_path, "uv.lock", "apps/one/pyproject.toml", "elsewhere/pyproject.toml")
    assert read_project(tmp_path / "apps/one").requirements == tmp_path / "uv.lock"
    assert read_project(tmp_path / "elsewhere").requirements == tmp_path / "elsewhere/pyproject.toml"
    write(tmp_path, "apps/one/requirements.txt")
    assert read_project(tmp_path / "apps/one").requirements == tmp_path / "apps/one/requirements.txt"


def test_the_dependencies_file_can_be_named(tmp_path: Path) -> None:
    write(tmp_path, "requirements.txt", "uv.lock", "locks/pylock.lambda.toml", "setup.cfg")
    for name in ("uv.lock", "locks/pylock.lambda.toml"):
        assert read_project(tmp_path, tmp_path / name).requirements == tmp_path / name
    for name in ("setup.cfg", "none.txt", "locks"):
        with pytest.raises(UnusableProject, match=f"{name} is no dependencies file; name a file requirements"):
            read_project(tmp_path, tmp_path / name)


def test_a_project_says_what_it_asks_for_and_whether_it_is_a_package(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", text='[project]\ndependencies = ["Foo_Bar[x]>=1; os_name == \'nt\'", "six"]\n')
    assert read_project(tmp_path).dependencies == {"foo-bar", "six"}
    assert not read_project(tmp_path).is_package
    write(tmp_path, "pyproject.toml", text='[build-system]\nrequires = ["hatchling"]\n')
    assert read_project(tmp_path).is_package


def test_a_folder_without_dependencies_is_no_project(tmp_path: Path) -> None:
    with pytest.raises(UnusableProject, match=r"neither requirements\.txt nor pyproject\.toml"):
        read_project(tmp_path)


def test_a_broken_pyproject_is_told_with_its_path(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", text="[project\n")
    with pytest.raises(UnusableProject, match=r"pyproject\.toml cannot be read: "):
        read_project(tmp_path)


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("Foo_Bar[x]>=1", "foo-bar"), ("a.b--c ; x", "a-b-c"), ("six@https://x/y.whl", "six"), ("../..", ""), ("", "")],
)
def test_a_distributions_name_is_normalised(requirement: str, name: str) -> None:
    assert distribution_name(requirement) == name


def test_a_handlers_whole_package_goes_in_without_hidden_files_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, "app/__init__.py", "app/sub/work.py", "app/data.json", "app/.env", "app/.cache/x", ".env", "b.py")
    assert copied(tmp_path, "app.sub.work:process") == {"app/__init__.py", "app/sub/work.py", "app/data.json"}


def test_several_handlers_bring_their_packages_and_modules(tmp_path: Path) -> None:
    write(tmp_path, "app/a.py", "single.py", "other.py")
    assert copied(tmp_path, "app.a:f", "app.a:g", "single:f") == {"app/a.py", "single.py"}


def test_links_to_files_and_folders_bring_what_they_lead_to(tmp_path: Path) -> None:
    write(tmp_path, "app/a.py", "data/x.json", "common_code.py")
    (tmp_path / "app/data").symlink_to("../data")
    (tmp_path / "app/b.py").symlink_to("../common_code.py")
    assert copied(tmp_path, "app.a:f") == {"app/a.py", "app/b.py", "app/data/x.json"}


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda path: path.symlink_to("nowhere"), "is a link to nothing"),
        (lambda path: path.symlink_to(path.name), "is a link to nothing"),
        (lambda path: path.symlink_to(".."), "is a link to a folder that it lies in"),
        (os.mkfifo, "is neither a file nor a folder"),
    ],
)
def test_what_a_zip_cannot_hold_is_told_with_its_path(tmp_path: Path, make: Callable[[Path], None], fault: str) -> None:
    write(tmp_path, "app/a.py", "app/sub/b.py")
    make(tmp_path / "app/sub/odd")
    with pytest.raises(UnusableProject, match=f"^{tmp_path}/app/sub/odd {fault}, so that it cannot be bundled"):
        copied(tmp_path, "app.a:f")


@pytest.mark.parametrize("name", [b"\xff.txt", b"\xff"])
def test_a_name_that_is_not_utf8_is_told_with_its_bytes_escaped(tmp_path: Path, name: bytes) -> None:
    write(tmp_path, "app/a.py")
    odd = Path(os.fsdecode(os.fsencode(tmp_path / "app") + b"/" + name))
    odd.touch() if odd.suffix else odd.mkdir()
    with pytest.raises(UnusableProject, match=r"^the name of '.*/app/\\udcff.*' is not UTF-8, so that"):
        copied(tmp_path, "app.a:f")


def test_what_is_hidden_may_be_anything(tmp_path: Path) -> None:
    write(tmp_path, "app/a.py")
    (tmp_path / "app/.#a.py").symlink_to("someone@host.1234:5678")  # an editor's lock
    assert copied(tmp_path, "app.a:f") == {"app/a.py"}


def test_a_handler_outside_of_the_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableProject, match=r"no package app/ and no module app\.py"):
        copied(tmp_path, "app.documents:process")


def test_a_module_is_there_as_file_package_or_extension(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b/__init__.py", "c/d.cpython-311-x86_64-linux-gnu.so")
    for module in ("a", "b", "c.d"):
        require_module(tmp_path, module, "no repair")
    for module in ("c", "b.a", "nowhere.at.all"):
        with pytest.raises(UnusableProject, match=f"no module {module}; add it"):
            require_module(tmp_path, module, "add it")
