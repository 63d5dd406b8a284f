"""Wrong URLs, and databases that do not answer: one clear sentence, without the password."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.servers.postgres import PostgresUnavailable, private_cluster
from tests.servers.relay import relayed
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.envelope import Origin, decode
from towpath.errors import InvalidEnvelope, SchemaOutdated, TransportRejected, TransportUnavailable, UnknownTransport
from towpath.settlement import Completion, DeadLettering, Failed, Settled

NOW = timedelta(0)
TOPOLOGY = on_database({"documents": {}}, {"convert": {"topic": "documents"}})


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("sqlite://", "a SQLite URL names a file"),
        ("sqlite:///:memory:", "a SQLite URL names a file"),
        ("sqlite://dev.db", "a SQLite URL names a file"),
        ("sqlite:///dev.db?cache=shared", "takes no options but"),
        ("sqlite:///dev.db?synchronous=OFF", "takes no options but"),
        ("sqlite+aiosqlite:///dev.db", r"sqlite\+aiosqlite:// is not supported"),
        ("postgresql+asyncpg://u:secret@h/d", r"postgresql\+asyncpg:// is not supported"),
        ("postgresql://u:secret@host:port/d", "the URL of the database cannot be read"),
        ("postgresql://u:secret@h/d?prepare_threshold=often", "prepare_threshold must be a number"),
        ("postgresql://u:secret@h/d?answer_timeout=never", "answer_timeout must be a number of seconds"),
        ("postgresql://u:secret@h/d?answer_timeout=0", "answer_timeout must be a number of seconds"),
        ("postgresql://u:secret@h/d?ssl=on", 'cannot be used: invalid connection option "ssl"; a PostgreSQL URL takes'),
        ("postgresql://u:secret@h/d?connect_timeout=soon", "bad value for connect_timeout: 'soon'"),
        ("postgresql://u:secret@h/d?port=five", "non-integer port"),
        ("postgresql://u:pass@secret@h/d", "two @; one in its password is written %40"),
        ("sqlite://u:secret@/dev.db", "a SQLite URL names a file, with three slashes"),
        ("u:secret@host/name", r"'\*\*\*@host/name' is no transport URL"),
        ("postgresql:nonsense", "the URL of the database cannot be read"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_in_one_sentence(url, sentence):
    with pytest.raises(UnknownTransport, match=sentence) as refused:
        connect(url)
    assert "secret" not in str(refused.value)


@pytest.fixture
def on_postgresql(postgres_url):
    """A transport with a topology on PostgreSQL."""
    _prepare(postgres_url)
    opened = connect(postgres_url)
    opened.apply(TOPOLOGY)
    yield opened
    opened.close()


def _prepare(url):
    database = Database(url)
    upgrade(database)
    database.close()


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(TransportUnavailable, match=f"the folder {tmp_path}/missing of the database does not exist"):
        connect(f"sqlite:///{tmp_path}/missing/dev.db")
    assert not (tmp_path / "missing").exists()


def test_a_file_that_is_no_database_is_reported(tmp_path):
    (tmp_path / "text.db").write_text("this is text, and quite a lot of it\n" * 100)
    with pytest.raises(TransportUnavailable, match=r"text\.db: file is not a database"):
        connect(f"sqlite:///{tmp_path}/text.db")


def test_a_server_that_is_not_there_is_reported_without_the_password():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(
        TransportUnavailable, match=r"postgresql://user:\*\*\*@127\.0\.0\.1:\d+/name: .*refused"
    ) as error:
        connect(f"postgresql://user:secret@127.0.0.1:{port}/name?sslpassword=secret")
    assert "secret" not in str(error.value)


def test_a_database_that_is_not_there_is_reported(postgres_url):
    with pytest.raises(TransportRejected, match='database "missing" does not exist'):
        connect(sa.make_url(postgres_url).set(database="missing").render_as_string(hide_password=False))


def test_tables_that_go_away_under_a_transport_are_an_outdated_schema(transport, database_url):
    database = Database(database_url)
    with database.writing() as connection:
        connection.execute(sa.text("DROP TABLE towpath_delivery"))
    database.close()
    with pytest.raises(SchemaOutdated, match="run 'towpath db upgrade"):
        transport.consumer("convert").receive(1, NOW)


def test_a_sqlite_file_locked_by_somebody_else_is_unavailable_and_recovers(tmp_path):
    url = f"sqlite:///{tmp_path}/locked.db"
    transport = connect(url)
    transport.apply(TOPOLOGY)
    transport.publish("documents", [NewMessage(payload=1)])
    consumer = transport.consumer("convert")
    (held,) = consumer.receive(1, NOW)
    database = transport._database
    with database.reading() as connection:  # the pool has this one connection: make it impatient
        connection.exec_driver_sql("PRAGMA busy_timeout = 50")
    holder = sqlite3.connect(tmp_path / "locked.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    (result,) = transport.publish("documents", [NewMessage(payload=2)])
    assert (result.error.code, result.error.retryable) == ("TransportUnavailable", True)
    assert "database is locked" in result.error.message
    assert result.id is not None
    (wrong,) = transport.publish("documents", [NewMessage(payload=float("nan"))])
    (unsure,) = transport.publish("new", [NewMessage(payload=1)])  # a topic may be applied by now
    assert (wrong.error.code, unsure.error.code) == ("InvalidPayload", "TransportUnavailable")
    (answer,) = consumer.complete([Completion(delivery=held)])
    assert isinstance(answer, Failed)
    holder.execute("ROLLBACK")
    holder.close()
    assert consumer.complete([Completion(delivery=held)]) == [Settled(state="completed")]
    assert transport.publish("documents", [NewMessage(payload=2)])[0].status == "accepted"
    transport.close()


def test_a_sqlite_file_that_is_removed_under_a_transport_is_unavailable_and_not_made_anew(tmp_path):
    file, away = tmp_path / "removed.db", tmp_path / "away.db"
    with connect(f"sqlite:///{file}") as transport:
        transport.apply(TOPOLOGY)
        consumer = transport.consumer("convert")
        transport.publish("documents", [NewMessage(payload=1)])
        file.rename(away)
        for _ in range(2):
            (result,) = transport.publish("documents", [NewMessage(payload=2)])
            assert result.error.code == "TransportUnavailable"
            assert f"the file {file} of the database is gone" in result.error.message
            with pytest.raises(TransportUnavailable, match="is gone"):
                consumer.receive(1, NOW)
        assert not file.exists()
        away.rename(file)
        assert transport.publish("documents", [NewMessage(payload=2)])[0].status == "accepted"
        assert len(consumer.receive(10, NOW)) == 2


def test_a_sqlite_file_that_is_replaced_under_a_transport_is_left_alone(tmp_path):
    file, other = tmp_path / "replaced.db", tmp_path / "other.db"
    for made in (file, other):
        with connect(f"sqlite:///{made}") as transport:
            transport.apply(TOPOLOGY)
    with connect(f"sqlite:///{file}") as transport:
        before = other.read_bytes()
        other.replace(file)
        for _ in range(2):
            (result,) = transport.publish("documents", [NewMessage(payload=1)])
            assert "is gone, or another one is in its place; put it back, or connect anew" in result.error.message
        assert file.read_bytes() == before


CORRUPT = ["x'FFFE00'", "CAST(x'22FF22' AS TEXT)", "CAST(CAST(body AS BLOB) || x'FF' AS TEXT)"]


@pytest.mark.parametrize("written", CORRUPT)
def test_a_sqlite_body_that_is_no_text_is_handed_out_and_blocks_nothing(tmp_path, written):
    with connect(f"sqlite:///{tmp_path}/corrupt.db") as transport:
        transport.apply(TOPOLOGY)
        ids = [result.id for result in transport.publish("documents", [NewMessage(payload=i) for i in range(2)])]
        with sqlite3.connect(tmp_path / "corrupt.db") as file:
            file.execute(f"UPDATE towpath_message SET body = {written} WHERE ordinal = 1")
        file.close()
        consumer = transport.consumer("convert")
        corrupt, sound = consumer.receive(10, NOW)
        origin = Origin(message_id="id", topic="documents", received_at=corrupt.received_at)
        with pytest.raises(InvalidEnvelope, match="the body is not text in UTF-8"):
            decode(corrupt.body, origin)
        assert decode(sound.body, origin).payload == 1
        assert consumer.dead_letter([DeadLettering(delivery=corrupt, reason="InvalidEnvelope")]) == [
            Settled(state="dead")
        ]
        (letter,) = transport.operator().dead_letters("convert", 10)
        assert r"\xff" in letter.body
        (result,) = transport.publish("documents", [NewMessage(payload=0, id=ids[0])])
        assert result.error.code == "MessageIdConflict"


def test_a_sqlite_body_that_is_stored_as_bytes_is_read(tmp_path):
    with connect(f"sqlite:///{tmp_path}/bytes.db") as transport:
        transport.apply(TOPOLOGY)
        (result,) = transport.publish("documents", [NewMessage(payload="Grüße")])
        with sqlite3.connect(tmp_path / "bytes.db") as file:
            file.execute("UPDATE towpath_message SET body = CAST(body AS BLOB)")
        file.close()
        (delivery,) = transport.consumer("convert").receive(10, NOW)
        assert '"payload":"Grüße"' in delivery.body
        assert transport.publish("documents", [NewMessage(payload="Grüße", id=result.id)])[0].status == "duplicate"


@pytest.mark.parametrize(("query", "level"), [("", 2), ("?synchronous=NORMAL", 1), ("?synchronous=full", 2)])
def test_sqlite_runs_in_wal_mode_with_the_durability_that_the_url_asks_for(tmp_path, query, level):
    database = Database(f"sqlite:///{tmp_path}/pragmas.db{query}")
    with database.reading() as connection:
        pragmas = ("synchronous", "journal_mode", "foreign_keys", "busy_timeout")
        values = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
    database.close()
    assert values == [level, "wal", 1, 10_000]


def test_prepared_statements_can_be_turned_off_for_pgbouncer(postgres_url):
    for query, expected in (("", 5), ("?prepare_threshold=none", None), ("?prepare_threshold=2", 2)):
        database = Database(postgres_url + query)
        with database.reading() as connection:
            assert connection.connection.driver_connection.prepare_threshold == expected
        database.close()


def test_connections_that_the_server_dropped_are_reported_once_and_then_replaced(on_postgresql, postgres_url):
    transport = on_postgresql
    consumer = transport.consumer("convert")
    others = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                WHERE pid <> pg_backend_pid() AND datname = current_database()"""
    administrator = Database(postgres_url)
    for trouble in (lambda: consumer.receive(1, NOW), lambda: transport.operator().stats()):
        with administrator.reading() as connection:
            connection.execute(sa.text(others))
        with pytest.raises(TransportUnavailable):
            trouble()
        trouble()
    with administrator.reading() as connection:
        connection.execute(sa.text(others))
    (result,) = transport.publish("documents", [NewMessage(payload=1)])
    assert (result.error.code, result.error.retryable) == ("TransportUnavailable", True)
    assert transport.publish("documents", [NewMessage(payload=1, id=result.id)])[0].status == "accepted"
    assert len(consumer.receive(1, NOW)) == 1
    administrator.close()


