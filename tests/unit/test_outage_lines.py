"""What is told of a transport that does not answer."""

import logging

import pytest

from towpath.outages import Outages


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outages(clock) -> Outages:
    return Outages(logging.getLogger("towpath.worker"), clock)


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_pauses_grow_from_half_a_second_to_half_a_minute_with_a_line_for_each(outages, caplog):
    pauses = [outages.failed("a", "receive", "refused") for _ in range(8)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert lines(caplog) == [f"cannot receive, trying again in {pause:.1f} s: refused" for pause in pauses[:7]]


def test_the_longest_pause_is_told_every_half_minute(outages, clock, caplog):
    for _ in range(10):
        outages.failed("a", "receive", "refused")
        clock.now += 30
    assert len(lines(caplog)) == 10


def test_many_who_meet_it_are_one_line(outages, caplog):
    for name in "abc":
        assert outages.failed(name, "receive", "refused") == 0.5
    assert len(lines(caplog)) == 1
    assert all(outages.is_met_by(name) for name in "abc")


def test_its_end_is_told_once_by_the_last_of_them(outages, clock, caplog):
    for name in "ab":
        outages.failed(name, "receive", "refused")
    clock.now += 4
    for name in "abb":
        outages.answered(name)
    assert lines(caplog)[1:] == ["answered again, after 4.0 s"]
    assert not outages.is_met_by("a")


def test_after_its_end_the_next_one_begins_anew(outages, caplog):
    for _ in range(3):
        outages.failed("a", "receive", "refused")
    outages.answered("a")
    assert outages.failed("a", "receive", "again") == 0.5
    assert lines(caplog)[-1] == "cannot receive, trying again in 0.5 s: again"


def test_who_tries_at_a_fixed_pace_is_told_of_once_in_half_a_minute(outages, clock, caplog):
    for _ in range(70):
        assert outages.failed("a", "settle outcomes yet", "refused", every=0.5) == 0.5
        clock.now += 0.5
    assert len(lines(caplog)) == 2


def test_an_answer_to_who_met_none_is_no_news(outages, caplog):
    outages.answered("a")
    assert lines(caplog) == []
