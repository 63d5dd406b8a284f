"""Leases in a worker's hands: renewed in time, never believed longer than they last, settled once.

What the keeper's threads do is called here by hand, under a fake clock; a few tests at the end let the threads run.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from towpath.context import Progress
from towpath.errors import TransportUnavailable
from towpath.leases import HeldLease, LeaseKeeper
from towpath.ports import Extension
from towpath.settlement import CancelRequested, Delivery, Failed, LeaseLost, Settled, SubscriptionPolicy

PATIENCE = 20  # seconds until a test gives up waiting; none waits as long unless it fails


class FakeClock:
    """Monotonic seconds that a test moves."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


class FakeConsumer:
    """Answers renewals with ``answer`` (a result, or an error to raise), and remembers each call."""

    def __init__(self):
        self.answer = Settled(state="leased")
        self.calls: list[list[Extension]] = []
        self.called = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()

    def extend(self, extensions):
        self.calls.append(list(extensions))
        self.called.release()
        assert self.go_on.wait(PATIENCE)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer] * len(extensions)

    @property
    def renewed(self) -> list[list[str]]:
        return [[extension.delivery.id for extension in call] for call in self.calls]


def delivery(number: int = 1, token: str = "1") -> Delivery:
    return Delivery(
        id=f"d-{number}",
        subscription="documents.convert",
        topic="documents.process",
        attempt=1,
        message_id=f"m-{number}",
        body="{}",
        lease_token=token,
        received_at=datetime(2026, 1, 31, tzinfo=UTC),
    )


class Kept:
    """A keeper with its fake consumer and clock."""

    def __init__(self, **policy):
        self.clock, self.consumer = FakeClock(), FakeConsumer()
        known = {"subscription": "documents.convert", "topic": "documents.process", "handler": None}
        self.consumer.policy = SubscriptionPolicy(**(known | policy))
        self.given_back: list[HeldLease] = []
        self.keeper = LeaseKeeper(self.consumer, self.clock, logging.getLogger("test"), self.given_back.append)

    def hold(self, number: int = 1, token: str = "1") -> HeldLease:
        return self.keeper.hold([delivery(number, token)])[0]

    def after(self, seconds: float) -> None:
        """Let time pass, and both threads' work be done then."""
        self.clock.advance(seconds)
        self.keeper.renew_due()
        self.keeper.abort_overdue()
        self.keeper.give_back_late()

    def hanging_renewal(self, seconds: float) -> threading.Thread:
        """Let time pass, and a renewal begin that is answered when the consumer may ``go_on``."""
        self.clock.advance(seconds)
        self.consumer.go_on.clear()
        renewal = threading.Thread(target=self.keeper.renew_due, daemon=True)
        renewal.start()
        assert self.consumer.called.acquire(timeout=PATIENCE)
        return renewal

    def answer(self, renewal: threading.Thread) -> None:
        self.consumer.go_on.set()
        renewal.join(PATIENCE)
        assert not renewal.is_alive()


# --- Holding ---------------------------------------------------------------------------------------------------


def test_a_held_delivery_is_in_the_workers_hands_until_it_is_dropped():
    kept = Kept()
    assert not kept.keeper.busy
    held = kept.hold()
    assert kept.keeper.busy
    assert kept.keeper.held() == [held]
    kept.keeper.drop([held])
    assert not kept.keeper.busy


def test_deliveries_with_the_same_token_are_told_apart():
    kept = Kept()
    first, second = kept.hold(1, "1"), kept.hold(2, "1")
    assert kept.keeper.held() == [first, second]
    kept.keeper.drop([first])
    assert kept.keeper.held() == [second]


def test_two_leases_of_one_delivery_are_told_apart():
    kept = Kept()
    lost, renewed = kept.hold(1, "1"), kept.hold(1, "2")
    kept.keeper.drop([lost])
    assert kept.keeper.held() == [renewed]


def ahead(kept: Kept, number: int = 1) -> HeldLease:
    """A delivery that was claimed ahead, and is to start within 5 seconds."""
    return kept.keeper.hold([delivery(number)], starts_by=kept.clock.now + 5)[0]


def test_what_was_claimed_ahead_and_waits_too_long_is_given_back_once():
    kept = Kept()
    waiting, other = ahead(kept), kept.hold(2)
    kept.after(4.9)
    assert kept.given_back == []
    kept.after(0.2)
    kept.after(0.2)
    assert kept.given_back == [waiting]
    assert not kept.keeper.begin(waiting)
    assert not kept.keeper.decide(waiting)
    assert kept.keeper.begin(other)


def test_what_was_claimed_ahead_and_has_started_is_not_given_back():
    kept = Kept()
    held = ahead(kept)
    assert kept.keeper.begin(held)
    kept.after(6)
    assert kept.given_back == []
    assert kept.keeper.decide(held)


