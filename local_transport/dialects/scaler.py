"""SQL that lets a scaler read the backlog on PostgreSQL: a view of the figures, and a role that may read it alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Dialect

VIEW: Final = "towpath_backlog"

_SCRIPT: Final = """\
-- Lets a scaler read how much there is to do, and nothing else. Written by `towpath db scaler-role`.
--
-- Run it with psql as the role that owns Towpath's tables and may create roles, in the database of the tables, after
-- `towpath db upgrade`; run it anew when a newer Towpath's script differs. Nothing happens twice.
--
-- The view is read with the rights of its owner, so the role needs none on the tables: no message, payload, key or
-- error can be reached through it. The role has no password, so nobody can log in as it yet: give it one with
-- \\password {name} in psql, or as your database service does it.

BEGIN;

CREATE OR REPLACE VIEW {view} WITH (security_barrier) AS
{select};

COMMENT ON VIEW {view} IS 'What towpath backlog shows: backlog = claimable + in_flight, each 1,000 at most';

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles
               WHERE rolname = {literal} AND has_table_privilege(oid, 'towpath_delivery', 'INSERT')) THEN
        -- Workers that log in as it could write nothing any more.
        RAISE EXCEPTION 'the role % may write to the tables; give a scaler a role of its own', {literal};
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {literal}) THEN
        CREATE ROLE {role} LOGIN NOINHERIT CONNECTION LIMIT 10;
    END IF;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO %I', current_database(), {literal});
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), {literal});
    EXECUTE format('ALTER ROLE %I IN DATABASE %I SET search_path = %I', {literal}, current_database(),
                   current_schema());
END
$$;
ALTER ROLE {role} SET default_transaction_read_only = on;
ALTER ROLE {role} SET statement_timeout = '5s';
ALTER ROLE {role} SET lock_timeout = '1s';
-- So the counts walk the indexes in their order and end at their limits, however wrong the server's estimates are.
ALTER ROLE {role} SET enable_bitmapscan = off;
ALTER ROLE {role} SET enable_seqscan = off;

REVOKE ALL ON {view} FROM PUBLIC;
GRANT SELECT ON {view} TO {role};

COMMIT;
"""


def role_script(figures: sa.Select[Any], name: str) -> str:
    """A script for psql that makes a view of ``figures`` and the role ``name``. Answers the same for the same."""
    make: Callable[[], Dialect] = postgresql.dialect  # which has no types
    dialect = make()
    compiled = figures.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    literal = "'" + name.replace("'", "''") + "'"
    role = dialect.identifier_preparer.quote(name)
    lines = (line.rstrip() for line in str(compiled).splitlines())
    return _SCRIPT.format(view=VIEW, select="\n".join(lines), role=role, literal=literal, name=name)
