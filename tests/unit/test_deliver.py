"""``towpath.testing.deliver``: what becomes of one delivery, and that a worker on a database makes the same of it."""

import asyncio
import logging
import os
import shutil
import sys
import warnings
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta

import pytest

from local_transport.connections import Database
from towpath import Complete, Context, DeadLetter, FatalError, Message, NewMessage, PublishResult, Retry, TransientError
from towpath.backoff import BackOff
from towpath.context import Progress
from towpath.errors import HandlerNotFound, Unsupported
from towpath.message import ABSENT, PublishError, utc_now
from towpath.operating import Pace, Selection, Warrant
from towpath.resolve import resolve
from towpath.settlement import SubscriptionPolicy
from towpath.testing import LocalClock, deliver, local_database, work_off
from towpath.testing.harnesses import harness
from towpath.topology import parse_topology

POLICY = SubscriptionPolicy(
    subscription="documents.convert",
    topic="documents.process",
    handler=None,
    max_attempts=3,
    backoff=BackOff(base_seconds=10, max_seconds=900),
    max_processing_seconds=30,
)


@dataclass(frozen=True)
class Page:
    number: int


# --- Handlers, which a worker loads by their names ---------------------------------------------------------------


def completes(message: Message, context: Context):
    return Complete()


async def completes_later(message: Message, context: Context):
    await asyncio.sleep(0)


def retries(message: Message, context: Context):
    return Retry("the printer is busy", after=30)


def raises(message: Message, context: Context):
    raise ConnectionError("no route")


def raises_on_purpose(message: Message, context: Context):
    raise TransientError("later", after=timedelta(minutes=2))


def sets_aside(message: Message, context: Context):
    return DeadLetter("there is no page 7")


def fails_for_good(message: Message, context: Context):
    raise FatalError("the file is broken")


def takes_pages(message: Message[Page], context: Context):
    return Complete() if message.payload.number else Retry()


def returns_nonsense(message: Message, context: Context):
    return "done"


def is_cancelled(message: Message, context: Context):
    shared.operator().discard(Selection(delivery_ids=(context.delivery_id,)), Warrant(actor="a", reason="b"), Pace())
    assert not context.heartbeat(percent=10)
    context.check()


def loses_its_lease(message: Message, context: Context):
    shared.advance(POLICY.lease_seconds + 2 * POLICY.backoff.base_seconds)  # what a dead worker's delivery waits for
    assert len(shared.consumer(context.subscription).receive(1, timedelta(0))) == 1
    assert not context.heartbeat(percent=10)
    return Complete()


HANDLERS = [
    completes,
    completes_later,
    retries,
    raises,
    raises_on_purpose,
    sets_aside,
    fails_for_good,
    takes_pages,
    returns_nonsense,
]

shared = None  # the database of the test that runs, for handlers that act on it


# --- Outcomes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", [completes, completes_later, lambda message, context: None])
def test_a_handler_that_succeeds_completes(handler):
    delivered = deliver(handler, {"page": 1})
    assert (delivered.state, delivered.reason, delivered.delay, delivered.failure) == ("completed", "", None, None)


def test_a_retry_tells_its_delay_and_its_reason():
    delivered = deliver(retries, {"page": 1})
    assert (delivered.state, delivered.delay) == ("retried", timedelta(seconds=30))
    assert delivered.reason == "Retry: the printer is busy"


def test_an_error_backs_off_for_the_longest_that_may_be_drawn_and_tells_its_traceback():
    delivered = deliver(raises, policy=POLICY, attempt=2)
    assert (delivered.state, delivered.delay) == ("retried", timedelta(seconds=20))
    assert delivered.reason == "ConnectionError: no route"
    assert delivered.failure.type == "ConnectionError"
    assert 'raise ConnectionError("no route")' in delivered.failure.traceback


