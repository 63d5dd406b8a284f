"""Databases that fail in the middle of something: each answer is true, nothing is lost, and it goes on by itself."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from local_transport.connections import Database
from local_transport.schema import upgrade
from tests.conftest import left_out
from tests.servers.clock import advance
from tests.servers.postgres import PostgresUnavailable, fresh_database, own_cluster
from tests.servers.relay import relayed
from tests.servers.topologies import on_database
from tests.servers.working import observations, workers
from towpath import NewMessage, connect
from towpath.errors import TransportUnavailable
from towpath.settlement import Completion, Failed, Settled

NOW = timedelta(0)
PATIENCE = 60
PROJECT = Path(__file__).parents[2]
RULES = {"topic": "documents", "max_attempts": 100}
TOPOLOGY = on_database({"documents": {}}, {"convert": RULES})
OPERATIONS = ["publish", "claim", "settle"]


def prepared(url):
    with closing(Database(url)) as database:
        upgrade(database)
    with connect(url) as transport:
        transport.apply(TOPOLOGY)


@pytest.fixture
def url(postgres_url):
    """The URL of a PostgreSQL that has the topology."""
    prepared(postgres_url)
    return postgres_url


@pytest.fixture(params=["none", "ordered"])
def url_of_either(request, url):
    """The same where keys are of no account, and where each has a lane."""
    with connect(url) as transport:
        transport.apply(on_database({"documents": {}}, {"convert": RULES | {"partition_mode": request.param}}))
    return url


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return True


class Doing:
    """One operation on a transport, to be done again until it is answered well: the worker's and a careful user's."""

    def __init__(self, transport, how):
        self._transport = transport
        self._consumer = transport.consumer("convert")
        self._how = how
        self._message = NewMessage(payload="new", partition_key="k")
        if how != "publish":
            transport.publish("documents", [NewMessage(payload="old", partition_key="k")])
        self._held = self._consumer.receive(10, NOW) if how == "settle" else []

    def __call__(self):
        """Do it; answers what went wrong, or nothing."""
        if self._how == "publish":
            (result,) = self._transport.publish("documents", [self._message])
            self._message = NewMessage(payload="new", partition_key="k", id=result.id)
            if result.error is not None:
                assert (result.error.code, result.error.retryable) == ("TransportUnavailable", True)
                return result.error.message
            self.answer = result.status
        elif self._how == "claim":
            try:
                found = self._consumer.receive(10, NOW)
            except TransportUnavailable as error:
                return str(error)
            self.answer = len(found)
        else:
            (result,) = self._consumer.complete([Completion(delivery=held) for held in self._held])
            if isinstance(result, Failed):
                return result.error
            self.answer = result
        return ""

    def assert_done(self):
        """It was done, and once: what is left is as it should be."""
        (row,) = self._transport.operator().stats()
        left = {"publish": (1, 0, 0), "claim": (0, 1, 0), "settle": (0, 0, 1)}[self._how]
        assert (row.pending, row.leased, row.completed) == left
        assert self.answer == {"publish": "accepted", "claim": 1, "settle": Settled(state="completed")}[self._how]


@contextmanager
def locked(url, table="towpath_delivery, towpath_message"):
    """Nobody else gets on meanwhile; gives a way to wait for somebody who waits."""
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as watcher:
        holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        query = """SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
                   WHERE NOT granted AND datname = current_database()"""
        yield lambda: eventually(lambda: watcher.execute(query).fetchone()[0] > 0)
        holder.rollback()


# --- The server restarts, and connections are lost -----------------------------------------------------------------


def test_a_server_that_crashes_in_the_middle_is_told_of_and_comes_back():
    """Each operation waits for a lock in a database of its own when it happens."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(own_cluster())
        except PostgresUnavailable as error:
            left_out("PostgreSQL", str(error))
        urls = [stack.enter_context(fresh_database(cluster.url)) for _ in OPERATIONS]
        for url in urls:
            prepared(url)
        doing = [Doing(stack.enter_context(connect(url)), how) for url, how in zip(urls, OPERATIONS, strict=True)]
        pool = stack.enter_context(ThreadPoolExecutor(len(doing)))
        with suppress(psycopg.OperationalError), ExitStack() as locks:  # the holders crash too
            waiters = [locks.enter_context(locked(url)) for url in urls]
            under_way = [pool.submit(do) for do in doing]
            for await_somebody in waiters:
                await_somebody()
            cluster.stop(signal.SIGQUIT)
            assert all(future.result(PATIENCE) for future in under_way)
            assert ["refused" in do() for do in doing] == [True] * 3
            cluster.start()
        for do in doing:
            assert do() == ""
            do.assert_done()


