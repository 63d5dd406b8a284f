"""All that is wrong with an unpacked bundle, at once."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from bundling.contents import problems
from bundling.errors import BundleProblems, ForeignBinaries, ImportMissing, TooLarge, UnusableProject, noting, raise_all
from bundling.stamp import Stamp
from bundling.target import lambda_target
from bundling.tree import Entry, entries
from tests.fakes.elves import library
from towpath.errors import TowpathError
from towpath.limits import LAMBDA_UNZIPPED_BYTES

STAMP = Stamp(
    name="app.work",
    entry_point="lambda_runtime.entry.handler",
    handlers=("app.work:process",),
    target=lambda_target("python3.13", "arm64"),
)
WHOLE = {"lambda_runtime/entry.py": b"", "app/work.py": b"def process(message, context): ..."}


def make(tree: Path, files: Mapping[str, bytes]) -> tuple[Entry, ...]:
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return entries(tree)


def test_a_whole_bundle_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, make(tmp_path, WHOLE), STAMP) == ()


def test_an_import_a_library_and_the_size_are_told_together(tmp_path: Path) -> None:
    files = make(tmp_path, WHOLE | {"app/work.py": b"import gone", "fast.so": library(0x3E)})
    heavy = [replace(entry, size=LAMBDA_UNZIPPED_BYTES) for entry in files]
    found = problems(tmp_path, heavy, STAMP, {"fast.so": "fast 1.0"})
    assert [type(problem) for problem in found] == [ImportMissing, ForeignBinaries, TooLarge]
    assert "fast.so of fast 1.0" in str(found[1])


def test_every_module_that_lambda_looks_for_is_told_with_what_brings_it(tmp_path: Path) -> None:
    stamp = replace(STAMP, handlers=("app.work:process", "app.other:process"))
    found = problems(tmp_path, make(tmp_path, {"app/work.py": b""}), stamp)
    assert [str(problem).partition(";")[0] for problem in found] == [
        "the bundle would have no module lambda_runtime.entry",
        "the bundle would have no module app.other",
    ]
    assert "add towpath[lambda]" in str(found[0])


def test_a_typed_handler_without_pydantic_is_told(tmp_path: Path) -> None:
    handler = b"from towpath import Message\ndef process(message: Message[int], context): ..."
    (found,) = problems(tmp_path, make(tmp_path, WHOLE | {"app/work.py": handler, "towpath/__init__.py": b""}), STAMP)
    assert isinstance(found, UnusableProject)
    assert "add pydantic to the project's dependencies" in str(found)


def test_several_problems_become_one_error_that_lists_them() -> None:
    found: list[TowpathError] = []
    with noting(found):
        raise UnusableProject("one")
    with noting(found):
        raise_all([UnusableProject("two"), UnusableProject("three")])
    with noting(found):
        pass
    with pytest.raises(BundleProblems) as caught:
        raise_all(found)
    assert str(caught.value) == "the bundle has 3 problems:\n  one\n  two\n  three"


def test_one_problem_stays_what_it_is_and_none_is_none() -> None:
    raise_all([])
    with pytest.raises(UnusableProject, match=r"^one$"):
        raise_all([UnusableProject("one")])