def test_a_connection_that_died_while_idle_is_replaced_before_it_is_used(on_postgresql, postgres_url):
    transport = on_postgresql
    pool = transport._database.engine.pool
    with transport._database.engine.connect() as connection:
        connection.connection.driver_connection.close()
    for entry in pool._pool.queue:
        entry.info["idle_since"] = time.monotonic() - 60
    assert transport.operator().stats()[0].pending == 0


def test_a_server_that_hangs_is_unavailable_in_bounded_time_and_recovers(on_postgresql, postgres_url):
    with (
        relayed(postgres_url) as (url, relay),
        connect(url + "?answer_timeout=1&connect_timeout=2") as transport,
    ):
        consumer = transport.consumer("convert")
        assert transport.publish("documents", [NewMessage(payload=1)])[0].status == "accepted"
        (held,) = consumer.receive(1, NOW)
        relay.hang()
        started = time.monotonic()
        (result,) = transport.publish("documents", [NewMessage(payload=2)])
        assert result.error.code == "TransportUnavailable"
        assert "no answer for 1 s" in result.error.message
        with pytest.raises(TransportUnavailable):
            consumer.receive(1, NOW)
        (answer,) = consumer.complete([Completion(delivery=held)])
        assert isinstance(answer, Failed)
        assert time.monotonic() - started < 20
        relay.flow()
        assert consumer.complete([Completion(delivery=held)]) == [Settled(state="completed")]
        again = transport.publish("documents", [NewMessage(payload=2, id=result.id)])
        assert again[0].status in ("accepted", "duplicate")
    assert [stats.pending for stats in on_postgresql.operator().stats()] == [1]