def test_the_last_attempt_makes_a_dead_letter_of_a_retry():
    for given in ({"policy": POLICY, "attempt": 3}, {"max_attempts": 1}, {"attempt": 5}):
        delivered = deliver(retries, **given)
        assert (delivered.state, delivered.reason) == ("dead", "MaxAttemptsExceeded")
        assert str(delivered.failure) == "Retry: the printer is busy"
    assert deliver(retries, attempt=4).state == "retried"


def test_dead_letters_have_the_reason_that_the_handler_gave():
    assert (deliver(sets_aside).state, deliver(sets_aside).reason) == ("dead", "there is no page 7")
    assert (deliver(fails_for_good).state, deliver(fails_for_good).reason) == ("dead", "the file is broken")


def test_a_payload_is_validated_as_on_its_way_through_a_transport():
    assert deliver(takes_pages, {"number": 1}).state == "completed"
    delivered = deliver(takes_pages, {"number": "one"})
    assert (delivered.state, delivered.reason) == ("dead", "InvalidPayload")
    assert "number: Input should be a valid integer" in delivered.failure.message


def test_an_expired_message_is_discarded_unhandled():
    delivered = deliver(fails_for_good, NewMessage(payload=1, expires_at=utc_now() - timedelta(seconds=1)))
    assert (delivered.state, delivered.reason) == ("discarded", "Expired")


def test_the_handler_sees_the_message_and_the_delivery_that_the_test_describes():
    seen = []

    def process(message: Message, context: Context):
        seen.append((message.payload, message.partition_key, dict(message.attributes), message.topic))
        seen.append((context.subscription, context.attempt, context.max_attempts, context.is_replay))
        seen.append((context.checkpoint, context.correlation_id, timedelta(0) < context.remaining()))

    message = NewMessage(payload=[1], partition_key="a", attributes={"kind": "pdf"}, correlation_id="c-1")
    deliver(process, message, policy=POLICY, attempt=2, is_replay=True, checkpoint={"done": 3})
    assert seen == [
        ([1], "a", {"kind": "pdf"}, "documents.process"),
        ("documents.convert", 2, 3, True),
        ({"done": 3}, "c-1", True),
    ]


def test_without_a_payload_the_message_has_none():
    seen = []
    deliver(lambda message, context: seen.append(message.payload))
    assert seen == [ABSENT]


def test_a_handler_is_found_by_its_import_path():
    assert deliver(f"{__name__}:completes").state == "completed"
    with pytest.raises(HandlerNotFound, match="has no 'missing'"):
        deliver(f"{__name__}:missing")


def test_a_coroutine_is_run_to_its_end_in_a_test_that_is_one_itself():
    async def test():
        return deliver(completes_later)

    assert asyncio.run(test()).state == "completed"


