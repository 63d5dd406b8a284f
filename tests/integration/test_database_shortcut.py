"""The short way to publish: when it is gone, that its answers are those of the long way, and that no apply slips by."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.applied import desired
from local_transport.applying import _apply
from local_transport.connections import Database
from local_transport.publishing import DatabasePublisher
from local_transport.schema import upgrade
from local_transport.tables import delivery, message, subscription
from tests.servers.plans import HOW, assert_none_reads_all_of, planned
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.envelope import Sources

ID_1, ID_2, ID_3 = (f"01890000-0000-7000-8000-00000000000{n}" for n in (1, 2, 3))
LATER = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=12)
TOPICS = {"documents": {}, "letters": {}, "unread": {}}
SUBSCRIPTIONS = {
    "convert": {"topic": "documents"},
    "archive": {"topic": "documents", "filter": {"kind": ["pdf"]}},
    "line": {"topic": "letters", "partition_mode": "ordered"},
    "single": {"topic": "letters", "partition_mode": "exclusive"},
}


@contextmanager
def knowing(url):
    """A transport that knows what is applied, as one that has published before does."""
    with connect(url) as opened:
        opened.apply(on_database(TOPICS, SUBSCRIPTIONS))
        opened.policies()
        yield opened


@pytest.fixture
def transport(database_url):
    with knowing(database_url) as opened:
        yield opened


@pytest.fixture
def on_postgres(postgres_tables_url):
    with knowing(postgres_tables_url) as opened:
        yield opened


@pytest.fixture
def steps(transport):
    """What SQLAlchemy is asked to run: the statements of the long way, and not those of the short way."""
    return noted(transport)


def noted(transport):
    found = []

    @sa.event.listens_for(transport._database.engine, "before_cursor_execute")
    def note(connection, cursor, statement, parameters, context, executemany):
        if "INSERT INTO towpath_message" in statement:
            found.append(statement)

    return found


def outcomes(results):
    return [result.error.code if result.error else result.status for result in results]


def deliveries(transport):
    """Names of subscriptions with what their deliveries have, in the order of publishing."""
    columns = (subscription.c.name, message.c.id, delivery.c.lane, delivery.c.due_at, delivery.c.expires_at)
    joined = delivery.join(message, message.c.ordinal == delivery.c.message_ordinal)
    joined = joined.join(subscription, subscription.c.id == delivery.c.subscription_id)
    wanted = sa.select(*columns).select_from(joined).order_by(message.c.ordinal, subscription.c.name)
    with transport._database.reading() as connection:
        return connection.execute(wanted).all()


def reached(transport):
    return [(row.name, row.id) for row in deliveries(transport)]


def test_messages_that_go_the_same_way_go_the_short_one(transport, steps):
    new = [NewMessage(payload=n, id=i, attributes={"kind": "pdf"}) for n, i in enumerate((ID_2, ID_1, ID_3))]
    results = transport.publish("documents", new)
    assert steps == []
    assert [(result.id, result.status, result.subscriptions) for result in results] == [
        (ID_2, "accepted", 2),
        (ID_1, "accepted", 2),
        (ID_3, "accepted", 2),
    ]
    assert reached(transport) == [(name, i) for i in (ID_2, ID_1, ID_3) for name in ("archive", "convert")]


def test_times_are_kept_where_all_messages_have_the_same(transport, steps):
    began = datetime.now(UTC)
    transport.publish(
        "documents", [NewMessage(payload=1, deliver_after=LATER, expires_at=LATER + timedelta(hours=1))] * 2
    )
    transport.publish("documents", [NewMessage(payload=1, deliver_after=began - timedelta(days=1))])
    assert steps == []
    *delayed, past = deliveries(transport)
    assert [(row.due_at, row.expires_at) for row in delayed] == [(LATER, LATER + timedelta(hours=1))] * 2
    assert began - timedelta(minutes=1) < past.due_at < datetime.now(UTC) + timedelta(minutes=1)  # not in the past
    assert past.expires_at is None


def test_unkeyed_messages_of_partitioned_subscriptions_go_the_short_way(transport, steps):
    transport.publish("letters", [NewMessage(payload=1)])
    assert steps == []
    assert [(row.name, row.lane) for row in deliveries(transport)] == [("line", None), ("single", None)]


LONG_WAYS = {
    "keys in a partitioned subscription": ("letters", [{"partition_key": "k"}, {}], 2),
    "a deduplication key": ("documents", [{"deduplication_key": "k"}, {}], 1),
    "times of their own": ("documents", [{"deliver_after": LATER}, {}], 1),
    "one that expires": ("documents", [{}, {"expires_at": LATER}], 1),
    "no subscription": ("unread", [{}, {}], 0),
}


@pytest.mark.parametrize(("topic", "fields", "count"), LONG_WAYS.values(), ids=LONG_WAYS)
def test_what_needs_more_goes_the_long_way(transport, steps, topic, fields, count):
    results = transport.publish(topic, [NewMessage(payload=1, **given) for given in fields])
    assert steps
    assert [(result.status, result.subscriptions) for result in results] == [("accepted", count)] * 2
    assert len(deliveries(transport)) == 2 * count


def test_messages_that_a_filter_tells_apart_go_the_long_way(transport, steps):
    kinds = ["pdf", "txt", "pdf"]
    results = transport.publish("documents", [NewMessage(payload=1, attributes={"kind": kind}) for kind in kinds])
    assert steps
    assert [result.subscriptions for result in results] == [2, 1, 2]
    assert sorted(name for name, _ in reached(transport)) == ["archive"] * 2 + ["convert"] * 3


def test_an_id_given_twice_goes_the_long_way(transport, steps):
    results = transport.publish("documents", [NewMessage(payload=1, id=ID_1), NewMessage(payload=2, id=ID_1)])
    assert steps
    assert outcomes(results) == ["accepted", "MessageIdConflict"]


def test_more_than_one_statement_holds_goes_the_long_way_and_becomes_visible_together(transport, steps):
    results = transport.publish("documents", [NewMessage(payload=n) for n in range(1_001)])
    assert steps
    assert {result.status for result in results} == {"accepted"}
    assert [row.id for row in deliveries(transport)] == [result.id for result in results]


def test_ids_that_are_taken_are_answered_at_their_places(transport):
    old = NewMessage(payload=1, id=ID_1)
    assert outcomes(transport.publish("documents", [old])) == ["accepted"]
    other = NewMessage(payload="other", id=ID_1)
    assert outcomes(transport.publish("documents", [old])) == ["duplicate"]
    assert outcomes(transport.publish("documents", [other])) == ["MessageIdConflict"]
    call = [NewMessage(payload=2, id="no id"), old, NewMessage(payload=3, id=ID_2), NewMessage(payload=4)]
    results = transport.publish("documents", call)
    assert outcomes(results) == ["InvalidMessageId", "duplicate", "accepted", "accepted"]
    assert [result.id for result in results[:3]] == [None, ID_1, ID_2]
    assert reached(transport) == [("convert", ID_1), ("convert", ID_2), ("convert", results[3].id)]


def test_an_id_that_was_drawn_before_is_told_of(transport, database_url):
    sources = Sources(clock=lambda: LATER, random_bytes=bytes)
    with closing(Database(database_url)) as database:
        publisher = DatabasePublisher(database, transport._reader, sources, transport._wakeups)
        answers = [publisher.publish("documents", [NewMessage(payload=payload)]) for payload in (1, 1, 2)]
    assert [outcome for answer in answers for outcome in outcomes(answer)] == [
        "accepted",
        "duplicate",
        "MessageIdConflict",
    ]
    assert len(deliveries(transport)) == 1


def test_two_calls_with_the_same_ids_at_once_give_one_message_each(transport, database_url):
    ids = [ID_1, ID_2, ID_3]
    with connect(database_url) as rival:
        rival.policies()
        barrier = threading.Barrier(2)

        def publish(whose, order):
            barrier.wait()
            return whose.publish("documents", [NewMessage(payload=1, id=i) for i in order])

        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(publish, transport, ids), pool.submit(publish, rival, ids[::-1])]
            results = [result for call in calls for result in call.result()]
    assert sorted(result.status for result in results) == ["accepted"] * 3 + ["duplicate"] * 3
    assert sorted(reached(transport)) == [("convert", i) for i in ids]


def test_a_publish_by_an_outdated_topology_goes_by_the_new_one(transport, database_url):
    with connect(database_url) as other:
        wanted = {"convert": {"topic": "documents", "filter": {"kind": ["txt"]}}, "new": {"topic": "documents"}}
        other.apply(on_database({"documents": {}}, wanted))
    (result,) = transport.publish("documents", [NewMessage(payload=1)])
    assert (result.status, result.subscriptions) == ("accepted", 1)
    assert reached(transport) == [("new", result.id)]
    assert outcomes(transport.publish("letters", [NewMessage(payload=1)])) == ["TopicNotFound"]


def test_a_publish_that_waits_for_an_apply_goes_by_what_that_applied(on_postgres, postgres_tables_url):
    with closing(Database(postgres_tables_url)) as database, ThreadPoolExecutor(1) as pool:
        with database.writing() as connection:
            database.dialect.own_topology(connection)
            call = pool.submit(on_postgres.publish, "documents", [NewMessage(payload=1)])
            _until_somebody_waits(database)
            _apply(database, connection, desired(on_database({"documents": {}}, {"new": {"topic": "documents"}})))
        (result,) = call.result()
    assert (result.status, result.subscriptions) == ("accepted", 1)
    assert reached(on_postgres) == [("new", result.id)]


def _until_somebody_waits(database):
    waiting = sa.text(
        """SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
           WHERE NOT granted AND datname = current_database()"""
    )
    deadline = time.monotonic() + 60
    while True:
        with database.reading() as connection:
            if connection.scalar(waiting):
                return
        assert time.monotonic() < deadline, "nobody waits"
        time.sleep(0.01)


@pytest.mark.parametrize("prepare", ["", "?prepare_threshold=0", "?prepare_threshold=none"])
def test_a_statement_that_is_ended_while_it_waits_is_told_of_and_the_next_one_works(postgres_tables_url, prepare):
    """Each time with one execution more before it: whichever of them it is that prepares the statements."""
    with connect(f"{postgres_tables_url}{prepare}") as transport, closing(Database(postgres_tables_url)) as database:
        transport.apply(on_database(TOPICS, SUBSCRIPTIONS))
        transport.policies()
        new = [NewMessage(payload=1, attributes={"kind": "pdf"})]
        for before in range(8):
            for _ in range(before):
                assert outcomes(transport.publish("documents", new)) == ["accepted"]
            assert outcomes(_cancelled(transport, database, new)) == ["TransportUnavailable"]
        assert outcomes(transport.publish("documents", new)) == ["accepted"]


def _cancelled(transport, database, new):
    """The results of a publish that waits for a table, until somebody cancels its statement."""
    cancel = sa.text(
        """SELECT pg_cancel_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
           WHERE NOT granted AND datname = current_database()"""
    )
    with database.writing() as connection, ThreadPoolExecutor(1) as pool:
        connection.execute(sa.text("LOCK TABLE towpath_message IN ACCESS EXCLUSIVE MODE"))
        call = pool.submit(transport.publish, "documents", new)
        _until_somebody_waits(database)
        connection.execute(cancel)
        return call.result()


REFUSAL = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON towpath_delivery DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION refuse();
"""


