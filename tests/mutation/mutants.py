"""Small faults for a module, one at a time: what a good test file must notice."""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div, ast.Mult),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
TWINS = {
    "all": "any",
    "any": "all",
    "ceil": "floor",
    "endswith": "startswith",
    "floor": "ceil",
    "fullmatch": "match",
    "max": "min",
    "min": "max",
    "removeprefix": "removesuffix",
    "removesuffix": "removeprefix",
    "startswith": "endswith",
}
JOINED = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp)  # which parentheses keep together
TYPES = {"Callable", "Iterable", "Iterator", "Literal", "Mapping", "Sequence", "dict", "list", "set", "tuple", "type"}
Fault = tuple[ast.AST, ast.AST | None]  # what is replaced, by what; None is by nothing at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """The module's text with one fault in line ``line``."""

    line: int
    source: str

    def diff(self, original: str) -> str:
        """What was changed, as lines that begin with ``-`` and ``+``."""
        lines = difflib.unified_diff(original.splitlines(), self.source.splitlines(), n=0, lineterm="")
        return "\n".join(line for line in lines if line[:3] not in ("---", "+++"))


def mutants(source: str) -> list[Mutant]:
    """Every mutant of a module, in the order of its lines; each one differs from ``source`` and can be parsed."""
    offsets = _line_offsets(source)
    found: dict[str, Mutant] = {}
    data = source.encode()
    for node in _mutable(ast.parse(source)):
        for target, replacement in _faults(node):
            start, end = (offsets[line - 1] + column for line, column in _span(target))
            text = (data[:start] + _written(target, replacement).encode() + data[end:]).decode()
            if text != source and _parses(text):
                found.setdefault(text, Mutant(line=target.lineno, source=text))
    return sorted(found.values(), key=lambda mutant: mutant.line)


def _line_offsets(source: str) -> list[int]:
    """Where each line begins, in bytes, as the columns of ``ast`` count."""
    offsets = [0]
    for line in source.encode().split(b"\n"):
        offsets.append(offsets[-1] + len(line) + 1)
    return offsets


def _span(node: ast.AST) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def _written(node: ast.AST, replacement: ast.AST | None) -> str:
    if replacement is None:
        return "pass"
    text = ast.unparse(ast.fix_missing_locations(replacement))
    return f"({text})" if isinstance(replacement, JOINED) else text


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and what is in it, without what only type checkers or readers look at."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _left_out(child):
                yield from _mutable(child)


def _left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():  # before Python 3.12 the places within are wrong
            return True
        case ast.Expr(value=ast.Constant()):  # a docstring
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Subscript(value=ast.Name(id=name)):
            return name in TYPES
        case ast.Call(func=ast.Name(id="TypeVar" | "dataclass")):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]):  # exported names, and CamelCase for another name of a type
            return name == "__all__" or (name[0].isupper() and not name.isupper())
        case _:
            return False


def _faults(node: ast.AST) -> Iterator[Fault]:
    parts = (_other_values, _other_operators, _other_names, _other_statements, _without_an_item, _without_a_condition)
    for replacements in parts:
        yield from ((node, replacement) for replacement in replacements(node))
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.match_case(guard=ast.expr() as test):
            if not isinstance(test, ast.Compare):  # those have their opposites already
                yield test, ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=conditions):
            yield from ((condition, ast.Constant(value=True)) for condition in conditions)


def _other_values(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=str() as value):
            yield ast.Constant("" if value else "XX")
        case ast.Constant(value=bytes() as value):
            yield ast.Constant(b"" if value else b"XX")


def _other_operators(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=ops):
            for i, op in enumerate(ops):
                yield from (_with(node, ops=[*ops[:i], other(), *ops[i + 1 :]]) for other in COMPARISONS[type(op)])
        case ast.BoolOp(op=op):
            yield _with(node, op=ast.And() if isinstance(op, ast.Or) else ast.Or())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):  # of sets, mappings and types
            yield from (left, right)
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            yield from (_with(node, op=other()) for other in OPERATORS.get(type(op), ()))


def _other_names(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Name(id=name) if name in TWINS:
            yield ast.Name(TWINS[name])
        case ast.Attribute(attr=name) if name in TWINS:
            yield _with(node, attr=TWINS[name])


def _other_statements(node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr() | ast.Delete():
            yield None
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _without_an_item(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(keywords=keywords):
            yield from (_with(node, keywords=rest) for rest in _one_less(keywords))
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) | ast.Set():
            yield from (_with(node, elts=rest) for rest in _one_less(node.elts))
        case ast.Dict(keys=keys, values=values):
            yield from (_with(node, keys=k, values=v) for k, v in zip(_one_less(keys), _one_less(values), strict=True))


def _without_a_condition(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BoolOp(values=values):
            yield from (_with(node, values=rest) if len(rest) > 1 else rest[0] for rest in _one_less(values))
        case ast.MatchOr(patterns=patterns):
            yield from (_with(node, patterns=rest) if len(rest) > 1 else rest[0] for rest in _one_less(patterns))


def _one_less(items: list) -> list[list]:
    return [items[:i] + items[i + 1 :] for i in range(len(items))]


def _with(node: ast.AST, **changes: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in changes.items():
        setattr(changed, name, value)
    return changed