@pytest.mark.parametrize("how", OPERATIONS)
def test_a_connection_that_is_dropped_in_the_middle_is_told_of_and_replaced(url_of_either, how):
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'towpath'"
    with connect(url_of_either) as transport, ThreadPoolExecutor(1) as pool:
        do = Doing(transport, how)
        with locked(url_of_either) as await_somebody, psycopg.connect(url_of_either, autocommit=True) as administrator:
            doing = pool.submit(do)
            await_somebody()
            administrator.execute(f"{end} AND datname = current_database()")
            assert doing.result(PATIENCE)
        assert do() == ""
        do.assert_done()


@pytest.mark.parametrize("how", OPERATIONS)
def test_what_was_committed_although_the_answer_was_lost_is_not_done_twice(url_of_either, how):
    with relayed(url_of_either) as (by_relay, relay), connect(by_relay) as transport:
        do = Doing(transport, how)
        engine = transport._database.engine

        def lose_the_answer(*_):
            relay.swallow_answers()

        trigger = "before_cursor_execute"
        if how == "publish":  # in one statement, or in several where there are lanes
            trigger = "checkout" if transport.policies()["convert"].partition_mode == "none" else "commit"
        event.listen(engine, trigger, lose_the_answer)
        assert do()
        event.remove(engine, trigger, lose_the_answer)
        relay.pass_answers()
        if how == "claim":  # nobody knows that it was claimed, so it comes again after its lease
            assert do() == ""
            assert do.answer == 0
            advance(url_of_either, 60 + 3600)
        assert do() == ""
        (row,) = transport.operator().stats()
        left = {"publish": (1, 0, 0), "claim": (0, 1, 0), "settle": (0, 0, 1)}[how]
        assert (row.pending, row.leased, row.completed) == left
        expected = {"publish": "duplicate", "claim": 1, "settle": Settled(state="completed")}
        assert do.answer == expected[how]


def test_two_workers_drain_while_their_connections_are_dropped_again_and_again(url, tmp_path):
    drop = """SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
              WHERE application_name = 'towpath' AND datname = current_database()"""
    count, dropped = 150, 0
    written = {"topic": "documents", "handler": "scripted:handle", "lease_seconds": 5, "max_attempts": 100}
    with connect(url) as transport:
        transport.apply(on_database({"documents": {}}, {"convert": written | {"backoff": {"base_seconds": 0.1}}}))
        messages = [NewMessage(payload={"script": ["sleep:0.05"]}) for _ in range(count)]
        published = {result.id for result in transport.publish("documents", messages)}
    with psycopg.connect(url, autocommit=True) as administrator:

        def completed():
            return administrator.execute("SELECT coalesce(sum(amount), 0) FROM towpath_tally").fetchone()[0]

        with workers(url, tmp_path, 2, "--concurrency", "4"):
            assert eventually(lambda: len(observations(tmp_path)) > 8)
            for _ in range(8):
                dropped += administrator.execute(drop).fetchone()[0]
                time.sleep(0.1)
            assert eventually(lambda: completed() >= count)
        assert completed() == count
    assert dropped > 0
    seen = observations(tmp_path)
    assert {observation["message_id"] for observation in seen} == published


# --- The database refuses ------------------------------------------------------------------------------------------


def set_for_all(url, setting, value):
    """A setting of the database, for connections made from now on."""
    name = sa.make_url(url).database
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute("SET default_transaction_read_only = off")
        administrator.execute(f'ALTER DATABASE "{name}" SET {setting} = {value}')


@pytest.mark.parametrize("how", OPERATIONS)
def test_a_statement_that_takes_too_long_is_told_of_and_can_be_tried_again(url, how):
    with connect(url) as transport:
        do = Doing(transport, how)
        set_for_all(url, "statement_timeout", "'200ms'")
        transport._database.engine.dispose()
        with locked(url):
            assert "statement timeout" in do()
        assert do() == ""
        do.assert_done()


