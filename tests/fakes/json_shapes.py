"""Whether JSON has the shape that the reference of the command line gives for it."""

import json
import runpy
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SHAPES = runpy.run_path(str(REFERENCE / "command_shapes.py"))


def shaped(command: str, text: str) -> Any:
    """What ``command`` printed with ``--json``, which must have the shape that the reference gives."""
    data = json.loads(text)
    assert list(mismatches(SHAPES["SHAPES"][command], data)) == []
    return data


def mismatches(shape: Any, data: Any, where: str = "$") -> Iterator[str]:
    """Each place of ``data`` that is otherwise than ``shape`` says."""
    if isinstance(shape, list):
        if not isinstance(data, list):
            yield f"{where} is no array"
            return
        for number, held in enumerate(data):
            yield from mismatches(shape[0], held, f"{where}[{number}]")
    elif isinstance(shape, dict):
        yield from _of_object(shape, data, where)
    elif not any(_IS[kind](data) for kind in shape.replace("true or false", "flag").split(" or ")):
        yield f"{where} is {data!r}, not {shape}"


def _of_object(shape: dict[str, Any], data: Any, where: str) -> Iterator[str]:
    if not isinstance(data, dict):
        yield f"{where} is no object"
        return
    known = {name.removesuffix("?"): kind for name, kind in shape.items() if name != "*"}
    for name in known.keys() - data.keys():
        if f"{name}?" not in shape:
            yield f"{where} lacks {name}"
    for name, held in data.items():
        if name in known or "*" in shape:
            yield from mismatches(known.get(name, shape.get("*")), held, f"{where}.{name}")
        else:
            yield f"{where} has {name}, which the reference lacks"


def _is_time(data: Any) -> bool:
    return isinstance(data, str) and datetime.fromisoformat(data).tzinfo is not None


_IS: dict[str, Callable[[Any], bool]] = {
    "any": lambda _: True,
    "flag": lambda data: isinstance(data, bool),
    "text": lambda data: isinstance(data, str),
    "whole number": lambda data: isinstance(data, int) and not isinstance(data, bool),
    "number": lambda data: isinstance(data, int | float) and not isinstance(data, bool),
    "time": _is_time,
    "null": lambda data: data is None,
    "object": lambda data: isinstance(data, dict),
    "array": lambda data: isinstance(data, list),
}
