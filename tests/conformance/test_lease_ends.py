"""The promises of leases: C07 to C09, by what a consumer answers to whoever holds one, or held it once."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from aws_transport.settlement import SqsDelivery, SqsSettler
from lambda_runtime.local import LocalClock, LocalFunction, LocalQueue, Sent
from lambda_runtime.local.client import LocalSqs
from tests.conformance.harness import PATIENCE, manifest_of
from tests.conformance.needs import FUNCTIONS, leaving_out, needing, on_databases, outside_functions
from towpath import Complete, NewMessage, Retry
from towpath.operating import Pace, Selection, Warrant
from towpath.ports import Extension
from towpath.settlement import (
    CancelAcknowledgement,
    Completion,
    DeadLettering,
    Discard,
    Failure,
    LeaseLost,
    Release,
    Retrial,
    Settled,
)
from towpath.testing import lambda_settings

LEASE_SECONDS = 600  # no case here takes so long
SHORT_LEASE_SECONDS = 5  # where a lease has to be waited for
LOST_SECONDS = LEASE_SECONDS + 3  # with the back-off
WARRANT = Warrant(actor="suite", reason="the case says so")
FAILURE = Failure(type="ValueError", message="no")
NOW = timedelta(0)
MODES = ["none", "exclusive", "ordered"]
SETTLES = {
    "complete": (lambda held: Completion(delivery=held), "completed"),
    "retry": (lambda held: Retrial(delivery=held, delay=NOW, failure=FAILURE), "pending"),
    "dead_letter": (lambda held: DeadLettering(delivery=held, reason="bad", failure=FAILURE), "dead"),
    "discard": (lambda held: Discard(delivery=held, reason="Expired"), "discarded"),
    "release": (lambda held: Release(delivery=held), "pending"),
}
LATE = {how: make for how, (make, _) in SETTLES.items()} | {
    "extend": lambda held: Extension(delivery=held),
    "acknowledge_cancel": lambda held: CancelAcknowledgement(delivery=held),
}

HELD_BY_FUNCTIONS = outside_functions("holds leases in functions, which the suite cannot act for")
on_local_queue = pytest.mark.parametrize("harness", ["local-mapping"], indirect=True)
IN_REAL_TIME = dict.fromkeys(("aws-worker", *FUNCTIONS), "is shown this by C37, in real time")
HANDED_ON = "lets an old receipt handle of a standard queue act until its message is deleted"


def topology(mode="none", lease_seconds=LEASE_SECONDS, **function):
    topic = {"transport": "database"} if mode == "ordered" else {}
    rules = {"topic": "orders", "lease_seconds": lease_seconds, "partition_mode": mode}
    rules |= {"lambda": function} if function else {}
    return {"topics": {"orders": topic}, "subscriptions": {"ship": rules}}


def publish(running, key=None):
    running.publish("orders", NewMessage(payload={}, partition_key=key))


def received(running, within=0):
    """What comes, where it has to be waited for at most so many seconds; on SQS a look may miss it."""
    deadline = time.monotonic() + within
    consumer = running.transport.consumer("ship")
    while True:
        found = consumer.receive(10, timedelta(seconds=min(within, 1)))
        if found or time.monotonic() >= deadline:
            return found


def answer(running, how, held):
    (given,) = getattr(running.transport.consumer("ship"), how)([LATE[how](held)])
    return given


class QueueInMemory:
    """A queue and its dead letters that keep SQS's documented rules, and the settler of the AWS transport on them."""

    def __init__(self, fifo):
        self.clock = LocalClock()
        self.queue = LocalQueue(self.clock, fifo=fifo, visibility_seconds=SHORT_LEASE_SECONDS)
        self.dead = LocalQueue(self.clock, fifo=fifo)
        sqs = LocalSqs({"own": self.queue, "dead": self.dead})
        self.settler = SqsSettler(client=lambda: sqs, queue_url="own", dead_letter_queue_url="dead")
        self.queue.send(Sent(body="{}", group_id="a" if fifo else None))

    def received(self):
        (message,) = self.queue.receive(10)
        return SqsDelivery(
            id=message.sent.id,
            message_id=message.sent.id,
            subscription="ship",
            topic="orders",
            attempt=message.receives,
            body=message.sent.body,
            lease_token=message.receipt,
            received_at=datetime.now(UTC),
            group_id=message.sent.group_id,
        )

    def answer(self, how, held):
        (given,) = getattr(self.settler, how)([LATE[how](held)])
        return given