def test_a_publish_that_is_refused_at_its_commit_is_not_called_accepted(on_postgres):
    steps = noted(on_postgres)
    with on_postgres._database.writing() as connection:
        connection.execute(sa.text(REFUSAL))
    for _ in range(8):  # also once the statements are prepared
        assert outcomes(on_postgres.publish("documents", [NewMessage(payload=1)])) == ["TransportUnavailable"]
    assert steps == []
    assert deliveries(on_postgres) == []


ROUNDS, PUBLISHERS = 60, 3


def test_no_publish_slips_by_an_apply(postgres_tables_url):
    """Publishers go on while a subscription comes and goes; each message has just the deliveries of its time.

    Its time is told by its ordinal, which is drawn while nobody can apply: an apply notes the last one before it.
    """
    keep, late = {"topic": "documents"}, {"topic": "documents"}
    with_late = desired(on_database({"documents": {}}, {"keep": keep, "late": late}))
    without = desired(on_database({"documents": {}}, {"keep": keep}))
    stop, counts = threading.Event(), [0] * PUBLISHERS

    def publish(number):
        with connect(postgres_tables_url) as transport:
            while not stop.is_set():
                new = [NewMessage(payload=n) for n in range(1 + number)]
                assert {result.status for result in transport.publish("documents", new)} == {"accepted"}
                counts[number] += 1

    with closing(Database(postgres_tables_url)) as database, ThreadPoolExecutor(PUBLISHERS) as pool:
        applied = Applying(database)
        applied(without)
        publishers = [pool.submit(publish, number) for number in range(PUBLISHERS)]
        try:
            _until_all_published(counts, publishers)
            for number in range(ROUNDS):
                applied(without if number % 2 else with_late)
                _until_all_published(counts, publishers)
        finally:
            stop.set()
        for publisher in publishers:
            publisher.result()
        messages, kept, lated = applied.found()
    spans = zip(applied.boundaries[1::2], applied.boundaries[2::2], strict=True)
    wanted = {ordinal for first, last in spans for ordinal in messages if first < ordinal <= last}
    assert kept == messages
    assert lated == wanted
    assert wanted
    assert wanted < messages


