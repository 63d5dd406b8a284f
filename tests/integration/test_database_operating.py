"""Stats, dead letters and the sweep of a database."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import tally
from tests.servers.clock import advance
from towpath import NewMessage
from towpath.errors import SubscriptionNotFound
from towpath.ports import Sweeper
from towpath.settlement import Completion, DeadLettering, Discard
from towpath.transports import TopologyStore

NOW = timedelta(0)


def published(transport, count):
    transport.publish("documents", [NewMessage(payload=i, attributes={"kind": "pdf"}) for i in range(count)])


def test_the_transport_is_a_topology_store_and_a_sweeper(transport):
    assert isinstance(transport, TopologyStore)
    assert isinstance(transport, Sweeper)


def test_stats_count_every_state_of_every_subscription(transport, database_url):
    published(transport, 6)
    consumer = transport.consumer("convert")
    first, second, third, *_ = consumer.receive(4, NOW)
    consumer.complete([Completion(delivery=first)])
    consumer.discard([Discard(delivery=second, reason="Expired")])
    consumer.dead_letter([DeadLettering(delivery=third, reason="bad")])
    advance(database_url, 30)
    archive, convert = transport.operator().stats()
    assert (archive.subscription, archive.topic, archive.pending, archive.leased) == ("archive", "documents", 6, 0)
    assert (convert.pending, convert.leased, convert.dead, convert.completed, convert.discarded) == (2, 1, 1, 1, 1)
    assert timedelta(seconds=30) <= convert.oldest_pending < timedelta(seconds=60)


def test_a_subscription_without_deliveries_counts_nothing(transport):
    archive, _ = transport.operator().stats()
    assert (archive.pending, archive.leased, archive.dead, archive.completed, archive.discarded) == (0, 0, 0, 0, 0)
    assert archive.oldest_pending is None


def test_a_lease_whose_time_is_over_is_not_counted_as_held(transport, database_url):
    published(transport, 2)
    transport.consumer("convert").receive(2, NOW)
    advance(database_url, 61)
    convert = transport.operator().stats()[1]
    assert (convert.pending, convert.leased) == (2, 0)


def test_dead_letters_of_an_unknown_subscription_are_an_error(transport):
    with pytest.raises(SubscriptionNotFound, match="'nobody'"):
        transport.operator().dead_letters("nobody", 10)


def test_a_sweep_makes_last_attempts_dead_in_batches_without_anybody_claiming(transport, database_url):
    published(transport, 1_200)
    for _ in range(3):
        assert sum(len(transport.consumer("convert").receive(1_000, NOW)) for _ in range(2)) == 1_200
        advance(database_url, 100)
    assert transport.sweep() == 1_200
    assert transport.sweep() == 0
    convert = transport.operator().stats()[1]
    assert (convert.dead, convert.pending, convert.leased) == (1_200, 0, 0)
    letters = transport.operator().dead_letters("convert", 5)
    assert {(letter.reason, letter.attempts) for letter in letters} == {("MaxAttemptsExceeded", 3)}


def test_a_sweep_leaves_earlier_attempts_and_running_leases_alone(transport, database_url):
    published(transport, 1)
    transport.consumer("convert").receive(1, NOW)
    advance(database_url, 10_000)
    assert transport.sweep() == 0
    for _ in range(2):
        transport.consumer("convert").receive(1, NOW)
        advance(database_url, 59)
    assert transport.sweep() == 0


def test_a_sweep_folds_counts_together_and_keeps_the_sums(transport, database_url):
    published(transport, 80)
    consumer = transport.consumer("convert")
    for delivery in consumer.receive(80, NOW)[:60]:
        consumer.complete([Completion(delivery=delivery)])
    database = Database(database_url)
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tally)) == 60
    transport.sweep()
    with database.reading() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(tally)) == 1
    database.close()
    assert transport.operator().stats()[1].completed == 60


def test_only_one_sweeps_at_a_time(transport, database_url):
    database = Database(database_url)
    with database.writing() as connection:
        if not database.dialect.looks_before_it_locks:  # where a writing transaction locks out all others, it waits
            assert database.dialect.try_to_sweep(connection)
            assert transport.sweep() == 0
    database.close()
