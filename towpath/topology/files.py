"""Topology files: TOML or JSON text into a document, and the lines that its keys are on."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from towpath.errors import InvalidTopology, Mistake
from towpath.topology.findings import LineOf, Path

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")


def read_text(path: FilePath) -> str:
    """The text of the file. Raises ``InvalidTopology`` when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        problem = "does not exist; name the topology's file, or go to the folder that holds topology.toml"
        raise InvalidTopology(str(path), [Mistake(path="", problem=problem)]) from error
    except OSError as error:
        raise InvalidTopology(str(path), [Mistake(path="", problem=f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        raise InvalidTopology(str(path), [Mistake(path="", problem="is not UTF-8 text")]) from error


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """The document. Raises ``InvalidTopology`` with the line where the syntax breaks."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _AT_LINE.search(str(error))
        line = int(found[1]) if found else None
        reason = _AT_LINE.sub("", str(error)).replace(" (at end of document)", " at the end of the file")
        raise InvalidTopology(source, [Mistake(path="", problem=f"is not valid TOML: {reason}", line=line)]) from error


def parse_json(text: str, source: str) -> dict[str, Any]:
    """The document. Raises ``InvalidTopology`` when the text is no JSON object or has a key twice."""
    try:
        document = json.loads(text, object_pairs_hook=_once_each)
    except json.JSONDecodeError as error:
        mistake = Mistake(path="", problem=f"is not valid JSON: {error.msg}", line=error.lineno)
        raise InvalidTopology(source, [mistake]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidTopology(source, [Mistake(path="", problem=f"is not valid JSON: {error}")]) from error
    if not isinstance(document, dict):
        raise InvalidTopology(source, [Mistake(path="", problem="must be a JSON object")])
    return document


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return document


def toml_lines(text: str) -> LineOf:
    """A function from a key's path to the line, from 1, of the statement that first speaks of it.

    A path that is not there has the line of the table it would be in. Found by halving: the statement is the first
    that a beginning of the file must include to know the key. Beginnings that end inside a value are passed over.
    """
    lines = text.split("\n")
    parsed: dict[int, dict[str, Any] | None] = {0: {}}

    def beginning(count: int) -> dict[str, Any] | None:
        if count not in parsed:
            try:
                parsed[count] = tomllib.loads("\n".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                parsed[count] = None
        return parsed[count]

    def line_of(path: Path) -> int | None:
        while path and not _holds(beginning(len(lines)) or {}, path):
            path = path[:-1]
        if not path:
            return None
        without, within = 0, len(lines)  # beginnings of so many lines do not and do hold the path
        while True:
            middle = (without + within) // 2
            while middle > without and beginning(middle) is None:
                middle -= 1
            if middle == without:
                middle = next(n for n in range((without + within) // 2 + 1, within + 1) if beginning(n) is not None)
                if middle == within:
                    return without + 1
            if _holds(beginning(middle) or {}, path):
                within = middle
            else:
                without = middle

    return line_of


def _holds(document: Mapping[str, Any], path: Path) -> bool:
    value: Any = document
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return False
        value = value[key]
    return True


def no_lines(_: Path) -> None:
    """For documents whose lines are not known."""
