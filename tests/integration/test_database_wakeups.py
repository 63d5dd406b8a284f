"""Wake-ups on real databases: word between processes, receives that wait, what idle workers cost, and PgBouncer.

A transport of its own stands for a process of its own: it shares nothing with another but the database.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy import event

from local_transport.announcing import Announcement
from local_transport.connections import Database
from local_transport.dialects.port import Heard
from local_transport.lookout import DEAF_SECONDS, LONGEST_SECONDS
from local_transport.schema import upgrade
from tests.servers.topologies import on_database
from tests.servers.working import FUNCTION, observations, workers
from towpath import NewMessage, connect
from towpath.errors import SubscriptionNotFound, TransportUnavailable, UnknownTransport
from towpath.settlement import Failure, Release, Retrial
from towpath.worker import Worker, WorkerOptions

NOW, LONG = timedelta(0), timedelta(seconds=120)
PATIENCE = 60.0
FAILURE = Failure(type="Error", message="failed")
SUBSCRIPTIONS = {"convert": {"topic": "documents"}, "archive": {"topic": "documents", "filter": {"kind": ["pdf"]}}}
TOPOLOGY = on_database({"documents": {}}, SUBSCRIPTIONS)


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return True


def published(transport, *messages, **options):
    results = transport.publish("documents", messages or [NewMessage(payload=1)], **options)
    assert [result.status for result in results] == ["accepted"] * len(results)


def with_option(url, option):
    return f"{url}{'&' if '?' in url else '?'}{option}"


@pytest.fixture
def applied(database_url):
    """The URL of a database that has the topology."""
    with connect(database_url) as transport:
        transport.apply(TOPOLOGY)
    return database_url


@pytest.fixture
def on_postgresql(postgres_url):
    """The URL of a PostgreSQL that has the topology."""
    with closing(Database(postgres_url)) as database:
        upgrade(database)
    with connect(postgres_url) as transport:
        transport.apply(TOPOLOGY)
    return postgres_url


# --- Word between processes --------------------------------------------------------------------------------------


@contextmanager
def hearing(url):
    """What a process hears by, from before the block on."""
    with closing(Database(url)) as database:
        signals = database.signals()
        assert signals.hear(PATIENCE) == Heard(anything=True)  # it has just begun
        yield signals
        signals.end()
        signals.close()


class Overheard:
    """What was announced on a PostgreSQL."""

    def __init__(self, url, signals):
        self._signals = signals
        self._connection = psycopg.connect(url, autocommit=True)
        row = self._connection.execute("SELECT json_object_agg(name, id) FROM towpath_subscription").fetchone()
        self._names = {id_: name for name, id_ in row[0].items()}

    def until_now(self):
        """The subscriptions of each announcement since the last call; a NOTIFY comes in the order of its commit."""
        self._connection.execute("NOTIFY towpath, 'until now'")
        texts = []
        while "until now" not in texts:
            texts += self._signals.hear(PATIENCE).texts
        ids = [Announcement.read(text).subscriptions for text in texts[:-1]]
        return [sorted(self._names[id_] for id_ in announced) for announced in ids]

    def close(self):
        self._connection.close()


@pytest.fixture
def overheard(on_postgresql):
    with hearing(on_postgresql) as signals, closing(Overheard(on_postgresql, signals)) as made:
        yield made


@pytest.fixture
def publisher(on_postgresql):
    with connect(on_postgresql) as transport:
        yield transport


def all_told(transport):
    """What was to be announced is on its way: what comes within 5 ms of another goes out together."""
    announcer = transport._wakeups._announcer
    return eventually(lambda: not announcer._untold and not announcer._sending)


def test_what_another_process_publishes_is_heard(applied):
    with connect(applied) as other, hearing(applied) as signals:
        published(other)
        heard = signals.hear(PATIENCE)
        assert heard.anything or Announcement.read(heard.texts[0]).subscriptions


def test_hearing_ends_when_it_is_told_to(applied):
    with hearing(applied) as signals, ThreadPoolExecutor(1) as pool:
        future = pool.submit(signals.hear, 4 * PATIENCE)
        signals.end()
        assert future.result(PATIENCE) == Heard()
        assert signals.hear(4 * PATIENCE) == Heard()


def test_those_are_told_who_get_deliveries_and_once_for_a_call(publisher, overheard):
    published(publisher, *(NewMessage(payload=i) for i in range(50)))
    assert overheard.until_now() == [["convert"]]
    all_told(publisher)
    time.sleep(0.01)
    published(publisher, NewMessage(payload=1, attributes={"kind": "pdf"}))
    assert overheard.until_now() == [["archive", "convert"]]


def test_nobody_is_told_of_what_was_refused_or_a_duplicate(publisher, overheard):
    (result,) = publisher.publish("documents", [NewMessage(payload=1)])
    all_told(publisher)
    overheard.until_now()
    assert publisher.publish("documents", [NewMessage(payload=1, id=result.id)])[0].status == "duplicate"
    assert publisher.publish("documents", [NewMessage(payload=float("nan"))])[0].status == "rejected"
    assert overheard.until_now() == []


def test_what_is_published_in_a_callers_transaction_is_told_at_its_commit(publisher, overheard, on_postgresql):
    with closing(Database(on_postgresql)) as database, database.engine.connect() as connection:
        for end, told in ((connection.rollback, []), (connection.commit, [["convert"]])):
            published(publisher, connection=connection)
            published(publisher, connection=connection)
            assert overheard.until_now() == []
            end()
            assert overheard.until_now() == told  # PostgreSQL passes the same words of a transaction on once


def test_a_burst_of_publishes_is_told_seldom_and_to_its_end(publisher, overheard):
    began = time.monotonic()
    for _ in range(200):
        published(publisher)
    published(publisher, NewMessage(payload=1, attributes={"kind": "pdf"}))
    all_told(publisher)
    told = overheard.until_now()
    assert len(told) <= 2 + (time.monotonic() - began) / 0.005
    assert "archive" in told[-1]


@pytest.mark.parametrize(("delay", "told"), [(0, True), (1, True), (60, False)])
def test_others_are_told_of_a_retry_that_comes_before_they_would_look(publisher, overheard, delay, told):
    published(publisher)
    consumer = publisher.consumer("convert")
    (held,) = consumer.receive(1, NOW)
    all_told(publisher)
    overheard.until_now()
    consumer.retry([Retrial(delivery=held, delay=timedelta(seconds=delay), failure=FAILURE)])
    all_told(publisher)
    assert overheard.until_now() == ([["convert"]] if told else [])


def test_others_are_told_of_what_is_given_back(publisher, overheard):
    published(publisher)
    consumer = publisher.consumer("convert")
    held = consumer.receive(1, NOW)
    all_told(publisher)
    overheard.until_now()
    consumer.release([Release(delivery=delivery) for delivery in held])
    all_told(publisher)
    assert overheard.until_now() == [["convert"]]


def test_a_process_whose_wake_ups_are_off_neither_tells_nor_listens(on_postgresql, overheard):
    with connect(with_option(on_postgresql, "wakeups=off")) as silent:
        consumer = silent.consumer("convert")
        assert consumer.receive(1, timedelta(seconds=0.2)) == []
        assert listening(on_postgresql) == 1  # the one of this test
        published(silent)
        assert overheard.until_now() == []
        assert len(consumer.receive(1, LONG)) == 1


def listening(url):
    """How many connections listen."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchone()[0]


