"""Publishing in the caller's transaction: all of it with the commit, nothing without, and nobody is held up."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from local_transport.connections import Database
from local_transport.tables import metadata
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.settlement import Completion

NOW = timedelta(0)
MODES = {"loose": "none", "single": "exclusive", "line": "ordered"}
SUBSCRIPTIONS = {name: {"topic": "documents", "partition_mode": mode} for name, mode in MODES.items()}
TOPOLOGY = on_database({"documents": {}, "unread": {}}, SUBSCRIPTIONS)
ID = "01890000-0000-7000-8000-000000000001"


@pytest.fixture
def transport(database_url):
    with connect(database_url) as opened:
        opened.apply(TOPOLOGY)
        yield opened


@pytest.fixture
def on_postgres(postgres_tables_url):
    with connect(postgres_tables_url) as opened:
        opened.apply(TOPOLOGY)
        yield opened


@contextmanager
def engine_of(url, **options):
    """An engine as a program has it that knows nothing of Towpath."""
    engine = sa.create_engine(sa.make_url(url).set(drivername=DRIVERS[url.partition(":")[0]]), **options)
    try:
        yield engine
    finally:
        engine.dispose()


DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


@pytest.fixture
def engine(database_url):
    with engine_of(database_url) as made:
        yield made


def messages(*names, key="k", **more):
    return [NewMessage(payload=name, partition_key=key, **more) for name in names]


def publish(transport, connection, *new):
    results = transport.publish("documents", list(new), connection=connection)
    assert {result.status for result in results} == {"accepted"}
    return [result.id for result in results]


def received(transport):
    """The payloads that each subscription hands out, one after another, until there are no more."""
    found = {}
    for name in MODES:
        consumer, came = transport.consumer(name), found.setdefault(name, [])
        while held := consumer.receive(100, NOW):
            came += [json.loads(one.body)["payload"] for one in held]
            consumer.complete([Completion(delivery=one) for one in held])
    return found


def each(*names):
    """What ``received`` answers when every subscription got these."""
    return {name: list(names) for name in MODES}


def rows(url):
    """Everything that the database holds of Towpath's."""
    database = Database(url)
    with database.reading() as connection:
        found = {t.name: sorted(map(repr, connection.execute(sa.select(t)))) for t in metadata.sorted_tables}
    database.close()
    return found


# --- What can be enlisted ----------------------------------------------------------------------------------------


@contextmanager
def opened(engine, kind):
    if kind == "connection":
        with engine.connect() as connection:
            yield connection
    elif kind == "session":
        with Session(engine) as session:
            yield session
    else:
        sessions = scoped_session(sessionmaker(engine))
        yield sessions
        sessions.remove()


@pytest.mark.parametrize("kind", ["connection", "session", "scoped session"])
def test_a_publish_is_there_with_the_callers_own_rows_when_their_transaction_commits(transport, engine, kind):
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE invoice (number integer)"))
    with opened(engine, kind) as theirs:
        for name, end in (("rolled back", "rollback"), ("committed", "commit")):
            theirs.execute(sa.text("INSERT INTO invoice VALUES (7)"))
            publish(transport, theirs, *messages(name))
            if engine.dialect.name != "sqlite":  # there nobody else can claim now
                assert received(transport) == each()
            getattr(theirs, end)()
        assert theirs.execute(sa.text("SELECT count(*) FROM invoice")).scalar() == 1
    assert received(transport) == each("committed")


def test_what_is_no_connection_of_sqlalchemy_is_refused_in_one_sentence(transport, engine, database_url):
    refused = {"mine": "a str", engine: "a sqlalchemy.engine.base.Engine", sessionmaker(engine): "sessionmaker"}
    for given, said in refused.items():
        with pytest.raises(TypeError, match=f"must be a SQLAlchemy Connection or Session, not .*{said}; open one with"):
            transport.publish("documents", messages(1), connection=given)


def test_a_connection_of_psycopg_is_refused_in_one_sentence(on_postgres, postgres_tables_url):
    with (
        psycopg.connect(postgres_tables_url) as connection,
        pytest.raises(TypeError, match=r"a SQLAlchemy Connection or Session, not a psycopg\.Connection; open one"),
    ):
        on_postgres.publish("documents", messages(1), connection=connection)


