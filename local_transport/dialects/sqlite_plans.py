"""How plans are run on SQLite: statement after statement, in one transaction that locks out every other writer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime
from typing import Any, Final, cast

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.sql import visitors
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects.columns import milliseconds
from local_transport.dialects.port import Change, Choice, Columns, Keyed, Rows, Statement

SQL: Final = sqlite.dialect()
_NAMED: Final = sqlite.dialect(paramstyle="named")
# A connection that was opened while its file was read-only stays so, and one whose file failed may be of no more use.
_STUCK: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)

Readable = UpdateBase | sa.Select[Any] | sa.CompoundSelect[Any]


class JsonBatch:
    """Rows as one JSON array of arrays; ``only`` some of the columns, where not all are read."""

    def __init__(self, name: str, columns: Columns, only: Collection[str] | None = None) -> None:
        self._name = f"{name}_rows"
        each = sa.func.json_each(sa.bindparam(self._name, type_=sa.Text())).table_valued("value", name=f"{name}_each")
        values = [
            sa.type_coerce(sa.func.json_extract(each.c.value, sa.literal_column(f"'$[{i}]'")), kind).label(column)
            for i, (column, kind) in enumerate(columns.items())
            if only is None or column in only
        ]
        rows = sa.select(*values).select_from(each)
        # Materialized, or a join would parse every row of JSON again for every row of the other side.
        self.rows: FromClause = rows.cte(name).prefix_with("MATERIALIZED")

    def bind(self, rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
        """A ``Batch``'s."""
        text = json.dumps([tuple(row) for row in rows], ensure_ascii=False, separators=(",", ":"), default=milliseconds)
        return {self._name: text}


class SeveralStatements:
    """A change, then each statement that follows, in one transaction that locks out every other writer."""

    def __init__(self, planned: Change | Choice) -> None:
        self._choose: Statement | None = None
        if isinstance(planned, Change):
            change = planned
        else:
            self._chosen = JsonBatch("chosen", _kinds(planned.choose.exported_columns))
            self._choose = Statement(planned.choose, SQL)
            change = planned.change(self._chosen.rows)
        self._steps = _Returning(change) if change.keyed is None else _Stepwise(change, change.keyed)

    def run(self, connection: Connection, parameters: Mapping[str, Any]) -> Rows:
        """A ``Plan``'s."""
        if self._choose is None:
            return self._steps.run(connection, parameters)
        chosen = self._chosen.bind(self._choose.run(connection, parameters))
        return self._steps.run(connection, {**parameters, **chosen}, even_when_none_changed=True)


class _Returning:
    """A change that tells of the rows it changed, which go to each statement that follows."""

    def __init__(self, change: Change) -> None:
        columns = _kinds(change.change.exported_columns)
        self._changed = JsonBatch("changed", columns)
        self._change = Statement(change.change, SQL)
        self._then = [_reading("changed", columns, follow) for follow in change.then]
        self._read = None if change.read is None else _reading("changed", columns, change.read)

    def run(
        self, connection: Connection, parameters: Mapping[str, Any], *, even_when_none_changed: bool = False
    ) -> Rows:
        changed = self._change.run(connection, parameters).all()
        if not changed and not even_when_none_changed:
            return changed
        known = {**parameters, **self._changed.bind(changed)}
        for statement in self._then:
            statement.run(connection, known)
        return changed if self._read is None else self._read.run(connection, known).all()


class _Stepwise:
    """A change of rows whose keys are found first: only they go from one statement to the next, as one text.

    All else is read from the table, where it is after an update and before a deletion.
    """

    def __init__(self, change: Change, keyed: Keyed) -> None:
        found = keyed.find.subquery("found")
        self._find = Statement(sa.select(sa.func.json_group_array(*found.c)), SQL)
        keys = sa.func.json_each(sa.bindparam("keys", type_=sa.Text())).table_valued("value", name="key")
        mine = sa.and_(keyed.within, keyed.key.in_(sa.select(keys.c.value)))
        changed = sa.select(*change.change.exported_columns).where(mine).cte("changed")
        steps = keyed.change(mine)
        self._deletes = isinstance(steps, sa.Delete)
        self._change = Statement(steps, SQL)
        self._then = [Statement(follow(changed), SQL) for follow in change.then]
        self._read = Statement(sa.select(changed) if change.read is None else change.read(changed), SQL)

    def run(
        self, connection: Connection, parameters: Mapping[str, Any], *, even_when_none_changed: bool = False
    ) -> Rows:
        keys = self._find.run(connection, parameters).scalar_one()
        if keys == "[]" and not even_when_none_changed:
            return []
        known = {**parameters, "keys": keys}
        if not self._deletes:
            self._change.run(connection, known)
        for statement in self._then:
            statement.run(connection, known)
        rows = self._read.run(connection, known).all()
        if self._deletes:
            self._change.run(connection, known)
        return rows


class SharingStatements:
    """A change and what follows in one transaction, which locks out every other writer.

    They go to Python's module as they are: what SQLAlchemy does for each takes several times as long as a small one.
    """

    def __init__(self, change: Change, turn: Callable[[], AbstractContextManager[None]]) -> None:
        """``turn`` is held while this process writes."""
        self._turn = turn
        columns = _kinds(change.change.exported_columns)
        self._changed = JsonBatch("changed", columns)
        self._change = _written(change.change)
        self._then = [_written(_reader("changed", columns, follow)) for follow in change.then]
        self._read = None if change.read is None else _written(_reader("changed", columns, change.read))

    def run(self, engine: Engine, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """A ``SharingPlan``'s."""
        known = {name: milliseconds(v) if isinstance(v, datetime) else v for name, v in parameters.items()}
        with self._turn(), closing(engine.raw_connection()) as pooled:
            own = cast("sqlite3.Connection", pooled.driver_connection)
            try:
                own.execute("BEGIN IMMEDIATE")
                found = self._run(own, known)
                own.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    own.rollback()
                if is_stuck(error):
                    pooled.invalidate()
                    engine.dispose()
                if isinstance(error, sqlite3.IntegrityError):
                    return None
                raise
            return found

    def _run(self, own: sqlite3.Connection, known: dict[str, Any]) -> list[tuple[Any, ...]]:
        changed = own.execute(self._change, known).fetchall()
        known |= self._changed.bind(changed)
        for statement in self._then:
            own.execute(statement, known)
        return changed if self._read is None else own.execute(self._read, known).fetchall()


def _reader(name: str, columns: Columns, make: Callable[[FromClause], Readable]) -> Readable:
    """What ``make`` makes of a batch without the columns that it does not read.

    Each would be one more value to be found in JSON for every row.
    """
    whole = JsonBatch(name, columns)
    known: set[Any] = set(whole.rows.c)
    read = {column.key for column in known & set(visitors.iterate(make(whole.rows)))}
    return make(JsonBatch(name, columns, read or set(columns)).rows)


def _reading(name: str, columns: Columns, make: Callable[[FromClause], Readable]) -> Statement:
    return Statement(_reader(name, columns, make), SQL)


def _written(statement: Readable) -> str:
    return str(statement.compile(dialect=_NAMED))


def is_stuck(error: BaseException | None) -> bool:
    """Whether the connection is of no use any more."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _STUCK


def _kinds(columns: Iterable[sa.ColumnElement[Any]]) -> Columns:
    return {str(column.key): column.type for column in columns}