def end_listening(url):
    query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    with psycopg.connect(url) as connection:
        return connection.execute(f"{query} AND datname = current_database()").fetchone()[0]


def test_a_listening_connection_that_was_ended_is_told_of_and_made_anew(on_postgresql):
    with hearing(on_postgresql) as signals, connect(on_postgresql) as other:
        assert end_listening(on_postgresql) == 1
        with pytest.raises(TransportUnavailable, match="the listening connection is lost"):
            signals.hear(PATIENCE)
        assert signals.hear(PATIENCE) == Heard(anything=True)
        published(other)
        assert signals.hear(PATIENCE).texts


def test_a_sqlite_file_that_goes_away_is_told_of_and_watched_again_when_it_is_back(tmp_path):
    url, file, away = f"sqlite:///{tmp_path}/watched.db", tmp_path / "watched.db", tmp_path / "away.db"
    with connect(url) as other:
        other.apply(TOPOLOGY)
        with hearing(url) as signals:
            file.rename(away)
            for _ in range(2):
                with pytest.raises(TransportUnavailable, match="the file of the database is gone"):
                    signals.hear(PATIENCE)
            assert not file.exists()
            away.rename(file)
            assert signals.hear(PATIENCE) == Heard(anything=True)
            assert signals.hear(0) == Heard()
            published(other)
            assert signals.hear(PATIENCE) == Heard(anything=True)


