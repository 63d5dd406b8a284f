"""The audit trail: who did what to which deliveries, when and why. Rows are only ever added."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from local_transport.details import kept_text
from local_transport.dialects.columns import Now
from local_transport.tables import audit
from towpath.errors import InvalidSelection
from towpath.message import JsonValue
from towpath.operating import AuditEntry, Page, Warrant

_LARGEST_ID: Final = 2**63 - 1


def record(
    connection: Connection, warrant: Warrant, action: str, subject: str, details: Mapping[str, JsonValue]
) -> None:
    """Add an entry, in the transaction of what was done. ``details`` must name things, never carry a payload."""
    values = {
        "actor": kept_text(warrant.actor),
        "action": action,
        "subject": subject,
        "reason": kept_text(warrant.reason),
        "details": json.dumps(details, ensure_ascii=False),
    }
    connection.execute(audit.insert().values(at=Now(), **values))


def trail(connection: Connection, limit: int, cursor: str | None, about: str | None = None) -> Page[AuditEntry]:
    """At most ``limit`` entries, newest first, or of those ``about`` what is their subject or named in their details.

    Raises ``InvalidSelection`` for what is no cursor.
    """
    before = _LARGEST_ID if cursor is None else _id(cursor)
    newest_first = sa.select(audit).where(audit.c.id < before).order_by(audit.c.id.desc())
    if about is not None:
        named = audit.c.details.contains(json.dumps(about, ensure_ascii=False), autoescape=True)
        newest_first = newest_first.where(sa.or_(audit.c.subject == about, named))
    rows = connection.execute(newest_first.limit(limit + 1)).all()
    entries = tuple(_entry(row) for row in rows[:limit])
    return Page(entries=entries, cursor=entries[-1].id if len(rows) > limit else None)


def _id(cursor: str) -> int:
    if len(cursor) <= len(str(_LARGEST_ID)) and cursor.isdecimal() and int(cursor) <= _LARGEST_ID:
        return int(cursor)
    raise InvalidSelection(f"{cursor!r} is no cursor of the audit trail; take the one that its last page gave")


def _entry(row: Row[Any]) -> AuditEntry:
    return AuditEntry(
        id=str(row.id),
        at=row.at,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        reason=row.reason or "",
        details=json.loads(row.details or "{}"),
    )
