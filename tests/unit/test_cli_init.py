"""``towpath init``: what it writes, where Towpath comes from in it, and what it refuses."""

import json
import re
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.testing import CliRunner

from towpath.cli.main import build_app
from towpath.cli.origin import Origin, UnknownOrigin, origin
from towpath.cli.starting import Infrastructure, Payload, Start, name_problem, needed_by, project_files, write_project
from towpath.topology import load_topology

ROOT = Path(__file__).parents[2]
MODULES_VERSIONS = (ROOT / "terraform/versions.tf").read_text()
KINDS = [(infrastructure, payload) for infrastructure in get_args(Infrastructure) for payload in get_args(Payload)]


def made(infrastructure: Infrastructure = "terraform", payload: Payload = "model", **given: Any) -> dict[str, str]:
    chosen = {"name": "shop", "origin": Origin(), "python": "3.12"} | given
    return project_files(Start(infrastructure=infrastructure, payload=payload, **chosen))


# --- What is written ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("infrastructure", "payload"), KINDS)
def test_nothing_is_left_to_be_filled_in(infrastructure: Infrastructure, payload: Payload) -> None:
    files = made(infrastructure, payload)
    assert {path for path, text in files.items() if "__" in text.replace("__pycache__", "")} == set()
    assert {"topology.toml", "orders.py", "test_orders.py", "Makefile", "deploy.mk", ".gitignore"} < files.keys()


@pytest.mark.parametrize(("infrastructure", "payload"), KINDS)
def test_the_topology_is_accepted_and_named_for_the_project(
    infrastructure: Infrastructure, payload: Payload, tmp_path: Path
) -> None:
    (tmp_path / "topology.toml").write_text(made(infrastructure, payload)["topology.toml"])
    topology = load_topology(tmp_path / "topology.toml")
    assert topology.name == "shop"
    assert topology.subscriptions["orders.ship"].function.runtime == "python3.12"


def test_a_terraform_project_has_the_whole_module_and_the_cdk_one_none_of_it() -> None:
    module = {path.name: path.read_text() for path in (ROOT / "terraform").glob("*.tf")}
    files = made("terraform")
    prefix = "terraform/towpath/"
    assert {path.removeprefix(prefix): text for path, text in files.items() if path.startswith(prefix)} == module
    assert [path for path in made("cdk") if path.endswith(".tf")] == []


def test_versions_are_those_that_the_module_and_the_cdk_app_are_tested_with() -> None:
    bounds = [re.findall('version += "(.*)"', text) for text in (made()["terraform/versions.tf"], MODULES_VERSIONS)]
    assert bounds[0] == bounds[1] == [">= 1.7", ">= 5.98, < 7"]
    tested = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    assert json.loads(made("cdk")["package.json"])["devDependencies"] == tested
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    assert flags.items() < json.loads(made("cdk")["cdk.json"])["context"].items()


@pytest.mark.parametrize("payload", get_args(Payload))
def test_pydantic_is_a_dependency_where_the_payload_is_a_model(payload: Payload) -> None:
    project = tomllib.loads(made(payload=payload)["pyproject.toml"])["project"]
    wanted = ["towpath[lambda]", "pydantic>=2.10"] if payload == "model" else ["towpath[lambda]"]
    assert (project["name"], project["dependencies"]) == ("shop", wanted)


# --- Names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["shop", "a", "2-shops", "a" * 20])
def test_a_name_that_resources_can_begin_with_is_taken(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize("name", ["", "Shop", "shop_1", "-shop", "shop-", "a" * 21, "a/b", ".", "shop\n", "größe"])
def test_another_name_is_told_what_is_allowed(name: str) -> None:
    problem = name_problem(name)
    assert problem is not None
    assert problem.startswith(f"{name!r} is no name for a project: take 1 to 20 of")


def test_a_project_cannot_have_the_name_of_what_it_depends_on() -> None:
    assert name_problem("towpath") == ("'towpath' is a package that the project depends on: take another name")


# --- Where Towpath comes from ------------------------------------------------------------------------------------


def installed(folder: Path, told: Mapping[str, Any] | None) -> PathDistribution:
    """A distribution towpath 9.1, installed from what ``told``, its ``direct_url.json``, says."""
    info = folder / "towpath-9.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: towpath\nVersion: 9.1\n")
    if told is not None:
        (info / "direct_url.json").write_text(json.dumps(told))
    return PathDistribution(info)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "clone"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "towpath"\n')
    return folder


def sources(found: Origin) -> Any:
    return tomllib.loads(found.sources)["tool"]["uv"]["sources"]["towpath"]


def test_a_project_cannot_have_the_name_of_what_towpath_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {
        "towpath": ['SQLAlchemy[x]>=2; extra == "local"', "towpath[local]"],
        "sqlalchemy": ["typing_extensions>=4.6", 'mypy; extra == "mypy"'],
        "typing-extensions": ["sqlalchemy"],
    }
    needed = needed_by("towpath", lambda name: packages.get(name, []))
    assert needed == {"sqlalchemy", "typing-extensions"}
    assert name_problem("sqlalchemy", needed) == (
        "'sqlalchemy' is a package that the project depends on: take another name"
    )
    assert name_problem("mypy", needed) is None
    monkeypatch.chdir(tmp_path)
    assert init("botocore").exit_code == 2


def test_from_an_index_it_is_pinned(tmp_path: Path) -> None:
    found = origin(tmp_path / "shop", installed(tmp_path, None), tmp_path / "lib/towpath")
    assert found == Origin(pin="==9.1")
    assert tomllib.loads(made(origin=found)["pyproject.toml"])["project"]["dependencies"][0] == "towpath[lambda]==9.1"