@pytest.mark.parametrize(
    "url", ["sqlite:///{}/a.db?wakeups=maybe", "postgresql://h/d?wakeups=0", "postgresql://h/d?listen=h"]
)
def test_a_wrong_value_is_refused_at_once(tmp_path, url):
    with pytest.raises(UnknownTransport, match="must be"):
        connect(url.format(tmp_path))


# --- Receives that wait ------------------------------------------------------------------------------------------


@contextmanager
def waiting(transport, name="convert", wait=LONG, consumer=None):
    """A receive that waits by now, on a thread; gives its future."""
    lookout, consumer = transport._wakeups._lookout, consumer or transport.consumer(name)
    pool = ThreadPoolExecutor(1)
    future = pool.submit(consumer.receive, 10, wait)
    assert eventually(lambda: future.done() or consumer._applied.id in lookout._waited_for())
    yield future
    consumer.stop_receiving()
    pool.shutdown()


def without_looks(transport):
    """From here on only word can wake: no look is due before long."""
    lookout = transport._wakeups._lookout
    assert eventually(lambda: lookout._longest == LONGEST_SECONDS)  # word is relied on
    with lookout._lock:
        lookout._pace.next_at = time.monotonic() + 1_000


def test_word_of_another_process_wakes_a_receive_that_waits(applied):
    with connect(applied) as own, connect(applied) as other, waiting(own) as receive:
        without_looks(own)
        published(other)
        assert len(receive.result(PATIENCE)) == 1


def test_the_commit_of_a_callers_transaction_wakes_a_receive_that_waits(applied):
    with connect(applied) as own, waiting(own) as receive, closing(Database(applied)) as database:
        without_looks(own)
        with database.writing() as connection:
            published(own, connection=connection)
        assert len(receive.result(PATIENCE)) == 1


def test_what_the_own_process_publishes_wakes_a_receive_whose_wake_ups_are_off(applied):
    with connect(with_option(applied, "wakeups=off")) as own, waiting(own) as receive:
        with own._wakeups._lookout._lock:
            own._wakeups._lookout._pace.next_at = time.monotonic() + 1_000
        published(own)
        assert len(receive.result(PATIENCE)) == 1


def test_without_word_a_look_finds_what_another_process_publishes(applied):
    with connect(with_option(applied, "wakeups=off")) as own, connect(applied) as other, waiting(own) as receive:
        published(other)
        assert len(receive.result(PATIENCE)) == 1
        assert own._wakeups._lookout._longest == DEAF_SECONDS


def test_a_receive_that_may_wait_claims_only_if_something_was_heard_since_a_claim_that_took_all(applied):
    claims = []

    def note_claim(_connection, _cursor, statement, parameters, *_):
        if "policy" in parameters or "towpath_subscription.revision = " in statement:
            claims.append(statement)

    with connect(applied) as own:
        consumer = own.consumer("convert")
        published(own, *[NewMessage(payload=i) for i in range(3)])
        assert [len(consumer.receive(2, LONG)) for _ in range(2)] == [2, 1]  # the first may have left some
        event.listen(own._database.engine, "before_cursor_execute", note_claim)
        assert consumer.receive(2, NOW) == []  # one that may not wait does
        assert claims
        claims.clear()
        with waiting(own, consumer=consumer) as receive:
            assert not claims
            published(own)
            assert len(receive.result(PATIENCE)) == 1