def test_a_keyboard_interrupt_passes_through():
    def interrupted(message: Message, context: Context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(interrupted)


# --- Heartbeats and aborts ---------------------------------------------------------------------------------------


def counts_to_five(message: Message, context: Context):
    for done in range((context.checkpoint or {"done": 0})["done"], 5):
        context.check()
        context.heartbeat(percent=20 * done, note=f"{done} of 5", checkpoint={"done": done})


def test_heartbeats_are_noted_and_the_next_attempt_would_get_the_last_checkpoint():
    delivered = deliver(counts_to_five, checkpoint={"done": 3})
    assert delivered.heartbeats == (
        Progress(percent=60, note="3 of 5", checkpoint={"done": 3}),
        Progress(percent=80, note="4 of 5", checkpoint={"done": 4}),
    )
    assert delivered.checkpoint == {"done": 4}
    assert deliver(completes, checkpoint={"done": 3}).checkpoint == {"done": 3}


@pytest.mark.parametrize(
    ("abort", "state", "reason", "kept"),
    [
        ("shutdown", "released", "", 3),  # the heartbeat that says stop is kept, for who goes on from there
        ("lease_lost", "lease_lost", "", 2),
        ("cancelled", "discarded", "Cancelled", 2),
        ("max_processing", "retried", "MaxProcessingExceeded: ran longer than max_processing_seconds = 30", 2),
    ],
)
def test_an_abort_comes_by_the_heartbeat_after_those_that_are_let_through(abort, state, reason, kept):
    delivered = deliver(counts_to_five, policy=POLICY, abort=abort, abort_after=2)
    assert (delivered.state, delivered.reason, len(delivered.heartbeats)) == (state, reason, kept)
    assert delivered.checkpoint == {"done": kept - 1}


@pytest.mark.parametrize("abort", ["shutdown", "lease_lost", "cancelled", "max_processing"])
def test_an_abort_is_there_from_the_beginning_where_no_heartbeat_is_let_through(abort):
    seen = []

    def process(message: Message, context: Context):
        seen.append((context.aborted, context.abort_reason))
        context.check()

    assert deliver(process, policy=POLICY, abort=abort).state != "completed"
    assert seen == [(True, abort)]


@pytest.mark.parametrize(
    ("abort", "state"), [("shutdown", "completed"), ("lease_lost", "lease_lost"), ("cancelled", "discarded")]
)
def test_a_success_in_spite_of_an_abort_stands_on_shutdown_alone(abort, state):
    assert deliver(completes, abort=abort).state == state


# --- Publishing --------------------------------------------------------------------------------------------------


def test_what_the_handler_publishes_is_noted_with_what_it_carries_on():
    def process(message: Message, context: Context):
        results = context.publish("mails", NewMessage(payload={"to": "ada"}), NewMessage(payload=object()))
        assert [result.status for result in results] == ["accepted", "rejected"]
        assert context.publish("No Topic", NewMessage())[0].error.code == "TopicNotFound"

    delivered = deliver(process, NewMessage(payload=1, correlation_id="c-1"))
    assert delivered.state == "completed"
    assert [(one.topic, one.result.status) for one in delivered.published] == [
        ("mails", "accepted"),
        ("mails", "rejected"),
        ("No Topic", "rejected"),
    ]
    sent = delivered.published[0].message
    assert (sent.payload, sent.correlation_id) == ({"to": "ada"}, "c-1")
    assert sent.causation_id is not None


def test_publishing_can_be_made_to_fail():
    def process(message: Message, context: Context):
        (result,) = context.publish("mails", NewMessage(payload=1))
        if result.error is not None:
            raise TransientError(result.error.code)

    def unavailable(topic, messages):
        error = PublishError(code="TransportUnavailable", message="down")
        return [PublishResult(id=None, status="rejected", error=error) for _ in messages]

    delivered = deliver(process, publish=unavailable)
    assert (delivered.state, delivered.reason) == ("retried", "TransientError: TransportUnavailable")
    assert delivered.published[0].result.status == "rejected"


# --- What is told ------------------------------------------------------------------------------------------------


def test_neither_the_answer_nor_the_log_shows_a_payload(caplog):
    def process(message: Message, context: Context):
        context.heartbeat(checkpoint={"secret": 4711})
        context.publish("mails", NewMessage(payload={"secret": 4711}))
        raise TransientError("later")

    with caplog.at_level(logging.INFO):
        delivered = deliver(process, {"secret": 4711})
    assert "4711" not in repr(delivered)
    assert "4711" not in caplog.text
    assert "delivery pending: comes again in 10 s, attempt 1 of 5" in caplog.text


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"attempt": 0}, "attempt 0 of 5 cannot be"),
        ({"max_attempts": 0}, "attempt 1 of 0 cannot be"),
        ({"abort_after": 2}, "say which abort"),
        ({"abort": "shutdown", "abort_after": -1}, "abort_after=-1"),
        ({"abort": "shut-down"}, "'shut-down' is no abort; there are cancelled, lease_lost"),
        ({"abort": "max_processing"}, "has no max_processing_seconds"),
        ({"message": object()}, "InvalidPayload"),
        ({"message": NewMessage(partition_key="")}, "InvalidPartitionKey"),
    ],
)
def test_what_cannot_be_is_refused(given, problem):
    with pytest.raises(ValueError, match=problem):
        deliver(completes, **given)


