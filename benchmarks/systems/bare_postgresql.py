"""The physical limit on PostgreSQL: one narrow table, psycopg, SKIP LOCKED, no retries, keys or leases."""

import time

BATCH = 100
TABLE = """
CREATE TABLE bare (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state smallint NOT NULL DEFAULT 0, body text NOT NULL
);
CREATE INDEX bare_waiting ON bare (id) WHERE state = 0
"""
CLAIM = """
UPDATE bare SET state = 1 FROM
  (SELECT id FROM bare WHERE state = 0 ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) AS due
WHERE bare.id = due.id RETURNING bare.id, bare.body
"""


def _connect(url):
    import psycopg

    return psycopg.connect(url, autocommit=True)


def prepare(url):
    with _connect(url) as connection:
        connection.execute(TABLE)


def publish(url, calls, timing):
    with _connect(url) as connection, timing:
        for texts in calls:
            connection.execute("INSERT INTO bare (body) SELECT unnest(%s::text[])", [texts])


def work(url, handled, stop):
    with _connect(url) as connection:
        while not stop.is_set():
            rows = connection.execute(CLAIM, [BATCH]).fetchall()
            for _, body in rows:
                handled(body)
            if rows:
                connection.execute("DELETE FROM bare WHERE id = ANY(%s)", [[number for number, _ in rows]])
            else:
                time.sleep(0.005)