class Applying:
    """Applies; ``boundaries`` are the last ordinals before each. What ``late`` got is taken away, so that it can go."""

    def __init__(self, database):
        self._database = database
        self._taken = set()
        self.boundaries = []

    def __call__(self, wanted):
        last = sa.text("SELECT last_value FROM towpath_message_ordinal_seq")
        late = sa.select(subscription.c.id).where(subscription.c.name == "late").scalar_subquery()
        taken = sa.delete(delivery).where(delivery.c.subscription_id == late).returning(delivery.c.message_ordinal)
        with self._database.writing() as connection:
            self._database.dialect.own_topology(connection)
            self._taken |= set(connection.scalars(taken))
            self.boundaries.append(connection.scalar(last))
            _apply(self._database, connection, wanted)

    def found(self):
        """Ordinals of all messages, of those that ``keep`` got, and of those that ``late`` got."""
        of = sa.select(delivery.c.message_ordinal, subscription.c.name).join(
            subscription, subscription.c.id == delivery.c.subscription_id
        )
        with self._database.reading() as connection:
            rows = connection.execute(of).all()
            messages = set(connection.scalars(sa.select(message.c.ordinal)))
        by_name = {name: {row.message_ordinal for row in rows if row.name == name} for name in ("keep", "late")}
        return messages, by_name["keep"], by_name["late"] | self._taken


