"""Runs the SQL that standard input has, on the database of ``TOWPATH_TRANSPORT``: what ``sql`` blocks of pages hold."""

import os
import sys

import sqlalchemy as sa
from sqlalchemy.engine import make_url


def main() -> None:
    url = make_url(os.environ["TOWPATH_TRANSPORT"])
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT").execution_options(no_parameters=True)
    with engine.connect() as connection:
        for statement in sys.stdin.read().split(";\n"):
            if statement.strip():
                ran = connection.exec_driver_sql(statement)
                for row in ran if ran.returns_rows else ():
                    print(*row, sep=" | ")


if __name__ == "__main__":
    main()
