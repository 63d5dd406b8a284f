"""What a PostgreSQL server refuses to let in at all: waiting changes nothing."""

from __future__ import annotations

import re
from typing import Final

import psycopg

_REFUSED: Final = re.compile(
    r"authentication failed|no pg_hba\.conf entry|is not permitted to log in|permission denied for database"
    r"|FATAL: .*(role|database|user) .*does not exist|no such (user|database)"
)


def is_refused_connect(error: BaseException) -> bool:
    """Whether a connect was refused for who asks, or for the database that was asked for.

    libpq has no code for it, so this goes by PostgreSQL's and PgBouncer's English words; a server that speaks another
    language is taken for one that does not answer, but where a password is missing.
    """
    if not isinstance(error, psycopg.OperationalError) or error.pgconn is None or error.sqlstate is not None:
        return False
    return error.pgconn.needs_password or _REFUSED.search(str(error)) is not None
