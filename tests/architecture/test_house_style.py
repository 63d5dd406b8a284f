"""The rules of the house that a linter does not know: names, sizes, docstrings, state, and what is committed."""

import ast
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("aws_transport", "bundling", "cdk_app", "lambda_runtime", "local_transport", "towpath")
TEMPLATES = ROOT / "towpath/cli/project"  # of projects, which towpath init writes: their tests are tests
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
FILES = [path for path in SOURCES if not (TEMPLATES in path.parents and path.name.startswith("test_"))]
EMPTY_WORDS = {"base", "common", "helper", "helpers", "impl", "manager", "misc", "types", "util", "utils"}
OTHER_WORDS = {"backend", "broker", "driver", "helper", "job", "manager", "task", "util", "utils"}  # we have our own
OTHERS_NAMES = {"TASK_ROOT", "load_dialect_impl"}  # LAMBDA_TASK_ROOT; a method that SQLAlchemy calls
MUTATORS = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
MAKERS = {"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"}


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def found(look: Callable[[Path], Iterable[object]]) -> list[str]:
    """What ``look`` finds in each file of the packages, told with the file."""
    return [f"{path.relative_to(ROOT)}: {one}" for path in FILES for one in look(path)]


def test_there_are_files_to_look_at():
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(PACKAGES)


def test_a_file_has_at_most_400_lines():
    assert found(lambda path: [n for n in [len(path.read_text(encoding="utf-8").splitlines())] if n > 400]) == []


def test_a_file_is_named_for_what_it_holds():
    assert found(lambda path: EMPTY_WORDS & words(path.stem)) == []


# --- Docstrings ------------------------------------------------------------------------------------------------


def public(node: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.AST]]:
    """The public classes, functions and methods below ``node``, by their full names."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not child.name.startswith("_"):
            name = f"{owner}.{child.name}" if owner else child.name
            yield name, child
            if isinstance(child, ast.ClassDef):
                yield from public(child, name)


def undocumented(path: Path) -> Iterator[str]:
    tree = parsed(path)
    if tree.body and not ast.get_docstring(tree):
        yield "the module"
    yield from (name for name, node in public(tree) if not ast.get_docstring(node))


def test_everything_public_has_a_docstring():
    assert found(undocumented) == []


# --- Names -----------------------------------------------------------------------------------------------------


def words(name: str) -> set[str]:
    """The words of a name in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def made(tree: ast.Module) -> Iterator[str]:
    """Every name that this file makes: of classes, functions, arguments, variables and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_one_word_per_thing_and_none_of_the_others():
    assert found(lambda path: {n for n in made(parsed(path)) if OTHER_WORDS & words(n)} - OTHERS_NAMES) == []


def test_no_class_or_function_has_an_empty_word_in_its_name():
    def empty(path: Path) -> set[str]:
        nodes = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        return {node.name for node in nodes if EMPTY_WORDS & words(node.name)} - OTHERS_NAMES

    assert found(empty) == []


def test_words_are_told_apart_in_both_cases():
    assert words("JobQueue_item") == {"job", "queue", "item"}
    assert words("SQSClient") == {"sqs", "client"}


# --- State -----------------------------------------------------------------------------------------------------


def changeable(tree: ast.Module) -> Iterator[str]:
    """The names at module level that are bound to what can be changed in place."""
    for node in tree.body:
        targets = getattr(node, "targets", [getattr(node, "target", None)])
        value = getattr(node, "value", None)
        called = getattr(value.func, "id", getattr(value.func, "attr", "")) if isinstance(value, ast.Call) else ""
        displays = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
        if isinstance(value, displays) or called in MAKERS:
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def changed(tree: ast.Module, names: set[str]) -> Iterator[str]:
    """Which of ``names`` some statement changes in place, or binds anew from within a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield from names & {getattr(node.value, "id", "")}
        elif isinstance(node, ast.AugAssign):
            yield from names & {getattr(node.target, "id", "")}
        elif isinstance(node, ast.Attribute) and node.attr in MUTATORS:
            yield from names & {getattr(node.value, "id", "")}


def state(path: Path) -> Iterator[str]:
    tree = parsed(path)
    names = set(changeable(tree)) - {"__all__"}
    yield from (name for name in names if not name.isupper())
    yield from changed(tree, names)


def test_a_module_keeps_no_state():
    assert found(state) == []


def test_state_is_seen_where_there_is_some():
    tree = ast.parse("A = {}\nB = []\nC = set()\nD = (1,)\ndef f():\n global E\n A[1] = 2\n B.append(1)\n del A[1]\n")
    assert set(changeable(tree)) == {"A", "B", "C"}
    assert sorted(changed(tree, {"A", "B", "C"})) == ["A", "A", "B", "E"]


# --- Exceptions to the linters ---------------------------------------------------------------------------------


def test_types_are_never_ignored():
    assert found(lambda path: re.findall("type: ignore", path.read_text(encoding="utf-8"))) == []


def test_every_exception_to_a_lint_rule_says_why():
    unexplained = re.compile(r".*# noqa(?!: [A-Z0-9, ]+ - \w).*")
    assert found(lambda path: unexplained.findall(path.read_text(encoding="utf-8"))) == []


# --- What is committed -----------------------------------------------------------------------------------------


def committed() -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_committed_file_knows_the_machine_that_it_was_written_on():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: there is nothing committed to look at")
    paths = [path for path in (f"{ROOT}/", f"{Path.home()}/") if path.count("/") > 1]
    telling = [
        f"{file.relative_to(ROOT)}: {path}"
        for file in committed()
        for path in paths
        if file.is_file() and path.encode() in file.read_bytes()
    ]
    assert telling == []


def test_no_two_test_files_have_the_same_name():
    """Without packages pytest tells test modules apart by their names alone."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
