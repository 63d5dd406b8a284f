"""Two statements of PostgreSQL in one round trip: a lock, and the change that is made under it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import psycopg
from sqlalchemy.engine import Engine


class Pipelined:
    """The lock and then the change, in one pipeline, which is one transaction.

    The lock comes as a statement of its own, since a statement sees what was committed before it began. Both go to
    psycopg as they are: what SQLAlchemy does for each statement takes longer than the server does for a small one.
    """

    def __init__(
        self,
        statements: tuple[str, str],
        reads_committed: Callable[[], bool],
        is_stuck: Callable[[BaseException], bool],
    ) -> None:
        """``statements`` are the lock, without parameters, and the change, in psycopg's own form.

        ``reads_committed`` says, once there is a connection, whether a statement in autocommit sees what is committed
        by then; ``is_stuck``, whether a connection with this error is of no more use.
        """
        self._lock, self._change = statements
        self._reads_committed = reads_committed
        self._is_stuck = is_stuck

    def run(self, engine: Engine, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]] | None:
        """A ``SharingPlan``'s."""
        pooled = engine.raw_connection()
        try:
            if not (self._reads_committed() and psycopg.Pipeline.is_supported()):
                return None
            own = cast("psycopg.Connection[tuple[Any, ...]]", pooled.driver_connection)
            try:
                return self._sent(own, parameters)
            except BaseException as error:
                lost = own.closed or self._is_stuck(error)
                pooled.invalidate(error)  # psycopg may take a statement for prepared that the server has skipped
                if lost:
                    engine.dispose()  # as SQLAlchemy does: what ended this connection has ended the others
                if isinstance(error, psycopg.errors.UniqueViolation):
                    return None
                raise
        finally:
            pooled.close()

    def _sent(self, own: psycopg.Connection[tuple[Any, ...]], parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        own.autocommit = True
        try:
            with own.pipeline():
                own.execute(self._lock)
                changed = own.execute(self._change, parameters)
        except IndexError as error:  # psycopg's own, when a refused commit answers more than it has asked for
            raise psycopg.OperationalError("the server refused the commit") from error
        own.autocommit = False
        return changed.fetchall()  # not before: the pipeline's end is the commit