def standing(running):
    """Everything that a settle may change."""
    operator = running.transport.operator()
    (row,) = operator.stats()
    kept = operator.deliveries(Selection(subscription="ship"), 10)
    return row.completed, row.discarded, [(e.state, e.attempt, e.due_at, e.lease_expires_at, e.error) for e in kept]


# --- Stale leases ------------------------------------------------------------------------------------------------


@on_databases(HANDED_ON)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C07", "a stale lease cannot complete, retry, dead-letter, release; the current one can")
def test_only_the_current_lease_of_a_delivery_can_settle_it(harness, mode):
    with harness.transport(topology(mode)) as running:
        for how, (_, state) in SETTLES.items():
            publish(running, key=how)
            (stale,) = received(running)
            running.advance(LOST_SECONDS)
            (current,) = received(running)
            assert (current.id, current.attempt) == (stale.id, 2)
            before = standing(running)
            assert [answer(running, late, stale) for late in LATE] == [LeaseLost()] * len(LATE)
            assert standing(running) == before, "a stale lease changed something"
            assert answer(running, how, current) == Settled(state=state)
            after = standing(running)
            assert [answer(running, late, current) for late in LATE] == [LeaseLost()] * len(LATE), f"after {how}"
            assert standing(running) == after, f"a lease that is over by its {how} changed something"
            running.operator.discard(Selection(subscription="ship"), WARRANT, Pace())


@HELD_BY_FUNCTIONS
@pytest.mark.case("C07", "the lease of a delivery that is completed cannot retry, dead-letter, release")
def test_the_lease_of_a_completed_delivery_can_do_nothing_more(harness):
    """A complete that comes late cannot be told from one in time on SQS, and does as little."""
    with harness.transport(topology()) as running:
        publish(running)
        (held,) = received(running, within=PATIENCE)
        assert answer(running, "complete", held) == Settled(state="completed")
        assert [answer(running, how, held) for how in ("retry", "dead_letter", "release")] == [LeaseLost()] * 3
        assert running.dead_letters("ship") == []
        assert received(running) == []


@pytest.mark.parametrize("harness", ["aws-worker"], indirect=True)
@pytest.mark.case("C07", "a lease of a key that ran out cannot complete; the next can")
def test_a_receipt_handle_of_a_key_that_ran_out_deletes_nothing(harness):
    """That SQS also refuses to hide a message by a handle that ran out, and any by one older than the newest receive of
    a FIFO queue, is for AWS to show: LocalStack takes the one without effect, and has the other act again.
    """
    with harness.transport(topology("exclusive", SHORT_LEASE_SECONDS)) as running:
        publish(running, key="a")
        (stale,) = received(running, within=PATIENCE)
        running.advance(SHORT_LEASE_SECONDS + 2)  # LocalStack puts messages back about once a second
        assert [answer(running, how, stale) for how in ("complete", "discard")] == [LeaseLost()] * 2
        (current,) = received(running, within=PATIENCE)
        assert (current.id, current.attempt) == (stale.id, 2)
        assert answer(running, "complete", current) == Settled(state="completed")


@on_local_queue
@pytest.mark.parametrize("mode", ["none", "exclusive"])
@pytest.mark.parametrize("outcome", [Complete(), Retry("late", after=0)], ids=lambda o: type(o).__name__)
@pytest.mark.case("C07", "what a function says of a message that another has by now changes nothing")
def test_a_function_settles_nothing_that_came_again_elsewhere(harness, mode, outcome):
    """As SQS documents it: a delete with an older handle is taken and deletes nothing, hiding with one is refused.

    A function copies a dead letter without asking SQS whether it still holds it. It does, as long as it runs: Lambda
    wants a queue that hides messages for longer.
    """

    def stall(message, context):
        function.advance(SHORT_LEASE_SECONDS + 1)
        taken.extend(function.queue.receive(10))
        return outcome

    manifest = manifest_of(topology(mode, SHORT_LEASE_SECONDS, timeout_seconds=60), host="lambda")
    settings = replace(lambda_settings(manifest, "ship"), visibility_seconds=SHORT_LEASE_SECONDS)
    function, taken = LocalFunction(stall, settings), []
    function.send(NewMessage(payload={}, partition_key="a"))
    (invocation,) = function.run()
    assert invocation.error is None
    (held,) = taken
    assert (held.receives, function.waiting) == (2, 1)
    assert function.run() == [], "it hides for its holder"
    assert function.queue.hide(held.receipt, 60) is None
    assert function.queue.delete(held.receipt) is None
    assert function.waiting == 0