def test_a_connection_to_another_kind_of_database_is_refused(on_postgres):
    with (
        engine_of("sqlite://") as other,
        other.connect() as connection,
        pytest.raises(TypeError, match=r"one of sqlite\+pysqlite, and postgresql://.* by postgresql\+psycopg"),
    ):
        on_postgres.publish("documents", messages(1), connection=connection)


def test_a_connection_that_commits_every_statement_by_itself_is_refused(transport, database_url):
    before = rows(database_url)
    with (
        engine_of(database_url, isolation_level="AUTOCOMMIT") as engine,
        engine.connect() as connection,
        pytest.raises(ValueError, match="commits every statement by itself"),
    ):
        transport.publish("documents", messages(1), connection=connection)
    assert rows(database_url) == before


# --- Nothing without the commit ----------------------------------------------------------------------------------


def everything(transport, connection):
    """Publish whatever leaves a trace in some table."""
    later = datetime.now(UTC) + timedelta(hours=1)
    publish(transport, connection, *messages("keyed", "again", deduplication_key=None), NewMessage(payload="no key"))
    publish(transport, connection, *messages("deduplicated", key="other", deduplication_key="once"))
    publish(transport, connection, *messages("delayed", deliver_after=later), *messages("expiring", expires_at=later))
    (result,) = transport.publish("unread", [NewMessage(payload="nobody wants it")], connection=connection)
    assert result.status == "accepted"


def publish_and_fail(transport, engine):
    with Session(engine) as session, session.begin():
        everything(transport, session)
        raise ZeroDivisionError


@pytest.mark.parametrize("ends", ["rolled back", "left by an error", "closed without an end"])
def test_a_transaction_that_does_not_commit_leaves_nothing_in_any_table(transport, engine, database_url, ends):
    transport.publish("documents", messages("before"))
    before = rows(database_url)
    if ends == "left by an error":
        with pytest.raises(ZeroDivisionError):
            publish_and_fail(transport, engine)
    else:
        with engine.connect() as connection:
            everything(transport, connection)
            if ends == "rolled back":
                connection.rollback()
    assert rows(database_url) == before
    with engine.begin() as connection:
        publish(transport, connection, *messages("after", deduplication_key="once"))
    assert received(transport) == each("before", "after")


def test_a_bad_message_rejects_only_itself_and_the_transaction_goes_on(transport, engine):
    with engine.begin() as connection:
        publish(transport, connection, *messages("first", id=ID))
        new = [*messages("first", id=ID), *messages("other", id=ID), *messages(float("nan")), *messages("second")]
        results = transport.publish("documents", new, connection=connection)
        told = [result.error.code if result.error else result.status for result in results]
        assert told == ["duplicate", "MessageIdConflict", "InvalidPayload", "accepted"]
        (unknown,) = transport.publish("nowhere", messages("x"), connection=connection)
        assert unknown.error.code == "TopicNotFound"
    assert received(transport) == each("first", "second")


# --- Savepoints --------------------------------------------------------------------------------------------------


@pytest.fixture
def nesting(database_url):
    """An engine on which SAVEPOINT works: SQLite's module begins no transaction for it unless SQLAlchemy does."""
    with engine_of(database_url) as engine:
        if engine.dialect.name == "sqlite":

            @event.listens_for(engine, "connect")
            def _leave_it_to_sqlalchemy(connection, _entry):
                connection.isolation_level = None

            @event.listens_for(engine, "begin")
            def _begin(connection):
                connection.exec_driver_sql("BEGIN")

        yield engine


def test_what_is_published_in_a_savepoint_goes_with_it_and_the_rest_of_the_transaction_stays(transport, nesting):
    with Session(nesting) as session, session.begin():
        with session.begin_nested() as savepoint:
            publish(transport, session, *messages("given up", id=ID, deduplication_key="once"), *messages("also"))
            savepoint.rollback()
        publish(transport, session, *messages("first", id=ID, deduplication_key="once"))
        with session.begin_nested():
            publish(transport, session, *messages("second"))
        with session.begin_nested() as savepoint:
            (repeat,) = transport.publish("documents", messages("x", deduplication_key="once"), connection=session)
            assert (repeat.status, repeat.id) == ("duplicate", ID)
            publish(transport, session, *messages("given up too"))
            savepoint.rollback()
        publish(transport, session, *messages("third"))
    assert received(transport) == each("first", "second", "third")


