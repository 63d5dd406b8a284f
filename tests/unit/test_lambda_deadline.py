"""How an invocation ends in time: what starts no more, is told to stop, is deleted ahead of the answer, is given up."""

import logging
import threading

import pytest

from lambda_runtime.invocation import begin, last_moment_seconds, usual_seconds
from tests.fakes.lambdas import LambdaContext, Timed, failed, no_more_threads, record
from tests.fakes.sqs import FakeSqs
from towpath import Context, DeadLetter, Message, Retry
from towpath.message import utc_now

WAIT = 10  # seconds: how long a test waits for another thread before it fails


def records(*bodies, group=None):
    return {"Records": [record(n, body, group=group) for n, body in enumerate(bodies)]}


def grouped(*groups):
    return {"Records": [record(n, n, group=group) for n, group in enumerate(groups)]}


def asked(sqs, name):
    """The calls of one kind, each with the receipt handles in it; hidden ones with their visibility time-outs."""
    return [
        [(e["ReceiptHandle"], e["VisibilityTimeout"]) if name == "hide" else e["ReceiptHandle"] for e in entries]
        for called, _, entries in sqs.calls
        if called == name
    ]


def test_when_too_little_time_is_left_nothing_starts_what_is_done_is_deleted_and_the_rest_is_visible_at_once():
    seen, sqs = [], FakeSqs()

    def process(message: Message, context: Context):
        seen.append(message.payload)
        timed.now += 10  # nobody looks: the next record is not started all the same

    timed = Timed(process, sqs, concurrency=1)
    response = timed.handle(records(0, 1, 2, 3), LambdaContext(30_000))  # 60 s of time-out: the guard is at 10 s
    assert seen == [0, 1]
    assert failed(response) == ["message-2", "message-3"]
    assert [name for name, _, _ in sqs.calls] == ["delete", "hide"]
    assert asked(sqs, "delete") == [["handle-0", "handle-1"]]
    assert asked(sqs, "hide") == [[("handle-2", 0), ("handle-3", 0)]]


def test_of_a_short_time_out_a_fifth_is_kept():
    seen = []

    def process(message: Message, context: Context):
        seen.append(message.payload)
        timed.now += 2.001

    timed = Timed(process, FakeSqs(), timeout_seconds=5, concurrency=1)
    assert failed(timed.handle(records(0, 1, 2), LambdaContext(5_000))) == ["message-2"]
    assert seen == [0, 1]


def test_a_handler_that_runs_when_time_is_over_is_told_and_its_record_is_given_back():
    reasons, sqs = [], FakeSqs()

    def process(message: Message, context: Context):
        if message.payload == 1:
            timed.pass_by(50)
            reasons.extend(wait_for_abort(context))
            context.check()

    timed = Timed(process, sqs, concurrency=1)
    assert failed(timed.handle(records(0, 1, 2), LambdaContext(60_000))) == ["message-1", "message-2"]
    assert reasons == ["shutdown"]
    assert asked(sqs, "delete") == [["handle-0"]]
    assert sorted(asked(sqs, "hide")) == [[("handle-1", 0)], [("handle-2", 0)]]


def wait_for_abort(context):
    """The reason, when it has come: the guard acts by a thread of its own."""
    for _ in range(WAIT * 100):
        if context.aborted:
            break
        threading.Event().wait(0.01)
    return [context.abort_reason]


def test_a_handler_that_completes_although_it_was_told_to_stop_is_deleted_there_and_then():
    sqs = FakeSqs()

    def process(message: Message, context: Context):
        timed.pass_by(50)
        wait_for_abort(context)

    timed = Timed(process, sqs)
    assert failed(timed.handle(records(0), LambdaContext(60_000))) == []
    assert asked(sqs, "delete") == [["handle-0"]]


def test_a_dead_letter_is_deleted_too_so_that_no_second_copy_is_made():
    sqs = FakeSqs()

    def process(message: Message, context: Context):
        if message.payload == 1:
            timed.pass_by(50)
            wait_for_abort(context)
        return DeadLetter("no") if message.payload == 0 else None

    timed = Timed(process, sqs, concurrency=1)
    assert failed(timed.handle(records(0, 1), LambdaContext(60_000))) == []
    assert [name for name, _, _ in sqs.calls] == ["hide", "send", "delete", "delete"]
    assert asked(sqs, "delete") == [["handle-0"], ["handle-1"]]