@pytest.mark.parametrize("how", ["claim", "settle"])
def test_a_lock_that_is_waited_for_too_long_is_told_of_and_can_be_tried_again(url, how):
    with connect(url) as transport:
        do = Doing(transport, how)
        set_for_all(url, "lock_timeout", "'200ms'")
        transport._database.engine.dispose()
        with locked(url):
            assert "lock timeout" in do()
        assert do() == ""
        do.assert_done()


def test_a_publish_waits_for_locks_for_ten_seconds_at_most(url):
    with connect(url) as transport:
        do = Doing(transport, "publish")
        began = time.monotonic()
        with locked(url):
            assert "lock timeout" in do()
        assert time.monotonic() - began > 9
        assert do() == ""
        do.assert_done()


REFUSAL = """
    CREATE SEQUENCE refusals;
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('refusals') <= {times} THEN RAISE EXCEPTION 'refused' USING ERRCODE = '{code}'; END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse();
"""
CONFLICTS = {"serialization failure": "40001", "deadlock": "40P01"}


def refusing(url, how, conflict, times):
    """Have the next ``times`` statements of the operation refused; a sequence counts on when they are rolled back."""
    table = "towpath_message" if how == "publish" else "towpath_delivery"
    with psycopg.connect(url, autocommit=True) as administrator:
        administrator.execute(REFUSAL.format(times=times, code=CONFLICTS[conflict], table=table))


@pytest.mark.parametrize("conflict", CONFLICTS)
@pytest.mark.parametrize("how", OPERATIONS)
def test_a_transaction_of_our_own_that_conflicts_is_made_again_twice(url_of_either, how, conflict):
    with connect(url_of_either) as transport:
        do = Doing(transport, how)
        refusing(url_of_either, how, conflict, 2)
        assert do() == ""
        do.assert_done()


@pytest.mark.parametrize("how", OPERATIONS)
def test_a_transaction_that_conflicts_three_times_is_told_of_and_can_be_tried_again(url, how):
    with connect(url) as transport:
        do = Doing(transport, how)
        refusing(url, how, "serialization failure", 3)
        assert "refused" in do()
        assert do() == ""
        do.assert_done()


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_a_conflict_in_the_callers_transaction_is_the_callers(url, conflict):
    with connect(url) as transport, closing(Database(url)) as theirs:
        refusing(url, "publish", conflict, 1)
        with theirs.engine.connect() as connection:
            with pytest.raises(DBAPIError) as refused:
                transport.publish("documents", [NewMessage(payload=1)], connection=connection)
            assert refused.value.orig.sqlstate == CONFLICTS[conflict]
            connection.rollback()
            assert (
                transport.publish("documents", [NewMessage(payload=1)], connection=connection)[0].status == "accepted"
            )
            connection.commit()
        assert transport.operator().stats()[0].pending == 1


@pytest.mark.parametrize("how", OPERATIONS)
def test_a_server_that_takes_no_writes_is_told_of_and_left_as_soon_as_another_does(url, how):
    """As after a change of roles that keeps connections open: they stay read-only for ever."""
    with connect(url) as transport:
        do = Doing(transport, how)
        set_for_all(url, "default_transaction_read_only", "on")
        transport._database.engine.dispose()
        assert "read-only transaction" in do()
        set_for_all(url, "default_transaction_read_only", "off")
        assert do() == ""
        do.assert_done()


# --- SQLite: a file that is full, read-only, locked -----------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    """A SQLite file that has the topology."""
    with connect(f"sqlite:///{tmp_path}/file.db") as transport:
        transport.apply(TOPOLOGY)
    return tmp_path / "file.db"


def test_a_disk_that_is_full_is_told_of_and_nothing_is_lost(file):
    """SQLite takes no more pages than it is allowed, with the error of a full disk."""
    with connect(f"sqlite:///{file}") as transport:
        held = Doing(transport, "settle")
        with transport._database.reading() as connection:  # the pool has this one connection
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")
        accepted = 0
        while (result := transport.publish("documents", [NewMessage(payload="x" * 3_000)])[0]).status == "accepted":
            accepted += 1
        assert (result.error.code, result.error.retryable) == ("TransportUnavailable", True)
        assert "database or disk is full" in result.error.message
        settled = held()
        assert settled == "" or "database or disk is full" in settled
        with transport._database.reading() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert settled == "" or held() == ""
        assert held.answer == Settled(state="completed")
        again = NewMessage(payload="x" * 3_000, id=result.id)
        assert transport.publish("documents", [again])[0].status == "accepted"
        assert len(transport.consumer("convert").receive(1_000, NOW)) == accepted + 1


