"""What a run left in the tables, recorded like the rest."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.connections import Database
from local_transport.dialects.columns import Now
from local_transport.tables import delivery, history, message, subscription
from tests.history.plan import Plan
from tests.history.recording import Recorder

ROWS = 2_000  # in one line
MILLISECOND = 0.001  # SQLite's times are rounded to it
SLACK = {True: 0.004, False: 0.002}  # SQLite keeps whole milliseconds, and two are compared; the rest is the reading


def record_remains(plan: Plan, folder: Path) -> None:
    """Record the rules that were applied, and every message, open delivery and end."""
    recorder = Recorder(folder / "remains.jsonl")
    with closing(Database(plan.url)) as database, database.reading() as connection:
        slack = SLACK[plan.is_sqlite] + _clock_difference(connection)
        recorder.note("rules", rules=_rules(plan, connection), slack=slack)
        for part in _parts(connection, sa.select(message.c.id, message.c.ordinal)):
            recorder.note("messages", ordinals={str(row.id): row.ordinal for row in part})
        own = (delivery.c.message_ordinal, delivery.c.subscription_id, delivery.c.state)
        for part in _parts(connection, sa.select(*own)):
            recorder.note("open", states={f"{ordinal}-{subscriber}": state for ordinal, subscriber, state in part})
        ends = (history.c.message_ordinal, history.c.subscription_id, history.c.outcome, history.c.finished_at)
        for part in _parts(connection, sa.select(*ends)):
            recorder.note("endings", endings=[(f"{o}-{s}", how, at.timestamp()) for o, s, how, at in part])


def _clock_difference(connection: Connection) -> float:
    """How many seconds the database's clock is off from this machine's, where it is on another one."""
    before = time.time()
    told = connection.execute(sa.select(Now())).scalar_one().timestamp()
    return max(0.0, before - told - MILLISECOND, told - time.time() - MILLISECOND)


def _rules(plan: Plan, connection: Connection) -> dict[str, dict[str, Any]]:
    manifest = plan.manifest()
    ids = {row.name: row.id for row in connection.execute(sa.select(subscription.c.name, subscription.c.id))}
    return {
        name: {
            "id": ids[name],
            "mode": written.partition_mode,
            "lease_seconds": written.lease_seconds,
            "max_attempts": written.max_attempts,
        }
        for name, written in manifest.subscriptions.items()
    }


def _parts(connection: Connection, query: sa.Select[Any]) -> Iterator[Sequence[Any]]:
    rows = iter(connection.execute(query))
    while part := list(islice(rows, ROWS)):
        yield part
