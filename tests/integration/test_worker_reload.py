"""A worker on a database while another topology is applied, and while an operator pauses it: no restart is needed."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from tests.servers.topologies import on_database
from towpath import NewMessage, connect
from towpath.operating import Warrant
from towpath.ports import Transport
from towpath.worker import Worker, WorkerOptions

PATIENCE = 60
TOPICS = {"documents": {}}
NOBODY = Warrant(actor="test", reason="to see")


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


@pytest.fixture
def seen() -> Iterator[list[tuple[str, str]]]:
    """By which handler, and for which subscription."""
    handled: list[tuple[str, str]] = []
    module = ModuleType("handlers_that_are_reloaded")
    for name in ("first", "second"):
        setattr(module, name, lambda message, context, name=name: handled.append((name, context.subscription)))
    sys.modules[module.__name__] = module
    yield handled
    del sys.modules[module.__name__]


def applied(transport: Transport, **handlers: str) -> None:
    subscriptions = {
        name: {"topic": "documents", "handler": f"handlers_that_are_reloaded:{handler}"}
        for name, handler in handlers.items()
    }
    transport.apply(on_database(TOPICS, subscriptions))


@contextmanager
def working(transport: Transport) -> Iterator[Worker]:
    worker = Worker(transport, ["*"], WorkerOptions(concurrency=2))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()


def publish(transport: Transport) -> None:
    (result,) = transport.publish("documents", [NewMessage(payload=1)])
    assert result.status == "accepted"


def test_subscriptions_come_and_go_and_handlers_change_under_a_worker_that_serves_all(database_url, seen):
    with connect(database_url) as transport, connect(database_url) as theirs:
        applied(theirs, convert="first")
        with working(transport) as worker:
            publish(theirs)
            eventually(lambda: seen == [("first", "convert")])
            applied(theirs, convert="second", index="first")
            eventually(lambda: worker.states == {"convert": "running", "index": "running"})
            publish(theirs)
            eventually(lambda: sorted(seen[1:]) == [("first", "index"), ("second", "convert")])
            eventually(lambda: worker.counts.states == {"completed": 3})  # else it may not be removed
            applied(theirs, index="first")
            eventually(lambda: worker.states == {"index": "running"})
            publish(theirs)
            eventually(lambda: seen[3:] == [("first", "index")])
            eventually(lambda: worker.counts.states == {"completed": 4})


def test_a_pause_by_an_operator_is_seen_and_so_is_its_end(database_url, seen):
    with connect(database_url) as transport, connect(database_url) as theirs:
        applied(theirs, convert="first")
        with working(transport) as worker:
            assert worker.states == {"convert": "running"}
            theirs.operator().pause("convert", NOBODY)
            eventually(lambda: worker.states == {"convert": "paused"})
            publish(theirs)
            theirs.operator().resume("convert", NOBODY)
            eventually(lambda: worker.states == {"convert": "running"})
            eventually(lambda: seen == [("first", "convert")])
