"""Claiming: leases, attempts, expiry with back-off, pausing, waiting."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import subscription
from tests.servers.clock import advance
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.errors import SubscriptionNotFound
from towpath.settlement import Completion, Failure, Release, Retrial

NOW = timedelta(0)


def published(transport, count=1):
    return [r.id for r in transport.publish("documents", [NewMessage(payload=i) for i in range(count)])]


def received(transport, limit=100):
    return transport.consumer("convert").receive(limit, NOW)


def test_a_claim_leases_what_is_due_in_the_order_of_publishing(transport):
    ids = published(transport, 5)
    first, rest = received(transport, 2), received(transport)
    assert [d.message_id for d in first + rest] == ids
    assert {(d.subscription, d.attempt, d.is_replay, d.checkpoint) for d in first + rest} == {
        ("convert", 1, False, None)
    }
    assert received(transport) == []


def test_a_delivery_says_when_it_was_received_by_the_databases_clock(transport):
    published(transport)
    (delivery,) = received(transport)
    assert abs(delivery.received_at - datetime.now(UTC)) < timedelta(seconds=5)


def test_subscriptions_have_deliveries_of_their_own(transport):
    transport.publish("documents", [NewMessage(payload=1, attributes={"kind": "pdf"})])
    (mine,) = received(transport)
    (theirs,) = transport.consumer("archive").receive(10, NOW)
    assert mine.id != theirs.id
    assert mine.message_id == theirs.message_id
    transport.consumer("convert").complete([Completion(delivery=mine)])
    assert transport.operator().stats()[0].leased == 1


def test_a_lease_that_ended_comes_again_after_its_back_off_and_counts(transport, database_url):
    published(transport)
    received(transport)
    advance(database_url, 59)
    assert received(transport) == []
    advance(database_url, 2)  # the lease of 60 s is over; the back-off is 5 to 10 s
    assert received(transport) == []
    advance(database_url, 10)
    (again,) = received(transport)
    assert again.attempt == 2


def test_the_back_off_of_ended_leases_grows_with_the_attempt(transport, database_url):
    published(transport)
    received(transport)
    advance(database_url, 71)
    (second,) = received(transport)
    advance(database_url, 69)  # now 10 to 20 s
    assert received(transport) == []
    advance(database_url, 12)
    (third,) = received(transport)
    assert (second.attempt, third.attempt) == (2, 3)


def test_a_claim_never_hands_out_used_up_attempts_but_makes_them_dead(transport, database_url):
    (message_id,) = published(transport)
    for _ in range(3):
        assert len(received(transport)) == 1
        advance(database_url, 100)
    assert received(transport) == []
    (letter,) = transport.operator().dead_letters("convert", 10)
    assert (letter.message_id, letter.reason, letter.attempts) == (message_id, "MaxAttemptsExceeded", 3)
    assert letter.error.startswith("LeaseExpired: the lease of the last attempt ended without an answer")


def test_the_end_of_the_last_lease_is_not_put_off_by_a_back_off(transport, database_url):
    published(transport)
    for _ in range(3):
        received(transport)
        advance(database_url, 100)
    published(transport)
    assert len(received(transport)) == 1  # beside what it made dead
    assert len(transport.operator().dead_letters("convert", 10)) == 1


def test_deliveries_behind_dead_ones_are_found_in_the_same_receive(transport, database_url):
    published(transport, 5)
    for _ in range(3):
        received(transport)
        advance(database_url, 100)
    published(transport)
    assert len(received(transport, 2)) == 1
    assert transport.operator().stats()[1].dead == 5


def test_fewer_attempts_in_a_new_topology_end_what_has_more(transport, database_url):
    published(transport)
    consumer = transport.consumer("convert")
    for _ in range(2):
        (delivery,) = consumer.receive(10, NOW)
        failure = Failure(type="OSError", message="disk", traceback="Traceback ...")
        consumer.retry([Retrial(delivery=delivery, delay=NOW, failure=failure)])
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "max_attempts": 2}}))
    assert consumer.receive(10, NOW) == []
    (letter,) = transport.operator().dead_letters("convert", 10)
    assert (letter.reason, letter.attempts) == ("MaxAttemptsExceeded", 2)
    assert letter.error == "OSError: disk\nTraceback ..."  # what that attempt itself left behind


def test_a_consumer_follows_a_new_policy(transport, database_url):
    published(transport)
    consumer = transport.consumer("convert")
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "lease_seconds": 5}}))
    (delivery,) = consumer.receive(10, NOW)
    advance(database_url, 5 + 10)
    (again,) = consumer.receive(10, NOW)
    assert (again.id, again.attempt) == (delivery.id, 2)


def test_a_consumer_says_by_which_policy_it_claims(transport):
    published(transport)
    consumer = transport.consumer("convert")
    assert (consumer.policy.lease_seconds, consumer.policy.max_attempts) == (60, 3)
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "lease_seconds": 5}}))
    assert consumer.policy.lease_seconds == 60  # nothing was claimed by the new one yet
    (delivery,) = consumer.receive(1, NOW)
    assert consumer.policy == transport.policies()["convert"]
    assert abs(delivery.received_at - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize("status", ["paused", "disabled"])
def test_a_paused_or_disabled_subscription_claims_nothing_at_once(transport, database_url, status):
    consumer, other = transport.consumer("convert"), connect(database_url)
    published(transport, 2)
    other.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "status": status}}))
    assert consumer.receive(10, NOW) == []
    other.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
    assert len(consumer.receive(10, NOW)) == 2
    other.close()


def test_the_operators_pause_stops_claims_and_apply_leaves_it(transport, database_url):
    published(transport)
    database = Database(database_url)
    pause = sa.update(subscription).where(subscription.c.name == "convert")
    with database.writing() as connection:
        connection.execute(pause.values(paused=True))
    assert received(transport) == []
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "lease_seconds": 7}}))
    assert received(transport) == []
    with database.writing() as connection:
        connection.execute(pause.values(paused=False))
    assert len(received(transport)) == 1
    database.close()


def test_an_unknown_subscription_is_named_with_those_that_are_known(transport):
    with pytest.raises(
        SubscriptionNotFound,
        match=r"there is no subscription 'convertt'; this database has archive, conv.*mean 'convert'",
    ):
        transport.consumer("convertt")
    with pytest.raises(SubscriptionNotFound, match=r"is it new[?] 'towpath manifest render', then 'towpath apply'"):
        transport.consumer("xyzzy")


def test_a_subscription_that_is_gone_is_reported_to_its_consumer(transport):
    consumer = transport.consumer("archive")
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
    with pytest.raises(SubscriptionNotFound):
        consumer.receive(1, NOW)


def test_policies_are_those_that_are_applied_now(transport, database_url):
    other = connect(database_url)
    assert {name: policy.lease_seconds for name, policy in other.policies().items()} == {"archive": 60, "convert": 60}
    transport.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "lease_seconds": 5}}))
    assert {name: policy.lease_seconds for name, policy in other.policies().items()} == {"convert": 5}
    assert other.policies()["convert"].handler == "app:handle"
    other.close()


# --- Waiting -----------------------------------------------------------------------------------------------------


def test_receive_returns_at_once_when_there_is_something_or_nothing_to_wait_for(transport):
    published(transport)
    started = time.monotonic()
    assert len(transport.consumer("convert").receive(1, timedelta(seconds=30))) == 1
    assert transport.consumer("convert").receive(1, NOW) == []
    assert time.monotonic() - started < 10


def test_receive_is_woken_by_a_publish_in_the_same_process(transport):
    found = []
    consumer = transport.consumer("convert")
    thread = threading.Thread(target=lambda: found.extend(consumer.receive(1, timedelta(seconds=30))))
    thread.start()
    published(transport)
    thread.join(20)
    assert len(found) == 1


def test_receive_notices_a_publish_of_another_process_while_it_waits(transport, database_url):
    found = []
    elsewhere = connect(database_url)
    consumer = elsewhere.consumer("convert")
    thread = threading.Thread(target=lambda: found.extend(consumer.receive(1, timedelta(seconds=30))))
    thread.start()
    published(transport)
    thread.join(20)
    elsewhere.close()
    assert len(found) == 1


def test_receive_ends_when_its_consumer_is_closed(transport):
    consumer = transport.consumer("convert")
    thread = threading.Thread(target=lambda: consumer.receive(1, timedelta(seconds=60)))
    thread.start()
    consumer.close()
    thread.join(20)
    assert not thread.is_alive()


def test_a_released_delivery_wakes_a_waiting_receive(transport):
    published(transport)
    (delivery,) = received(transport)
    found = []
    consumer = transport.consumer("convert")
    thread = threading.Thread(target=lambda: found.extend(consumer.receive(1, timedelta(seconds=30))))
    thread.start()
    transport.consumer("convert").release([Release(delivery=delivery)])
    thread.join(20)
    assert [d.attempt for d in found] == [1]
