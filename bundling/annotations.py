"""What a handler's annotation says without importing it: whether pydantic will have to validate its payload."""

from __future__ import annotations

import ast
from pathlib import Path

from bundling.errors import UnusableProject

_PLAIN = frozenset({"Any"})  # Message[Any] is plain JSON, as Message is


def require_pydantic(tree: Path, handler: str) -> None:
    """Raise ``UnusableProject`` when the handler (``app.orders:ship``) takes a ``Message[T]`` and the bundle in
    ``tree`` has no pydantic.

    It reads the source, so it also works for a bundle that this machine cannot run. What it cannot see there, such as
    a handler that another module defines, shows when the function starts.
    """
    if (tree / "pydantic").is_dir():
        return
    module, _, name = handler.partition(":")
    source = _source(tree, module)
    payload_type = _payload_type(source, name) if source is not None else None
    if payload_type is not None:
        raise UnusableProject(
            f"{handler} takes {payload_type}, whose payload pydantic validates; "
            "add pydantic to the project's dependencies"
        )


def _source(tree: Path, module: str) -> ast.Module | None:
    path = tree.joinpath(*module.split("."))
    for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
        if candidate.is_file():
            try:
                return ast.parse(candidate.read_bytes())
            except (SyntaxError, ValueError):  # of a newer Python, perhaps
                return None
    return None


def _payload_type(source: ast.Module, name: str) -> str | None:
    """``Message[T]`` as it is written for the first parameter of the module's function ``name``."""
    for node in source.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            parameters = [*node.args.posonlyargs, *node.args.args]
            return _message_of(parameters[0].annotation) if parameters else None
    return None


def _message_of(annotation: ast.expr | None) -> str | None:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return None
    for node in ast.walk(annotation) if annotation is not None else ():
        if isinstance(node, ast.Subscript) and _last_name(node.value) == "Message":
            return None if _last_name(node.slice) in _PLAIN else ast.unparse(node)
    return None


def _last_name(node: ast.expr) -> str | None:
    """``Message`` of ``Message`` and of ``towpath.Message``."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None
