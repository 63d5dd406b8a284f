"""What a bundle imports before its first message: modules that must not load on Lambda, and modules that are not there.

It reads the sources, so that it also works for a bundle that this machine cannot run. An import inside a function does
not count, since it comes later if at all, nor does one that a dynamic name makes.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bundling.errors import ImportMissing, ImportUnwanted
from towpath.errors import TowpathError

_TOWPATH: Final = frozenset({"aws_transport", "bundling", "cdk_app", "lambda_runtime", "local_transport", "towpath"})
# Of no use in a function, heavy, or both. A handler of one's own may use SQLAlchemy; nothing of Towpath's may bring it.
_UNWANTED: Final = frozenset({"alembic", "aws_cdk", "bundling", "cdk_app", "towpath.cli"})
_UNWANTED_OF_TOWPATH: Final = _UNWANTED | {"sqlalchemy", "typer"}
# What AWS's Python runtimes have beside the standard library: boto3 with what it needs, and the runtime client.
_ON_LAMBDA: Final = frozenset(
    {"awslambdaric", "boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "snapshot_restore_py", "urllib3"}
)
_NEW_IN_PYTHON: Final = frozenset({"annotationlib", "compression"})  # of 3.14: this Python may be older
_IMPORT_ERRORS: Final = frozenset({"BaseException", "Exception", "ImportError", "ModuleNotFoundError"})


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a module's own text: ``names`` are what may be meant, the most exact first. ``is_certain`` unless a
    condition or an ``except ImportError`` stands around it.
    """

    names: tuple[str, ...]
    line: int
    is_certain: bool


def check_imports(tree: Path, entry_point: str, handlers: Sequence[str]) -> tuple[TowpathError, ...]:
    """Every problem with what ``entry_point`` (``lambda_runtime.entry.handler``) and the handlers
    (``app.work:process``) import from the bundle in ``tree``; empty when all is well.
    """
    entry = entry_point.rpartition(".")[0]
    starts = [entry, *sorted({handler.partition(":")[0] for handler in handlers})]
    own = _TOWPATH | {start.partition(".")[0] for start in starts}
    return tuple(_Walk(tree, own).problems(starts))


def imports(source: ast.Module, package: str) -> Iterator[Import]:
    """The imports that happen while the module is imported. ``package`` is what relative ones start from."""
    return _of_block(source.body, package, certain=True)


class _Walk:
    def __init__(self, tree: Path, own: frozenset[str]) -> None:
        self._tree = tree
        self._own = own
        self._importers: dict[str, str | None] = {}
        self._told: set[str] = set()

    def problems(self, starts: Iterable[str]) -> Iterator[TowpathError]:
        waiting = deque[str]()
        for start in starts:
            self._reach(start, None, waiting)
        while waiting:
            module = waiting.popleft()
            unwanted = _UNWANTED_OF_TOWPATH if _top(module) in _TOWPATH else _UNWANTED
            for found in self._imports(module):
                present = next((name for name in found.names if self._file(name) or self._is_folder(name)), None)
                if present is None:
                    yield from self._missing(module, found)
                elif wrong := next((name for name in _parents(present) if name in unwanted), None):
                    yield from self._once(wrong, ImportUnwanted(wrong, [*self._chain(module), wrong]))
                else:
                    self._reach(present, module, waiting)

    def _reach(self, module: str, importer: str | None, waiting: deque[str]) -> None:
        """Note a module and the packages that hold it, which Python imports first."""
        for name in _parents(module):
            if name not in self._importers:
                self._importers[name] = importer
                waiting.append(name)

    def _imports(self, module: str) -> Iterator[Import]:
        file = self._file(module)
        if file is None or file.suffix != ".py":
            return
        try:
            source = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):  # of a newer Python, perhaps; compiling it tells
            return
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        yield from imports(source, package)

    def _missing(self, module: str, found: Import) -> Iterator[TowpathError]:
        name = found.names[-1]  # of "from a import b", which may mean a module a.b, a itself must be there
        top = _top(name)
        if not found.is_certain or _top(module) not in self._own or top in sys.stdlib_module_names | _NEW_IN_PYTHON:
            return
        if top in _ON_LAMBDA or (top not in self._own and self._is_there(top)):
            return
        yield from self._once(name, ImportMissing(name, module, found.line))

    def _once(self, name: str, problem: TowpathError) -> Iterator[TowpathError]:
        """The first problem with a name: the walk is by breadth, so that it has the shortest chain."""
        if name not in self._told:
            self._told.add(name)
            yield problem

    def _chain(self, module: str) -> list[str]:
        chain: list[str] = []
        at: str | None = module
        while at is not None:
            chain.append(at)
            at = self._importers.get(at)
        return chain[::-1]

    def _is_there(self, module: str) -> bool:
        return self._file(module) is not None or self._is_folder(module)

    def _is_folder(self, module: str) -> bool:
        return self._tree.joinpath(*module.split(".")).is_dir()

    def _file(self, module: str) -> Path | None:
        path = self._tree.joinpath(*module.split("."))
        for candidate in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if candidate.is_file():
                return candidate
        if not path.parent.is_dir():
            return None
        return next((file for file in path.parent.glob(f"{path.name}.*so") if file.is_file()), None)


def _of_block(body: Sequence[ast.stmt], package: str, *, certain: bool) -> Iterator[Import]:
    for node in body:
        match node:
            case ast.Import():
                yield from (Import((alias.name,), node.lineno, certain) for alias in node.names)
            case ast.ImportFrom():
                yield from _of_from(node, package, certain=certain)
            case ast.If():
                if not _means_type_checking(node.test):
                    yield from _of_block(node.body, package, certain=False)
                yield from _of_block(node.orelse, package, certain=False)
            case ast.Try() | ast.TryStar():
                yield from _of_try(node, package, certain=certain)
            case ast.With() | ast.ClassDef():
                yield from _of_block(node.body, package, certain=certain and isinstance(node, ast.ClassDef))
            case ast.For() | ast.While():
                yield from _of_block([*node.body, *node.orelse], package, certain=False)
            case _:
                pass


def _of_from(node: ast.ImportFrom, package: str, *, certain: bool) -> Iterator[Import]:
    parts = package.split(".")
    start = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    module = ".".join(name for name in (start, node.module) if name)
    for alias in node.names:
        yield Import((f"{module}.{alias.name}", module), node.lineno, certain)


def _of_try(node: ast.Try | ast.TryStar, package: str, *, certain: bool) -> Iterator[Import]:
    caught = any(handler.type is None or _names(handler.type) & _IMPORT_ERRORS for handler in node.handlers)
    yield from _of_block([*node.body, *node.orelse], package, certain=certain and not caught)
    for handler in node.handlers:
        yield from _of_block(handler.body, package, certain=False)
    yield from _of_block(node.finalbody, package, certain=certain)


def _names(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _means_type_checking(test: ast.expr) -> bool:
    """``TYPE_CHECKING``, which is false when the code runs."""
    return (test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")) == "TYPE_CHECKING"


def _top(module: str) -> str:
    return module.partition(".")[0]


def _parents(module: str) -> tuple[str, ...]:
    """``a``, ``a.b`` and ``a.b.c`` of ``a.b.c``."""
    parts = module.split(".")
    return tuple(".".join(parts[: count + 1]) for count in range(len(parts)))
