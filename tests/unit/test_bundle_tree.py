"""The unpacked bundle: what is left out, its hash, its weight."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from bundling.tree import Weight, entries, is_scrap, only_for_boto3, owners, prune, tree_hash, weigh

FILES = {"app/a.py": "x = 1\n", "app/data.txt": "ä", "b.py": ""}


def make(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def installed(tree: Path, name: str, *requires: str, files: tuple[str, ...] = ()) -> None:
    """A distribution as an installer leaves it."""
    info = f"{name}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" + "".join(
        f"Requires-Dist: {r}\n" for r in requires
    )
    record = "".join(f"{file},,\n" for file in (*files, f"{info}/METADATA", f"{info}/RECORD", "../outside.py"))
    make(tree, {**dict.fromkeys(files, ""), f"{info}/METADATA": metadata, f"{info}/RECORD": record})


def left(tree: Path) -> set[str]:
    return {entry.name for entry in entries(tree) if ".dist-info" not in entry.name}


@pytest.mark.parametrize(
    "name",
    [
        "bin/jp.py",
        ".lock",
        "six-1.0.dist-info/RECORD",
        "six-1.0.dist-info/direct_url.json",
        "app/__pycache__/a.cpython-311.pyc",
        "app/a.pyc",
        "app/tests/data/x.json",
        "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui-bundle.min.js",
    ],
)
def test_files_that_only_others_need_are_scrap(name: str) -> None:
    assert is_scrap(PurePosixPath(name))


@pytest.mark.parametrize(
    "name",
    [
        "six-1.0.dist-info/METADATA",
        "towpath-0.1.0.dist-info/entry_points.txt",
        "app/RECORD",
        "app/bin/tool",
        "app/tests.py",
        "app/testing/x.py",
        "aws_lambda_powertools/event_handler/openapi/swagger_ui/html.py",
    ],
)
def test_files_that_a_function_may_need_stay(name: str) -> None:
    assert not is_scrap(PurePosixPath(name))


def test_what_only_boto3_needs_goes_with_it() -> None:
    requires = {
        "boto3": frozenset({"botocore", "s3transfer", "jmespath"}),
        "botocore": frozenset({"jmespath", "python-dateutil", "urllib3"}),
        "s3transfer": frozenset({"botocore"}),
        "python-dateutil": frozenset({"six"}),
        "six": frozenset[str](),
        "jmespath": frozenset[str](),
        "urllib3": frozenset[str](),
        "aws-lambda-powertools": frozenset({"jmespath"}),
        "mine": frozenset[str](),
    }
    everything = only_for_boto3(requires, frozenset())
    assert everything == {"boto3", "botocore", "s3transfer", "python-dateutil", "six", "urllib3"}
    assert only_for_boto3(requires, frozenset({"urllib3", "boto3"})) == everything - {"urllib3"}


def test_without_boto3_nothing_goes() -> None:
    assert only_for_boto3({"six": frozenset()}, frozenset()) == frozenset()


def test_pruning_deletes_boto3s_files_and_nothing_outside_of_the_tree(tmp_path: Path) -> None:
    outside = make(tmp_path, {"outside.py": ""}) / "outside.py"
    tree = tmp_path / "tree"
    installed(tree, "boto3", "botocore", files=("boto3/__init__.py",))
    installed(tree, "botocore", "urllib3; python_version > '3'", files=("botocore/x.json",))
    installed(tree, "urllib3", files=("urllib3/__init__.py",))
    installed(tree, "Mine", files=("mine.py",))
    assert prune(tree, "left out", frozenset()) == ("boto3", "botocore", "urllib3")
    assert left(tree) == {"mine.py"}
    assert outside.is_file()


def test_boto3_stays_when_it_is_asked_for(tmp_path: Path) -> None:
    installed(tmp_path, "boto3", files=("boto3/__init__.py",))
    assert prune(tmp_path, "included", frozenset()) == ()
    assert left(tmp_path) == {"boto3/__init__.py"}


def test_parts_of_towpath_stay_only_with_what_they_import(tmp_path: Path) -> None:
    parts = ("towpath/cli/main.py", "local_transport/__init__.py", "towpath/message.py", "bundling/build.py")
    installed(
        tmp_path,
        "towpath",
        files=(*parts, "cdk_app/stacks.py", "towpath/gate/plans.py", "aws_transport/checking/queues.py"),
    )
    installed(tmp_path, "SQLAlchemy", files=("sqlalchemy/__init__.py",))
    prune(tmp_path, "left out", frozenset())
    assert left(tmp_path) == {"towpath/message.py", "local_transport/__init__.py", "sqlalchemy/__init__.py"}


def test_a_tree_has_the_same_hash_in_any_folder_and_at_any_time(tmp_path: Path) -> None:
    first = make(tmp_path / "a", FILES)
    second = make(tmp_path / "a much longer name", dict(reversed(FILES.items())))
    os.utime(second / "b.py", (1, 1))
    (second / "b.py").chmod(0o600)
    assert [entry.name for entry in entries(second)] == sorted(FILES)
    assert tree_hash(entries(first)) == tree_hash(entries(second))


@pytest.mark.parametrize("change", ["content", "name", "mode"])
def test_any_change_of_a_file_changes_the_trees_hash(tmp_path: Path, change: str) -> None:
    tree = make(tmp_path, FILES)
    before = tree_hash(entries(tree))
    file = tree / "b.py"
    match change:
        case "content":
            file.write_text("\n")
        case "name":
            file.rename(tree / "c.py")
        case "mode":
            file.chmod(0o755)
    assert tree_hash(entries(tree)) != before


def test_a_compiled_top_level_module_weighs_with_its_source(tmp_path: Path) -> None:
    tree = make(tmp_path, {"__pycache__/b.cpython-311.pyc": "12345", "b.py": "123", "app/a.py": "1", "app/b/c.py": "2"})
    assert [(weight.name, weight.size) for weight in weigh(entries(tree))] == [("b.py", 8), ("app", 2)]


def test_what_is_heavy_is_told_with_its_origin_and_its_size_in_the_zip(tmp_path: Path) -> None:
    tree = make(tmp_path, {"six.py": "123456", "six-1.0.dist-info/METADATA": "1", "app.py": "12"})
    weights = weigh(
        entries(tree), {"six.py": 4, "app.py": 1}, {"six.py": "six 1.0", "six-1.0.dist-info/METADATA": "six 1.0"}
    )
    assert weights == (
        Weight(name="six.py", size=6, zipped=4, distributions=("six 1.0",)),
        Weight(name="app.py", size=2, zipped=1, distributions=()),
        Weight(name="six-1.0.dist-info", size=1, zipped=0, distributions=("six 1.0",)),
    )


def test_each_installed_file_has_an_owner_and_the_projects_own_have_none(tmp_path: Path) -> None:
    installed(tmp_path, "six", files=("six.py",))
    make(tmp_path, {"app.py": ""})
    found = owners(tmp_path)
    assert found["six.py"] == "six 1.0"
    assert "app.py" not in found