def _until_all_published(counts, publishers):
    before, deadline = list(counts), time.monotonic() + 60
    while not all(now > then for now, then in zip(counts, before, strict=True)):
        for publisher in publishers:
            if publisher.done():
                publisher.result()
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("how", HOW)
def test_the_statement_reads_no_table_and_joins_nothing_whichever_way_it_is_planned(postgres_tables_url, how):
    with planned(postgres_tables_url, how) as (transport, plans):
        transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
        transport.publish("documents", [NewMessage(payload=1)])  # the long way: it reads what is applied
        plans.clear()
        results = transport.publish("documents", [NewMessage(payload=n) for n in range(1_000)])
        assert {result.status for result in results} == {"accepted"}
        (plan,) = [plan for plan in plans if "CTE changed" in plan]
    assert_none_reads_all_of([plan], "delivery", "message")
    assert "Join" not in plan
    assert "One-Time Filter" in plan  # the revision is compared once, and what is left is not looked for


def test_the_short_way_is_closed_where_statements_may_not_see_what_was_just_committed(postgres_tables_url):
    with closing(Database(postgres_tables_url)) as database, database.writing() as connection:
        name = connection.scalar(sa.text("SELECT current_database()"))
        connection.execute(sa.text(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'"))
    with connect(postgres_tables_url) as transport:
        transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
        for _ in range(2):
            (result,) = transport.publish("documents", [NewMessage(payload=1)])
            assert (result.status, result.subscriptions) == ("accepted", 1)
        assert len(deliveries(transport)) == 2


def test_the_short_way_goes_through_a_pooler_in_transaction_mode(postgres_url, pooled_url):
    with closing(Database(postgres_url)) as database:
        upgrade(database)
    with knowing(f"{pooled_url}?prepare_threshold=none") as transport, ThreadPoolExecutor(4) as pool:
        steps = noted(transport)
        new = [NewMessage(payload=1, attributes={"kind": "pdf"})] * 3
        calls = [pool.submit(transport.publish, "documents", new) for _ in range(40)]
        assert {outcome for call in calls for outcome in outcomes(call.result())} == {"accepted"}
        assert steps == []
        assert len(deliveries(transport)) == 240
