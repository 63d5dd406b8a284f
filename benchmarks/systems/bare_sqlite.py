"""The physical limit on SQLite: one table, the standard library's module, synchronous FULL, batches of ten."""

import sqlite3
import time

BATCH = 10


def _connect(url):
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def prepare(url):
    connection = _connect(url)
    connection.execute(
        "CREATE TABLE bare (id INTEGER PRIMARY KEY, state INTEGER NOT NULL DEFAULT 0, body TEXT NOT NULL)"
    )
    connection.execute("CREATE INDEX bare_waiting ON bare (id) WHERE state = 0")
    connection.close()


def publish(url, calls, timing):
    connection = _connect(url)
    with timing:
        for texts in calls:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO bare (body) VALUES (?)", [(text,) for text in texts])
            connection.execute("COMMIT")
    connection.close()


def work(url, handled, stop):
    connection = _connect(url)
    due = "SELECT id FROM bare WHERE state = 0 ORDER BY id LIMIT ?"
    while not stop.is_set():
        claim = f"UPDATE bare SET state = 1 WHERE id IN ({due}) RETURNING id, body"
        rows = connection.execute(claim, (BATCH,)).fetchall()
        for _, body in rows:
            handled(body)
        if rows:
            marks = ",".join("?" * len(rows))
            connection.execute(f"DELETE FROM bare WHERE id IN ({marks})", [number for number, _ in rows])
        else:
            time.sleep(0.005)
    connection.close()