def test_a_look_finds_what_comes_without_word_after_a_claim_that_took_all(applied):
    with connect(with_option(applied, "wakeups=off")) as own, connect(applied) as other:
        consumer = own.consumer("convert")
        for _ in range(3):
            published(other)
            assert len(consumer.receive(2, LONG)) == 1


def test_nothing_is_lost_while_the_listening_connection_is_ended_again_and_again(on_postgresql):
    seen, ended = [], 0
    with connect(on_postgresql) as own, connect(on_postgresql) as other, ThreadPoolExecutor(1) as pool:
        consumer = own.consumer("convert")

        def receive_all():
            while len(seen) < 60:
                seen.extend(consumer.receive(10, LONG))

        receiving = pool.submit(receive_all)
        for _ in range(60):
            ended += end_listening(on_postgresql)
            published(other)
        receiving.result(2 * PATIENCE)
        assert len({delivery.id for delivery in seen}) == 60
        assert ended > 0
        with waiting(own):
            without_looks(own)  # word is relied on again


def test_a_delayed_delivery_wakes_at_its_time(applied):
    with connect(applied) as own, connect(applied) as other, waiting(own) as receive:
        due = datetime.now(UTC) + timedelta(seconds=0.7)
        published(other, NewMessage(payload=1, deliver_after=due))
        assert len(receive.result(PATIENCE)) == 1
        assert datetime.now(UTC) >= due - timedelta(milliseconds=2)


def test_a_retry_wakes_at_its_time(applied):
    with connect(with_option(applied, "wakeups=off")) as own:
        published(own)
        (held,) = own.consumer("convert").receive(1, NOW)
        with waiting(own) as receive:
            began = time.monotonic()
            own.consumer("convert").retry([Retrial(delivery=held, delay=timedelta(seconds=0.4), failure=FAILURE)])
            (again,) = receive.result(PATIENCE)
            assert time.monotonic() - began >= 0.4
            assert again.attempt == 2


def test_a_receive_that_waits_goes_by_what_is_applied_meanwhile(applied):
    paused = on_database(
        {"documents": {}}, {"convert": {"topic": "documents", "status": "paused"}, "archive": SUBSCRIPTIONS["archive"]}
    )
    with connect(applied) as own, connect(applied) as other:
        other.apply(paused)
        published(other)
        with waiting(own) as receive:
            other.apply(TOPOLOGY)
            assert len(receive.result(PATIENCE)) == 1
        with waiting(own, "archive") as receive:
            other.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
            with pytest.raises(SubscriptionNotFound):
                receive.result(PATIENCE)


def test_a_receive_that_waits_ends_at_a_stop_and_claims_nothing_from_then_on(applied):
    with connect(applied) as own:
        consumer = own.consumer("convert")
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(consumer.receive, 10, 10 * LONG)
            eventually(own._wakeups._lookout._waited_for)
            consumer.stop_receiving()
            assert future.result(PATIENCE) == []
        published(own)
        assert consumer.receive(10, 10 * LONG) == []
        assert len(own.consumer("convert").receive(10, NOW)) == 1


def test_a_receive_that_waits_ends_when_its_transport_is_closed(applied):
    before = set(threading.enumerate())
    own = connect(applied)
    with waiting(own, wait=10 * LONG) as receive:
        own.close()
        assert receive.result(PATIENCE) == []
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name.startswith("towpath-")]


# --- What idle workers cost --------------------------------------------------------------------------------------

MANY = {f"s{number:02}": {"topic": "documents", "handler": "scripted:handle"} for number in range(20)}
SECONDS = 12


@contextmanager
def idle_worker(url, monkeypatch):
    """A worker of many subscriptions; gives the statements that it sends."""
    monkeypatch.syspath_prepend(FUNCTION)
    statements = []
    with connect(url) as transport:
        transport.apply(on_database({"documents": {}}, MANY))

        def count(_connection, _cursor, statement, *_):
            statements.append((time.monotonic(), statement))

        event.listen(transport._database.engine, "before_cursor_execute", count)
        worker = Worker(transport, list(MANY), WorkerOptions(concurrency=1))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(worker.run)
            assert eventually(lambda: len(transport._wakeups._lookout._waited_for()) == len(MANY))
            yield statements
            worker.stop()  # ends receives that would wait for ten minutes
            assert running.result(PATIENCE).received == 0


def test_an_idle_worker_of_many_subscriptions_sends_less_than_two_statements_a_second(
    postgres_url, tmp_path, monkeypatch
):
    with closing(Database(postgres_url)) as database:
        upgrade(database)
    urls = [postgres_url, with_option(postgres_url, "wakeups=off"), f"sqlite:///{tmp_path}/idle.db"]
    with ExitStack() as stack:
        sent = [stack.enter_context(idle_worker(url, monkeypatch)) for url in urls]
        began = time.monotonic() + 2.0  # by then looks have become rare
        time.sleep(2.0 + SECONDS)
        for statements in sent:
            found = [statement for at, statement in statements if at >= began]
            assert len(found) <= 2 * SECONDS, found


# --- Behind PgBouncer in transaction mode ------------------------------------------------------------------------

SCRIPTED = {
    "work": {"topic": "documents", "handler": "scripted:handle", "max_attempts": 2, "backoff": {"base_seconds": 0.1}},
    "keyed": {"topic": "documents", "handler": "scripted:handle", "filter": {"keyed": ["yes"]}},
}


def scripted(*script, **more):
    return NewMessage(payload={"script": list(script)}, **more)


def test_publish_work_retry_and_dead_letter_behind_pgbouncer_by_two_processes(on_postgresql, pooled_url, tmp_path):
    """Nothing but LISTEN needs a session: it goes to the server itself."""
    direct = sa.make_url(on_postgresql)
    url = with_option(pooled_url, f"listen=postgresql://{direct.host}:{direct.port}")
    with connect(url) as transport:
        transport.apply(on_database({"documents": {}}, SCRIPTED))
        with workers(url, tmp_path, 2, "--concurrency", "4") as logs:
            assert eventually(lambda: listening(on_postgresql) == 2)
            published(transport, scripted("retry:0.2", "complete"), scripted("error"), scripted("fatal"))
            published(transport, *(scripted("complete", attributes={"keyed": "yes"}) for _ in range(10)))
            completes = 0
            while len({observation["pid"] for observation in observations(tmp_path)}) < 2:
                assert completes < 40 * PATIENCE, "one of the two did all the work"
                published(transport, *(scripted("sleep:0.1") for _ in range(8)))
                completes += 8
                time.sleep(0.2)
            done = [10, 1 + 10 + completes]
            assert eventually(lambda: [row.completed for row in transport.operator().stats()] == done)
            assert eventually(lambda: [row.dead for row in transport.operator().stats()] == [0, 2])
        assert not [log for log in logs if "cannot" in log.read_text()]
        letters = transport.operator().dead_letters("work", 10)
        assert {letter.error.partition(":")[0] for letter in letters} == {"RuntimeError", "FatalError"}
        assert sorted(letter.attempts for letter in letters) == [1, 2]
    assert len(observations(tmp_path)) == (2 + 2 + 1) + 2 * 10 + completes


def test_who_listens_through_pgbouncer_is_told_to_name_the_server(on_postgresql, pooled_url, caplog):
    sentence = "LISTEN was taken and brings nothing, as behind PgBouncer; name the server itself with ?listen="
    url = with_option(pooled_url, "prepare_threshold=none")
    with connect(url) as own, connect(on_postgresql) as other, waiting(own) as receive:
        assert eventually(lambda: sentence in caplog.text)
        published(other)
        assert len(receive.result(PATIENCE)) == 1  # by a look
