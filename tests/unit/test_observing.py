"""What a worker tells an observer of the deliveries that it settled, over SQLite."""

import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest

from tests.servers.topologies import on_database
from towpath import DeadLetter, NewMessage, Retry, connect
from towpath.observing import ENDINGS, Ended
from towpath.operating import Pace, Selection, Warrant
from towpath.worker import Worker, WorkerOptions

ONCE = WorkerOptions(concurrency=1, once=True)


def handle(message, context):
    match message.payload:
        case "later":
            return Retry("not yet", after=3_600)
        case "bad":
            return DeadLetter("not for us")


class Listener:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def settled(self, subscription, topic, ended):
        self.told.append((subscription, topic, list(ended)))

    @property
    def ended(self) -> list[Ended]:
        return [one for _, _, ended in self.told for one in ended]


@pytest.fixture
def transport(sqlite_tables_url, monkeypatch) -> Iterator:
    module = ModuleType("app")
    module.handle = handle
    monkeypatch.setitem(sys.modules, "app", module)
    with connect(sqlite_tables_url) as opened:
        opened.apply(on_database({"documents": {}}, {"convert": {"topic": "documents"}}))
        yield opened


def work(transport, observer) -> None:
    Worker(transport, ["convert"], ONCE, observer=observer).run()


def test_a_worker_tells_what_became_of_each_delivery_and_how_long_it_took(transport):
    transport.publish("documents", [NewMessage(payload=payload) for payload in ("good", "later", "bad")])
    listener = Listener()
    work(transport, listener)
    assert {(subscription, topic) for subscription, topic, _ in listener.told} == {("convert", "documents")}
    assert [one.ending for one in listener.ended] == ["completed", "retried", "dead"]
    assert all(one.duration >= 0 and one.age >= 0 for one in listener.ended)
    assert {one.ending for one in listener.ended} <= set(ENDINGS)


def test_an_age_counts_from_when_the_message_was_to_come(transport):
    hour = timedelta(hours=1)
    past = NewMessage(payload="good", deliver_after=datetime.now(UTC) - hour)
    transport.publish("documents", [past])
    listener = Listener()
    work(transport, listener)
    (ended,) = listener.ended
    assert ended.age < hour.total_seconds()  # it was published later than that


def test_a_replay_has_no_age_since_it_waited_for_a_person(transport):
    transport.publish("documents", [NewMessage(payload="bad")])
    listener = Listener()
    work(transport, listener)
    transport.operator().replay(Selection(subscription="convert"), Warrant(actor="ada", reason="again"), Pace())
    work(transport, listener)
    assert [one.age is None for one in listener.ended] == [False, True]


def test_an_observer_that_fails_is_logged_and_stops_nothing(transport, caplog):
    class Broken:
        def settled(self, subscription, topic, ended):
            raise OSError("no space left")

    transport.publish("documents", [NewMessage(payload="good")] * 3)
    with caplog.at_level(logging.ERROR, "towpath.delivery"):
        work(transport, Broken())
    assert "what was settled is not counted: OSError: no space left" in caplog.text
    assert [row.completed for row in transport.operator().stats()] == [3]


def test_a_worker_says_how_it_stands(transport):
    worker = Worker(transport, ["convert"], ONCE)
    (standing,) = worker.standing()
    assert (standing.subscription, standing.topic, standing.state, standing.in_flight) == (
        "convert",
        "documents",
        "running",
        0,
    )
    worker.stop()
    assert [one.state for one in worker.standing()] == ["draining"]
