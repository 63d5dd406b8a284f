"""The JSON Schema of ``manifest.json``, made of the records that a manifest is read into."""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
import typing
from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import Any, Final, Literal

from towpath.limits import MANIFEST_VERSION
from towpath.manifest.document import Manifest

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_SCALARS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}


def manifest_schema() -> dict[str, Any]:
    """The schema. It says what each key may hold; what records must say together ``Manifest.from_json`` checks."""
    about = {
        "$schema": _DIALECT,
        "$id": f"urn:towpath:manifest:{MANIFEST_VERSION}",
        "title": "Towpath manifest",
    }
    return about | record_schema(Manifest)


def record_schema(record: type[Any]) -> dict[str, Any]:
    """The schema of what ``towpath.records`` reads into the dataclass ``record``, described by its docstrings."""
    definitions: dict[str, Any] = {}
    _schema_of(record, definitions)
    root: dict[str, Any] = definitions.pop(record.__name__)
    return root | {"$defs": dict(sorted(definitions.items()))}


def _schema_of(wanted: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if is_dataclass(wanted) and isinstance(wanted, type):
        if wanted.__name__ not in definitions:
            definitions[wanted.__name__] = {}  # known from here on
            definitions[wanted.__name__].update(_record(wanted, definitions))
        return {"$ref": f"#/$defs/{wanted.__name__}"}
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if wanted is Any:
        return {}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return {"anyOf": [_schema_of(inner, definitions), {"type": "null"}]}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], definitions)}
    return {"type": _SCALARS[wanted]}


def _record(record: type[Any], definitions: dict[str, Any]) -> dict[str, Any]:
    hints, docs = typing.get_type_hints(record), _field_docs(record)
    names = [field.name for field in fields(record)]
    return {
        "description": _one_line(record.__doc__ or ""),
        "type": "object",
        "properties": {
            name: _schema_of(hints[name], definitions) | ({"description": docs[name]} if name in docs else {})
            for name in names
        },
        "required": names,
        "additionalProperties": False,
    }


def _field_docs(record: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of ``record``; none where its source is not at hand."""
    try:
        source = inspect.getsource(record)
    except OSError:
        return {}
    (declared,) = ast.parse(textwrap.dedent(source)).body
    docs = {}
    for field, below in pairwise(getattr(declared, "body", ())):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = _one_line(text)
    return docs


def _one_line(text: str) -> str:
    return " ".join(text.split())
