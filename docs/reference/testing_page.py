"""Writes ``testing.md`` from ``towpath.testing`` and the plugin for pytest; ``generate.py`` runs it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from towpath import ABSENT, pytest_plugin, testing

HEAD = """\
# Testing

`towpath.testing`, and the fixtures of its plugin for pytest. [Test a handler](../how-to/test-a-handler.md) shows how
they are used.
"""
SECTIONS = {
    "One delivery": ("deliver", "Delivered", "Published"),
    "A database and a worker": ("local_database", "LocalDatabase", "work_off", "Worked", "LocalClock"),
    "A Lambda function": ("local_lambda", "lambda_settings", "LambdaSettings", "LocalLambda", "LocalInvocation"),
}
UNTOLD = {"DeliveredState", "OpenDatabase", "OpenLambda"}  # for who writes another harness, and a name for words


def testing_page() -> str:
    """The page: functions with what they answer, then the fixtures."""
    told = {name for names in SECTIONS.values() for name in names}
    if told | UNTOLD != set(testing.__all__):
        raise ValueError(f"the page lacks, or has too many of, {(told | UNTOLD) ^ set(testing.__all__)}")
    parts = [HEAD]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            parts += _told(name, getattr(testing, name))
    return "\n".join([*parts, "## Fixtures\n", *_fixtures(), *_options()])


def _told(name: str, thing: Any) -> Iterator[str]:
    if inspect.isfunction(thing):
        yield f"### `{name}`\n"
        yield f"```text\n{name}{_shown(thing)}\n```\n"
        yield _prose(thing) + "\n"
        return
    yield f"### `{name}`\n"
    yield _prose(thing) + "\n"
    rows = [*_fields(thing), *_members(thing)]
    yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"


def _shown(function: Callable[..., Any]) -> str:
    """The signature, one parameter a line, without the quotes of postponed annotations."""
    signature = inspect.signature(function)
    parameters = ["*" if kind else _parameter(one) for kind, one in _with_star(signature)]
    answer = str(signature.return_annotation).strip("'")
    return "(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f") -> {answer}"


def _with_star(signature: inspect.Signature) -> Iterator[tuple[bool, Any]]:
    """The parameters, and ``(True, None)`` where those begin that are given by name alone."""
    before: Any = None
    for parameter in signature.parameters.values():
        by_name = parameter.kind is parameter.KEYWORD_ONLY
        if by_name and (before is None or before.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)):
            yield True, None
        yield False, parameter
        before = parameter


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
    default = parameter.default
    if default is parameter.empty:
        return f"{star}{parameter.name}: {parameter.annotation}"
    is_short = default is None or default is ABSENT or isinstance(default, bool | int | str)
    return f"{star}{parameter.name}: {parameter.annotation} = {repr(default) if is_short else '...'}"


def _fields(thing: Any) -> Iterator[str]:
    for field in fields(thing) if is_dataclass(thing) else ():
        yield f"| `{field.name}` | {_cell(f'`{field.type}`')} |"


def _members(thing: Any) -> Iterator[str]:
    for owner in reversed([one for one in thing.__mro__ if one.__module__.startswith("towpath.testing")]):
        for name, member in vars(owner).items():
            if name.startswith("_"):
                continue
            if isinstance(member, property):
                yield f"| `{name}` | {_cell(' '.join(_prose(member).split()))} |"
            elif inspect.isfunction(member):
                parameters = [p for p in inspect.signature(member).parameters.values() if p.name != "self"]
                listed = ", ".join(str(p).replace("'", "") for p in parameters)
                yield f"| `{name}({_cell(listed)})` | {_cell(' '.join(_prose(member).split()))} |"


def _fixtures() -> Iterator[str]:
    for name, member in vars(pytest_plugin).items():
        if name.startswith("towpath_"):
            yield f"### `{name}`\n"
            yield _prose(member) + "\n"


def _options() -> Iterator[str]:
    yield "## Option\n"
    yield "`towpath_topology`, in pytest's configuration file: the topology, relative to that file.\n"


def _prose(thing: Any) -> str:
    return re.sub(r"``([^`]+)``", r"`\1`", inspect.getdoc(thing) or "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
