"""Only ``local_transport/dialects`` names a database, so that another one can be added there."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "local_transport"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "dialects" not in path.parts)
NAMES = ("mariadb", "mssql", "mysql", "postgres", "psycopg", "sqlite")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_code_outside_the_dialects_names_no_database(path):
    tree = ast.parse(path.read_text())
    docstrings = {id(_docstring(node)) for node in ast.walk(tree)}
    named = [word for node in ast.walk(tree) if id(node) not in docstrings for word in _words(node)]
    assert [word for word in named if word.lower().startswith(NAMES)] == []


def test_the_dialects_do_name_their_databases():
    for name in ("postgresql", "sqlite"):
        tree = ast.parse((PACKAGE / "dialects" / f"{name}.py").read_text())
        assert any(word.startswith(name) for node in ast.walk(tree) for word in _words(node))


def _docstring(node):
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    return first.value if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) else None


def _words(node):
    """What ``node`` says: names, imported modules and their parts, keywords, texts but those of URLs in sentences."""
    if isinstance(node, ast.Import):
        return [part for alias in node.names for part in alias.name.split(".")]
    if isinstance(node, ast.ImportFrom):
        return [*(node.module or "").split("."), *(alias.name for alias in node.names)]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.keyword):
        return [node.arg or ""]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and "://" not in node.value:
        return node.value.replace("_", " ").split()
    return []
