"""How long a delivery waits: within bounds, whatever the attempt and the dice."""

from datetime import timedelta
from math import ceil, floor, inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.backoff import BackOff, clamp

LOWEST, HIGHEST = 0.0, 0.999_999_999
dice = st.floats(0, 1, exclude_max=True)


def seconds(backoff: BackOff, attempt: int, die: float) -> float:
    return backoff.delay(attempt, lambda: die).total_seconds()


@pytest.mark.parametrize(("attempt", "cap"), [(1, 10), (2, 20), (3, 40), (7, 640), (8, 900), (995, 900)])
def test_the_cap_doubles_with_each_attempt_up_to_the_longest(attempt, cap):
    backoff = BackOff()
    assert seconds(backoff, attempt, LOWEST) == cap / 2
    assert seconds(backoff, attempt, HIGHEST) == cap


def test_the_dice_choose_within_the_upper_half():
    assert [seconds(BackOff(base_seconds=100), 1, die) for die in (0.0, 0.25, 0.5, 0.75)] == [50, 62, 75, 88]


def test_a_delay_is_at_least_one_second():
    assert seconds(BackOff(base_seconds=0.001), 1, LOWEST) == 1
    assert seconds(BackOff(base_seconds=1), 1, LOWEST) == 1
    assert seconds(BackOff(base_seconds=10, max_seconds=0), 1, LOWEST) == 1


def test_a_base_of_zero_retries_at_once():
    assert seconds(BackOff(base_seconds=0), 5, HIGHEST) == 0


def test_a_delay_is_never_beyond_sqs_longest_visibility_time_out():
    assert seconds(BackOff(base_seconds=43_200, max_seconds=1e9), 5, HIGHEST) == 43_200


@given(
    base=st.floats(0.001, 1e6) | st.integers(1, 10**6),
    longest=st.floats(0, 1e6) | st.integers(0, 10**6),
    attempt=st.integers(1, 995),
    die=dice,
)
def test_every_delay_is_whole_seconds_within_the_upper_half_of_its_cap(base, longest, attempt, die):
    delay = seconds(BackOff(base_seconds=base, max_seconds=longest), attempt, die)
    cap = min(longest, base * 2.0 ** (attempt - 1))
    assert delay == int(delay)
    assert min(max(1, floor(cap / 2)), 43_200) <= delay <= min(max(1, ceil(cap)), 43_200)


@given(attempt=st.integers(1, 994), die=dice)
def test_delays_do_not_shrink_from_attempt_to_attempt(attempt, die):
    assert seconds(BackOff(), attempt, die) <= seconds(BackOff(), attempt + 1, die)


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (0, 0),
        (-1, 0),
        (-0.0, 0),
        (1, 1),
        (0.001, 1),
        (1.0, 1),
        (1.001, 2),
        (43_199.5, 43_200),
        (43_200, 43_200),
        (43_201, 43_200),
        (1e300, 43_200),
        pytest.param(10**400, 43_200, id="beyond any float"),
        (inf, 43_200),
        (-inf, 0),
        (nan, 0),
        (timedelta(seconds=1.5), 2),
        (timedelta(microseconds=1), 1),
        (timedelta(days=1), 43_200),
        (timedelta.max, 43_200),
        (timedelta.min, 0),
        (True, 1),
    ],
)
def test_a_handlers_own_delay_is_kept_within_its_bounds_and_rounded_up(after, kept):
    assert clamp(after) == timedelta(seconds=kept)


@given(st.floats() | st.integers() | st.timedeltas())
def test_every_delay_of_a_handler_ends_up_in_whole_seconds_within_12_hours(after):
    kept = clamp(after).total_seconds()
    assert 0 <= kept <= 43_200
    assert kept == int(kept)
