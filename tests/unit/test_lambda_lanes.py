"""Which records of an event run, in which order and beside which others; and what goes back unstarted."""

import gc
import threading
from collections import deque

import pytest

from lambda_runtime.threads import EventLoops, Threads
from tests.fakes.lambdas import LambdaContext, event, failed, made, no_more_threads, record
from tests.fakes.sqs import FakeSqs
from towpath import Context, DeadLetter, FatalError, Message, Retry
from towpath.errors import InvalidEnvelope

WAIT = 10  # seconds: how long a test waits for another thread before it fails


def released(sqs):
    return [
        entry["ReceiptHandle"]
        for name, _, entries in sqs.calls
        for entry in entries
        if name == "hide" and entry["VisibilityTimeout"] == 0
    ]


def document(message):
    return message.payload["documents"][0]["name"]


def grouped(*groups):
    return {"Records": [record(n, n, group=group) for n, group in enumerate(groups)]}


def test_the_records_of_a_group_run_in_order_and_groups_beside_each_other():
    both = threading.Barrier(2, timeout=WAIT)
    seen = []

    def process(message: Message, context: Context):
        if document(message) in ("1.pdf", "2.pdf"):  # the first of each group wait for each other
            both.wait()
        seen.append(document(message))

    handler = made(process, FakeSqs(), fifo=True)
    assert failed(handler(event("sqs_fifo.json"), LambdaContext(50_000))) == []
    assert [name for name in seen if name in ("1.pdf", "3.pdf", "4.pdf")] == ["1.pdf", "3.pdf", "4.pdf"]
    assert [name for name in seen if name in ("2.pdf", "5.pdf")] == ["2.pdf", "5.pdf"]


def test_after_a_record_that_is_not_done_the_rest_of_its_group_goes_back_unstarted():
    seen = []

    def process(message: Message, context: Context):
        seen.append(message.payload)
        return Retry(after=30) if message.payload == 1 else None

    handler = made(process, sqs := FakeSqs(), fifo=True)
    response = handler(grouped("a", "a", "b", "a", "b", "a"), None)
    assert failed(response) == ["message-1", "message-3", "message-5"]
    assert sorted(seen) == [0, 1, 2, 4]
    hidden = [(e["ReceiptHandle"], e["VisibilityTimeout"]) for _, _, entries in sqs.calls for e in entries]
    assert hidden == [("handle-1", 30), ("handle-3", 0), ("handle-5", 0)]
    assert len(sqs.calls) == 2


def test_a_dead_letter_does_not_hold_its_group_but_one_that_cannot_be_copied_does():
    seen = []

    def process(message: Message, context: Context):
        seen.append(message.payload)
        return DeadLetter("no") if message.payload == 0 else None

    assert failed(made(process, FakeSqs(), fifo=True)(grouped("a", "a"), None)) == []
    assert seen == [0, 1]
    unsendable = FakeSqs({"0": ("InternalError", "")})
    assert failed(made(process, unsendable, fifo=True)(grouped("a", "a"), None)) == ["message-0", "message-1"]
    assert seen == [0, 1, 0]
    assert released(unsendable) == ["handle-1"]


def test_an_unreadable_record_behind_a_failed_one_of_its_group_goes_back_with_it():
    def process(message: Message, context: Context):
        raise ValueError("no")

    broken = record(1, '{"schema": "towpath/1"}', group="a")
    handler = made(process, sqs := FakeSqs(), fifo=True)
    assert failed(handler({"Records": [record(0, 0, group="a"), broken]}, None)) == ["message-0", "message-1"]
    assert [name for name, _, _ in sqs.calls] == ["hide", "hide"]


def test_what_exits_holds_its_group():
    def process(message: Message, context: Context):
        raise SystemExit

    handler = made(process, sqs := FakeSqs(), fifo=True)
    assert failed(handler(grouped("a", "a", "b"), None)) == ["message-0", "message-1", "message-2"]
    assert released(sqs) == ["handle-1"]  # the rest of a; those that exited wait for their back-off