# --- The worker makes the same of it -----------------------------------------------------------------------------


@pytest.fixture
def database(sqlite_with_tables, tmp_path, monkeypatch):
    """A database with a subscription for each handler, all of one topic."""
    subscriptions = {
        handler.__name__.replace("_", "-"): {
            "topic": "documents.process",
            "handler": f"{__name__}:{handler.__name__}",
            "max_attempts": 3,
            "backoff": {"base_seconds": 10, "max_seconds": 900},
        }
        for handler in [*HANDLERS, is_cancelled, loses_its_lease]
    }
    topics = {"documents.process": {"transport": "database"}}
    topology = parse_topology({"name": "docs", "topics": topics, "subscriptions": subscriptions}, "this test")
    file = shutil.copy(sqlite_with_tables, tmp_path / "towpath.db")
    with local_database(file, resolve(topology, "test")) as opened:
        monkeypatch.setattr(sys.modules[__name__], "shared", opened)
        yield opened


def became(database, handler):
    """What a database says of the one delivery to ``handler``."""
    name = handler.__name__.replace("_", "-")
    (stats,) = [stats for stats in database.operator().stats() if stats.subscription == name]
    page = database.operator().deliveries(Selection(subscription=name), 1)
    if not page:
        return ("completed" if stats.completed else "discarded"), ""
    state = {"dead": "dead", "pending": "retried"}[page[0].state]
    return state, page[0].reason if state == "dead" else page[0].error


def test_a_worker_on_a_database_makes_the_same_of_each_delivery(database):
    handlers = {handler.__name__.replace("_", "-"): handler for handler in HANDLERS}
    database.publish("documents.process", [NewMessage(payload={"number": "one"})])
    worked = work_off(database, *handlers)
    delivered = {name: deliver(handler, {"number": "one"}, policy=POLICY) for name, handler in handlers.items()}
    for name, handler in handlers.items():
        state, reason = became(database, handler)
        assert (name, state) == (name, delivered[name].state)
        assert reason.startswith(delivered[name].reason)
    assert worked.states == {
        state: sum(one.state == state for one in delivered.values()) for state in ("completed", "retried", "dead")
    }
    assert worked.received == len(HANDLERS)
    longest = max(one.delay for one in delivered.values() if one.delay is not None)
    assert work_off(database, *handlers).received == 0
    database.advance(longest.total_seconds())
    assert work_off(database, *handlers).received == worked.states["retried"]


@pytest.mark.parametrize(
    ("handler", "abort", "state"),
    [(is_cancelled, "cancelled", "discarded"), (loses_its_lease, "lease_lost", "lease_lost")],
)
def test_a_worker_is_told_of_an_abort_and_makes_the_same_of_it(database, handler, abort, state):
    database.publish("documents.process", [NewMessage()])
    worked = work_off(database, handler.__name__.replace("_", "-"))
    assert worked.states[state] == 1
    assert deliver(counts_to_five, abort=abort).state == state


# --- Time that is moved, and a worker that comes to an end -------------------------------------------------------


def test_a_database_dates_what_is_published_by_the_clock_that_is_moved(database):
    before = utc_now()
    database.advance(86_400)
    database.publish("documents.process", [NewMessage(payload=1)])
    page = database.operator().deliveries(Selection(subscription="completes"), 1)
    assert page[0].published_at >= before + timedelta(days=1)
    assert page[0].due_at >= before + timedelta(days=1) - timedelta(milliseconds=1)


def test_delays_expiry_and_deduplication_go_by_the_moved_clock(database):
    now = utc_now()
    later, expiring = now + timedelta(hours=1), now + timedelta(hours=2)
    message = NewMessage(deduplication_key="k", deduplication_ttl=timedelta(minutes=30), deliver_after=later)
    assert database.publish("documents.process", [message])[0].status == "accepted"
    assert work_off(database, "completes").received == 0
    assert database.publish("documents.process", [message])[0].status == "duplicate"
    database.advance(3_600)
    assert work_off(database, "completes").states == {"completed": 1}
    assert database.publish("documents.process", [message])[0].status == "accepted"
    database.publish("documents.process", [NewMessage(expires_at=expiring)])
    database.advance(3_600)
    assert work_off(database, "completes").states == {"completed": 1}
    (stats,) = [stats for stats in database.operator().stats() if stats.subscription == "completes"]
    assert (stats.completed, stats.discarded, stats.pending) == (2, 1, 0)


def test_two_databases_may_go_by_one_clock(sqlite_with_tables, tmp_path):
    clock = LocalClock()
    files = [shutil.copy(sqlite_with_tables, tmp_path / name) for name in ("a.db", "b.db")]
    with local_database(files[0], clock=clock) as first, local_database(files[1], clock=clock):
        first.advance(60)
        assert clock.now() > utc_now() + timedelta(seconds=59)


def test_what_is_not_installed_is_told_with_what_brings_it():
    with pytest.raises(Unsupported, match=r"^the simulator is not installed; install towpath\[simulation\]$"):
        harness("simulator", "the simulator", "simulation")


def test_the_time_of_a_database_server_is_its_own():
    never_connected_to = Database("postgresql://127.0.0.1:1/none")
    with closing(never_connected_to), pytest.raises(Unsupported, match="only the time of SQLite can be moved"):
        never_connected_to.go_by(utc_now)


def test_time_moves_on_only():
    for seconds in (-1, float("nan"), float("inf"), 1e300):
        with pytest.raises(ValueError, match="time moves on only"):
            LocalClock().advance(seconds)


def forks(message: Message, context: Context):
    with warnings.catch_warnings(action="ignore"):  # that this process has threads
        copy = os.fork()
    if copy == 0:
        sys.exit(0)
    return DeadLetter(str(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])))


def test_a_copy_of_the_process_that_a_handler_forked_runs_no_other_test():
    assert deliver(forks).reason == "70"


def test_there_is_something_to_work_off(database):
    with pytest.raises(ValueError, match=r"most=\.\.\.\) takes 1 or more, not 0"):
        work_off(database, most=0)


def test_a_worker_tells_of_what_waits_why_it_does(database):
    database.publish("documents.process", [NewMessage(payload={"secret": 4711})])
    worked = work_off(database, "raises", "sets-aside")
    (waiting,) = worked.waiting
    assert (waiting.subscription, waiting.attempt, waiting.waits_for) == ("raises", 1, "time")
    assert waiting.error.startswith("ConnectionError: no route")
    assert "ConnectionError: no route" in repr(worked)  # which pytest shows where an assertion fails
    assert "4711" not in repr(worked)
    assert [letter.reason for letter in worked.dead_letters] == ["there is no page 7"]


def test_all_that_waits_is_told_however_much_it_is(database):
    later = utc_now() + timedelta(hours=1)
    database.publish("documents.process", [NewMessage(deliver_after=later) for _ in range(1_001)])
    worked = work_off(database, "completes")
    assert (worked.received, len(worked.waiting)) == (0, 1_001)


def repeats_itself(message: Message, context: Context):
    context.publish(message.topic, NewMessage())


def test_a_handler_without_end_is_noticed(sqlite_with_tables, tmp_path):
    topology = {
        "name": "docs",
        "topics": {"endless": {"transport": "database"}},
        "subscriptions": {"repeat": {"topic": "endless", "handler": f"{__name__}:repeats_itself"}},
    }
    file = shutil.copy(sqlite_with_tables, tmp_path / "towpath.db")
    with local_database(file, resolve(parse_topology(topology, "this test"), "test")) as opened:
        opened.publish("endless", [NewMessage()])
        with pytest.raises(RuntimeError, match=r"20 deliveries were handled and something is due still"):
            work_off(opened, most=20)
