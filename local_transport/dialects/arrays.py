"""Arrays of PostgreSQL as parameters. psycopg's own way looks at every value, which takes longer than the rest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from struct import Struct
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import TypeEngine

from local_transport.dialects.columns import Moment

_TEXT: Final = psycopg.postgres.types["text"]
_LENGTH: Final = Struct(">i")
_ARRAY: Final = Struct(">iiIii")  # dimensions, whether there are nulls, type, and of the dimension: length, first index
_EMPTY: Final = Struct(">iiI").pack(0, 0, _TEXT.oid)
_NULL: Final = _LENGTH.pack(-1)


class Texts(list[str | None]):
    """Text, sent as it is by a connection that has ``TextsDumper``, and as psycopg sends a list by any other."""


class TextsDumper(Dumper):
    """The server's binary form of ``text[]`` (PostgreSQL's source, array_recv): there, no quote has to be escaped."""

    format = Format.BINARY
    oid = _TEXT.array_oid

    def __init__(self, cls: type, context: AdaptContext | None = None) -> None:
        super().__init__(cls, context)
        encoding = self.connection.info.encoding if self.connection is not None else "utf-8"
        self._encoding = "utf-8" if encoding == "ascii" else encoding  # as psycopg does for SQL_ASCII

    def dump(self, obj: Texts) -> bytes:
        """All of them, one after another."""
        if not obj:
            return _EMPTY
        parts = [_ARRAY.pack(1, None in obj, _TEXT.oid, len(obj), 1)]
        for text in obj:
            if text is None:
                parts.append(_NULL)
            else:
                encoded = text.encode(self._encoding)
                parts += (_LENGTH.pack(len(encoded)), encoded)
        return b"".join(parts)


def array_parameter(name: str, kind: TypeEngine[Any]) -> sa.ColumnElement[Any]:
    """The parameter ``name`` for an array of ``kind``, which takes what ``array_of`` makes."""
    untyped = sa.bindparam(name, type_=sa.types.NullType())  # or SQLAlchemy would look at every value too
    return sa.cast(untyped, postgresql.ARRAY(kind))


def array_of(kind: TypeEngine[Any], values: Iterable[Any]) -> Texts | str:
    """The values, each of which may be ``None``, as one parameter for an array of ``kind``."""
    if isinstance(kind, sa.String):
        return Texts(values)
    written = datetime.isoformat if isinstance(kind, Moment) else str
    return "{" + ",".join(["NULL" if value is None else written(value) for value in values]) + "}"