FILE_LIMIT = """
import json, resource, sys
from datetime import timedelta
from towpath import NewMessage, connect
from towpath.settlement import Completion, Settled

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

def publish():
    (result,) = transport.publish("documents", [NewMessage(payload="x" * 3_000)])
    return result.error

with connect(f"sqlite:///{sys.argv[1]}") as transport:
    consumer = transport.consumer("convert")
    assert publish() is None
    (held,) = consumer.receive(1, timedelta(0))
    limit(400_000)
    accepted = 0
    while (error := publish()) is None:
        accepted += 1
    refused = consumer.complete([Completion(delivery=held)])[0]
    limit(resource.RLIM_INFINITY)
    settled = refused if isinstance(refused, Settled) else consumer.complete([Completion(delivery=held)])[0]
    again = publish()
    left = len(consumer.receive(1_000, timedelta(0)))
    print(json.dumps([error.code, error.retryable, error.message, repr(settled), again, left - accepted]))
"""


def test_a_file_that_may_not_grow_is_told_of_and_nothing_is_lost(file):
    """The operating system refuses the write itself, wherever SQLite is just then."""
    command = [sys.executable, "-c", FILE_LIMIT, file]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT, check=True)
    code, retryable, message, settled, again, beyond = json.loads(done.stdout)
    assert (code, retryable) == ("TransportUnavailable", True)
    assert "disk I/O error" in message or "disk is full" in message
    assert (settled, again, beyond) == (repr(Settled(state="completed")), None, 1)


def test_a_file_that_somebody_else_locks_is_told_of_and_can_be_tried_again(file):
    with connect(f"sqlite:///{file}") as transport:
        doing = [Doing(transport, how) for how in ("settle", "claim", "publish")]
        with transport._database.reading() as connection:  # the pool has this one connection: make it impatient
            connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        program = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        program += "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
        command = [sys.executable, "-c", program, file]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout.readline() == "locked\n"
        assert ["database is locked" in do() for do in doing] == [True] * 3
        assert transport.operator().stats()[0].pending == 1  # reading goes on
        holder.communicate("")
        assert [do() for do in doing] == [""] * 3


READ_ONLY = """
import json, os, sys
from pathlib import Path
from towpath import NewMessage, connect
from towpath.errors import TransportUnavailable

file, mode = Path(sys.argv[1]), int(sys.argv[2], 8)
files = lambda: [path for path in file.parent.iterdir()]

def become(user):
    if os.getuid() == 0:
        os.seteuid(user)  # root may write everywhere

def publish():
    (result,) = transport.publish("documents", [NewMessage(payload=1)])
    print(json.dumps(result.error.message if result.error else result.status))

with connect(f"sqlite:///{file}") as transport:
    publish()  # everything is loaded
target = file if sys.argv[3] == "file" else file.parent
for path in (file, file.parent):
    if os.getuid() == 0:
        os.chown(path, 65534, 65534)
target.chmod(mode)
become(65534)
try:
    transport = connect(f"sqlite:///{file}")
    print(json.dumps(transport.operator().stats()[0].pending))
    publish()
except TransportUnavailable as error:
    print(json.dumps(str(error)))
    transport = None
target.chmod(0o755 if target.is_dir() else 0o644)
for path in file.parent.iterdir():
    path.chmod(0o644)
transport = transport or connect(f"sqlite:///{file}")
publish()
transport.close()
"""


def read_only(file, mode, what):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        moved = Path(folder) / "read-only" / "file.db"
        moved.parent.mkdir()
        Path(folder).chmod(0o755)
        shutil.copy(file, moved)
        command = [sys.executable, "-c", READ_ONLY, moved, mode, what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=PROJECT, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_file_that_may_not_be_written_can_be_read_and_is_written_once_it_may(file):
    before, pending, refused, after = read_only(file, "444", "file")
    assert (before, pending, after) == ("accepted", 1, "accepted")
    assert "attempt to write a readonly database" in refused


def test_a_folder_that_may_not_be_written_is_told_of(file):
    before, refused, after = read_only(file, "555", "folder")
    assert (before, after) == ("accepted", "accepted")
    assert "readonly database" in refused or "unable to open database file" in refused
