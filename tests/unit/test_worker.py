"""The worker over a fake transport: receiving, running, settling, stopping, and all that can go wrong on the way.

Handlers and fakes meet at events and barriers; a test that waits gives up after ``PATIENCE`` and then fails.
"""

import asyncio
import itertools
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes.serving import (
    NAME,
    ONCE,
    PATIENCE,
    FakeConsumer,
    FakeTransport,
    SweptTransport,
    delivery,
    eventually,
    run,
    running,
)
from towpath import Complete, DeadLetter, Message, Retry
from towpath.errors import HandlerNotFound, SubscriptionNotFound, TransportRejected, TransportUnavailable, Unsupported
from towpath.settlement import (
    CancelRequested,
    Failed,
    LeaseLost,
    Settled,
)
from towpath.stopping import Stop
from towpath.terms import Allowance
from towpath.worker import Counts, Worker, WorkerOptions


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith((NAME, "towpath-sweeper"))}


def completes(message, context):
    return Complete()


# --- Once ------------------------------------------------------------------------------------------------------


def test_once_handles_what_is_due_and_ends(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.put(*(delivery(i) for i in range(20)))
    counts = run(transport)
    assert counts == Counts(received=20, states={"completed": 20})
    assert consumer.settled == sorted(("complete", f"d-{i}") for i in range(20))
    assert consumer.closed


def test_once_with_nothing_due_ends_at_once_and_asks_without_waiting(serving):
    transport = serving(completes)
    assert run(transport) == Counts()
    assert transport.consumers[NAME].receives == [(4, timedelta(0))]


def test_once_polls_for_a_second_where_the_transport_cannot_say_exactly_what_is_due(serving):
    transport = serving(completes)
    transport.capabilities = frozenset()
    run(transport)
    assert transport.consumers[NAME].receives == [(4, timedelta(seconds=1))]


def test_once_handles_what_a_running_handler_makes_due(serving):
    seen = []

    def process(message, context):
        seen.append(context.delivery_id)
        if context.delivery_id == "d-1":
            transport.consumers[NAME].put(delivery(2))

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1))
    assert run(transport).received == 2
    assert seen == ["d-1", "d-2"]


def test_once_waits_for_a_handler_and_does_not_ask_without_pause_meanwhile(serving):
    go_on, seen = threading.Event(), []

    def process(message, context):
        seen.append(go_on.wait(PATIENCE))

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.put(delivery(1))
    with running(transport, ONCE) as (_, future):
        assert eventually(lambda: len(consumer.receives) >= 3)
        before = len(consumer.receives)
        threading.Event().wait(0.3)
        asked = len(consumer.receives) - before
        assert not future.done()
        go_on.set()
        assert future.result(PATIENCE).states == {"completed": 1}
    assert 1 <= asked <= 8
    assert seen == [True]


def test_once_handles_a_delivery_again_that_is_retried_at_once(serving):
    attempts = []

    def process(message, context):
        attempts.append(context.attempt)
        return Retry(after=0) if context.attempt < 3 else Complete()

    transport = serving(process)
    for round_ in range(5):  # it must not end between the last look and the settle
        attempts.clear()
        transport.renew_consumer(NAME)
        transport.consumers[NAME].put(delivery(round_))
        assert run(transport).states == {"retried": 2, "completed": 1}
        assert attempts == [1, 2, 3]


def test_deliveries_with_equal_tokens_are_each_waited_for(serving):
    go_on, quick = threading.Event(), threading.Event()

    def process(message, context):
        if context.delivery_id == "d-1":
            go_on.wait(PATIENCE)
        else:
            quick.set()

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.put(delivery(1), delivery(2))
    with running(transport, ONCE) as (_, future):
        assert eventually(lambda: ("complete", "d-2") in consumer.settled)
        before = len(consumer.receives)
        assert eventually(lambda: len(consumer.receives) > before + 2)
        assert not future.done()
        go_on.set()
        assert future.result(PATIENCE).states == {"completed": 2}


# --- How much is claimed ---------------------------------------------------------------------------------------


def test_no_more_is_asked_for_than_threads_are_free(serving):
    go_on = threading.Event()

    def process(message, context):
        go_on.wait(PATIENCE)

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.put(*(delivery(i) for i in range(3)))
    with running(transport, replace(ONCE, concurrency=5)) as (_, future):
        assert eventually(lambda: len(consumer.receives) >= 2)
        assert [limit for limit, _ in consumer.receives[:2]] == [5, 2]
        consumer.put(*(delivery(i) for i in range(3, 9)))
        assert eventually(lambda: not consumer.ready or len(consumer.ready) == 4)
        go_on.set()
        assert future.result(PATIENCE).received == 9


def test_as_many_handlers_run_beside_each_other_as_threads_are_allowed(serving):
    line = threading.Barrier(6)

    def process(message, context):
        line.wait(PATIENCE)

    transport = serving(process)
    transport.consumers[NAME].put(*(delivery(i) for i in range(12)))
    assert run(transport, replace(ONCE, concurrency=6)).states == {"completed": 12}


class Hurried:
    """Handles quickly until enough is claimed ahead, and then not at all until it may ``go_on``."""

    def __init__(self, consumer: Callable[[], FakeConsumer]):
        self.go_on, self.ran = threading.Event(), []
        self._consumer = consumer

    @property
    def asked_for_more(self) -> bool:
        return any(limit > 4 for limit, _ in self._consumer().receives)

    def __call__(self, message, context):
        self.ran.append(context.delivery_id)
        if self.asked_for_more:
            self.go_on.wait(PATIENCE)


@pytest.fixture
def hurrying(serving):
    """A transport that can give back without harm, its handler, and a supply of deliveries of some attempt."""
    handler = Hurried(lambda: transport.consumers[NAME])
    transport = serving(handler)
    transport.capabilities = frozenset({"exact_backlog", "release_refunds_attempt"})
    consumer = transport.consumers[NAME]
    numbers = itertools.count()

    def supply(attempt: int = 1) -> None:
        def more():
            while len(consumer.ready) < 100:
                consumer.put(replace(delivery(next(numbers)), attempt=attempt))

        consumer.on_receive = more

    return transport, handler, supply


def test_quick_handlers_have_deliveries_claimed_ahead_which_a_stop_gives_back(hurrying):
    transport, handler, supply = hurrying
    supply()
    with running(transport, WorkerOptions(concurrency=4)) as (worker, future):
        assert eventually(lambda: worker.counts.received > len(handler.ran) + 4 and handler.asked_for_more)
        worker.stop()
        assert eventually(lambda: worker.counts.states.get("released"))
        handler.go_on.set()
        states = future.result(PATIENCE).states
    assert states["completed"] == len(handler.ran)
    assert states["completed"] + states["released"] == worker.counts.received
    assert len(set(handler.ran)) == len(handler.ran)


def test_nothing_is_claimed_ahead_where_giving_back_costs_an_attempt(hurrying):
    transport, handler, supply = hurrying
    transport.capabilities = frozenset({"exact_backlog"})
    supply()
    with running(transport, WorkerOptions(concurrency=4)) as (worker, future):
        assert eventually(lambda: len(handler.ran) > 200)
        worker.stop()
        future.result(PATIENCE)
    assert not handler.asked_for_more


def test_nothing_is_claimed_ahead_of_what_has_one_attempt(hurrying):
    transport, handler, supply = hurrying
    consumer = transport.consumers[NAME]
    consumer.policy = replace(consumer.policy, max_attempts=1)
    transport._policies = {NAME: consumer.policy}
    supply()
    with running(transport, WorkerOptions(concurrency=4)) as (worker, future):
        assert eventually(lambda: len(handler.ran) > 200)
        worker.stop()
        future.result(PATIENCE)
    assert not handler.asked_for_more


def test_what_was_tried_before_is_not_kept_ahead_and_no_more_of_it_is_claimed(hurrying):
    """It may be what ended the process that held it, and its neighbours would lose an attempt each time."""
    transport, handler, supply = hurrying
    supply()
    with running(transport, WorkerOptions(concurrency=4)) as (worker, future):
        assert eventually(lambda: handler.asked_for_more)
        supply(attempt=2)
        transport.consumers[NAME].clear()
        handler.go_on.set()
        assert eventually(lambda: worker.counts.states.get("released"))
        released = worker.counts.states["released"]
        asked = len(transport.consumers[NAME].receives)
        assert eventually(lambda: len(transport.consumers[NAME].receives) > asked + 20)
        assert worker.counts.states["released"] <= released + 100
        assert {limit for limit, _ in transport.consumers[NAME].receives[asked + 2 :]} <= {1, 2, 3, 4}
        worker.stop()
        future.result(PATIENCE)


def test_max_claims_at_most_so_many_and_ends(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.put(*(delivery(i) for i in range(10)))
    assert run(transport, WorkerOptions(concurrency=4, max_deliveries=7)).received == 7
    assert len(consumer.ready) == 3
    assert sum(limit for limit, _ in consumer.receives[:1]) == 4


def test_max_counts_over_all_subscriptions(serving):
    transport = serving(completes, completes)
    for name, consumer in transport.consumers.items():
        consumer.put(*(delivery(i, subscription=name) for i in range(10)))
    counts = run(transport, WorkerOptions(concurrency=4, max_deliveries=5))
    assert counts.received == 5
    assert sum(len(consumer.ready) for consumer in transport.consumers.values()) == 15


def test_max_is_reached_though_one_subscription_has_nothing(serving):
    transport = serving(completes, completes)
    transport.consumers[NAME].put(*(delivery(i) for i in range(10)))
    assert run(transport, WorkerOptions(concurrency=4, max_deliveries=5)).received == 5


def test_max_waits_for_its_handlers_as_long_as_they_run(serving):
    go_on, seen = threading.Event(), []

    def process(message, context):
        go_on.wait(PATIENCE)
        seen.append(context.abort_reason)

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1), delivery(2))
    with running(transport, WorkerOptions(concurrency=4, max_deliveries=1, drain=timedelta(0))) as (_, future):
        assert eventually(lambda: transport.consumers[NAME].receives)
        threading.Event().wait(0.2)
        assert not future.done()
        go_on.set()
        assert future.result(PATIENCE) == Counts(received=1, states={"completed": 1})
    assert seen == [None]
    assert len(transport.consumers[NAME].ready) == 1


def test_an_allowance_of_claims_is_never_overdrawn():
    allowance = Allowance(5)
    assert [allowance.take(3), allowance.take(3), allowance.take(3)] == [3, 2, 0]
    assert not allowance.used_up
    allowance.made(3, 1)
    assert allowance.take(9) == 2
    allowance.made(2, 2)
    allowance.made(2, 2)
    assert allowance.used_up
    assert allowance.take(1) == 0


def test_an_allowance_without_a_limit_grants_everything():
    allowance = Allowance(None)
    assert allowance.take(1_000) == 1_000
    allowance.made(1_000, 1_000)
    assert not allowance.used_up


def test_an_idle_worker_ends_after_so_long_with_nothing_to_do(serving):
    transport = serving(completes)
    transport.consumers[NAME].put(delivery(1))
    began = time.monotonic()
    assert run(transport, WorkerOptions(idle_exit=timedelta(seconds=0.2))).received == 1
    assert time.monotonic() - began >= 0.2


def test_a_worker_is_not_idle_while_a_handler_runs(serving):
    go_on, ended = threading.Event(), []

    def process(message, context):
        go_on.wait(PATIENCE)
        ended.append(time.monotonic())

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(idle_exit=timedelta(seconds=0.3))) as (_, future):
        threading.Event().wait(0.4)
        go_on.set()
        future.result(PATIENCE)
        assert time.monotonic() - ended[0] >= 0.3


# --- Stopping --------------------------------------------------------------------------------------------------


def test_after_a_stop_nothing_is_claimed_and_running_handlers_end(serving):
    started, go_on = threading.Event(), threading.Event()

    def process(message, context):
        started.set()
        go_on.wait(PATIENCE)

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.put(delivery(1))
    with running(transport, WorkerOptions(concurrency=1)) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        consumer.put(delivery(2))
        go_on.set()
        assert future.result(PATIENCE) == Counts(received=1, states={"completed": 1})
    assert [waiting.id for waiting in consumer.ready] == ["d-2"]


def test_a_worker_that_was_stopped_before_it_ran_claims_nothing(serving):
    transport = serving(completes)
    transport.consumers[NAME].put(delivery(1))
    worker = Worker(transport, [NAME], WorkerOptions())
    worker.stop()
    assert worker.run() == Counts()
    assert transport.consumers[NAME].receives == []


@pytest.fixture
def interruptible(serving):
    """A transport whose receives last until they bring something or are ended."""
    transport = serving(completes)
    transport.capabilities = frozenset({"exact_backlog", "receive_ends_at_stop"})
    transport.consumers[NAME].ends_receives = True
    return transport


@pytest.mark.parametrize("end", [Worker.stop, Worker.abort])
def test_a_stop_ends_a_receive_that_waits(interruptible, end):
    consumer = interruptible.consumers[NAME]
    with running(interruptible, WorkerOptions()) as (worker, future):
        assert eventually(lambda: consumer.receives)
        end(worker)
        assert future.result(PATIENCE) == Counts()
    assert consumer.receives == [(8, timedelta(minutes=10))]


def test_a_receive_that_goes_on_beyond_a_stop_is_a_long_one_only_while_nothing_is_in_hand(serving):
    handled = threading.Event()
    transport = serving(lambda message, context: handled.wait(PATIENCE))
    consumer = transport.consumers[NAME]
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: consumer.receives)
        before = len(consumer.receives)
        consumer.put(delivery(1))
        assert eventually(lambda: (7, timedelta(seconds=2)) in consumer.receives)
        assert consumer.receives[:before] == [(8, timedelta(minutes=10))] * before
        handled.set()
        assert eventually(lambda: consumer.receives[-1] == (8, timedelta(minutes=10)))
        worker.stop()
        future.result(PATIENCE)
    short = [wait for _, wait in consumer.receives if wait == timedelta(seconds=2)]
    assert {wait for limit, wait in consumer.receives if limit < 8} == set(short)


def test_an_idle_receive_waits_no_longer_than_the_worker_may_be_idle(interruptible):
    assert run(interruptible, WorkerOptions(idle_exit=timedelta(seconds=0.3))) == Counts()
    first, *_ = interruptible.consumers[NAME].receives
    assert timedelta(seconds=0.1) < first[1] <= timedelta(seconds=0.3)


def test_a_receive_whose_claims_others_could_make_is_a_short_one(interruptible):
    consumer = interruptible.consumers[NAME]
    consumer.put(delivery(1))
    assert run(interruptible, WorkerOptions(max_deliveries=1)).received == 1
    assert consumer.receives == [(1, timedelta(seconds=2))]


def test_a_call_to_be_made_at_a_stop_is_made_once_and_at_once_when_the_stop_came_before():
    stop, calls = Stop(), []
    stop.then(lambda: calls.append("before"))
    assert (stop.is_set(), stop.wait(0), calls) == (False, False, [])
    stop.set()
    stop.set()
    stop.then(lambda: calls.append("after"))
    assert (stop.is_set(), stop.wait(0), calls) == (True, True, ["before", "after"])


def test_what_a_receive_still_brings_after_a_stop_is_released_unrun(serving):
    ran = []
    transport = serving(lambda message, context: ran.append(message))
    consumer = transport.consumers[NAME]
    worker = Worker(transport, [NAME], WorkerOptions())
    consumer.on_receive = worker.stop
    consumer.put(delivery(1), delivery(2))
    assert worker.run() == Counts(received=2, states={"released": 2})
    assert consumer.settled == [("release", "d-1"), ("release", "d-2")]
    assert ran == []


def aborted_by(started: threading.Event) -> Callable:
    def process(message, context):
        started.set()
        while not context.aborted:
            threading.Event().wait(0.01)
        context.check()

    return process


def test_handlers_that_outlast_the_drain_are_aborted_and_their_deliveries_released(serving):
    started = threading.Event()
    transport = serving(aborted_by(started))
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(drain=timedelta(seconds=0.1))) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        assert future.result(PATIENCE).states == {"released": 1}
    assert transport.consumers[NAME].settled == [("release", "d-1")]


def test_a_complete_that_comes_after_the_abort_still_completes(serving):
    started = threading.Event()

    def process(message, context):
        started.set()
        assert eventually(lambda: context.aborted)

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(drain=timedelta(0))) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        assert future.result(PATIENCE).states == {"completed": 1}


def test_an_abort_does_not_wait_for_the_drain(serving):
    started = threading.Event()
    transport = serving(aborted_by(started))
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(drain=timedelta(hours=1))) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        worker.abort()
        assert future.result(PATIENCE).states == {"released": 1}


def test_a_handler_that_ignores_its_abort_is_given_up_and_everything_is_settled_once(serving, caplog):
    """While one handler is given up, the settler still has another's completion in its hands."""
    begun, go_on, ended, settling, settle_on = (threading.Event() for _ in range(5))

    def process(message, context):
        if context.delivery_id == "d-2":
            begun.set()
            go_on.wait(PATIENCE)
            ended.set()

    def hold_first():
        settling.set()
        settle_on.wait(PATIENCE)

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.on_settle = hold_first
    consumer.put(delivery(1), delivery(2))
    options = WorkerOptions(concurrency=2, drain=timedelta(hours=1), abort_grace=timedelta(seconds=0.1))
    with running(transport, options) as (worker, future):
        assert settling.wait(PATIENCE)
        assert begun.wait(PATIENCE)
        worker.abort()
        assert eventually(lambda: "ignores its abort" in caplog.text)
        settle_on.set()
        assert future.result(PATIENCE).states == {"completed": 1, "released": 1}
    assert consumer.settled == [("complete", "d-1"), ("release", "d-2")]
    go_on.set()
    assert ended.wait(PATIENCE)
    assert eventually(lambda: not {f"{NAME}-handler-0", f"{NAME}-handler-1"} & names_of_threads())
    assert consumer.settled == [("complete", "d-1"), ("release", "d-2")]


@pytest.fixture
def heeding_interrupts() -> Iterator[None]:
    """A process that a shell started in the background has inherited that interrupts are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeding_interrupts")
def test_an_interrupt_of_the_calling_thread_drains_and_is_raised(serving):
    def process(message, context):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1))
    with pytest.raises(KeyboardInterrupt):
        run(transport, WorkerOptions(concurrency=1))
    assert transport.consumers[NAME].settled == [("complete", "d-1")]
    assert transport.consumers[NAME].closed


# --- What can go wrong -----------------------------------------------------------------------------------------


def test_a_transport_that_does_not_answer_is_asked_again(serving, caplog):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.faults = [TransportUnavailable("connection refused")]
    consumer.put(delivery(1))
    assert run(transport, WorkerOptions(max_deliveries=1)).states == {"completed": 1}
    assert "cannot receive, trying again in 0.5 s: connection refused" in caplog.text


def test_a_stop_cuts_the_pause_after_an_error_short(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.faults = [TransportUnavailable("gone")] * 100
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: len(consumer.receives) >= 2)
        began = time.monotonic()
        worker.stop()
        assert future.result(PATIENCE) == Counts()
        assert time.monotonic() - began < 0.9  # the second pause alone is a second long


def test_claims_that_an_error_prevented_can_be_made_later(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.faults = [TransportUnavailable("gone")]
    consumer.put(*(delivery(i) for i in range(5)))
    assert run(transport, WorkerOptions(max_deliveries=3)).received == 3


def test_a_fault_of_the_transport_stops_the_worker_after_a_drain_and_is_raised(serving):
    transport = serving(completes, completes)
    for name, consumer in transport.consumers.items():
        consumer.put(delivery(1, subscription=name))
    transport.consumers[NAME].faults = [KeyError("a bug")]
    with pytest.raises(KeyError, match="a bug"):
        run(transport, WorkerOptions())
    assert all(consumer.closed for consumer in transport.consumers.values())


def test_a_handler_that_exits_has_failed_an_attempt_and_the_worker_goes_on(serving):
    def process(message, context):
        if context.delivery_id == "d-1":
            sys.exit(3)

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1), delivery(2))
    assert run(transport).states == {"retried": 2, "dead": 1, "completed": 1}


def test_once_says_that_the_transport_does_not_answer(serving):
    transport = serving(completes)
    transport.consumers[NAME].faults = [TransportUnavailable("connection refused")]
    with pytest.raises(TransportUnavailable, match="connection refused"):
        run(transport)


def test_an_idle_exit_does_not_wait_for_a_transport_that_never_answers_and_says_so(serving):
    transport = serving(completes)
    transport.consumers[NAME].faults = [TransportUnavailable("gone")] * 1000
    with pytest.raises(TransportUnavailable, match="gone"):
        run(transport, WorkerOptions(idle_exit=timedelta(seconds=0.1)))


def test_a_transport_that_was_silent_once_and_then_had_nothing_is_no_failure(serving):
    transport = serving(completes)
    transport.consumers[NAME].faults = [TransportUnavailable("gone")]
    assert run(transport, WorkerOptions(idle_exit=timedelta(seconds=0.7))) == Counts()


@pytest.mark.parametrize("fault", [SubscriptionNotFound(NAME, "it was removed"), TransportRejected("no right")])
def test_what_ends_one_subscription_leaves_the_others_running(serving, fault):
    transport = serving(completes, completes)
    first, second = transport.consumers.values()
    first.faults = [fault]
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: first.closed)
        second.put(delivery(2, subscription=f"{NAME}.2"))
        assert eventually(lambda: second.settled == [("complete", "d-2")])
        assert worker.states == {NAME: "unsupported", f"{NAME}.2": "running"}
        worker.stop()
        assert future.result(PATIENCE).states == {"completed": 1}


def test_a_worker_whose_subscriptions_have_all_ended_ends_with_the_first_reason(serving):
    transport = serving(completes, completes)
    for name, consumer in transport.consumers.items():
        consumer.faults = [TransportRejected(f"no right to {name}")]
    with pytest.raises(TransportRejected, match=r"no right to documents\.convert$"):
        run(transport, WorkerOptions())


def test_rules_that_are_applied_while_a_worker_runs_hold_from_the_next_claim_on(serving):
    def process(message, context):
        raise RuntimeError(f"attempt of {context.max_attempts}")

    transport = serving(process, max_attempts=1)
    consumer = transport.consumers[NAME]
    consumer.policy = replace(consumer.policy, max_attempts=2)
    consumer.put(delivery(1))
    assert run(transport).states == {"retried": 1, "dead": 1}


def test_a_transport_that_hangs_does_not_keep_a_worker_that_was_told_to_stop(serving, caplog):
    hanging, go_on = threading.Event(), threading.Event()

    def hang():
        hanging.set()
        go_on.wait(PATIENCE)

    transport = serving(completes)
    transport.consumers[NAME].on_receive = hang
    worker = Worker(transport, [NAME], WorkerOptions(drain=timedelta(0), abort_grace=timedelta(0)))
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(worker.run)
        assert hanging.wait(PATIENCE)
        worker.stop()
        assert future.result(PATIENCE) == Counts()
        assert worker.abandoned
        go_on.set()
    assert caplog.text.count("given up: ") == 1  # and not waited for twice


def test_the_first_of_several_faults_is_the_one_that_is_raised(serving):
    started = threading.Event()

    def process(message, context):
        started.set()
        assert eventually(lambda: context.aborted)
        sys.exit(4)

    transport = serving(process)
    consumer = transport.consumers[NAME]

    def fail_later():
        if len(consumer.receives) > 1:
            assert started.wait(PATIENCE)
            raise KeyError("first")

    consumer.on_receive = fail_later
    consumer.put(delivery(1))
    with pytest.raises(KeyError, match="first"):
        run(transport, WorkerOptions(concurrency=2, drain=timedelta(0)))
    assert consumer.settled == [("release", "d-1")]


def test_a_fault_of_closing_is_raised_too(serving):
    transport = serving(completes)

    def broken():
        raise OSError("cannot close")

    transport.consumers[NAME].close = broken
    with pytest.raises(OSError, match="cannot close"):
        run(transport)


@pytest.mark.parametrize(
    ("answer", "states"),
    [
        (LeaseLost(), {"lease_lost": 1, "completed": 1}),
        (Settled(state="dead"), {"dead": 1, "completed": 1}),
    ],
)
def test_every_answer_of_a_settle_is_counted(serving, answer, states):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.answers = {"d-1": answer}
    consumer.put(delivery(1), delivery(2))
    assert run(transport).states == states


def test_an_outcome_that_could_not_be_settled_is_settled_later_while_its_lease_holds(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.answers = {"d-1": Failed(error="no answer")}
    consumer.put(delivery(1), delivery(2))
    with running(transport, ONCE) as (_, future):
        assert eventually(lambda: len(consumer.calls) >= 2)
        consumer.answers = {}
        assert future.result(PATIENCE).states == {"completed": 2}


def test_an_outcome_whose_lease_is_over_is_not_tried_again(serving):
    transport = serving(completes, lease_seconds=0)
    consumer = transport.consumers[NAME]
    consumer.answers = {"d-1": Failed(error="no answer")}
    consumer.put(delivery(1), delivery(2))
    assert run(transport).states == {"failed": 1, "completed": 1}


def test_a_settle_that_raises_is_counted_as_failed_and_the_worker_goes_on(serving, caplog):
    def process(message, context):
        return DeadLetter("no") if context.delivery_id == "d-1" else Complete()

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.answers = {"d-1": ZeroDivisionError("a bug")}
    consumer.put(delivery(1))
    assert run(transport).states == {"failed": 1}
    assert "ZeroDivisionError: a bug" in caplog.text
    transport.renew_consumer(NAME)
    transport.consumers[NAME].put(delivery(2))
    assert run(transport).states == {"completed": 1}


def test_a_log_that_breaks_stops_the_worker_and_is_raised(serving):
    class Broken(logging.Handler):
        def handle(self, record):
            raise BrokenPipeError("no disk left")

    transport = serving(completes)
    transport.consumers[NAME].put(delivery(1), delivery(2))
    log, broken = logging.getLogger("towpath.delivery"), Broken()
    log.addHandler(broken)
    log.setLevel(logging.INFO)
    try:
        with pytest.raises(BrokenPipeError):
            run(transport)
    finally:
        log.removeHandler(broken)
        log.setLevel(logging.NOTSET)
    assert transport.consumers[NAME].settled == [("complete", "d-1"), ("complete", "d-2")]


def test_what_is_decided_during_a_settle_is_settled_together(serving):
    settling, settle_on, handled = threading.Event(), threading.Event(), []

    def hold_first():
        if not settling.is_set():
            settling.set()
            settle_on.wait(PATIENCE)

    transport = serving(lambda message, context: handled.append(context.delivery_id))
    consumer = transport.consumers[NAME]
    consumer.on_settle = hold_first
    consumer.put(delivery(0))
    with running(transport, replace(ONCE, concurrency=2)) as (_, future):
        assert settling.wait(PATIENCE)
        consumer.put(*(delivery(i) for i in range(1, 9)))
        assert eventually(lambda: len(handled) == 9)
        settle_on.set()
        assert future.result(PATIENCE).states == {"completed": 9}
    first, second = consumer.calls[:2]
    assert first == ("complete", ["d-0"])
    assert len(second[1]) >= 6  # of the other eight, two at most were still on their way from their threads


def test_a_lease_that_is_lost_while_the_handler_runs_aborts_it_and_settles_nothing(serving):
    reasons = []

    def process(message, context):
        assert not context.heartbeat(percent=50)
        reasons.append(context.abort_reason)
        context.check()

    transport = serving(process)
    transport.consumers[NAME].extend_answer = LeaseLost()
    transport.consumers[NAME].put(delivery(1))
    assert run(transport).states == {"lease_lost": 1}
    assert reasons == ["lease_lost"]
    assert transport.consumers[NAME].settled == []


def test_a_handler_that_is_cancelled_is_aborted_and_the_cancel_acknowledged(serving):
    reasons = []

    def process(message, context):
        assert not context.heartbeat(percent=50)
        reasons.append(context.abort_reason)
        context.check()

    transport = serving(process)
    transport.consumers[NAME].extend_answer = CancelRequested()
    transport.consumers[NAME].put(delivery(1))
    assert run(transport).states == {"discarded": 1}
    assert reasons == ["cancelled"]
    assert transport.consumers[NAME].settled == [("acknowledge", "d-1")]


def test_an_outcome_that_comes_after_a_cancel_is_refused_and_the_cancel_acknowledged(serving):
    """Also when the transport does not answer at once: until then the delivery's key is held."""

    class Cancelled(FakeConsumer):
        fails = 1

        def complete(self, completions):
            super().complete(completions)
            return [CancelRequested() if c.delivery.id == "d-1" else Settled(state="completed") for c in completions]

        def acknowledge_cancel(self, acknowledgements):
            if self.fails:
                self.fails -= 1
                return [Failed(error="no answer") for _ in acknowledgements]
            return super().acknowledge_cancel(acknowledgements)

    transport = serving(completes)
    consumer = transport.consumers[NAME] = Cancelled()
    consumer.policy = transport.policies()[NAME]
    consumer.put(delivery(1), delivery(2))
    assert run(transport).states == {"discarded": 1, "completed": 1}
    assert consumer.settled == [("acknowledge", "d-1"), ("complete", "d-1"), ("complete", "d-2")]


def test_leases_are_renewed_while_handlers_run(serving):
    extended = threading.Event()

    def process(message, context):
        assert extended.wait(PATIENCE)

    transport = serving(process, lease_seconds=0)
    consumer = transport.consumers[NAME]

    def extend(extensions):
        extended.set()
        return [Settled(state="leased")] * len(extensions)

    consumer.extend = extend
    consumer.put(delivery(1))
    assert run(transport).states == {"completed": 1}


def test_a_handler_that_runs_too_long_is_aborted_and_retried(serving):
    reasons = []

    def process(message, context):
        if context.attempt == 1:
            assert context.remaining() <= timedelta(seconds=0.05)
            assert eventually(lambda: context.aborted)
            reasons.append(context.abort_reason)
            context.check()

    transport = serving(process, max_processing_seconds=0.05)
    transport.consumers[NAME].put(delivery(1))
    assert run(transport).states == {"retried": 1, "completed": 1}
    assert reasons == ["max_processing"]


def test_a_settle_waits_for_a_renewal_that_is_on_its_way(serving):
    renewing, answer, order = threading.Event(), threading.Event(), []

    def process(message, context):
        assert renewing.wait(PATIENCE)

    def extend(extensions):
        renewing.set()
        answer.wait(PATIENCE)
        order.append("answered")
        return [Settled(state="leased")] * len(extensions)

    transport = serving(process, lease_seconds=0)
    consumer = transport.consumers[NAME]
    consumer.extend = extend
    consumer.on_settle = lambda: order.append("settled")
    consumer.put(delivery(1))
    with running(transport, ONCE) as (_, future):
        assert renewing.wait(PATIENCE)
        threading.Event().wait(0.2)
        answer.set()
        future.result(PATIENCE)
    assert order == ["answered", "settled"]


# --- Before the first claim ------------------------------------------------------------------------------------


def refused(transport: FakeTransport, names: list[str], error: type[Exception]) -> str:
    with pytest.raises(error) as caught:
        Worker(transport, names, WorkerOptions())
    assert transport.consumers_asked_for == []
    return str(caught.value)


def broken(transport: FakeTransport, name: str) -> None:
    policy = replace(transport.policies()[name], handler="surely.nowhere:process")
    transport._policies = transport.policies() | {name: policy}


def test_a_handler_that_does_not_resolve_claims_nothing(serving):
    transport = serving(completes)
    broken(transport, NAME)
    assert "there is no module 'surely'" in refused(transport, [NAME], HandlerNotFound)
    assert transport.consumers[NAME].receives == []


def test_a_handler_that_does_not_resolve_keeps_no_other_subscription_from_running(serving, caplog):
    transport = serving(completes, completes)
    broken(transport, f"{NAME}.2")
    transport.consumers[NAME].put(delivery(1))
    worker = Worker(transport, [NAME, f"{NAME}.2", "documents.gone"], ONCE)
    assert worker.states == {NAME: "running", f"{NAME}.2": "handler_not_found", "documents.gone": "unsupported"}
    assert worker.run().states == {"completed": 1}
    assert transport.consumers[f"{NAME}.2"].receives == []
    lines = [record.getMessage() for record in caplog.records if "is not served" in record.getMessage()]
    assert [line.partition(" is not served: ")[0] for line in lines] == [f"{NAME}.2", "documents.gone"]


def test_a_payload_type_that_cannot_be_validated_claims_nothing(serving):
    class Opaque:
        """What pydantic knows nothing of."""

    def process(message, context):
        """Never runs."""

    process.__annotations__["message"] = Message[Opaque]
    assert "its payload type cannot be validated" in refused(serving(process), [NAME], HandlerNotFound)


