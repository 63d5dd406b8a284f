"""What is kept beside a delivery: its last error, why it is dead, its progress. Written only when it changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.sql.dml import UpdateBase
from sqlalchemy.sql.selectable import FromClause

from local_transport.dialects import Dialect
from local_transport.dialects.columns import Now
from local_transport.tables import delivery_detail
from towpath.settlement import Failure

ATTEMPTS_EXCEEDED: Final = "MaxAttemptsExceeded"
TYPE_LENGTH: Final = 200
MESSAGE_LENGTH: Final = 4_000
TRACEBACK_LENGTH: Final = 16_000

KEY: Final = ("message_ordinal", "subscription_id")

FailureTexts = tuple[str | None, str | None, str | None]


def failure_texts(failure: Failure | None) -> FailureTexts:
    """Type, message and traceback as they are kept: bounded, and only with characters that every database takes."""
    if failure is None:
        return None, None, None
    return (
        _kept(failure.type[:TYPE_LENGTH]),
        _kept(failure.message[:MESSAGE_LENGTH]),
        _kept(failure.traceback[-TRACEBACK_LENGTH:]) or None,  # the end of a traceback says where it went wrong
    )


def kept_text(text: str) -> str:
    """``text`` bounded like a failure's message."""
    return _kept(text[:MESSAGE_LENGTH])


def _kept(text: str) -> str:
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def upsert_details(
    dialect: Dialect, source: sa.Select[Any], names: list[str], kept_without: Mapping[str, str]
) -> UpdateBase:
    """Write the columns ``names`` of ``source`` (the key first) into the details, making the row where there is none.

    ``kept_without`` maps a column to the one that decides about it: where that one has no new value, the column stays
    as it was.
    """
    insert = dialect.insert(delivery_detail).from_select(names, source)
    held, new = delivery_detail.c, insert.excluded
    values: dict[str, sa.ColumnElement[Any]] = {name: new[name] for name in names if name not in KEY}
    for name, decides in kept_without.items():
        values[name] = sa.case((new[decides].is_(None), held[name]), else_=new[name])
    return insert.on_conflict_do_update(index_elements=list(KEY), set_=values)


def ended_by_lease(dialect: Dialect, ended: FromClause) -> UpdateBase:
    """Details of deliveries that are dead since their attempts are used up: rows of ``ended`` with state ``dead``.

    An error that the very last attempt left behind stays; else the last thing known is that its lease just ended.
    """
    names = [*KEY, "reason", "failed_attempt", "failed_at", "error_type", "error_message"]
    problem = "the lease of the last attempt ended without an answer: the worker crashed, hung or lost the database"
    source = sa.select(
        ended.c.message_ordinal,
        ended.c.subscription_id,
        sa.literal(ATTEMPTS_EXCEEDED, sa.Text()),
        ended.c.attempt,
        Now(),
        sa.literal("LeaseExpired", sa.Text()),
        sa.literal(problem, sa.Text()),
    ).where(ended.c.state == "dead")
    insert = dialect.insert(delivery_detail).from_select(names, source)
    held, new = delivery_detail.c, insert.excluded
    answered = sa.and_(held.error_type.is_not(None), held.failed_attempt == new.failed_attempt)
    replaced = ("failed_at", "error_type", "error_message")
    values: dict[str, sa.ColumnElement[Any]] = {
        name: sa.case((answered, held[name]), else_=new[name]) for name in replaced
    }
    values["error_traceback"] = sa.case((answered, held.error_traceback), else_=sa.null())
    values |= {"reason": new.reason, "failed_attempt": new.failed_attempt}
    return insert.on_conflict_do_update(index_elements=list(KEY), set_=values)
