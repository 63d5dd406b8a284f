"""What a handler's context does through a whole worker: progress that outlives an attempt, messages that it causes."""

import itertools
import sys
import time
from types import ModuleType

import pytest
import sqlalchemy as sa

from local_transport.tables import delivery_detail
from tests.servers.topologies import on_database
from towpath import NewMessage, Retry, connect
from towpath.worker import Worker, WorkerOptions

NUMBERS = itertools.count()
PATIENCE = 30.0
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ONCE = WorkerOptions(concurrency=1, once=True)


@pytest.fixture
def running(database_url, monkeypatch):
    """Applies a topology of topics ``first`` and ``second``, each with its handler, and answers the transport."""
    opened = []

    def run(**handlers):
        module = ModuleType(f"handlers_of_a_context_{next(NUMBERS)}")
        vars(module).update(handlers)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        subscriptions = {
            name: {"topic": name, "handler": f"{module.__name__}:{name}", "backoff": {"base_seconds": 0}}
            for name in handlers
        }
        transport = connect(database_url)
        opened.append(transport)
        transport.apply(on_database({name: {} for name in handlers}, subscriptions))
        return transport

    yield run
    for transport in opened:
        transport.close()


def kept(url):
    """Percent, note and checkpoint as they are stored."""
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    columns = delivery_detail.c
    try:
        with engine.connect() as connection:
            return [
                tuple(row)
                for row in connection.execute(sa.select(columns.percent, columns.note, columns.checkpoint)).all()
            ]
    finally:
        engine.dispose()


def test_what_a_heartbeat_saves_is_given_to_the_attempts_after_it(running, database_url):
    seen, stored = [], []

    def first(message, context):
        seen.append((context.attempt, context.checkpoint))
        match context.attempt:
            case 1:
                assert context.heartbeat(percent=40, note="2 of 5", checkpoint={"page": 2, "ä": [1.5, None]})
            case 2:
                assert context.heartbeat()  # leaves the checkpoint as it is
            case 3:
                assert context.heartbeat(percent=100, checkpoint=None)
        stored.extend(kept(database_url))
        return None if context.attempt == 4 else Retry("not yet")

    transport = running(first=first)
    transport.publish("first", [NewMessage(payload=1)])
    Worker(transport, ["first"], ONCE).run()
    page = {"page": 2, "ä": [1.5, None]}
    assert seen == [(1, None), (2, page), (3, page), (4, None)]
    assert stored[0][:2] == (40.0, "2 of 5")
    assert stored[2][0] == 100.0


def test_a_handler_that_is_told_to_shut_down_can_still_save_where_it_is(running):
    seen, workers = [], []

    def first(message, context):
        seen.append((context.attempt, context.checkpoint))
        if context.checkpoint is None:
            workers[-1].abort()
            deadline = time.monotonic() + PATIENCE
            while not context.aborted and time.monotonic() < deadline:
                time.sleep(0.005)
            assert context.abort_reason == "shutdown"
            assert context.heartbeat(checkpoint={"page": 3}) is False
            context.check()

    transport = running(first=first)
    transport.publish("first", [NewMessage(payload=1)])
    for _ in range(2):
        workers.append(Worker(transport, ["first"], ONCE))
        workers[-1].run()
    assert seen == [(1, None), (1, {"page": 3})]


def test_what_a_handler_publishes_is_told_whose_it_is(running):
    caused, handled, own_id = [], [], "0190a5d2-0000-7000-8000-000000000009"

    def first(message, context):
        handled.append(message)
        own = NewMessage(
            payload="own", causation_id=own_id, correlation_id="own", traceparent=TRACE.replace("b7", "c7")
        )
        results = context.publish("second", NewMessage(payload="carried"), own)
        assert [result.status for result in results] == ["accepted", "accepted"]

    def second(message, context):
        caused.append((message.payload, message.causation_id, message.correlation_id, message.traceparent))
        assert context.correlation_id == message.correlation_id

    transport = running(first=first, second=second)
    (result,) = transport.publish("first", [NewMessage(payload=1, correlation_id="order-7", traceparent=TRACE)])
    Worker(transport, ["first"], ONCE).run()
    Worker(transport, ["second"], ONCE).run()
    assert [message.id for message in handled] == [result.id]
    assert sorted(caused) == [
        ("carried", result.id, "order-7", TRACE),
        ("own", own_id, "own", TRACE.replace("b7", "c7")),
    ]


def test_a_message_that_a_handler_publishes_wrongly_is_refused_and_the_handler_told(running):
    results = []

    def first(message, context):
        results.extend(context.publish("second", NewMessage(correlation_id=""), NewMessage(payload=1)))

    transport = running(first=first, second=lambda message, context: None)
    transport.publish("first", [NewMessage(payload=1)])
    Worker(transport, ["first"], ONCE).run()
    assert [result.error and result.error.code for result in results] == ["InvalidCorrelationId", None]