def test_a_savepoint_that_failed_does_not_harm_what_was_published_before_it(on_postgres, postgres_tables_url):
    with engine_of(postgres_tables_url) as engine, engine.begin() as connection:
        publish(on_postgres, connection, *messages("first"))
        savepoint = connection.begin_nested()
        publish(on_postgres, connection, *messages("given up"))
        with pytest.raises(sa.exc.DataError):
            connection.execute(sa.text("SELECT 1 / 0"))
        savepoint.rollback()
        publish(on_postgres, connection, *messages("second"))
    assert received(on_postgres) == each("first", "second")


# --- Transactions that meet --------------------------------------------------------------------------------------


def test_of_two_transactions_that_wait_for_each_other_one_is_told_and_can_be_run_again(
    on_postgres, postgres_tables_url
):
    """Each holds an ordered key that the other one wants next. PostgreSQL ends one; its error is passed on."""
    with engine_of(postgres_tables_url) as engine, ThreadPoolExecutor(2) as pool:
        first, second = engine.connect(), engine.connect()
        publish(on_postgres, first, *messages("a1", key="a"))
        publish(on_postgres, second, *messages("b2", key="b"))
        waiting = {
            first: pool.submit(publish, on_postgres, first, *messages("b1", key="b")),
            second: pool.submit(publish, on_postgres, second, *messages("a2", key="a")),
        }
        told = {}
        for connection, future in waiting.items():
            told[connection] = future.exception(timeout=60)
            connection.rollback() if told[connection] else connection.commit()
            connection.close()
    (failed,) = [error for error in told.values() if error is not None]
    assert isinstance(failed, OperationalError)
    assert failed.orig.sqlstate == "40P01"
    assert "deadlock detected" in str(failed)
    kept = ["b2", "a2"] if told[first] else ["a1", "b1"]
    assert {name: sorted(came) for name, came in received(on_postgres).items()} == each(*sorted(kept))


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_transaction_that_sees_an_earlier_topology_is_told_to_run_again(on_postgres, postgres_tables_url, level):
    with engine_of(postgres_tables_url, isolation_level=level) as engine, engine.connect() as connection:
        connection.execute(sa.text("SELECT 1"))  # from here on it sees this moment
        more = {"late": {"topic": "documents"}}
        on_postgres.apply(on_database({"documents": {}, "unread": {}}, SUBSCRIPTIONS | more))
        with pytest.raises(OperationalError, match="could not serialize access") as refused:
            publish(on_postgres, connection, *messages("missed by late"))
        assert refused.value.orig.sqlstate == "40001"
        connection.rollback()
        publish(on_postgres, connection, *messages("for all"))
        connection.commit()
    assert received(on_postgres) == each("for all")
    (late,) = on_postgres.consumer("late").receive(10, NOW)
    assert json.loads(late.body)["payload"] == "for all"


def test_a_call_in_a_sqlite_transaction_sees_what_is_applied_until_its_end(sqlite_tables_url):
    """It is the writer before it looks, so that nothing can be applied between its look and its deliveries."""
    with connect(sqlite_tables_url) as transport, engine_of(sqlite_tables_url) as engine:
        transport.apply(TOPOLOGY)
        looks = []

        @event.listens_for(engine, "before_cursor_execute")
        def _note(_connection, cursor, statement, *_):
            if statement.startswith("SELECT towpath_topology"):
                looks.append(cursor.connection.in_transaction)

        with connect(sqlite_tables_url) as other, engine.connect() as connection, ThreadPoolExecutor(1) as pool:
            publish(transport, connection, *messages("before"))
            more = {"late": {"topic": "documents"}}
            applied = pool.submit(other.apply, on_database({"documents": {}, "unread": {}}, SUBSCRIPTIONS | more))
            publish(transport, connection, *messages("also before"))
            connection.commit()
            assert applied.result(60).added
        assert looks == [True, True]
        assert transport.consumer("late").receive(10, NOW) == []
        assert received(transport) == each("before", "also before")


# --- A transaction that stays open -------------------------------------------------------------------------------


def test_while_a_transaction_that_published_stays_open_others_work_on(open_minute):
    """Claims, renewals, settles and publishes of every mode, on the keys that it published for among them."""
    assert open_minute.rounds_within(60) >= 2


@pytest.mark.late
def test_a_transaction_that_published_and_stayed_open_for_a_minute_held_up_nobody(open_minute):
    open_seconds, rounds = open_minute.ended()
    assert open_seconds >= 60
    assert rounds >= 5