def test_an_unknown_subscription_claims_nothing_and_the_known_ones_are_named(serving):
    message = refused(serving(completes), ["documents.convrt"], SubscriptionNotFound)
    assert message == "there is no subscription 'documents.convrt'; only others are there"
    assert "has no subscription with a handler" in refused(FakeTransport({}), ["*"], SubscriptionNotFound)


def test_a_subscription_without_a_handler_claims_nothing(serving):
    transport = serving(completes)
    transport._policies = {NAME: replace(transport.policies()[NAME], handler=None)}
    assert "its host is 'external'" in refused(transport, [NAME], Unsupported)


def test_a_subscription_named_twice_is_served_once(serving):
    transport = serving(completes)
    Worker(transport, [NAME, NAME], WorkerOptions())
    assert transport.consumers_asked_for == [NAME]


def test_a_worker_of_no_subscription_ends_at_once():
    assert Worker(FakeTransport({}), [], WorkerOptions()).run() == Counts()


# --- async -----------------------------------------------------------------------------------------------------


def test_coroutines_of_one_thread_share_a_loop_that_is_closed_at_the_end(serving):
    loops = []

    async def process(message, context):
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    transport = serving(process)
    transport.consumers[NAME].put(*(delivery(i) for i in range(3)))
    assert run(transport, WorkerOptions(concurrency=1, once=True)).states == {"completed": 3}
    assert len(loops) == 3
    assert len(set(map(id, loops))) == 1
    assert loops[0].is_closed()


def test_coroutines_of_several_threads_run_beside_each_other(serving):
    line = threading.Barrier(3)

    async def process(message, context):
        line.wait(PATIENCE)

    transport = serving(process)
    transport.consumers[NAME].put(*(delivery(i) for i in range(3)))
    assert run(transport).states == {"completed": 3}


# --- Sweeping, counting, logging -------------------------------------------------------------------------------


def test_a_worker_sweeps_a_transport_that_has_housekeeping(serving):
    transport = serving(completes, kind=SweptTransport)
    with running(transport, WorkerOptions()) as (worker, future):
        assert transport.swept.wait(PATIENCE)
        worker.stop()
        future.result(PATIENCE)


@pytest.mark.parametrize("fault", [TransportUnavailable("locked"), ZeroDivisionError("a bug")])
def test_a_sweep_that_fails_is_put_off_and_the_worker_goes_on(serving, caplog, fault):
    transport = serving(completes, kind=SweptTransport)
    transport.fault = fault
    with running(transport, WorkerOptions()) as (worker, future):
        assert transport.swept.wait(PATIENCE)
        transport.consumers[NAME].put(delivery(1))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        worker.stop()
        future.result(PATIENCE)
    is_passing = isinstance(fault, TransportUnavailable)  # of which those who receive will tell
    assert (f"the sweep is put off: {type(fault).__name__}" in caplog.text) != is_passing


def test_a_worker_ends_after_its_sweep_has(serving):
    sweeping, sweep_on, ended = threading.Event(), threading.Event(), []
    transport = serving(completes, kind=SweptTransport)

    def hold():
        sweeping.set()
        sweep_on.wait(PATIENCE)
        ended.append("sweep")

    transport.on_sweep = hold
    with running(transport, ONCE) as (_, future):
        assert sweeping.wait(PATIENCE)
        with pytest.raises(TimeoutError):
            future.result(0.3)
        sweep_on.set()
        future.result(PATIENCE)
    assert ended == ["sweep"]


def test_counts_can_be_read_while_the_worker_runs(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    with running(transport, WorkerOptions()) as (worker, future):
        for i in range(50):
            consumer.put(delivery(i))
            assert worker.counts.received <= i + 1
        assert eventually(lambda: worker.counts == Counts(received=50, states={"completed": 50}))
        worker.stop()
        assert future.result(PATIENCE) == worker.counts


def test_one_line_is_logged_for_each_delivery(serving, caplog):
    caplog.set_level(logging.INFO, "towpath.delivery")

    def process(message, context):
        return DeadLetter("not for us") if context.delivery_id == "d-2" else None

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1, '{"secret": 1}'), delivery(2))
    run(transport)
    lines = {record.delivery_id: record for record in caplog.records if record.name == "towpath.delivery"}
    assert {name: record.state for name, record in lines.items()} == {"d-1": "completed", "d-2": "dead"}
    assert lines["d-2"].reason == "not for us"
    assert lines["d-1"].duration_ms >= 0
    assert "secret" not in caplog.text


def test_no_thread_is_left_when_a_worker_has_ended(serving):
    others = set(threading.enumerate())  # of tests with handlers that ignore their abort
    transport = serving(completes, kind=SweptTransport)
    transport.consumers[NAME].put(*(delivery(i) for i in range(10)))
    run(transport)
    assert eventually(lambda: not set(threading.enumerate()) - others)
