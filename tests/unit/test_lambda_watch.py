"""The thread that looks after invocations under way."""

import math
import threading

import pytest

from lambda_runtime.watch import Watch
from tests.fakes.lambdas import no_more_threads

WAIT = 10  # seconds: how long a test waits for another thread before it fails


class Due:
    """Due once, at a time."""

    def __init__(self, at):
        self.at = at
        self.acted = threading.Event()

    def due_at(self):
        return self.at

    def act(self, now):
        assert now >= self.at
        self.at = math.inf
        self.acted.set()


class Clock:
    """A clock that jumps whenever it is looked at, so that waiting is short."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.01
        return self.now


def watchers():
    return [thread for thread in threading.enumerate() if thread.name == "towpath-watch"]


def test_what_is_due_acts_at_its_time():
    watch, due = Watch(Clock(), 0.05), Due(0.5)
    watch.begin(due)
    assert due.acted.wait(WAIT)
    watch.end(due)


def test_what_is_due_sooner_than_the_next_look_is_not_missed():
    watch, late, soon = Watch(Clock(), 1_000), Due(math.inf), Due(0.1)
    watch.begin(late)
    watch.begin(soon)
    assert soon.acted.wait(WAIT)


def test_what_has_ended_acts_no_more():
    watch, other, ended = Watch(Clock(), 0.02), Due(2.0), Due(1.0)
    watch.begin(ended)
    watch.end(ended)
    watch.begin(other)
    assert other.acted.wait(WAIT)
    assert not ended.acted.is_set()


def test_one_thread_looks_after_all_and_goes_when_nothing_has_begun_for_a_while():
    watch, before = Watch(Clock(), 0.02), set(watchers())
    things = [Due(math.inf) for _ in range(3)]
    for thing in things:
        watch.begin(thing)
    (thread,) = set(watchers()) - before
    for thing in things:
        watch.end(thing)
    thread.join(WAIT)
    assert not thread.is_alive()
    again = Due(0.0)
    watch.begin(again)
    assert again.acted.wait(WAIT)
    watch.end(again)


def test_what_cannot_be_looked_after_is_refused_and_what_begins_later_is_looked_after():
    watch, never, later = Watch(Clock(), 0.02), Due(0.0), Due(0.0)
    with no_more_threads(), pytest.raises(RuntimeError, match="can't start new thread"):
        watch.begin(never)
    watch.begin(later)
    assert later.acted.wait(WAIT)
    watch.end(later)
    assert not never.acted.is_set()