def test_a_clone_that_runs_is_taken_as_it_is(tmp_path: Path, clone: Path) -> None:
    found = origin(tmp_path / "work" / "shop", installed(tmp_path, None), clone / "towpath")
    assert sources(found) == {"path": str(clone), "editable": True}
    assert tomllib.loads(made(origin=found)["pyproject.toml"])["tool"]["uv"]["sources"]["towpath"] == sources(found)


@pytest.mark.parametrize(
    ("project", "path"),
    [("elsewhere/shop", "../clone"), ("elsewhere/clone/shop", ".."), ("elsewhere/clone/a/b", "../..")],
)
def test_a_clone_beside_or_around_the_project_is_named_from_there(
    tmp_path: Path, clone: Path, project: str, path: str
) -> None:
    assert sources(origin(tmp_path / project, installed(tmp_path, None), clone / "towpath"))["path"] == path


def test_a_folder_that_it_was_installed_from_is_taken_again(tmp_path: Path, clone: Path) -> None:
    told = {"url": clone.as_uri(), "dir_info": {}}
    found = origin(tmp_path / "work" / "shop", installed(tmp_path, told), tmp_path / "lib/towpath")
    assert sources(found)["path"] == str(clone)


def test_a_wheel_that_it_was_installed_from_is_taken_again(tmp_path: Path) -> None:
    wheel = tmp_path / "wheels and more" / "towpath-9.1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.touch()
    told = {"url": wheel.as_uri(), "archive_info": {}}
    found = origin(tmp_path / "work" / "shop", installed(tmp_path, told), tmp_path / "lib/towpath")
    assert sources(found) == {"path": str(wheel)}


def test_a_wheel_of_the_web_is_taken_again(tmp_path: Path) -> None:
    url = "https://example.com/towpath-9.1-py3-none-any.whl"
    found = origin(tmp_path, installed(tmp_path, {"url": url, "archive_info": {}}), tmp_path / "lib/towpath")
    assert sources(found) == {"url": url}


@pytest.mark.parametrize(
    "told",
    [
        {"url": "https://example.com/towpath.git", "vcs_info": {"vcs": "git", "commit_id": "5f"}},
        {"url": "https://example.com/towpath-9.1.tar.gz", "archive_info": {}},
        {"url": "file:///nowhere/towpath-9.1-py3-none-any.whl", "archive_info": {}},
        {"url": "file:///nowhere", "dir_info": {}},
    ],
    ids=["version control", "source archive", "a wheel that is gone", "a folder that is gone"],
)
def test_what_no_zip_can_take_is_refused_with_the_repair(tmp_path: Path, told: Mapping[str, Any], clone: Path) -> None:
    distribution = installed(tmp_path, told)
    with pytest.raises(UnknownOrigin, match=r"say where a clone or a wheel is, .* --towpath PATH$"):
        origin(tmp_path / "shop", distribution, tmp_path / "lib/towpath")
    given = origin(tmp_path / "shop", distribution, tmp_path / "lib/towpath", clone)
    assert sources(given) == {"path": "../elsewhere/clone", "editable": True}


# --- The command -------------------------------------------------------------------------------------------------


def init(*arguments: str) -> Any:
    return CliRunner().invoke(build_app(), ["init", *arguments])


def test_the_command_writes_the_project_and_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = init("shop", "--infrastructure", "cdk", "--payload", "json", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["name"], told["infrastructure"], told["payload"]) == ("shop", "cdk", "json")
    there = {
        path.relative_to(tmp_path / "shop").as_posix() for path in (tmp_path / "shop").rglob("*") if path.is_file()
    }
    assert there == set(told["files"])
    assert told["next"][0] == "make test"
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert f'runtime = "{here}"' in (tmp_path / "shop/topology.toml").read_text()


def test_without_options_it_is_a_model_and_terraform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = init("shop")
    assert done.stdout.splitlines()[-1] == "Made shop: 23 files. Next: cd shop && make test, then make demo."
    assert (tmp_path / "shop/terraform/main.tf").is_file()
    assert "BaseModel" in (tmp_path / "shop/orders.py").read_text()


def test_files_that_are_there_are_named_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/orders.py").write_text("mine")
    (tmp_path / "shop/Makefile").symlink_to("nowhere")
    (tmp_path / "shop/notes.txt").write_text("mine too")
    done = init("shop")
    assert done.exit_code == 1
    assert "shop has Makefile, orders.py already, and nothing was written" in done.stderr
    assert sorted(path.name for path in (tmp_path / "shop").iterdir()) == ["Makefile", "notes.txt", "orders.py"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").write_text("a file")
    done = init("shop")
    assert (done.exit_code, done.stderr.count("\n")) == (1, 1)
    assert "error: shop/.gitignore cannot be written" in done.stderr


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_project_is_made_whole_or_not_at_all(tmp_path: Path, fault: BaseException) -> None:
    class Interrupted(dict[str, str]):
        def items(self) -> Any:
            yield from super().items()
            raise fault

    (tmp_path / "shop/there").mkdir(parents=True)
    texts = {"a.py": "1", "new/deep/b.py": "2", "there/c.py": "3"}
    with pytest.raises(type(fault)):
        write_project(tmp_path / "shop", Interrupted(texts))
    assert [path.name for path in (tmp_path / "shop").rglob("*")] == ["there"]
    with pytest.raises(NotADirectoryError, match="there"):
        write_project(tmp_path / "shop", texts | {"there/c.py/d.py": "4"})
    assert [path.name for path in (tmp_path / "shop").rglob("*")] == ["there"]
    write_project(tmp_path / "shop", texts)
    assert len([*(tmp_path / "shop").rglob("*.py")]) == 3


def test_a_bad_name_is_wrong_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = init("My_Shop")
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []
