"""Partition keys when publishers, claims and settles meet: nothing is lost, nobody waits for an open transaction."""

import itertools
import json
import os
import random
import threading
import time
from collections import defaultdict
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.applied import TopologyReader
from local_transport.checking import check
from local_transport.connections import Database
from local_transport.lane_claims import PartitionedClaims
from local_transport.schema import upgrade
from local_transport.tables import delivery, lane
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.envelope import ids_of
from towpath.ports import Extension
from towpath.settlement import Completion, LeaseLost, Settled

NOW = timedelta(0)
SOON = timedelta(seconds=30)  # for what must come, on a busy machine; it comes at once
MODES = ("exclusive", "ordered")


@contextmanager
def opened(url, mode):
    with connect(url) as transport:
        transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "partition_mode": mode}}))
        yield transport


@pytest.fixture(params=MODES)
def transport(request, database_url):
    """A topic with one subscription, in each mode on each database."""
    with opened(database_url, request.param) as transport:
        yield transport


@pytest.fixture(params=MODES)
def on_postgres(request, postgres_url):
    """The same, on PostgreSQL, and a database to meddle with."""
    with closing(Database(postgres_url)) as database:
        upgrade(database)
        with opened(postgres_url, request.param) as transport:
            transport.mode = request.param
            yield transport, database


def messages(*keys):
    return [NewMessage(payload=key, partition_key=key) for key in keys]


def published(transport, *keys, connection=None):
    results = transport.publish("documents", messages(*keys), connection=connection)
    assert {result.status for result in results} == {"accepted"}
    return [result.id for result in results]


def complete(transport, held):
    answers = transport.consumer("convert").complete([Completion(delivery=one) for one in held])
    assert answers == [Settled(state="completed")] * len(held)


def wait_until(database, condition):
    """Until the server says so of some statement that waits for a lock."""
    deadline = time.monotonic() + 60
    while True:
        with database.reading() as connection:
            if connection.scalar(sa.text(f"SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE {condition})")):
                return
        assert time.monotonic() < deadline, "nothing waits"
        time.sleep(0.01)


WAITS = "wait_event_type = 'Lock' AND datname = current_database()"


class InThread:
    """Something that runs beside the test, and its answer."""

    def __init__(self, action):
        self._action = action
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self._answer = self._action()

    @property
    def runs(self):
        return self._thread.is_alive()

    def answer(self):
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self._answer


# --- A transaction that stays open -------------------------------------------------------------------------------


def test_a_publishers_open_transaction_holds_up_no_claim_settle_or_renewal(on_postgres):
    """Not of other keys, and not of what its own keys had before. That all of it ends while it is open is the proof."""
    transport, database = on_postgres
    consumer = transport.consumer("convert")
    published(transport, "a", "b", "a", "c")
    held = {one.body: one for one in consumer.receive(10, NOW)}
    with database.engine.connect() as connection, connection.begin():
        published(transport, "a", "b", "d", connection=connection)
        assert consumer.extend([Extension(delivery=one) for one in held.values()]) == [Settled(state="leased")] * 3
        complete(transport, held.values())
        again = consumer.receive(10, NOW)
        assert len(again) == 1
        published(transport, "e")
        complete(transport, [*again, *consumer.receive(10, NOW)])
        assert consumer.receive(10, NOW) == []
        assert transport.operator().stats()[0].completed == 5
    last = consumer.receive(10, SOON)
    assert len(last) == 3
    complete(transport, last)


def test_what_an_open_transaction_published_leaves_nothing_behind_when_its_keys_went_idle_meanwhile(on_postgres):
    transport, database = on_postgres
    consumer = transport.consumer("convert")
    with database.engine.connect() as connection:
        transaction = connection.begin()
        published(transport, "a", connection=connection)
        transaction.rollback()
    assert consumer.receive(10, NOW) == []
    with database.reading() as connection:
        assert connection.execute(sa.select(lane)).all() == []


def test_a_claim_that_leaves_nothing_out_finds_what_has_no_key_and_was_published_in_an_open_transaction(on_postgres):
    """It became visible behind what a claim beside it has taken since."""
    transport, database = on_postgres
    clock = itertools.count(1.0)  # seconds, at each look: the first walk, of a second, is the last whole one for long
    claims = PartitionedClaims(database, applied(database), random.random, lambda: next(clock))
    with database.engine.connect() as connection, connection.begin():
        late = published(transport, None, connection=connection)
        for _ in range(2):
            early = published(transport, None)
            assert [one.message_id for one in claims.claim(10).deliveries] == early
    assert [one.message_id for one in claims.claim_all(10).deliveries] == late


def applied(database):
    with database.reading() as connection:
        return TopologyReader().current(connection).subscriptions["convert"]


# --- A publisher, and who finds its lane without anything left --------------------------------------------------


@contextmanager
def publishing(transport, database, *keys):
    """A publish of Towpath's own, stopped right before its commit."""
    publisher, dialect = transport._publisher, database.dialect
    new = messages(*keys)
    with database.writing() as connection:
        dialect.share_topology(connection)
        checked = check(publisher._reader.last, "documents", new, ids_of(new, publisher._sources), publisher._sources)
        publisher._write(connection, checked, publisher._writer.deliveries.have_lanes)
        yield


def test_a_lane_that_is_drained_while_a_publisher_adds_to_it_is_looked_at_again(on_postgres):
    transport, database = on_postgres
    consumer = transport.consumer("convert")
    published(transport, "a")
    held = consumer.receive(10, NOW)
    with publishing(transport, database, "a", "a"):
        began = time.monotonic()
        complete(transport, held)
        assert consumer.receive(10, NOW) == []
        assert time.monotonic() - began < 15  # they did not wait for the publisher: that would be given up after 30 s
    assert len(consumer.receive(10, SOON)) == 1


def test_a_publisher_that_meets_a_lane_as_it_is_removed_makes_another(on_postgres):
    transport, database = on_postgres
    published(transport, "a")
    complete(transport, transport.consumer("convert").receive(10, NOW))
    published(transport, "a")
    with database.writing() as connection:  # as the one that tidies would: its deliveries are gone
        connection.execute(sa.delete(delivery))
        connection.execute(sa.delete(lane))
        publisher = InThread(lambda: published(transport, "a"))
        wait_until(database, WAITS)
    publisher.answer()
    assert len(transport.consumer("convert").receive(10, SOON)) == 1


ROUNDS = int(os.environ.get("TOWPATH_RACE_ROUNDS", "40"))  # 100,000 by hand: enough for races that are rare


