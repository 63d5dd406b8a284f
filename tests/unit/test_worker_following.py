"""The worker and the topology: which subscriptions it serves, how they stand, and what changes while it runs.

Also what all of them share: places, and the time that a worker has.
"""

import asyncio
import logging
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fakes.serving import NAME, PATIENCE, FakeConsumer, FakeTransport, delivery, eventually, run, running
from towpath import Complete
from towpath.errors import TransportUnavailable
from towpath.settlement import Settled
from towpath.worker import Counts, Worker, WorkerOptions

OTHER = f"{NAME}.2"


def completes(message, context):
    return Complete()


def look(worker: Worker) -> None:
    """What the worker does every 2 s."""
    worker._roster.look()


def changed(transport: FakeTransport, name: str = NAME, **policy) -> None:
    """Have another policy applied, as a database has it: the consumer goes by it from its next claim on."""
    found = replace(transport.policies()[name], **policy)
    transport._policies = transport.policies() | {name: found}
    transport.consumers[name].policy = found


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "towpath.worker"]


# --- The topology ----------------------------------------------------------------------------------------------


def test_a_star_serves_what_is_added_and_no_more_what_is_removed(serving, caplog):
    transport = serving(completes, completes)
    both = transport.policies()
    transport._policies = {NAME: both[NAME]}
    with running(transport, WorkerOptions(), names=["*"]) as (worker, future):
        assert worker.states == {NAME: "running"}
        transport._policies = both
        look(worker)
        transport.consumers[OTHER].put(delivery(2, subscription=OTHER))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        transport._policies = {OTHER: both[OTHER]}
        look(worker)
        assert worker.states == {OTHER: "running"}
        assert eventually(lambda: transport.consumers[NAME].closed)
        worker.stop()
        assert future.result(PATIENCE) == Counts(received=1, states={"completed": 1})
    assert [line for line in lines(caplog) if "served no more" in line] != []


def test_the_counts_of_a_subscription_that_was_removed_stay(serving):
    transport = serving(completes, completes)
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(), names=["*"]) as (worker, future):
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        transport._policies = {OTHER: transport.policies()[OTHER]}
        look(worker)
        assert eventually(lambda: transport.consumers[NAME].closed)
        look(worker)
        assert [service.name for service in worker._roster.services] == [OTHER]
        worker.stop()
        assert future.result(PATIENCE).states == {"completed": 1}


def test_a_star_leaves_out_what_has_no_handler_here(serving):
    transport = serving(completes, completes)
    changed(transport, OTHER, handler=None)
    assert Worker(transport, ["*"], WorkerOptions()).states == {NAME: "running"}


def test_a_handler_that_did_not_load_is_tried_again_when_the_topology_changes(serving, path_to, caplog):
    transport = serving(completes, completes)
    changed(transport, OTHER, handler="surely.nowhere:process")
    with running(transport, WorkerOptions()) as (worker, future):
        look(worker)
        assert worker.states == {NAME: "running", OTHER: "handler_not_found"}
        changed(transport, OTHER, handler=path_to(completes))
        look(worker)
        assert worker.states == {NAME: "running", OTHER: "running"}
        transport.consumers[OTHER].put(delivery(1, subscription=OTHER))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        worker.stop()
        future.result(PATIENCE)
    told = [line for line in lines(caplog) if line.startswith(OTHER)]
    assert [line.partition(":")[0] for line in told] == [f"{OTHER} is not served", f"{OTHER} is served again"]


def test_another_handler_takes_over_with_the_claim_that_brings_it(serving, path_to):
    seen = []
    transport = serving(lambda message, context: seen.append("old"))
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: seen == ["old"])
        changed(transport, handler=path_to(lambda message, context: seen.append("new")))
        transport.consumers[NAME].put(delivery(2))
        assert eventually(lambda: len(seen) == 2)
        worker.stop()
        future.result(PATIENCE)
    assert seen == ["old", "new"]


def test_what_is_claimed_for_a_handler_that_does_not_load_is_given_back(serving):
    transport = serving(completes, completes)
    with running(transport, WorkerOptions()) as (worker, future):
        changed(transport, handler="surely.nowhere:process")
        transport.consumers[NAME].put(delivery(1))
        assert eventually(lambda: transport.consumers[NAME].closed)
        assert worker.states == {NAME: "handler_not_found", OTHER: "running"}
        worker.stop()
        assert future.result(PATIENCE) == Counts(received=1, states={"released": 1})


def test_a_subscription_that_was_asked_for_by_name_comes_back_when_it_is_there_again(serving):
    transport = serving(completes, completes)
    both = transport.policies()
    with running(transport, WorkerOptions()) as (worker, future):
        transport._policies = {OTHER: both[OTHER]}
        look(worker)
        assert worker.states == {NAME: "unsupported", OTHER: "running"}
        assert eventually(lambda: transport.consumers[NAME].closed)
        transport.renew_consumer_of(both[NAME])
        transport._policies = both
        look(worker)
        assert worker.states == {NAME: "running", OTHER: "running"}
        transport.consumers[NAME].put(delivery(1))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        worker.stop()
        future.result(PATIENCE)


def test_a_look_that_fails_changes_nothing_and_the_next_one_takes_all_up(serving):
    transport = serving(completes, completes)
    both = transport.policies()
    transport._policies = {NAME: both[NAME]}
    worker = Worker(transport, ["*"], WorkerOptions())
    transport._policies, transport.fault_of_consumers = both, TransportUnavailable("no answer")
    with pytest.raises(TransportUnavailable):
        look(worker)
    transport.fault_of_consumers = None
    look(worker)
    assert worker.states == {NAME: "running", OTHER: "running"}


def test_a_handler_that_takes_long_to_load_holds_up_neither_the_others_nor_a_stop(serving):
    transport = serving(completes, completes)
    both, load = transport.policies(), transport.consumer
    transport._policies = {NAME: both[NAME]}
    begun, go_on = threading.Event(), threading.Event()

    def load_slowly(name):
        begun.set()
        go_on.wait(PATIENCE)
        return load(name)

    with running(transport, WorkerOptions(), names=["*"]) as (worker, future):
        transport._policies, transport.consumer = both, load_slowly
        looking = threading.Thread(target=look, args=(worker,))
        looking.start()
        assert begun.wait(PATIENCE)
        transport.consumers[NAME].put(delivery(1))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        worker.stop()
        assert future.result(PATIENCE) == Counts(received=1, states={"completed": 1})
        assert looking.is_alive()
        go_on.set()
        looking.join(PATIENCE)
    assert [service.name for service in worker._roster.services] == [NAME]
    assert not worker.abandoned


def test_a_worker_goes_on_while_the_only_handler_that_is_left_loads(serving):
    transport = serving(completes, completes)
    both, load = transport.policies(), transport.consumer
    transport._policies = {NAME: both[NAME]}

    def load_slowly(name):
        assert eventually(lambda: transport.consumers[NAME].closed)
        threading.Event().wait(0.3)  # for the worker to see that nothing runs
        return load(name)

    with running(transport, WorkerOptions(), names=["*"]) as (worker, future):
        transport._policies, transport.consumer = {OTHER: both[OTHER]}, load_slowly
        look(worker)
        transport.consumers[OTHER].put(delivery(1, subscription=OTHER))
        assert eventually(lambda: worker.counts.states == {"completed": 1})
        worker.stop()
        assert future.result(PATIENCE).received == 1


# --- States ----------------------------------------------------------------------------------------------------


def test_a_pause_and_its_end_are_seen_and_told(serving, caplog):
    transport = serving(completes)
    worker = Worker(transport, [NAME], WorkerOptions())
    changed(transport, status="paused")
    look(worker)
    assert worker.states == {NAME: "paused"}
    look(worker)
    changed(transport, status="active")
    look(worker)
    assert worker.states == {NAME: "running"}
    assert lines(caplog) == [f"{NAME} is paused: nothing is claimed from it", f"{NAME} is served again"]


def test_a_transport_that_does_not_answer_is_an_error_until_it_does(serving, caplog):
    transport = serving(completes, completes)
    for consumer in transport.consumers.values():
        consumer.faults = [TransportUnavailable("gone")]
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: worker.states == {NAME: "error", OTHER: "error"})
        assert eventually(lambda: worker.states == {NAME: "running", OTHER: "running"})
        worker.stop()
        future.result(PATIENCE)
    first, last = lines(caplog)
    assert first == "cannot receive, trying again in 0.5 s: gone"
    assert last.startswith("answered again, after ")


# --- What is shared --------------------------------------------------------------------------------------------


class Meter:
    """A handler that knows how many run beside each other."""

    def __init__(self):
        self.running, self.most, self.seen = 0, 0, []
        self._lock = threading.Lock()

    def __call__(self, message, context):
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.seen.append(context.subscription)
        threading.Event().wait(0.005)
        with self._lock:
            self.running -= 1


@pytest.mark.parametrize("once", [True, False])
def test_no_more_run_at_a_time_than_the_cap_says_over_all_subscriptions(serving, once):
    meter = Meter()
    transport = serving(meter, meter, meter)
    for name, consumer in transport.consumers.items():
        consumer.put(*(delivery(i, subscription=name) for i in range(20)))
    limit = None if once else timedelta(seconds=0.5)
    counts = run(transport, WorkerOptions(concurrency=8, max_in_flight=2, once=once, idle_exit=limit))
    assert counts == Counts(received=60, states={"completed": 60})
    assert meter.most == 2


def test_a_busy_subscription_keeps_no_other_one_out_of_its_places(serving):
    """It has work for all of them, all the time."""
    meter = Meter()
    transport = serving(meter, meter)
    busy, other = transport.consumers.values()
    numbers = iter(range(100_000))
    busy.on_receive = lambda: busy.put(*(delivery(next(numbers)) for _ in range(8 - len(busy.ready))))
    with running(transport, WorkerOptions(concurrency=8, max_in_flight=2)) as (worker, future):
        assert eventually(lambda: meter.seen.count(NAME) > 20)
        for i in range(10):
            other.put(delivery(i, subscription=OTHER))
        assert eventually(lambda: meter.seen.count(OTHER) == 10)
        worker.stop()
        future.result(PATIENCE)
    assert meter.most == 2