def test_what_was_claimed_ahead_and_is_late_is_not_begun_although_nobody_had_a_look_yet():
    kept = Kept()
    held = ahead(kept)
    kept.clock.advance(5.1)
    assert not kept.keeper.begin(held)
    assert not kept.keeper.begin(held)
    assert kept.given_back == [held]


def test_what_was_claimed_ahead_is_renewed_while_it_waits_to_be_given_back():
    kept = Kept(lease_seconds=30)
    held = ahead(kept)
    kept.after(10)
    assert kept.consumer.renewed == [["d-1"]]
    assert kept.given_back == [held]


def test_dropping_what_is_not_held_changes_nothing():
    kept = Kept()
    held, dropped = kept.hold(1), kept.hold(2)
    kept.keeper.drop([dropped])
    kept.keeper.drop([dropped])
    assert kept.keeper.held() == [held]


def test_of_many_threads_one_decides_about_a_delivery():
    kept = Kept()
    held, line, answers = kept.hold(), threading.Barrier(8), []

    def decide():
        line.wait(PATIENCE)
        answers.append(kept.keeper.decide(held))

    threads = [threading.Thread(target=decide) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(answers) == [False] * 7 + [True]


def test_every_handler_is_asked_to_stop():
    kept = Kept()
    first, second = kept.hold(1), kept.hold(2)
    kept.keeper.abort_all("shutdown")
    assert [first.abort.reason, second.abort.reason] == ["shutdown", "shutdown"]


# --- Renewing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lease", "interval"), [(60, 20), (15, 5), (90, 30), (43_200, 30)])
def test_a_lease_is_renewed_after_a_third_of_it_or_30_seconds(lease, interval):
    kept = Kept(lease_seconds=lease)
    kept.hold()
    kept.after(interval - 0.1)
    assert kept.consumer.calls == []
    kept.after(0.1)
    assert kept.consumer.renewed == [["d-1"]]


def test_leases_that_are_due_are_renewed_in_one_call_without_a_progress():
    kept = Kept(lease_seconds=60)
    kept.hold(1)
    kept.hold(2)
    kept.after(20)
    assert kept.consumer.calls == [[Extension(delivery=delivery(1)), Extension(delivery=delivery(2))]]


def test_only_leases_that_are_due_are_renewed():
    kept = Kept(lease_seconds=60)
    kept.hold(1)
    kept.after(10)
    kept.hold(2)
    kept.after(10)
    kept.after(10)
    assert kept.consumer.renewed == [["d-1"], ["d-2"]]


def test_a_renewed_lease_counts_from_when_the_renewal_was_asked_for():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    renewal = kept.hanging_renewal(20)
    asked_at = kept.clock.now
    kept.clock.advance(7)  # the answer takes its time
    kept.answer(renewal)
    assert (held.ends_at, held.renew_at) == (asked_at + 60, asked_at + 20)


def test_a_lease_is_renewed_again_and_again():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    for _ in range(30):
        kept.after(10)
    assert kept.consumer.renewed == [["d-1"]] * 15
    assert held.abort.reason is None


@pytest.mark.parametrize("answer", [Failed(error="throttled"), TransportUnavailable("no answer"), KeyError("a bug")])
def test_a_renewal_that_fails_is_tried_again_a_second_later_and_aborts_nothing(answer):
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    ends_at = held.ends_at
    kept.consumer.answer = answer
    kept.after(20)
    kept.after(0.9)
    assert (held.ends_at, held.abort.reason, len(kept.consumer.calls)) == (ends_at, None, 1)
    kept.consumer.answer = Settled(state="leased")
    kept.after(0.1)
    assert len(kept.consumer.calls) == 2
    assert held.ends_at == kept.clock.now + 60


def test_a_renewal_that_reports_the_lease_lost_aborts_the_handler_and_is_not_repeated():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.answer = LeaseLost()
    kept.after(20)
    kept.after(20)
    assert held.abort.reason == "lease_lost"
    assert len(kept.consumer.calls) == 1


def test_a_renewal_that_reports_a_cancel_aborts_the_handler_and_leaves_time_to_acknowledge_it():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.answer = CancelRequested()
    kept.after(20)
    kept.after(20)
    assert held.abort.reason == "cancelled"
    assert len(kept.consumer.calls) == 1
    kept.keeper.decide(held)
    kept.keeper.settle_begins([held])
    assert kept.keeper.settle_failed(held)  # the lease has 20 s left
    kept.after(21)
    assert not kept.keeper.settle_failed(held)


def test_a_settle_of_a_lost_lease_is_not_tried_again():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.answer = LeaseLost()
    kept.after(20)
    kept.keeper.decide(held)
    kept.keeper.settle_begins([held])
    assert not kept.keeper.settle_failed(held)


def test_a_heartbeat_of_a_cancelled_delivery_says_to_stop():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.answer = CancelRequested()
    assert not kept.keeper.beat(held, Progress(percent=1))
    assert held.abort.reason == "cancelled"


def test_a_lost_lease_aborts_its_own_handler_only():
    kept = Kept(lease_seconds=60)
    lost, kept_on = kept.hold(1), kept.hold(2)
    kept.consumer.extend = lambda extensions: [LeaseLost(), Settled(state="leased")]
    kept.after(20)
    assert (lost.abort.reason, kept_on.abort.reason) == ("lease_lost", None)
    assert kept_on.ends_at == kept.clock.now + 60


def test_during_a_shutdown_leases_are_renewed_until_they_are_lost():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.keeper.abort_all("shutdown")
    kept.after(20)
    kept.consumer.answer = LeaseLost()
    kept.after(20)
    kept.after(20)
    assert len(kept.consumer.calls) == 2
    assert held.abort.reason == "shutdown"


def test_a_delivery_that_is_being_settled_or_was_dropped_is_renewed_no_more():
    kept = Kept(lease_seconds=60)
    settling, dropped = kept.hold(1), kept.hold(2)
    kept.keeper.decide(settling)
    kept.keeper.settle_begins([settling])
    kept.keeper.drop([dropped])
    kept.after(30)
    assert kept.consumer.calls == []
    assert kept.keeper.held() == [settling]


@pytest.mark.parametrize("heartbeat", ["auto", "manual"])
def test_a_delivery_that_waits_to_be_settled_is_renewed_whatever_its_handler_was_told(heartbeat):
    """Else a settler that lags would let another worker repeat what is done."""
    kept = Kept(lease_seconds=60, heartbeat=heartbeat)
    held = kept.hold()
    held.abort.set("max_processing")
    kept.keeper.decide(held)
    kept.after(20)
    assert kept.consumer.renewed == [["d-1"]]


def test_a_settle_that_failed_is_tried_again_while_the_lease_holds_and_it_is_renewed():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.keeper.decide(held)
    kept.keeper.settle_begins([held])
    kept.clock.advance(30)
    assert kept.keeper.settle_failed(held)
    kept.after(0)
    assert kept.consumer.renewed == [["d-1"]]
    kept.keeper.settle_begins([held])
    kept.clock.advance(61)
    assert not kept.keeper.settle_failed(held)


def test_a_lease_follows_the_policy_that_is_applied_while_it_is_held():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.policy = replace(kept.consumer.policy, lease_seconds=6)
    kept.after(20)
    assert held.ends_at == kept.clock() + 6
    kept.after(2)
    assert kept.consumer.renewed == [["d-1"], ["d-1"]]


def test_a_settle_waits_for_a_renewal_that_is_on_its_way():
    kept = Kept(lease_seconds=60)
    decided = kept.hold(1)
    kept.hold(2)
    renewal = kept.hanging_renewal(20)
    settler = threading.Thread(target=kept.keeper.settle_begins, args=([decided],))
    settler.start()
    settler.join(0.1)
    assert settler.is_alive()
    kept.answer(renewal)
    settler.join(PATIENCE)
    assert not settler.is_alive()


def test_a_settle_does_not_wait_for_a_renewal_that_hangs():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    renewal = kept.hanging_renewal(20)
    kept.keeper.settle_begins([held])
    assert renewal.is_alive()
    kept.answer(renewal)


def test_a_lease_that_is_lost_after_its_delivery_was_decided_aborts_nothing():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.consumer.answer = LeaseLost()
    renewal = kept.hanging_renewal(20)
    kept.keeper.decide(held)
    kept.answer(renewal)
    assert held.abort.reason is None


# --- Heartbeats of handlers ------------------------------------------------------------------------------------


def test_a_heartbeat_renews_at_once_with_its_progress():
    kept = Kept(lease_seconds=60, heartbeat="manual")
    held = kept.hold()
    kept.clock.advance(40)
    assert kept.keeper.beat(held, Progress(percent=40, note="n"))
    assert kept.consumer.calls == [[Extension(delivery=delivery(), progress=Progress(percent=40, note="n"))]]
    assert held.ends_at == kept.clock.now + 60


def test_a_heartbeat_puts_the_next_renewal_off():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.clock.advance(19)
    kept.keeper.beat(held, Progress())
    kept.after(19)
    assert len(kept.consumer.calls) == 1
    kept.after(1)
    assert len(kept.consumer.calls) == 2


def test_a_heartbeat_that_finds_the_lease_lost_says_stop():
    kept = Kept()
    held = kept.hold()
    kept.consumer.answer = LeaseLost()
    assert not kept.keeper.beat(held, Progress())
    assert held.abort.reason == "lease_lost"


@pytest.mark.parametrize("answer", [Failed(error="x"), TransportUnavailable("x"), RuntimeError("a bug")])
def test_a_heartbeat_that_cannot_renew_says_go_on(answer):
    kept = Kept()
    held = kept.hold()
    kept.consumer.answer = answer
    assert kept.keeper.beat(held, Progress())
    assert held.abort.reason is None


def test_a_heartbeat_of_a_handler_that_has_ended_renews_nothing():
    kept = Kept()
    held = kept.hold()
    kept.keeper.decide(held)
    assert not kept.keeper.beat(held, Progress())
    assert kept.consumer.calls == []


def test_a_heartbeat_waits_for_no_renewal_of_others():
    kept = Kept(lease_seconds=60)
    kept.hold(1)
    renewal = kept.hanging_renewal(20)
    kept.consumer.extend = lambda extensions: [Settled(state="leased")]
    assert kept.keeper.beat(kept.hold(2), Progress())
    kept.answer(renewal)


# --- The timer -------------------------------------------------------------------------------------------------


def test_a_lease_that_must_be_over_aborts_after_five_seconds_of_grace_though_the_renewal_hangs():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    renewal = kept.hanging_renewal(20)
    kept.clock.advance(45)
    kept.keeper.abort_overdue()
    assert held.abort.reason is None
    kept.clock.advance(0.001)
    kept.keeper.abort_overdue()
    assert held.abort.reason == "lease_lost"
    kept.answer(renewal)
    assert held.abort.reason == "lease_lost"


def test_a_handler_that_runs_too_long_is_aborted_and_renewed_no_more():
    kept = Kept(lease_seconds=60, max_processing_seconds=90)
    held = kept.hold()
    kept.keeper.begin(held)
    for _ in range(4):
        kept.after(20)
    assert len(kept.consumer.calls) == 4
    kept.after(10)
    assert held.abort.reason is None
    kept.after(0.5)
    assert held.abort.reason == "max_processing"
    kept.after(20)
    assert len(kept.consumer.calls) == 4


def test_the_time_limit_counts_from_the_handlers_start():
    kept = Kept(lease_seconds=600, max_processing_seconds=90)
    held = kept.hold()
    kept.after(200)
    assert held.abort.reason is None
    kept.keeper.begin(held)
    kept.after(90)
    assert held.abort.reason is None
    kept.after(0.5)
    assert held.abort.reason == "max_processing"


def test_without_a_time_limit_a_handler_may_run_as_long_as_its_lease_is_renewed():
    kept = Kept(lease_seconds=60)
    held = kept.hold()
    kept.keeper.begin(held)
    for _ in range(100):
        kept.after(30)
    assert held.abort.reason is None


def test_a_delivery_that_waits_to_be_settled_is_not_aborted():
    kept = Kept(lease_seconds=60, max_processing_seconds=10)
    held = kept.hold()
    kept.keeper.begin(held)
    kept.keeper.decide(held)
    kept.after(1_000)
    assert held.abort.reason is None


# --- The threads -----------------------------------------------------------------------------------------------


def eventually(condition: Callable[[], object]) -> bool:
    """Whether ``condition`` comes true in time."""
    looked = threading.Event()
    return any(condition() or looked.wait(0.02) for _ in range(50 * PATIENCE))


def running() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("documents.convert-lease-")}


def test_while_it_runs_the_keeper_renews_and_watches_by_itself_whatever_a_renewal_raises():
    kept = Kept(lease_seconds=60, max_processing_seconds=100)
    held = kept.hold()
    kept.keeper.begin(held)
    kept.consumer.answer = RuntimeError("a bug")
    kept.keeper.start()
    with closing(kept.keeper):
        for _ in range(2):
            kept.clock.advance(20)
            assert kept.consumer.called.acquire(timeout=PATIENCE)
            assert eventually(lambda: held.renew_at > kept.clock.now)  # the failure was taken note of
        kept.clock.advance(100)
        assert eventually(lambda: held.abort.reason)
        assert running() == {"documents.convert-lease-timer", "documents.convert-lease-keeper"}
    assert running() == set()
    assert held.abort.reason in ("lease_lost", "max_processing")


def test_with_manual_heartbeats_nothing_is_renewed_by_itself():
    kept = Kept(lease_seconds=60, heartbeat="manual")
    kept.hold()
    kept.after(50)
    assert kept.consumer.calls == []


def test_a_keeper_closes_though_a_renewal_hangs():
    kept = Kept(lease_seconds=60)
    kept.hold()
    kept.consumer.go_on.clear()
    kept.clock.advance(20)
    kept.keeper.start()
    assert kept.consumer.called.acquire(timeout=PATIENCE)
    kept.keeper.close()
    kept.consumer.go_on.set()


def test_a_keeper_that_never_started_can_be_closed():
    Kept().keeper.close()