def test_what_failed_is_not_deleted():
    sqs = FakeSqs()

    def process(message: Message, context: Context):
        timed.now += 30
        return Retry(after=7) if message.payload == 0 else None

    timed = Timed(process, sqs, concurrency=1)
    assert failed(timed.handle(records(0, 1, 2), LambdaContext(60_000))) == ["message-0", "message-2"]
    assert asked(sqs, "delete") == [["handle-1"]]
    assert asked(sqs, "hide") == [[("handle-0", 7)], [("handle-2", 0)]]


def test_a_groups_rest_and_all_other_groups_go_back_in_one_call_while_its_head_still_runs():
    sqs, given_back = FakeSqs(), threading.Event()

    def process(message: Message, context: Context):
        timed.pass_by(50)
        assert given_back.wait(WAIT)  # the others need not wait for this one

    timed = Timed(process, Told(sqs, "hide", given_back), fifo=True, concurrency=1)
    response = timed.handle(grouped("a", "a", "b", "a"), LambdaContext(60_000))
    assert failed(response) == ["message-1", "message-2", "message-3"]
    assert asked(sqs, "hide") == [[("handle-1", 0), ("handle-3", 0), ("handle-2", 0)]]  # each group in its order


class Told:
    """A client of which somebody is told when it was called."""

    def __init__(self, sqs, name, event):
        self._sqs, self._name, self._event = sqs, name, event

    def __getattr__(self, name):
        call = getattr(self._sqs, name)

        def called(**arguments):
            answer = call(**arguments)
            if self._sqs.calls[-1][0] == self._name:
                self._event.set()
            return answer

        return called


def test_no_time_is_kept_without_lambdas_context():
    seen = []

    def process(message: Message, context: Context):
        seen.append(message.payload)
        timed.now += 1_000

    timed = Timed(process, FakeSqs(), concurrency=1)
    assert failed(timed.handle(records(0, 1), None)) == []
    assert seen == [0, 1]


# --- The last moment -----------------------------------------------------------------------------------------


def test_a_handler_that_ignores_its_abort_to_the_end_takes_the_process_with_it(caplog):
    sqs, hidden = FakeSqs(), threading.Event()
    reported = []

    def process(message: Message, context: Context):
        timed.pass_by(50)
        wait_for_abort(context)
        timed.pass_by(9)  # a second is left
        for _ in range(WAIT * 100):
            if timed.ended_with:
                break
            threading.Event().wait(0.01)

    timed = Timed(process, Told(sqs, "hide", hidden), extras={"report": reported.append})
    timed.handle({"Records": [record(0, 0, receives=3)]}, LambdaContext(60_000))
    assert timed.ended_with == [70]
    assert hidden.wait(WAIT)
    ((handle, seconds),) = asked(sqs, "hide")[0]
    assert handle == "handle-0"
    assert 20 <= seconds <= 40  # it comes again after its back-off, and not beside itself
    (line,) = [line for line in caplog.records if line.levelno == logging.ERROR]
    assert line.delivery_ids == ["message-0"]
    assert "handlers ignore their abort" in line.getMessage()
    assert reported[0].failed == 1


def test_time_is_guarded_where_no_thread_can_be_had():
    sqs = FakeSqs()

    def process(message: Message, context: Context):
        if message.payload == 0:
            return
        with no_more_threads():
            timed.pass_by(50)
            assert context.aborted
            assert asked(sqs, "delete") == [["handle-0"]]
            timed.pass_by(9)

    timed = Timed(process, sqs, concurrency=1)
    timed.handle(records(0, 1), LambdaContext(60_000))
    assert timed.ended_with == [70]


def test_a_process_whose_handlers_have_ended_by_the_last_moment_lives_on():
    def process(message: Message, context: Context):
        timed.pass_by(50)
        wait_for_abort(context)

    timed = Timed(process, FakeSqs())
    timed.handle(records(0), LambdaContext(60_000))
    timed.pass_by(9.5)
    assert timed.ended_with == []


def test_what_hides_too_slowly_does_not_keep_the_process():
    hiding, ended = threading.Event(), threading.Event()

    class Slow(FakeSqs):
        def change_message_visibility_batch(self, **_):
            assert hiding.wait(WAIT)
            return {}

    def process(message: Message, context: Context):
        timed.pass_by(50)
        wait_for_abort(context)
        timed.pass_by(9)
        assert ended.wait(WAIT)
        hiding.set()

    extras = {"report": None}
    timed = Timed(process, Slow(), timeout_seconds=60, extras=extras)
    timed.end_process = lambda code: ended.set()
    timed.handle(records(0), LambdaContext(60_000))
    assert ended.is_set()


# --- Time of one attempt --------------------------------------------------------------------------------------


