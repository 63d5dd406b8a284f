"""The calls of ``towpath`` that pages show without running them: each names a command and options that exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command, get_group

from aws_transport.commands import app as bindings
from bundling.commands import BuildByDefault
from towpath.cli.main import build_app

_IN_CODE = re.compile(r"^\s*(?:- run: |\$ |> )?(?:\w+=\S+ )*(towpath (?!=)[^\n]*)$", re.MULTILINE)
_IN_PROSE = re.compile(r"`(towpath [a-z*][^`]*)`")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NOT_YET = re.compile(r"^Not yet: .*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)  # a sentence on what there is not
_ENDS = re.compile(r"\s+(?:\||\|\||>|#|<|&&|&)(?:\s|$)")
_PLACEHOLDER = re.compile(r"^[A-Z…]|^\.\.\.$")


def calls_in_code(code: str) -> list[str]:
    """Each line, with those that it goes on with, that calls ``towpath``."""
    return _IN_CODE.findall(re.sub(r"\s*\\\n\s*>?\s*", " ", code))


def calls_in_prose(page: Path) -> list[str]:
    """What a page's sentences name as a call: in single backquotes."""
    text = _NOT_YET.sub("", _FENCED.sub("", page.read_text(encoding="utf-8")))
    return [re.sub(r"\s+", " ", call) for call in _IN_PROSE.findall(text)]


def faults(call: str) -> list[str]:
    """What of a call does not exist: a command or options; nothing when all does."""
    return list(_faults(shlex.split(_ENDS.split(call)[0])[1:]))


def _faults(words: list[str]) -> Iterator[str]:
    command: Any = _root()
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name = words.pop(0)
        if _PLACEHOLDER.match(name):
            return
        found = command.get_command(None, name)
        if found is None and isinstance(command, BuildByDefault):
            found = command.get_command(None, "build")
        if found is None and command is _root() and name == "bindings":
            found = get_group(bindings)
        if found is None:
            yield f"command {name}"
            return
        command = found
    if isinstance(command, BuildByDefault):
        command = command.get_command(None, "build")
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"--help", "-h", "--version", "--debug"}
    yield from (word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known)


@cache
def _root() -> Any:
    return get_command(build_app())