def test_an_answer_in_many_parts_may_take_longer_than_the_limit(postgres_url):
    database = Database(postgres_url + "?answer_timeout=1")
    slowly = sa.text("SELECT repeat('x', 100000), pg_sleep(0.02) FROM generate_series(1, 100)")
    with database.reading() as connection:
        assert len(connection.execute(slowly).all()) == 100
    database.close()


def test_connections_notice_a_dead_network_unless_the_url_says_otherwise(postgres_url):
    for query, expected in (("", "25000"), ("?tcp_user_timeout=5000", "5000")):
        database = Database(postgres_url + query)
        with database.reading() as connection:
            parameters = connection.connection.driver_connection.info.get_parameters()
        assert (parameters["tcp_user_timeout"], parameters["keepalives_idle"]) == (expected, "10")
        database.close()


def test_the_isolation_level_is_our_own_whatever_the_database_has_by_default(postgres_url):
    database = Database(postgres_url)
    name = sa.make_url(postgres_url).database
    with database.writing() as connection:
        connection.execute(sa.text(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'"))
    database.close()
    database = Database(postgres_url)
    for opened in (database.reading, database.changing, database.writing):
        with opened() as connection:
            assert connection.scalar(sa.text("SHOW transaction_isolation")) == "read committed"
    database.close()


def test_a_deadlock_with_somebody_else_is_tried_again(on_postgresql, postgres_url):
    on_postgresql.publish("documents", [NewMessage(payload=1), NewMessage(payload=2)])
    theirs, results = Database(postgres_url), []
    with theirs.writing() as connection:
        name = sa.make_url(postgres_url).database
        connection.execute(sa.text(f"ALTER DATABASE \"{name}\" SET deadlock_timeout = '100ms'"))
    on_postgresql._database.engine.dispose()
    consumer = on_postgresql.consumer("convert")
    first, second = consumer.receive(2, NOW)
    lock = sa.text("SELECT 1 FROM towpath_delivery WHERE message_ordinal = :ordinal FOR UPDATE")
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with theirs.writing() as connection:
        connection.execute(sa.text("SET LOCAL deadlock_timeout = '60s'"))  # so that it is the other one that gives up
        connection.execute(lock, {"ordinal": int(second.id.partition("-")[0])})
        batch = [Completion(delivery=first), Completion(delivery=second)]
        thread = threading.Thread(target=lambda: results.extend(consumer.complete(batch)))
        thread.start()
        while not connection.scalar(waiting):
            time.sleep(0.005)
        connection.execute(lock, {"ordinal": int(first.id.partition("-")[0])})
        connection.rollback()
    thread.join(30)
    theirs.close()
    assert results == [Settled(state="completed")] * 2


def test_a_cluster_of_the_tests_ends_with_the_process_that_started_it(tmp_path):
    program = "import time\nfrom tests.servers.postgres import private_cluster\n"
    program += "with private_cluster() as url:\n    print(url, flush=True)\n    time.sleep(600)\n"
    environment = {name: value for name, value in os.environ.items() if name != "TOWPATH_POSTGRES_URL"}
    starter = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=environment,
    )
    url = starter.stdout.readline().strip()
    assert url.startswith("postgresql://"), "the cluster did not start"
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 30
    while _answers(url):
        assert time.monotonic() < deadline, "the cluster outlived its starter"
        time.sleep(0.1)


def _answers(url):
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def test_a_server_that_is_named_and_does_not_answer_is_unavailable(monkeypatch):
    monkeypatch.setenv("TOWPATH_POSTGRES_URL", "postgresql://nobody@127.0.0.1:1/none")
    sentence = "TOWPATH_POSTGRES_URL is set, and its server does not answer"
    with pytest.raises(PostgresUnavailable, match=sentence), private_cluster():
        pytest.fail("there is no such server")