def test_max_processing_seconds_aborts_one_handler_alone_which_is_a_failed_attempt():
    reasons, sqs = [], FakeSqs()

    def process(message: Message, context: Context):
        if message.payload == 0:
            timed.pass_by(4)
            assert context.abort_reason is None
            timed.pass_by(1)
            reasons.append(context.abort_reason)
            context.check()
        assert context.abort_reason is None

    timed = Timed(process, sqs, concurrency=1, max_processing_seconds=5)
    assert failed(timed.handle(records(0, 1), LambdaContext(60_000))) == ["message-0"]
    assert reasons == ["max_processing"]
    ((handle, seconds),) = asked(sqs, "hide")[0]
    assert (handle, seconds >= 5) == ("handle-0", True)


@pytest.mark.parametrize(("limit", "remaining"), [(5, 5), (100, 50)])
def test_the_deadline_is_the_functions_end_or_the_attempts_whichever_comes_first(limit, remaining):
    seen = []
    timed = Timed(lambda message, context: seen.append(context.remaining()), FakeSqs(), max_processing_seconds=limit)
    timed.handle(records(0), LambdaContext(50_000))
    assert remaining - 2 < seen[0].total_seconds() <= remaining


def test_max_processing_seconds_holds_without_lambdas_context_too():
    reasons = []

    def process(message: Message, context: Context):
        timed.pass_by(5)
        reasons.append(context.abort_reason)

    timed = Timed(process, FakeSqs(), max_processing_seconds=5)
    timed.handle(records(0), None)
    assert reasons == ["max_processing"]


# --- A client in time -----------------------------------------------------------------------------------------


def test_a_client_is_made_ready_before_the_guard_needs_it_and_only_in_a_batch_that_takes_long():
    made, ready = [], threading.Event()

    def client():
        made.append(timed.now)
        ready.set()
        return FakeSqs()

    def process(message: Message, context: Context):
        timed.pass_by(message.payload)
        if timed.now > 44:
            assert ready.wait(WAIT)

    timed = Timed(process, client, concurrency=1)
    timed.handle(records(44), LambdaContext(60_000))
    assert made == []
    timed.now = 0.0
    timed.handle(records(45.5), LambdaContext(60_000))
    assert made == [45.5]


def test_a_client_that_cannot_be_made_costs_a_warning(caplog):
    tried = threading.Event()

    def client():
        tried.set()
        raise RuntimeError("no region")

    def process(message: Message, context: Context):
        timed.pass_by(46)
        assert tried.wait(WAIT)

    timed = Timed(process, client)
    assert failed(timed.handle(records(0), LambdaContext(60_000))) == []
    assert "there is no client for SQS: RuntimeError: no region" in caplog.messages


# --- What breaks on the way -----------------------------------------------------------------------------------


def test_records_that_cannot_be_given_back_are_reported_all_the_same(caplog):
    refused = {f"handle-{n}": ("InternalError", "try again") for n in range(2)}
    timed = Timed(lambda message, context: None, FakeSqs(refused), concurrency=1)
    assert failed(timed.handle(records(0, 1), LambdaContext(5_000))) == ["message-0", "message-1"]
    (line,) = [line for line in caplog.records if line.name == "towpath.delivery"]
    assert line.delivery_ids == ["message-0", "message-1"]
    assert line.errors == ["SQS refused it: InternalError: try again"]


def test_a_delete_or_release_that_breaks_fails_no_records_that_are_done(caplog):
    def process(message: Message, context: Context):
        timed.now += 20

    timed = Timed(process, FakeSqs(error=RuntimeError("no boto3")), concurrency=1)
    assert failed(timed.handle(records(0, 1, 2), LambdaContext(30_000))) == ["message-1", "message-2"]
    lines = [line for line in caplog.records if line.name == "towpath.delivery"]
    assert [line.errors for line in lines] == [["RuntimeError: no boto3"]] * 2
    assert [line.delivery_ids for line in lines] == [["message-0"], ["message-1", "message-2"]]


# --- The times, by themselves ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "ready", "guard", "last"),
    [(60, 45, 50, 59), (900, 885, 890, 899), (5, 2, 4, 4.75), (2, 0.8, 1.6, 1.9)],
)
def test_the_times_of_an_invocation_follow_from_its_time_out(timeout, ready, guard, last):
    invocation = begin([], LambdaContext(1000 * timeout), timeout, utc_now, lambda: 100.0)
    assert invocation.ready_at == pytest.approx(100 + ready)
    assert invocation.guard_at == pytest.approx(100 + guard)
    assert invocation.last_at == pytest.approx(100 + last)
    assert last_moment_seconds(timeout) == pytest.approx(timeout - last)
    assert usual_seconds(timeout, None) == pytest.approx(ready)
    assert usual_seconds(timeout, 0.5) == 0.5