@on_local_queue
@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("taken", [False, True], ids=["ran out", "received anew"])
@pytest.mark.case("C07", "by SQS's documented rules a lease that is over settles nothing; the current one does")
def test_only_the_newest_receipt_handle_in_flight_settles(harness, fifo, taken):
    """LocalStack and moto keep these rules in part, and AWS is not at hand: here a queue does that keeps them all."""
    own = QueueInMemory(fifo)
    stale = own.received()
    own.clock.advance(SHORT_LEASE_SECONDS + 1)
    newer = own.received() if taken else None
    assert [own.answer(how, stale) for how in ("retry", "release", "dead_letter")] == [LeaseLost()] * 3
    refused = LeaseLost() if fifo and not taken else Settled(state="completed")
    if fifo or taken:  # else a standard queue deletes it: nobody else has it, and it is done
        assert own.answer("complete", stale) == refused, "what cannot be told from a delete in time deletes nothing"
    assert (len(own.queue.messages), own.dead.messages) == (1, [])
    current = newer or own.received()
    assert current.attempt == 2
    assert own.answer("complete", current) == Settled(state="completed")
    assert own.queue.messages == []


# --- Extending ---------------------------------------------------------------------------------------------------


@leaving_out(IN_REAL_TIME)
@pytest.mark.parametrize("mode", ["none", "exclusive"])
@pytest.mark.case("C08", "an extended lease stays hidden past its first end")
def test_an_extended_lease_stays_hidden_past_its_first_end(harness, mode):
    assert_an_extended_lease_stays_hidden(harness, mode)


@needing("ordered")
@pytest.mark.case("C08", "an extended lease of an ordered key stays hidden past its first end")
def test_an_extended_lease_of_an_ordered_key_stays_hidden_past_its_first_end(harness):
    assert_an_extended_lease_stays_hidden(harness, "ordered")


def assert_an_extended_lease_stays_hidden(harness, mode):
    with harness.transport(topology(mode)) as running:
        publish(running, key="a")
        (held,) = received(running)
        for _ in range(3):
            running.advance(LEASE_SECONDS - 1)
            assert answer(running, "extend", held) == Settled(state="leased")
            running.advance(2)
            assert received(running) == []
        running.advance(LOST_SECONDS)
        (again,) = received(running)
        assert (again.id, again.attempt) == (held.id, 2)


@HELD_BY_FUNCTIONS
@pytest.mark.case("C09", "extending a lost lease says lost: the delivery is settled")
def test_extending_the_lease_of_a_settled_delivery_says_lost(harness):
    with harness.transport(topology()) as running:
        publish(running)
        (held,) = received(running, within=PATIENCE)
        assert answer(running, "complete", held) == Settled(state="completed")
        assert answer(running, "extend", held) == LeaseLost()
        assert received(running) == []


@on_databases(HANDED_ON)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.case("C09", "extending a lost lease says lost: another holds the delivery, or it is discarded")
def test_extending_a_lease_that_was_taken_away_says_lost(harness, mode):
    with harness.transport(topology(mode)) as running:

        def discard():
            running.operator.discard(Selection(subscription="ship"), WARRANT, Pace())

        for takes_away in (lambda: received(running), discard):
            publish(running, key="a")
            (held,) = received(running)
            running.advance(LOST_SECONDS)
            takes_away()
            before = standing(running)
            assert answer(running, "extend", held) == LeaseLost()
            assert standing(running) == before
            discard()
            running.advance(LOST_SECONDS)
            running.transport.sweep()


@on_local_queue
@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("taken", [False, True], ids=["ran out", "received anew"])
@pytest.mark.case("C09", "by SQS's documented rules extending a lease that is over says lost")
def test_only_the_newest_receipt_handle_in_flight_extends(harness, fifo, taken):
    own = QueueInMemory(fifo)
    stale = own.received()
    own.clock.advance(SHORT_LEASE_SECONDS + 1)
    if taken:
        own.received()
    assert own.settler.extend([stale], timedelta(minutes=5)) == [LeaseLost()]
    own.clock.advance(SHORT_LEASE_SECONDS + 1)
    assert own.received().attempt == 2 + taken, "and it does not hide any longer"
