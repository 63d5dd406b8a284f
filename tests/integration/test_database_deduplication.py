"""Deduplication windows, rivals that wait for each other, and publishers that die in between."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import deduplication, message
from tests.servers.clock import advance
from towpath import NewMessage, connect

MINUTE = timedelta(minutes=1)


def keyed(payload, key="batch-1", **more):
    return NewMessage(payload=payload, deduplication_key=key, **{"deduplication_ttl": MINUTE} | more)


def published(transport, new):
    (result,) = transport.publish("documents", [new])
    return result


def test_a_fixed_window_ends_when_it_was_to_end_however_often_the_key_is_repeated(transport, database_url):
    first = published(transport, keyed(1, deduplication_window="fixed"))
    advance(database_url, 40)
    assert published(transport, keyed(2, deduplication_window="fixed")).id == first.id
    advance(database_url, 21)
    assert published(transport, keyed(3, deduplication_window="fixed")).status == "accepted"


def test_a_sliding_repeat_renews_the_window_that_a_fixed_one_leaves(transport, database_url):
    published(transport, keyed(1))
    for window, after in (("fixed", "accepted"), ("sliding", "duplicate")):
        published(transport, keyed(1))
        advance(database_url, 40)
        assert published(transport, keyed(2, deduplication_window=window)).status == "duplicate"
        advance(database_url, 21)
        assert published(transport, keyed(3, deduplication_window="fixed")).status == after


def test_a_call_that_repeats_a_key_reserves_it_for_the_longest_that_a_sliding_repeat_asks_for(transport, database_url):
    hour = timedelta(hours=1)
    transport.publish("documents", [keyed(1), keyed(2, deduplication_ttl=hour)])
    transport.publish(
        "documents",
        [keyed(1, key="other"), keyed(2, key="other", deduplication_ttl=hour, deduplication_window="fixed")],
    )
    advance(database_url, 120)
    statuses = [published(transport, keyed(3, key=key)).status for key in ("batch-1", "other")]
    assert statuses == ["duplicate", "accepted"]


@pytest.fixture
def open_rival(transport, database_url):
    """A publisher whose transaction, which holds the key, stays open."""
    database = Database(database_url)
    with database.engine.connect() as connection:
        (result,) = transport.publish("documents", [keyed("rival")], connection=connection)
        yield connection, result
    database.close()


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_rival_waits_for_the_end_of_the_transaction_that_has_its_key(transport, database_url, open_rival, end):
    connection, rival = open_rival
    results = []

    def publish():
        with connect(database_url) as other:
            results.append(published(other, keyed("mine")))

    thread = threading.Thread(target=publish)
    thread.start()
    await_waiting(database_url, thread)
    assert results == []
    getattr(connection, end)()
    thread.join(30)
    (mine,) = results
    expected = ("duplicate", rival.id) if end == "commit" else ("accepted", mine.id)
    assert (mine.status, mine.id) == expected


def test_a_rival_that_waits_for_too_long_is_told_to_try_again(transport, open_rival):
    started = time.monotonic()
    mine = published(transport, keyed("mine"))
    assert (mine.status, mine.error.code, mine.error.retryable) == ("rejected", "TransportUnavailable", True)
    assert 9 < time.monotonic() - started < 60  # the lock time-out is 10 s
    open_rival[0].rollback()
    assert published(transport, keyed("mine")).status == "accepted"


def test_a_publisher_that_is_killed_before_its_commit_leaves_its_key_free(transport, database_url):
    program = """
import sys, time
from local_transport.connections import Database
from towpath import NewMessage, connect
url = sys.argv[1]
with connect(url) as transport, Database(url).engine.connect() as connection:
    (result,) = transport.publish(
        'documents', [NewMessage(payload=1, deduplication_key='batch-1')], connection=connection)
    print(result.status, flush=True)
    time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", program, database_url], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "accepted\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert published(transport, keyed(2)).status == "accepted"
    database = Database(database_url)
    with database.reading() as connection:
        stored = [
            connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in (message, deduplication)
        ]
    database.close()
    assert stored == [1, 1]


def await_waiting(url, thread):
    """Until the publisher in ``thread`` waits for a lock; where the database cannot tell, it gets a moment."""
    database = Database(url)
    deadline = time.monotonic() + 30
    if database.dialect.looks_before_it_locks:
        time.sleep(1)
        assert thread.is_alive()
        database.close()
        return
    waiting = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    while time.monotonic() < deadline:
        with database.reading() as connection:
            if connection.scalar(waiting):
                break
        time.sleep(0.05)
    else:
        pytest.fail("nobody waits")
    database.close()
