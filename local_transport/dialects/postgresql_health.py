"""What of a PostgreSQL server is not good for a work queue: settings, dead rows, snapshots that are held open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from local_transport.dialects.health import Finding, Limits

_SETTINGS: Final = sa.text(
    """SELECT name, setting FROM pg_settings
       WHERE name IN ('autovacuum', 'default_transaction_isolation', 'fsync', 'full_page_writes',
                      'synchronous_commit')"""
)
_TABLES: Final = sa.text(
    """SELECT c.relname AS name, s.n_live_tup AS live, s.n_dead_tup AS dead, c.reloptions AS options
       FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid
       WHERE c.relkind = 'r' AND c.relname LIKE 'towpath\\_%' AND pg_table_is_visible(c.oid) ORDER BY c.relname"""
)
# A snapshot in another database keeps nothing here; a replica's feedback shows as a walsender, which has none.
_SNAPSHOTS: Final = sa.text(
    """SELECT pid, coalesce(nullif(application_name, ''), backend_type) AS who, coalesce(state, '') AS state,
              extract(epoch FROM clock_timestamp() - xact_start) AS seconds
       FROM pg_stat_activity
       WHERE pid <> pg_backend_pid() AND xact_start < clock_timestamp() - make_interval(secs => :seconds)
         AND (datname = current_database() OR datname IS NULL) AND backend_type <> 'autovacuum worker'
       ORDER BY xact_start"""
)
_PREPARED: Final = sa.text(
    """SELECT gid, extract(epoch FROM clock_timestamp() - prepared) AS seconds FROM pg_prepared_xacts
       WHERE database = current_database() AND prepared < clock_timestamp() - make_interval(secs => :seconds)"""
)
_SLOTS: Final = sa.text(
    """SELECT slot_name, active FROM pg_replication_slots
       WHERE xmin IS NOT NULL AND age(xmin) > 100000 AND (database = current_database() OR database IS NULL)"""
)


def examine(connection: Connection, limits: Limits) -> Iterator[Finding]:
    """Everything about the server, and about the tables as it keeps them. Needs no right beyond reading catalogues.

    Without membership in ``pg_read_all_stats`` a server tells nothing of the transactions of other roles.
    """
    settings = {row.name: row.setting for row in connection.execute(_SETTINGS)}
    yield from _isolation(settings)
    yield from _durability(settings)
    yield from _vacuum(connection, settings, limits)
    yield from _snapshots(connection, limits)


def _isolation(settings: dict[str, str]) -> Iterator[Finding]:
    level = settings["default_transaction_isolation"]
    if level != "read committed":
        yield Finding(
            code="isolation",
            problem=f"transactions are {level} by default; Towpath's own are READ COMMITTED, at the price of a round "
            "trip each, and publishing in a transaction of yours sees a topology and messages from before it",
            repair="ALTER ROLE or ALTER DATABASE ... SET default_transaction_isolation = 'read committed'",
        )


def _durability(settings: dict[str, str]) -> Iterator[Finding]:
    weak = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if settings[name] == "off"]
    if weak:
        yield Finding(
            code="durability",
            problem=f"{', '.join(weak)} {'is' if len(weak) == 1 else 'are'} off: a crash of the server loses messages "
            "that were accepted, or the database",
            repair="turn it on, at least for Towpath's role",
        )


def _vacuum(connection: Connection, settings: dict[str, str], limits: Limits) -> Iterator[Finding]:
    if settings["autovacuum"] == "off":
        yield Finding(
            code="autovacuum",
            problem="autovacuum is off: every delivery leaves dead rows, and claims get slower and slower",
            repair="turn autovacuum on",
        )
    for row in connection.execute(_TABLES):
        if "autovacuum_enabled=false" in (row.options or []):
            yield Finding(
                code="autovacuum",
                problem=f"autovacuum is turned off for {row.name}, so its dead rows stay",
                repair=f"ALTER TABLE {row.name} RESET (autovacuum_enabled)",
            )
        if (row.dead or 0) > max(limits.dead_rows, row.live or 0):
            yield Finding(
                code="bloat",
                problem=f"{row.name} has {row.dead:,} dead rows and {row.live:,} live ones",
                repair=f"see whether a transaction is held open (below) or autovacuum starves; then VACUUM {row.name}",
            )


def _snapshots(connection: Connection, limits: Limits) -> Iterator[Finding]:
    for row in connection.execute(_SNAPSHOTS, {"seconds": limits.transaction_seconds}):
        state = f", {row.state}" if row.state else ""
        yield _held(
            f"a transaction of {row.who!r} (process {row.pid}{state}) is open", row, f"pg_terminate_backend({row.pid})"
        )
    for row in connection.execute(_PREPARED, {"seconds": limits.transaction_seconds}):
        yield _held(f"the prepared transaction {row.gid!r} waits", row, "COMMIT PREPARED or ROLLBACK PREPARED")
    for row in connection.execute(_SLOTS):
        yield Finding(
            code="snapshot",
            problem=f"the replication slot {row.slot_name!r} keeps old rows{'' if row.active else '; nobody uses it'}",
            repair="see why its replica lags, or drop the slot",
        )


def _held(what: str, row: Any, end: str) -> Finding:
    return Finding(
        code="snapshot",
        problem=f"{what} for {row.seconds / 60:,.0f} minutes: no row that died since then can be removed, and claims "
        "that go by keys get slower",
        repair=f"end it ({end}), or let long reports run on a replica",
    )
