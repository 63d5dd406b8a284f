"""Publishing to a database: one call is one transaction, aligned results, duplicates, conflicts, deduplication."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.applied import TopologyReader
from local_transport.connections import Database
from local_transport.dialects.columns import MESSAGE_ID, Moment
from local_transport.publishing import DatabasePublisher
from local_transport.tables import deduplication, delivery, message
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.envelope import Sources
from towpath.errors import TransportUnavailable
from towpath.settlement import Completion

ID_1, ID_2 = "01890000-0000-7000-8000-000000000001", "01890000-0000-7000-8000-000000000002"
NOW = timedelta(0)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def bodies(transport, subscription="convert"):
    return [delivery.body for delivery in transport.consumer(subscription).receive(100, NOW)]


def outcomes(results):
    return [result.error.code if result.error else result.status for result in results]


def published_at_once(url, *works):
    """The results of publishers that begin together, each on connections of its own with its own calls."""
    barrier = threading.Barrier(len(works))

    def publish(calls):
        with connect(url) as rival:
            barrier.wait()
            return [result for call in calls for result in rival.publish("documents", call)]

    with ThreadPoolExecutor(len(works)) as threads:
        return [result for results in threads.map(publish, works) for result in results]


def counts(url, *tables):
    database = Database(url)
    with database.reading() as connection:
        found = [connection.scalar(sa.select(sa.func.count()).select_from(table)) for table in tables]
    database.close()
    return found


def test_every_subscription_gets_the_message_as_it_was_published(transport):
    new = NewMessage(payload={"text": "Grüße \N{ROCKET} \\u0000"}, attributes={"kind": "pdf", "n": 1.5, "l": ["a"]})
    (result,) = transport.publish("documents", [new])
    (received,) = transport.consumer("convert").receive(10, NOW)
    assert (received.message_id, received.topic, received.attempt) == (result.id, "documents", 1)
    assert bodies(transport, "archive") == [received.body]
    assert '"payload":{"text":"Grüße \N{ROCKET} \\\\u0000"}' in received.body


def test_filters_choose_who_gets_a_message(transport):
    kinds = ["pdf", "docx", "png", None]
    transport.publish("documents", [NewMessage(payload=k, attributes={"kind": k} if k else {}) for k in kinds])
    assert len(bodies(transport, "convert")) == 4
    archived = str(bodies(transport, "archive"))
    assert [kind for kind in ("pdf", "docx", "png", "null") if f'"payload":"{kind}"' in archived] == ["pdf", "docx"]


def test_a_bad_message_rejects_only_itself_and_results_keep_their_places(transport, database_url):
    results = transport.publish(
        "documents",
        [
            NewMessage(payload=1),
            NewMessage(payload=float("nan")),
            NewMessage(payload=2, id="nonsense"),
            NewMessage(payload="x" * 300_000),
            NewMessage(payload=3, attributes={"towpath-x": "1"}),
            NewMessage(payload=4, deduplication_key="a\0b"),
            NewMessage(payload=5),
        ],
    )
    wrong = ["InvalidPayload", "InvalidMessageId", "PayloadTooLarge", "InvalidAttributes", "InvalidDeduplication"]
    assert outcomes(results) == ["accepted", *wrong, "accepted"]
    assert results[2].id is None
    assert [body.count('"payload":1') + body.count('"payload":5') for body in bodies(transport)] == [1, 1]
    assert counts(database_url, message) == [2]


def test_unknown_and_disabled_topics_take_nothing(transport, database_url):
    (unknown,) = transport.publish("nowhere", [NewMessage(payload=1)])
    (disabled,) = transport.publish("quiet", [NewMessage(payload=1)])
    assert (unknown.error.code, disabled.error.code) == ("TopicNotFound", "TopicDisabled")
    assert unknown.error.message == "there is no topic 'nowhere' on this database, it has documents, quiet"
    assert not unknown.error.retryable
    assert counts(database_url, message, delivery) == [0, 0]


def test_nothing_to_publish_is_nothing_to_do(transport):
    assert transport.publish("documents", []) == []


def test_messages_keep_their_order_in_the_ordinals(transport, database_url):
    transport.publish("documents", [NewMessage(payload=i) for i in range(2_500)])
    database = Database(database_url)
    with database.reading() as connection:
        stored = connection.execute(sa.select(message.c.body).order_by(message.c.ordinal)).scalars().all()
    database.close()
    assert [int(body.partition('"payload":')[2].partition(",")[0]) for body in stored] == list(range(2_500))


def test_a_call_of_many_large_messages_is_taken_whole(transport):
    large = "x" * 250_000
    assert set(outcomes(transport.publish("documents", [NewMessage(payload=large)] * 40))) == {"accepted"}
    assert len(bodies(transport)) == 40


# --- Ids ---------------------------------------------------------------------------------------------------------


def test_the_same_id_and_envelope_is_a_duplicate_whatever_the_order_of_keys(transport, database_url):
    first = NewMessage(id=ID_1, payload={"a": 1, "b": [2]}, attributes={"x": "1", "y": "2"})
    again = NewMessage(id=ID_1, payload={"b": [2], "a": 1}, attributes={"y": "2", "x": "1"})
    assert outcomes(transport.publish("documents", [first])) == ["accepted"]
    (result,) = transport.publish("documents", [again])
    assert (result.status, result.id) == ("duplicate", ID_1)
    assert counts(database_url, message, delivery) == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        NewMessage(id=ID_1, payload=2),
        NewMessage(id=ID_1, payload=True),  # Python takes it for 1, JSON does not
        NewMessage(id=ID_1, payload=1, attributes={"a": "b"}),
        NewMessage(id=ID_1, payload=1, correlation_id="other"),
        NewMessage(id=ID_1, payload=1, partition_key="key"),
    ],
)
def test_the_same_id_with_another_envelope_is_a_conflict(transport, other):
    transport.publish("documents", [NewMessage(id=ID_1, payload=1)])
    (result,) = transport.publish("documents", [other])
    assert (result.status, result.error.code) == ("rejected", "MessageIdConflict")
    assert len(bodies(transport)) == 1


def test_an_id_is_taken_for_every_topic(transport):
    transport.apply(on_database({"documents": {}, "other": {}}, {"convert": {"topic": "documents"}}))
    transport.publish("documents", [NewMessage(id=ID_1, payload=1)])
    assert outcomes(transport.publish("other", [NewMessage(id=ID_1, payload=1)])) == ["MessageIdConflict"]


def test_repeats_within_one_call_are_told_apart(transport):
    call = [
        NewMessage(id=ID_1, payload=1),
        NewMessage(id=ID_1, payload=1),
        NewMessage(id=ID_1, payload=2),
        NewMessage(id=ID_2, payload=3),
    ]
    assert outcomes(transport.publish("documents", call)) == ["accepted", "duplicate", "MessageIdConflict", "accepted"]
    assert len(bodies(transport)) == 2


def test_a_conflict_with_a_stored_message_does_not_hide_a_repeat_of_it(transport):
    transport.publish("documents", [NewMessage(id=ID_1, payload=1)])
    call = [NewMessage(id=ID_1, payload=2), NewMessage(id=ID_1, payload=1), NewMessage(payload=3)]
    assert outcomes(transport.publish("documents", call)) == ["MessageIdConflict", "duplicate", "accepted"]


def test_of_rival_publishers_of_one_id_exactly_one_is_accepted(database_url, transport):
    ids = [f"01890000-0000-7000-8000-{n:012d}" for n in range(60)]
    calls = [[NewMessage(id=i, payload=i)] for i in ids]
    results = published_at_once(database_url, calls, calls[::-1], calls, calls[::-1])
    assert sorted(r.id for r in results if r.status == "accepted") == ids
    assert {r.status for r in results} == {"accepted", "duplicate"}
    assert len(bodies(transport)) == 60


def test_rival_batches_with_the_same_ids_in_opposite_order_both_end(database_url, transport):
    batch = [NewMessage(id=f"01890000-0000-7000-8000-{n:012d}", payload=n) for n in range(300)]
    statuses = [r.status for r in published_at_once(database_url, [batch[::-1]], [batch], [batch[::-1]])]
    assert (statuses.count("accepted"), statuses.count("duplicate")) == (300, 600)


# --- Deduplication keys ------------------------------------------------------------------------------------------


def keyed(payload, key="batch-1", **more):
    return NewMessage(payload=payload, deduplication_key=key, **more)


def test_a_repeated_deduplication_key_is_a_duplicate_of_the_message_that_won(transport, database_url):
    (first,) = transport.publish("documents", [keyed(1)])
    (again,) = transport.publish("documents", [keyed(2)])
    assert (again.status, again.id) == ("duplicate", first.id)
    assert counts(database_url, message, delivery, deduplication) == [1, 1, 1]


def test_a_key_repeated_within_one_call_lets_the_first_win(transport):
    results = transport.publish("documents", [keyed(1), keyed(2), keyed(3, key="batch-2")])
    assert outcomes(results) == ["accepted", "duplicate", "accepted"]
    assert results[1].id == results[0].id


def test_a_key_counts_for_its_topic_alone(transport):
    transport.apply(on_database({"documents": {}, "other": {}}, {"convert": {"topic": "documents"}}))
    transport.publish("documents", [keyed(1)])
    assert outcomes(transport.publish("other", [keyed(1)])) == ["accepted"]


def test_a_key_counts_until_its_window_ends(transport, database_url):
    minute = timedelta(seconds=60)
    (first,) = transport.publish("documents", [keyed(1, deduplication_ttl=minute)])
    advance(database_url, 61)
    (later,) = transport.publish("documents", [keyed(2, deduplication_ttl=minute)])
    assert later.status == "accepted"
    (again,) = transport.publish("documents", [keyed(3)])
    assert again.id == later.id != first.id


def test_a_suppressed_repeat_renews_the_window(transport, database_url):
    minute = timedelta(seconds=60)
    for _ in range(4):
        results = transport.publish("documents", [keyed(1, deduplication_ttl=minute)])
        advance(database_url, 40)
    assert outcomes(results) == ["duplicate"]


def test_a_repeat_with_a_shorter_ttl_does_not_shorten_the_window(transport, database_url):
    transport.publish("documents", [keyed(1, deduplication_ttl=timedelta(hours=1))])
    transport.publish("documents", [keyed(1, deduplication_ttl=timedelta(minutes=1))])
    advance(database_url, 120)
    assert outcomes(transport.publish("documents", [keyed(1)])) == ["duplicate"]


def test_the_topic_says_how_long_a_key_counts_by_default(transport, database_url):
    topics = {"documents": {"deduplication_ttl_seconds": 60}}
    transport.apply(on_database(topics, {"convert": {"topic": "documents"}}))
    transport.publish("documents", [keyed(1)])
    advance(database_url, 61)
    assert outcomes(transport.publish("documents", [keyed(1)])) == ["accepted"]


def test_a_message_that_conflicts_reserves_no_key(transport):
    transport.publish("documents", [NewMessage(id=ID_1, payload=1)])
    assert outcomes(transport.publish("documents", [keyed(2, id=ID_1), keyed(3)])) == ["MessageIdConflict", "accepted"]


def test_publishing_the_same_message_again_with_its_key_is_a_duplicate_of_itself(transport):
    transport.publish("documents", [keyed(1, id=ID_1)])
    (again,) = transport.publish("documents", [keyed(1, id=ID_1)])
    assert (again.status, again.id) == ("duplicate", ID_1)


def test_of_rival_publishers_of_one_key_exactly_one_is_accepted(database_url, transport):
    calls = [[keyed(n, key=f"key-{n}") for n in range(first, first + 10)] for first in range(0, 40, 10)]
    backwards = [call[::-1] for call in calls[::-1]]
    results = published_at_once(database_url, calls, backwards, calls, backwards)
    winners = {r.id for r in results if r.status == "accepted"}
    assert len(winners) == len(bodies(transport)) == 40
    assert {r.id for r in results if r.status == "duplicate"} == winners
    assert {r.status for r in results} == {"accepted", "duplicate"}


# --- Delay -------------------------------------------------------------------------------------------------------


def test_a_delayed_message_is_due_at_its_time(transport, database_url):
    later = datetime.now(UTC) + timedelta(seconds=100)
    past = datetime.now(UTC) - timedelta(seconds=100)
    transport.publish("documents", [NewMessage(payload="later", deliver_after=later)])
    transport.publish("documents", [NewMessage(payload="now", deliver_after=past)])
    (first,) = transport.consumer("convert").receive(10, NOW)
    assert '"payload":"now"' in first.body
    transport.consumer("convert").complete([Completion(delivery=first)])
    advance(database_url, 90)
    assert bodies(transport) == []
    advance(database_url, 11)
    assert len(bodies(transport)) == 1


# --- Another topology in the middle ------------------------------------------------------------------------------


def test_a_publisher_follows_what_is_applied_elsewhere_at_once(transport, database_url):
    other = connect(database_url)
    other.publish("documents", [NewMessage(payload=1)])
    topics = {"documents": {"max_payload_bytes": 1024}, "fresh": {}}
    transport.apply(on_database(topics, {"convert": {"topic": "documents"}, "new": {"topic": "documents"}}))
    assert outcomes(other.publish("documents", [NewMessage(payload="x" * 2000)])) == ["PayloadTooLarge"]
    assert outcomes(other.publish("documents", [NewMessage(payload=2)])) == ["accepted"]
    assert outcomes(other.publish("fresh", [NewMessage(payload=3)])) == ["accepted"]
    other.close()
    assert len(bodies(transport, "new")) == 1


def test_a_disabled_subscription_gets_nothing_and_a_paused_one_does(transport):
    subscriptions = {
        "convert": {"topic": "documents", "status": "disabled"},
        "archive": {"topic": "documents", "status": "paused"},
    }
    transport.apply(on_database({"documents": {}}, subscriptions))
    transport.publish("documents", [NewMessage(payload=1)])
    assert {row.subscription: row.pending for row in transport.operator().stats()} == {"convert": 0, "archive": 1}


def test_partitioned_subscriptions_are_published_to_with_a_lane_for_each_key(transport, database_url):
    modes = {"one": {"topic": "documents", "partition_mode": "exclusive"}, "two": {"topic": "documents"}}
    transport.apply(on_database({"documents": {}}, modes))
    transport.publish("documents", [NewMessage(payload=i, partition_key=key) for i, key in enumerate("aab")])
    transport.publish("documents", [NewMessage(payload=3)])
    database = Database(database_url)
    with database.reading() as connection:
        lanes = connection.execute(
            sa.select(delivery.c.subscription_id, delivery.c.lane).order_by(delivery.c.message_ordinal)
        )
        found = {}
        for subscription_id, lane in lanes:
            found.setdefault(subscription_id, []).append(lane)
    database.close()
    plain, laned = sorted(found.values(), key=lambda lanes: lanes[0] is not None)
    assert plain == [None] * 4
    assert laned[0] == laned[1] != laned[2]
    assert laned[3] is None


class LosesTheAnswer(Database):
    """A database whose connection is lost right after each commit."""

    @contextmanager
    def writing(self):
        with super().writing() as connection:
            yield connection
        raise TransportUnavailable("the connection was lost")


def test_what_was_published_although_the_answer_was_lost_is_a_duplicate_with_the_ids_of_the_results(
    transport, database_url
):
    losing, sources = LosesTheAnswer(database_url), Sources(clock=lambda: datetime.now(UTC), random_bytes=os.urandom)
    publisher = DatabasePublisher(losing, TopologyReader(), sources, lambda: None)
    messages = [NewMessage(payload=1), NewMessage(payload=2, id=ID_1)]
    for topics in ({}, {"more": {}}):  # the first call of a process, and the first after an apply
        transport.apply(on_database({"documents": {}, **topics}, {"convert": {"topic": "documents"}}))
        results = publisher.publish("documents", messages)
        assert outcomes(results) == ["TransportUnavailable"] * 2
        again = [NewMessage(payload=1, id=results[0].id), messages[1]]
        assert outcomes(transport.publish("documents", again)) == ["duplicate"] * 2
    assert counts(database_url, message) == [3]
    losing.close()


ODD = 'a"\\{},NULL\n\x01é\N{ROCKET}'
BATCH = {"number": sa.BigInteger(), "text": sa.Text(), "id": MESSAGE_ID, "time": Moment(), "flag": sa.Boolean()}
ROWS = [(2**62, ODD, ID_1, NOON, True), (None, None, None, None, None), (-1, "", ID_2, NOON.replace(year=1), False)]


@pytest.mark.parametrize("rows", [ROWS, ROWS[1:2], []])
def test_rows_of_a_batch_come_to_the_server_as_they_are_whoever_made_the_connection(postgres_url, rows):
    with closing(Database(postgres_url)) as database:
        batch = database.dialect.batch("rows", BATCH)
        read = database.dialect.statement(sa.select(batch.rows))
        callers = sa.create_engine(database.engine.url)
        for engine in (database.engine, callers):
            with engine.begin() as connection:
                assert [tuple(row) for row in read.run(connection, batch.bind(rows))] == rows
        callers.dispose()
