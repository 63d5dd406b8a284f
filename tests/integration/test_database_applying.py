"""Applying a manifest to a database."""

import json
import logging
import threading
from datetime import timedelta

import pytest
import sqlalchemy as sa

from local_transport.connections import Database
from local_transport.tables import subscription, topology
from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.errors import ApplyRefused, InvalidManifest
from towpath.resolve import resolve
from towpath.settlement import Completion, DeadLettering
from towpath.topology import parse_topology
from towpath.transports import Applied

NOW = timedelta(0)
CONVERT = {"convert": {"topic": "documents"}}


@pytest.fixture
def empty(database_url):
    opened = connect(database_url)
    yield opened
    opened.close()


def revision(transport):
    transport.policies()
    return transport._reader.last.revision


def test_apply_says_what_it_added_changed_and_removed(empty):
    both = {**CONVERT, "archive": {"topic": "documents"}}
    assert empty.apply(on_database({"documents": {}, "other": {}}, both)) == Applied(
        added=("documents", "other", "archive", "convert"), changed=(), removed=()
    )
    later = on_database({"documents": {"retention_days": 3}}, {"convert": {"topic": "documents", "max_attempts": 9}})
    assert empty.apply(later) == Applied(added=(), changed=("documents", "convert"), removed=("other", "archive"))
    assert empty.policies()["convert"].max_attempts == 9


def test_the_revision_rises_only_with_a_change(empty):
    assert revision(empty) == 0
    for _ in range(2):
        empty.apply(on_database({"documents": {}}, CONVERT))
        assert revision(empty) == 1
    empty.apply(on_database({"documents": {"status": "disabled"}}, CONVERT))
    assert revision(empty) == 2


def test_a_subscription_that_comes_back_is_itself_again(empty):
    empty.apply(on_database({"documents": {}}, CONVERT))
    empty.publish("documents", [NewMessage(payload=1)])
    consumer = empty.consumer("convert")
    consumer.complete([Completion(delivery=d) for d in consumer.receive(1, NOW)])
    empty.apply(on_database({"documents": {}}, {"other": {"topic": "documents"}}))
    assert [row.subscription for row in empty.operator().stats()] == ["other"]
    empty.apply(on_database({"documents": {}}, CONVERT))
    assert [(row.subscription, row.completed) for row in empty.operator().stats()] == [("convert", 1)]
    empty.publish("documents", [NewMessage(payload=2)])
    assert len(empty.consumer("convert").receive(10, NOW)) == 1


def test_apply_refuses_to_lose_deliveries_and_names_every_reason(empty):
    wanted = {**CONVERT, "archive": {"topic": "documents"}, "index": {"topic": "documents"}}
    empty.apply(on_database({"documents": {}}, wanted))
    empty.publish("documents", [NewMessage(payload=i) for i in range(3)])
    archive = empty.consumer("archive")
    archive.dead_letter([DeadLettering(delivery=d, reason="bad") for d in archive.receive(2, NOW)])
    changed = {
        "convert": {"topic": "documents", "partition_mode": "ordered"},
        "index": {"topic": "documents", "max_attempts": 2},
    }
    with pytest.raises(ApplyRefused) as refused:
        empty.apply(on_database({"documents": {}}, changed))
    removal, mode = refused.value.reasons
    assert removal.startswith("subscription 'archive' would go with 1 open and 2 dead deliveries;")
    assert mode.startswith(
        "subscription 'convert' would change its partition mode from none to ordered with 3 open del"
    )
    assert revision(empty) == 1
    assert empty.policies()["index"].max_attempts == 5


def test_a_partition_mode_may_change_while_there_are_no_deliveries(empty):
    empty.apply(on_database({"documents": {}}, CONVERT))
    empty.apply(on_database({"documents": {}}, {"convert": {"topic": "documents", "partition_mode": "ordered"}}))
    assert empty.policies()["convert"].partition_mode == "ordered"


def test_a_manifest_without_a_topic_on_a_database_is_refused_with_the_repair(empty):
    topology = parse_topology({"name": "tests", "topics": {"documents": {}}, "subscriptions": {}}, "the test")
    with pytest.raises(ApplyRefused, match="render it with 'towpath manifest render --all-on database'"):
        empty.apply(resolve(topology, "test"))


def test_of_a_mixed_manifest_only_the_database_part_is_applied(empty):
    topics = {"here": {"transport": "database"}, "there": {}}
    subscriptions = {"mine": {"topic": "here", "handler": "a:b"}, "theirs": {"topic": "there", "handler": "a:b"}}
    topology = parse_topology({"name": "tests", "topics": topics, "subscriptions": subscriptions}, "the test")
    assert empty.apply(resolve(topology, "test")).added == ("here", "mine")


def test_a_manifest_that_is_not_what_is_applied_is_warned_of_once(database_url, empty, caplog):
    manifest = on_database({"documents": {}}, CONVERT)
    with caplog.at_level(logging.WARNING):
        connect(database_url, manifest).close()
        (warning,) = [record.getMessage() for record in caplog.records]
        assert "run 'towpath apply --database" in warning
        caplog.clear()
        empty.apply(manifest)
        connect(database_url, manifest).close()
    assert caplog.records == []


def test_what_another_version_applied_can_be_applied_again_but_not_used(database_url, empty):
    empty.apply(on_database({"documents": {}}, CONVERT))
    database = Database(database_url)
    with database.writing() as connection:
        text = connection.scalar(sa.select(subscription.c.policy))
        changed = json.dumps(json.loads(text) | {"from_the_future": 1})
        connection.execute(sa.update(subscription).values(policy=changed, revision=7))
        connection.execute(sa.update(topology).values(revision=7))
    database.close()
    later = connect(database_url)
    with pytest.raises(InvalidManifest, match=r"subscription 'convert', applied by another .*run 'towpath apply' with"):
        later.policies()
    assert later.apply(on_database({"documents": {}}, CONVERT)).changed == ("convert",)
    assert list(later.policies()) == ["convert"]
    later.close()


def test_applying_while_others_publish_loses_nothing(database_url, empty):
    empty.apply(on_database({"documents": {}}, CONVERT))
    results, published, stop = [], threading.Semaphore(0), threading.Event()

    def publish():
        publisher = connect(database_url)
        while not stop.is_set():
            results.extend(publisher.publish("documents", [NewMessage(payload=1)]))
            published.release()
        publisher.close()

    thread = threading.Thread(target=publish)
    thread.start()
    for number in range(10):
        assert published.acquire(timeout=60)  # a publish between any two
        extra = {f"extra-{number}": {"topic": "documents", "filter": {"never": ["x"]}}}
        empty.apply(on_database({"documents": {}}, {**CONVERT, **extra}))
    stop.set()
    thread.join()
    assert {result.status for result in results} == {"accepted"}
    (convert,) = [row for row in empty.operator().stats() if row.subscription == "convert"]
    assert convert.pending == len(results)
