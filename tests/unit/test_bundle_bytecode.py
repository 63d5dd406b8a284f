"""Compiled files in a bundle."""

import marshal
import sys
from pathlib import Path

from bundling.bytecode import compile_tree


def compiled(tree: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(tree.rglob("*.pyc"))}


def make(folder: Path) -> Path:
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "a.py").write_text('NAMES = {"x", "y", "z"}\ndef f(x):\n    return x in {"b", "a", "c"}\n')
    return folder


def test_compiled_files_are_never_checked_against_their_source(tmp_path: Path) -> None:
    assert compile_tree(Path(sys.executable), make(tmp_path)) == ()
    (content,) = compiled(tmp_path).values()
    assert int.from_bytes(content[4:8], "little") == 0b01  # PEP 552: hash-based, check_source not set


def test_compiled_files_name_paths_as_on_lambda(tmp_path: Path) -> None:
    compile_tree(Path(sys.executable), make(tmp_path))
    (content,) = compiled(tmp_path).values()
    assert marshal.loads(content[16:]).co_filename == "/var/task/app/a.py"


def test_two_folders_compile_to_the_same_bytes(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a"), make(tmp_path / "somewhere" / "else")
    compile_tree(Path(sys.executable), first)
    compile_tree(Path(sys.executable), second)
    assert compiled(first) == compiled(second)


def test_a_module_that_is_no_valid_python_stays_source_and_is_named(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "app" / "template.py").write_text("{{ name }} = \n")
    assert compile_tree(Path(sys.executable), tmp_path) == ("app/template.py",)
    assert len(compiled(tmp_path)) == 1
