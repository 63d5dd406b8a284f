"""What a function would import before its first message."""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from bundling.closure import Import, check_imports, imports

TOWPATH = {
    "lambda_runtime/__init__.py": "",
    "lambda_runtime/entry.py": "from towpath import Message",
    "towpath/__init__.py": "",
}


def problems(tree: Path, files: Mapping[str, str], handler: str = "app.work:process") -> list[str]:
    for name, text in {**TOWPATH, **files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [str(problem) for problem in check_imports(tree, "lambda_runtime.entry.handler", [handler])]


def found(text: str, package: str = "app") -> list[Import]:
    return list(imports(ast.parse(text), package))


def test_imports_of_each_form_are_seen_with_their_lines() -> None:
    assert found("import a.b, c\nfrom d import e") == [
        Import(("a.b",), 1, True),
        Import(("c",), 1, True),
        Import(("d.e", "d"), 2, True),
    ]


@pytest.mark.parametrize(
    ("text", "package", "module"),
    [
        ("from . import x", "a.b", "a.b"),
        ("from .c import x", "a.b", "a.b.c"),
        ("from .. import x", "a.b", "a"),
        ("from ..c.d import x", "a.b", "a.c.d"),
    ],
)
def test_relative_imports_start_from_the_package(text: str, package: str, module: str) -> None:
    (only,) = found(text, package)
    assert only.names == (f"{module}.x", module)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n  import a",
        "async def f():\n  import a",
        "if TYPE_CHECKING:\n  import a",
        "if typing.TYPE_CHECKING:\n  import a",
    ],
)
def test_what_is_not_imported_at_once_does_not_count(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "if sys.platform == 'win32':\n  import a",
        "if x:\n  pass\nelse:\n  import a",
        "try:\n  import a\nexcept ImportError:\n  pass",
        "try:\n  import a\nexcept (ValueError, ModuleNotFoundError):\n  pass",
        "try:\n  import a\nexcept:\n  pass",
        "try:\n  pass\nexcept ImportError:\n  import a",
        "for x in y:\n  import a",
        "for x in y:\n  pass\nelse:\n  import a",
        "while x:\n  import a",
        "with suppress(ImportError):\n  import a",
        "try:\n  import a\nexcept ValueError:\n  pass\nexcept ImportError:\n  pass",
        "try:\n  pass\nexcept ImportError:\n  pass\nelse:\n  import a",
        "if x:\n  try:\n    import a\n  except ValueError:\n    pass",
    ],
)
def test_an_import_under_a_condition_may_not_happen(text: str) -> None:
    assert [found_import.is_certain for found_import in found(text)] == [False]


@pytest.mark.parametrize(
    "text",
    [
        "class C:\n  import a",
        "try:\n  import a\nexcept ValueError:\n  pass",
        "try:\n  pass\nexcept ImportError:\n  pass\nfinally:\n  import a",
    ],
)
def test_other_blocks_import_for_certain(text: str) -> None:
    assert [found_import.is_certain for found_import in found(text)] == [True]


def test_a_handler_that_finds_all_it_imports_is_fine(tmp_path: Path) -> None:
    fine = (
        "import json, six, boto3\nimport namespace.part\nfrom . import other\nfrom app.data import VALUE\nimport fast"
    )
    files = {
        "app/__init__.py": "",
        "app/work.py": fine,
        "app/other.py": "",
        "app/data.py": "VALUE = 1",
        "namespace/part.py": "",
        "fast.cpython-313-aarch64-linux-gnu.so": "",
    }
    assert problems(tmp_path, files) == []


def test_a_module_that_is_not_there_is_told_with_the_line(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "from app import storage",
        "app/work.py": "\nimport requests",
        "app/storage.py": "import app.gone",
    }
    told = problems(tmp_path, files)
    assert [text.partition(", which")[0] for text in told] == [
        "app.work, line 2, imports requests",
        "app.storage, line 1, imports app.gone",
    ]
    assert "add its distribution to the project's dependencies" in told[0]


def test_what_others_import_for_a_case_that_may_not_come_is_left_to_them(tmp_path: Path) -> None:
    files = {"app/work.py": "import library", "library/__init__.py": "import fancy_extra"}
    assert problems(tmp_path, files) == []


def test_a_chain_to_what_has_no_place_on_lambda_is_told_whole(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "",
        "app/work.py": "from app.settings import REGION",
        "app/settings.py": "import aws_cdk",
        "aws_cdk/__init__.py": "",
    }
    (told,) = problems(tmp_path, files)
    assert told.startswith("the function would load aws_cdk, which has no place on Lambda: ")
    assert "app.work imports app.settings imports aws_cdk; take the import out" in told


def test_towpath_itself_must_not_bring_sqlalchemy_and_a_handler_may(tmp_path: Path) -> None:
    files = {
        "app/work.py": "import sqlalchemy",
        "sqlalchemy/__init__.py": "",
        "local_transport/__init__.py": "import sqlalchemy",
    }
    assert problems(tmp_path, files) == []
    (told,) = problems(tmp_path, {"lambda_runtime/entry.py": "import local_transport"})
    assert "lambda_runtime.entry imports local_transport imports sqlalchemy" in told


@pytest.mark.parametrize("text", ["import towpath.cli.main", "from towpath import cli", "from towpath.cli import main"])
def test_the_command_line_is_not_for_lambda_in_whatever_words(tmp_path: Path, text: str) -> None:
    (told,) = problems(tmp_path, {"app/work.py": text, "towpath/cli/__init__.py": "", "towpath/cli/main.py": ""})
    assert "app.work imports towpath.cli;" in told


def test_modules_that_import_each_other_come_to_an_end(tmp_path: Path) -> None:
    assert problems(tmp_path, {"app/work.py": "import app.other", "app/other.py": "import app.work"}) == []


def test_a_module_of_a_newer_python_is_left_alone(tmp_path: Path) -> None:
    assert problems(tmp_path, {"app/work.py": "import app.other", "app/other.py": "not python at all"}) == []


def test_what_many_modules_import_is_told_once_with_the_shortest_chain(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "",
        "app/work.py": "import app.far, aws_cdk, gone",
        "app/far.py": "import aws_cdk, gone",
        "aws_cdk/__init__.py": "",
    }
    unwanted, missing = problems(tmp_path, files)
    assert ": app.work imports aws_cdk;" in unwanted
    assert missing.startswith("app.work, line 1, imports gone")


def test_a_package_runs_before_its_modules(tmp_path: Path) -> None:
    (told,) = problems(
        tmp_path, {"app/__init__.py": "", "app/sub/__init__.py": "import gone", "app/sub/work.py": ""}, "app.sub.work:f"
    )
    assert told.startswith("app.sub, line 1, imports gone")


@pytest.mark.parametrize(
    "text", ["import compression.zstd", "import annotationlib", "import dateutil.tz", "import json.gone"]
)
def test_what_python_or_lambda_has_is_not_missed(tmp_path: Path, text: str) -> None:
    assert problems(tmp_path, {"app/work.py": text}) == []


def test_a_compiled_package_is_there_and_not_read(tmp_path: Path) -> None:
    files = {"app/work.py": "from app import fast, __about__", "app/fast.abi3.so": "\x00", "app/__about__.py": ""}
    assert problems(tmp_path, files | {"app/__init__.py": ""}) == []


def test_towpaths_own_module_that_was_left_out_is_told(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, {"app/work.py": "from towpath.topology import load_topology"})
    assert told.startswith("app.work, line 1, imports towpath.topology, which the bundle would not have")
