"""How far a worker claims ahead: by what its handlers did of late."""

import pytest

from towpath.pace import MOST_AHEAD, Pace, round_number


class FakeClock:
    def __init__(self):
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_nothing_is_claimed_ahead_before_anything_was_handled():
    clock = FakeClock()
    pace = Pace(clock)
    assert pace.ahead(0) == 0
    clock.now += 1
    assert pace.ahead(0) == 0


def test_as_much_is_claimed_ahead_as_was_handled_in_the_last_fifth_of_a_second():
    clock = FakeClock()
    pace = Pace(clock)
    clock.now += 0.5
    assert pace.ahead(1_000) == 400


def test_between_two_measurements_it_stays():
    clock = FakeClock()
    pace = Pace(clock)
    clock.now += 0.5
    pace.ahead(1_000)
    clock.now += 0.04
    assert pace.ahead(9_000) == 400


def test_it_falls_as_soon_as_handlers_take_long():
    clock = FakeClock()
    pace = Pace(clock)
    clock.now += 0.5
    pace.ahead(1_000)
    clock.now += 1
    assert pace.ahead(1_004) == 0


def test_there_is_a_most():
    clock = FakeClock()
    pace = Pace(clock)
    clock.now += 1
    assert pace.ahead(10**9) == MOST_AHEAD


@pytest.mark.parametrize(
    ("wanted", "rounded"),
    [(0, 0), (1, 1), (7, 7), (8, 8), (9, 8), (15, 8), (16, 16), (1_000, 512), (2_008, 1_024)],
)
def test_a_round_number_is_not_larger_and_there_are_few_of_them(wanted, rounded):
    assert round_number(wanted) == rounded


def test_of_two_thousand_numbers_few_are_round():
    assert len({round_number(wanted) for wanted in range(1, 2_009)}) <= 16