def test_the_groups_of_a_standard_queue_promise_no_order_and_hold_nothing_back():
    both = threading.Barrier(2, timeout=WAIT)

    def process(message: Message, context: Context):
        both.wait()
        return Retry() if message.payload == 0 else None

    handler = made(process, FakeSqs(), fifo=False)
    assert failed(handler(grouped("a", "a"), None)) == ["message-0"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_records_run_at_a_time_than_the_concurrency_allows_and_that_many_do(concurrency):
    lock, running, most = threading.Lock(), [0], [0]
    full = threading.Barrier(concurrency, timeout=WAIT)

    def process(message: Message, context: Context):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        full.wait()
        with lock:
            running[0] -= 1

    handler = made(process, FakeSqs(), concurrency=concurrency)
    for _ in range(2):
        assert failed(handler({"Records": [record(n, n) for n in range(6)]}, None)) == []
    assert most[0] == concurrency


def test_a_release_that_breaks_behind_a_failed_record_fails_no_other_group():
    def process(message: Message, context: Context):
        return Retry() if message.payload == 1 else None

    handler = made(process, FakeSqs(error=RuntimeError("no boto3")), fifo=True)
    assert failed(handler(grouped("a", "b", "b"), None)) == ["message-1", "message-2"]


def test_a_handler_that_was_aborted_by_a_shutdown_gives_its_record_back():
    def process(message: Message, context: Context):
        context._abort.set("shutdown")  # as a guard of the deadline does for all handlers of the run
        context.check()

    handler = made(process, sqs := FakeSqs(), concurrency=1)
    assert failed(handler({"Records": [record(0, 0), record(1, 1)]}, None)) == ["message-0", "message-1"]
    assert released(sqs) == ["handle-0", "handle-1"]


def test_a_thousand_records_are_each_handled_once():
    seen = deque()

    def process(message: Message, context: Context):
        seen.append(message.payload)
        if message.payload % 10 == 3:
            raise FatalError("three")
        return Retry() if message.payload % 10 == 7 else None

    handler = made(process, sqs := FakeSqs())
    response = handler({"Records": [record(n, n) for n in range(1_000)]}, LambdaContext(50_000))
    assert sorted(seen) == list(range(1_000))
    assert failed(response) == [f"message-{n}" for n in range(1_000) if n % 10 == 7]
    assert sorted({name for name, _, _ in sqs.calls}) == ["hide", "send"]


def test_quick_work_is_done_by_the_calling_thread():
    workers = set()
    Threads(1).share(deque(range(5)), lambda item: workers.add(threading.get_ident()))
    assert workers == {threading.get_ident()}


def test_what_work_raises_comes_out_when_all_work_has_ended():
    ended = []
    started, failing = threading.Barrier(2, timeout=WAIT), threading.Event()

    def work(item):
        started.wait()
        if item == 0:
            failing.set()
            raise InvalidEnvelope("first")
        failing.wait(WAIT)
        ended.append(item)

    with pytest.raises(InvalidEnvelope, match="first"):
        Threads(2).share(deque(range(2)), work)
    assert ended == [1]


def test_where_no_thread_can_be_had_the_calling_one_does_it_all_and_has_company_again_later():
    met = threading.Barrier(2, timeout=WAIT)

    def process(message: Message, context: Context):
        if message.payload == "together":
            met.wait()

    handler = made(process, FakeSqs(), concurrency=2)
    for _ in range(3):  # the later ones begin alone, since the first was quick
        with no_more_threads():
            for _ in range(2):
                assert failed(handler({"Records": [record(n, n) for n in range(5)]}, None)) == []
        assert failed(handler({"Records": [record(n, "together") for n in range(4)]}, None)) == []


def test_event_loops_are_one_for_each_thread_and_closed_with_their_owner():
    loops = EventLoops()

    async def current():
        import asyncio

        return asyncio.get_running_loop()

    first, again = loops.run(current()), loops.run(current())
    assert first is again
    assert not first.is_closed()
    del loops
    gc.collect()
    assert first.is_closed()
