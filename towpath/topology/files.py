"""Topology files: TOML or JSON text, read with the places of its keys."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, NoReturn

from towpath.errors import InvalidTopology, Mistake
from towpath.topology.findings import Finding, Path
from towpath.topology.lines import Place, json_places, toml_places

_AT_LINE = re.compile(r" \(at line (\d+), column \d+\)$")
_CAPITALS = re.compile(r"=\s*(True|False)\b")
_OPEN_BRACE = re.compile(r"=\s*\{[^}]*$")
_AT_END = " (at end of document)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says, where each key of it stands, and what is wrong with the keys as such."""

    keys: Mapping[str, Any]
    places: tuple[Place, ...]
    findings: tuple[Finding, ...] = ()


def read_document(path: FilePath) -> Document:
    """What the file holds: JSON when its name ends in ``.json``, TOML otherwise.

    Raises ``InvalidTopology`` when it cannot be read, when its syntax is broken, and when it is a manifest.
    """
    source, text = str(path), _read_text(path)
    document = _read_json(text, source) if path.suffix.lower() == ".json" else _read_toml(text, path)
    if "manifest_version" in document.keys and "topics" in document.keys:
        problem = "is a manifest; the topology that it was rendered from is wanted"
        raise InvalidTopology(source, [Mistake(path="", problem=problem)])
    return document


def _read_text(path: FilePath) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError as error:
        problem = "does not exist; name the topology's file, or go to the folder that holds topology.toml"
        raise InvalidTopology(str(path), [Mistake(path="", problem=problem)]) from error
    except OSError as error:
        raise InvalidTopology(str(path), [Mistake(path="", problem=f"cannot be read: {error.strerror}")]) from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        mistake = Mistake(path="", problem="is not UTF-8 text; save it as UTF-8", line=line)
        raise InvalidTopology(str(path), [mistake]) from error


def _read_toml(text: str, path: FilePath) -> Document:
    try:
        keys = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number too long to read is a plain ValueError
        if path.suffix.lower() in (".yaml", ".yml"):
            mistake = Mistake(path="", problem="is YAML by its name; a topology is written in TOML or JSON")
            raise InvalidTopology(str(path), [mistake]) from error
        line = _toml_line(error, text)
        problem = f"is not valid TOML: {_AT_LINE.sub('', _reason(error))}{_toml_hint(text, line)}"
        mistake = Mistake(path="", problem=problem, line=line)
        raise InvalidTopology(str(path), [mistake]) from error
    return Document(keys=keys, places=tuple(toml_places(text)))


def _toml_hint(text: str, line: int | None) -> str:
    """What is probably meant by text that is no TOML and breaks off in this line."""
    if text.lstrip().startswith("{"):
        return "; it looks like JSON: then its name must end in .json"
    broken = text.split("\n")[line - 1] if line is not None else ""
    if _CAPITALS.search(broken):
        return "; true and false are written in lower case"
    return "; a table in braces stays on one line" if _OPEN_BRACE.search(broken) else ""


def _toml_line(error: ValueError | RecursionError, text: str) -> int | None:
    """Where tomllib says that it could not go on, if it does."""
    if str(error).endswith(_AT_END):
        return text.rstrip().count("\n") + 1
    found = _AT_LINE.search(str(error))
    return int(found[1]) if found else None


def _read_json(text: str, source: str) -> Document:
    try:
        keys = json.loads(text, parse_constant=_refused)
    except json.JSONDecodeError as error:
        hint = "" if text.lstrip().startswith("{") else "; a topology in TOML has a name that ends in .toml"
        mistake = Mistake(path="", problem=f"is not valid JSON: {error.msg}{hint}", line=error.lineno)
        raise InvalidTopology(source, [mistake]) from error
    except (ValueError, RecursionError) as error:
        raise InvalidTopology(source, [Mistake(path="", problem=f"is not valid JSON: {_reason(error)}")]) from error
    if not isinstance(keys, dict):
        raise InvalidTopology(source, [Mistake(path="", problem="must be a JSON object")])
    places = tuple(json_places(text))
    return Document(keys=keys, places=places, findings=tuple(_repeated(places)))


def _reason(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "tables and lists are too deep in each other"
    if str(error).startswith("Exceeds the limit"):
        return "a whole number is too long to be read"
    return str(error).replace(_AT_END, " at the end of the file")


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _repeated(places: Iterable[Place]) -> Iterator[Finding]:
    """JSON takes the last of two equal keys and says nothing; TOML refuses the second."""
    lines: dict[Path, list[int]] = {}
    for place in places:
        lines.setdefault(place.path, []).append(place.line)
    twice = {path: found for path, found in lines.items() if len(found) > 1}
    for path, found in twice.items():
        if not any(path[:end] in twice for end in range(len(path))):
            where = " and ".join(map(str, found))
            yield Finding(path=path, problem=f"is written {len(found)} times, in the lines {where}; only one can hold")
