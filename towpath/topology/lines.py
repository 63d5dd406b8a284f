"""The line of every key and every list item in the text of a topology, TOML or JSON.

The text has been parsed before, so that it is known to be valid: strings, marks and nesting are all that is looked at.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from towpath import limits
from towpath.records import key_path
from towpath.topology.findings import LineOf, Path

_TOKEN = re.compile(
    r"""
      (?P<space>[^\S\n]+|\#[^\n]*)
    | "{3}(?:\\.|[^\\])*?"{3}(?!")
    | '{3}.*?'{3}(?!')
    | "(?:\\.|[^"\\\n])*"
    | '[^'\n]*'
    | [\[\]{},.=:\n]
    | [^\s\[\]{},.=:\#"']+
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEP = limits.TOPOLOGY_DEPTH  # what lies deeper is refused for its depth, at a place above it


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One key or list item: its path, its line from 1, and whether it is written there or only begins a heading."""

    path: Path
    line: int
    is_whole: bool = True


def toml_places(text: str) -> list[Place]:
    """Every place in a valid TOML document, in the order of the text."""
    return list(_Walk(text, _toml_key).statements())


def json_places(text: str) -> list[Place]:
    """Every place in a valid JSON document, in the order of the text. A key that is there twice has two places."""
    return list(_Walk(text, json.loads).value(()))


def line_finder(places: Iterable[Place]) -> LineOf:
    """A function from the path of a key, as it is told to a person, to its line.

    A key that is not there has the line of the table it would be in, and the whole file has line 1.
    """
    begun: dict[str, int] = {}
    whole: dict[str, int] = {}
    for place in places:
        (whole if place.is_whole else begun).setdefault(key_path(place.path), place.line)
    lines = begun | whole

    def line_of(path: str) -> int:
        while path and path not in lines:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return lines.get(path, 1)

    return line_of


def _toml_key(token: str) -> str:
    return str(tomllib.loads(f"key = {token}")["key"]) if token[0] in "\"'" else token


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    line: int


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        if match["space"] is None:
            yield _Token(match[0], line)
        line += match[0].count("\n")


class _Walk:
    """One walk over the tokens of a document, from its first to its last."""

    def __init__(self, text: str, key_of: Callable[[str], str]) -> None:
        self._tokens = [*_tokens(text), _Token("", 0)]
        self._at = 0
        self._key_of = key_of
        self._last_item: dict[Path, int] = {}  # of each TOML array of tables

    def _next(self) -> str:
        return self._tokens[self._at].text

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _pass(self, *marks: str) -> None:
        while self._next() in marks:
            self._at += 1

    def statements(self) -> Iterator[Place]:
        """The places of a TOML document."""
        table: Path = ()
        self._pass("\n")
        while self._next():
            if self._next() == "[":
                table = yield from self._heading()
            else:
                yield from self._entry(table)
            self._pass("\n")

    def _heading(self) -> Generator[Place, None, Path]:
        start = self._at
        self._pass("[")
        line, is_item = self._tokens[self._at].line, self._at - start == 2
        *before, last = self._keys()
        self._pass("]")
        path: Path = ()
        for key in before:
            path = self._current((*path, key))
            yield Place(path=path, line=line, is_whole=False)
        path = (*path, last)
        if is_item:
            yield Place(path=path, line=line)
            self._last_item[path] = self._last_item.get(path, -1) + 1
        yield Place(path=self._current(path), line=line)
        return self._current(path)

    def _current(self, path: Path) -> Path:
        """``path``, and for an array of tables its last item: the one that is being written."""
        return (*path, self._last_item[path]) if path in self._last_item else path

    def _keys(self) -> list[str]:
        keys = [self._key_of(self._take().text)]
        while self._next() == ".":
            self._take()
            keys.append(self._key_of(self._take().text))
        return keys

    def _entry(self, table: Path) -> Iterator[Place]:
        line = self._tokens[self._at].line
        keys = self._keys()
        self._pass("=", ":", "\n")
        for end in range(1, len(keys) + 1):
            yield Place(path=(*table, *keys[:end]), line=line)
        yield from self.value((*table, *keys))

    def value(self, path: Path) -> Iterator[Place]:
        """The places within the value that comes next, which is at ``path``."""
        self._pass("\n")
        if len(path) > _DEEP:
            self._skip()
        elif self._next() == "{":
            yield from self._table(path)
        elif self._next() == "[":
            yield from self._list(path)
        else:
            self._skip()

    def _table(self, path: Path) -> Iterator[Place]:
        self._take()
        self._pass("\n")
        while self._next() != "}":
            yield from self._entry(path)
            self._pass(",", "\n")
        self._take()

    def _list(self, path: Path) -> Iterator[Place]:
        self._take()
        self._pass("\n")
        index = 0
        while self._next() != "]":
            yield Place(path=(*path, index), line=self._tokens[self._at].line)
            yield from self.value((*path, index))
            self._pass(",", "\n")
            index += 1
        self._take()

    def _skip(self) -> None:
        """Past the value that comes next: to what can stand behind one."""
        depth = 0
        while depth > 0 or self._next() not in ("", ",", "]", "}", "\n"):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(self._take().text, 0)