def test_what_cannot_run_soon_is_not_claimed(serving):
    """One that waits for something to come may have claimed that one; it gives it back."""
    go_on, started = threading.Event(), []

    def process(message, context):
        started.append(context.delivery_id)
        go_on.wait(PATIENCE)

    transport = serving(process)
    consumer = transport.consumers[NAME]
    consumer.put(*(delivery(i) for i in range(10)))
    with running(transport, WorkerOptions(concurrency=8, max_in_flight=3)) as (worker, future):
        assert eventually(lambda: len(started) == 3)
        threading.Event().wait(0.3)
        assert len(consumer.ready) == 7
        worker.stop()
        go_on.set()
        assert future.result(PATIENCE) == Counts(received=3, states={"completed": 3})


def test_a_time_box_drains_and_is_no_failure(serving):
    transport = serving(completes)
    transport.consumers[NAME].put(delivery(1))
    began = time.monotonic()
    assert run(transport, WorkerOptions(max_duration=timedelta(seconds=0.3))).states == {"completed": 1}
    assert time.monotonic() - began >= 0.3


def test_a_time_box_that_ends_before_the_transport_ever_answered_is_a_failure(serving):
    transport = serving(completes)
    transport.consumers[NAME].faults = [TransportUnavailable("gone")] * 1000
    with pytest.raises(TransportUnavailable, match="gone"):
        run(transport, WorkerOptions(max_duration=timedelta(seconds=0.2)))


def test_a_stop_is_no_failure_even_if_the_transport_never_answered(serving):
    transport = serving(completes)
    consumer = transport.consumers[NAME]
    consumer.faults = [TransportUnavailable("gone")] * 1000
    with running(transport, WorkerOptions()) as (worker, future):
        assert eventually(lambda: consumer.receives)
        worker.stop()
        assert future.result(PATIENCE) == Counts()


# --- Handlers that compute, and that wait ----------------------------------------------------------------------


def test_a_handler_that_computes_without_a_pause_keeps_its_lease(serving):
    """The threads that renew get their turn."""
    renewed = threading.Event()

    def process(message, context):
        ends_at = time.monotonic() + PATIENCE
        while not renewed.is_set() and time.monotonic() < ends_at:
            sum(range(1_000))
        assert renewed.is_set()

    transport = serving(process, lease_seconds=0)

    class Renewing(FakeConsumer):
        def extend(self, extensions):
            renewed.set()
            return [Settled(state="leased")] * len(extensions)

    policy = transport.policies()[NAME]
    consumer = transport.consumers[NAME] = Renewing()
    consumer.policy = policy
    consumer.put(delivery(1))
    assert run(transport, WorkerOptions(once=True)).states == {"completed": 1}


def waits_for_ever(started: threading.Event, ended: list):
    async def process(message, context):
        started.set()
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(context.abort_reason)

    return process


def test_an_async_handler_that_waits_is_cancelled_by_an_abort(serving):
    started, ended = threading.Event(), []
    transport = serving(waits_for_ever(started, ended))
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(drain=timedelta(0))) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        assert future.result(PATIENCE).states == {"released": 1}
    assert ended == ["shutdown"]
    assert not worker.abandoned


def test_an_async_handler_that_waits_too_long_is_cancelled_and_retried(serving):
    ended = []
    transport = serving(waits_for_ever(threading.Event(), ended), max_processing_seconds=0.05, max_attempts=2)
    transport.consumers[NAME].put(delivery(1))
    assert run(transport, WorkerOptions(concurrency=1, once=True)).states == {"retried": 1, "dead": 1}
    assert ended == ["max_processing"] * 2


def test_an_async_handler_may_complete_although_it_is_cancelled(serving):
    started = threading.Event()

    async def process(message, context):
        started.set()
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            return Complete()

    transport = serving(process)
    transport.consumers[NAME].put(delivery(1))
    with running(transport, WorkerOptions(drain=timedelta(0))) as (worker, future):
        assert started.wait(PATIENCE)
        worker.stop()
        assert future.result(PATIENCE).states == {"completed": 1}


def test_after_one_was_cancelled_the_next_one_runs_on_the_same_thread(serving, caplog):
    caplog.set_level(logging.INFO)

    async def process(message, context):
        if context.delivery_id == "d-1" and context.attempt == 1:
            await asyncio.sleep(3_600)
        await asyncio.sleep(0)

    transport = serving(process, max_processing_seconds=0.05)
    transport.consumers[NAME].put(delivery(1), delivery(2))
    options = WorkerOptions(concurrency=1, once=True)
    assert run(transport, options).states == {"retried": 1, "completed": 2}