@pytest.mark.timeout(300 + ROUNDS // 10)
def test_no_wake_up_is_lost_when_a_key_gets_and_loses_its_last_delivery_at_the_same_moment(transport):
    consumer = transport.consumer("convert")
    together = threading.Barrier(2, timeout=120)

    def publish():
        for _ in range(ROUNDS):
            together.wait()
            published(transport, "a")

    published(transport, "a")
    (held,) = consumer.receive(10, NOW)
    publisher = InThread(publish)
    for number in range(ROUNDS):
        together.wait()
        complete(transport, [held])
        found = consumer.receive(10, SOON)
        assert len(found) == 1, f"round {number}"
        (held,) = found
    complete(transport, [held])
    publisher.answer()
    assert consumer.receive(10, NOW) == []


# --- What a statement sees, and what has happened since ----------------------------------------------------------


def test_a_head_that_goes_after_a_claim_has_begun_is_not_handed_out(on_postgres):
    transport, database = on_postgres
    _, second = published(transport, "a", "a")
    with database.writing() as connection:
        connection.execute(sa.delete(delivery).where(delivery.c.message_ordinal == 1))
        claim = InThread(lambda: transport.consumer("convert").receive(10, NOW))
        wait_until(database, WAITS)
    assert [held.message_id for held in claim.answer()] == [second]


def test_a_head_that_is_put_off_after_a_claim_has_begun_is_not_handed_out(on_postgres):
    transport, database = on_postgres
    _, second = published(transport, "a", "a")
    later = sa.update(delivery).where(delivery.c.message_ordinal == 1)
    with database.writing() as connection:
        connection.execute(later.values(due_at=sa.text("clock_timestamp() + interval '1 hour'")))
        claim = InThread(lambda: transport.consumer("convert").receive(10, NOW))
        wait_until(database, WAITS)
    assert [held.message_id for held in claim.answer()] == ([] if transport.mode == "ordered" else [second])


def test_a_renewal_that_waits_while_its_key_goes_to_another_is_a_lost_lease(on_postgres):
    transport, database = on_postgres
    consumer = transport.consumer("convert")
    published(transport, "a", "a")
    (held,) = consumer.receive(10, NOW)
    with database.writing() as connection:
        connection.execute(sa.update(lane).values(held_ordinal=2))
        renewal = InThread(lambda: consumer.extend([Extension(delivery=held)]))
        wait_until(database, WAITS)
    assert renewal.answer() == [LeaseLost()]


# --- Publishers among themselves ---------------------------------------------------------------------------------


def test_publishers_of_one_ordered_key_wait_for_each_other_and_those_of_other_keys_do_not(postgres_url):
    with closing(Database(postgres_url)) as database:
        upgrade(database)
        with opened(postgres_url, "ordered") as transport:
            with database.engine.connect() as connection, connection.begin():
                (first,) = published(transport, "a", connection=connection)
                behind = InThread(lambda: published(transport, "a"))
                wait_until(database, f"{WAITS} AND wait_event = 'advisory'")
                (other,) = published(transport, "b")
                assert [held.message_id for held in transport.consumer("convert").receive(10, NOW)] == [other]
                assert behind.runs
            (second,) = behind.answer()
            consumer = transport.consumer("convert")
            for expected in (first, second):
                (held,) = consumer.receive(10, SOON)
                assert held.message_id == expected
                complete(transport, [held])


def test_deliveries_of_a_key_come_in_the_order_in_which_transactions_that_stay_open_for_a_while_commit(postgres_url):
    """A message that got its place first and is committed last would come before one committed earlier."""
    commits, lock = {}, threading.Lock()

    def publish(transport, database, number):
        draw = random.Random(number)
        for _ in range(5):
            key = draw.choice("abc")
            with database.engine.connect() as connection:
                transaction = connection.begin()
                (found,) = published(transport, key, connection=connection)
                time.sleep(draw.random() * 0.02)
                before = time.monotonic()
                transaction.commit()
                with lock:
                    commits[found] = (before, time.monotonic())

    with closing(Database(postgres_url)) as database:
        upgrade(database)
        with opened(postgres_url, "ordered") as transport:
            publishers = [InThread(lambda number=number: publish(transport, database, number)) for number in range(4)]
            for publisher in publishers:
                publisher.answer()
            came, consumer = defaultdict(list), transport.consumer("convert")
            while held := consumer.receive(100, NOW):
                for one in held:
                    came[json.loads(one.body)["payload"]].append(one.message_id)
                complete(transport, held)
    assert sum(map(len, came.values())) == len(commits) == 20
    for own in came.values():
        for number, found in enumerate(own):
            assert all(commits[found][0] <= commits[later][1] for later in own[number:])


def test_publishers_of_one_exclusive_key_do_not_wait_for_an_open_transaction(postgres_url):
    with closing(Database(postgres_url)) as database:
        upgrade(database)
        with (
            opened(postgres_url, "exclusive") as transport,
            database.engine.connect() as connection,
            connection.begin(),
        ):
            published(transport, "a", connection=connection)
            (other,) = published(transport, "a")
            assert [held.message_id for held in transport.consumer("convert").receive(10, NOW)] == [other]


def test_publishers_of_the_same_keys_in_any_order_never_deadlock(on_postgres):
    transport, database = on_postgres
    keys = [f"key-{number}" for number in range(25)]

    def publish(seed):
        shuffled = random.Random(seed)
        return [len(published(transport, *shuffled.sample(keys, 20))) for _ in range(10)]

    assert [publisher.answer() for publisher in [InThread(lambda seed=seed: publish(seed)) for seed in range(4)]]
    with database.reading() as connection:
        deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        assert connection.scalar(sa.text(deadlocks)) == 0
    consumer, seen = transport.consumer("convert"), 0
    while held := consumer.receive(100, NOW):
        complete(transport, held)
        seen += len(held)
    assert seen == 4 * 10 * 20
