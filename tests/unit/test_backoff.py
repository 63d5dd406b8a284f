"""How long a delivery waits: within bounds, whatever the attempt and the dice."""

from collections import Counter
from datetime import timedelta
from math import inf, nan, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.backoff import BackOff, clamp

LOWEST, HIGHEST = 0.0, 0.999_999_999
dice = st.floats(0, 1, exclude_max=True)


def seconds(backoff: BackOff, attempt: int, die: float) -> float:
    return backoff.delay(attempt, lambda: die).total_seconds()


@pytest.mark.parametrize(("attempt", "cap"), [(1, 10), (2, 20), (3, 40), (7, 640), (8, 900), (2_000, 900)])
def test_the_cap_doubles_with_each_attempt_up_to_the_longest(attempt, cap):
    backoff = BackOff()
    assert seconds(backoff, attempt, LOWEST) == cap / 2
    assert seconds(backoff, attempt, HIGHEST) == cap


def test_the_dice_choose_within_the_upper_half():
    assert [seconds(BackOff(base_seconds=100), 1, die) for die in (0.0, 0.25, 0.5, 0.75)] == [50, 62, 75, 88]


@pytest.mark.parametrize(
    ("cap", "shortest", "longest"),
    [(5, 3, 5), (10.9, 6, 10), (3.5, 2, 3), (1.5, 1, 1), (2, 1, 2), (43_200, 21_600, 43_200)],
)
def test_no_rounding_leads_out_of_the_upper_half(cap, shortest, longest):
    backoff = BackOff(base_seconds=cap, max_seconds=43_200)
    assert (seconds(backoff, 1, LOWEST), seconds(backoff, 1, HIGHEST)) == (shortest, longest)


@pytest.mark.parametrize("attempt", [1, 2, 3, 4, 7, 8])
def test_every_whole_second_of_the_upper_half_is_as_likely_as_any_other(attempt):
    """A chi-square test with a seeded source: it finds the same on every run."""
    draws, backoff, source = 20_000, BackOff(), Random(attempt)
    counts = Counter(backoff.delay(attempt, source.random).total_seconds() for _ in range(draws))
    cap = min(900, 10 * 2 ** (attempt - 1))
    assert set(counts) == set(range(cap // 2, cap + 1))
    assert sum(delay * times for delay, times in counts.items()) / draws == pytest.approx(0.75 * cap, rel=0.005)
    expected, freedom = draws / len(counts), len(counts) - 1
    chi_square = sum((times - expected) ** 2 / expected for times in counts.values())
    assert abs(chi_square - freedom) < 3.5 * sqrt(
        2 * freedom
    )  # its standard deviation is the root of twice the freedom


def test_a_delay_is_at_least_one_second():
    assert seconds(BackOff(base_seconds=0.001), 1, LOWEST) == 1
    assert seconds(BackOff(base_seconds=1), 1, LOWEST) == 1
    assert seconds(BackOff(base_seconds=10, max_seconds=0), 1, LOWEST) == 1


def test_a_base_of_zero_retries_at_once():
    assert seconds(BackOff(base_seconds=0), 5, HIGHEST) == 0


def test_a_delay_is_never_beyond_sqs_longest_visibility_time_out():
    backoff = BackOff(base_seconds=43_200, max_seconds=1e9)
    assert (seconds(backoff, 5, LOWEST), seconds(backoff, 5, HIGHEST)) == (21_600, 43_200)


@pytest.mark.parametrize(
    ("backoff", "attempts", "total"),
    [
        (BackOff(), 1, 0),
        (BackOff(), 2, 10),
        (BackOff(), 5, 10 + 20 + 40 + 80),
        (BackOff(base_seconds=400), 4, 400 + 800 + 900),
        (BackOff(base_seconds=0), 9, 0),
        (BackOff(base_seconds=0.1), 4, 3),
        (BackOff(max_seconds=43_200, base_seconds=43_200), 995, 994 * 43_200),
    ],
    ids=str,
)
def test_the_longest_waits_between_attempts_add_up(backoff, attempts, total):
    assert backoff.longest_total(attempts) == total
    assert sum(seconds(backoff, attempt, HIGHEST) for attempt in range(1, attempts)) == total


@given(
    base=st.floats(0.001, 1e6) | st.integers(1, 10**6),
    longest=st.floats(0, 1e6) | st.integers(0, 10**6),
    attempt=st.integers(1, 995),
    die=dice,
)
def test_every_delay_is_whole_seconds_within_the_upper_half_of_its_cap(base, longest, attempt, die):
    delay = seconds(BackOff(base_seconds=base, max_seconds=longest), attempt, die)
    cap = min(longest, base * 2.0 ** (attempt - 1), 43_200)
    assert delay == int(delay)
    assert cap / 2 <= delay <= cap or (delay == 1 and cap < 1)


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
