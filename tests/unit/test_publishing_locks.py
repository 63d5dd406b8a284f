"""The locks by which publishers of an ordered key queue: few enough, and in one order for all."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from local_transport.dialects.advisory import publishing_locks

LANES = st.tuples(st.integers(1, 3), st.integers(-(2**63), 2**63 - 1))


def test_a_lane_is_locked_alone_and_its_subscription_shared():
    locks = publishing_locks([(7, 11)])
    assert locks[0] == (0, 7)
    assert [kind for kind, _ in locks] == [0, 2]


def test_the_same_lane_of_another_subscription_has_another_lock():
    assert publishing_locks([(7, 11)])[1] != publishing_locks([(8, 11)])[1]


def test_many_lanes_of_a_subscription_are_one_lock_that_keeps_everybody_from_them():
    many = [(1, number) for number in range(129)]
    assert publishing_locks(many) == [(1, 1)]
    assert len(publishing_locks(many[1:])) == 129
    assert [lock for lock in publishing_locks([*many, (2, 5)]) if lock[0] != 2] == [(1, 1), (0, 2)]


@given(st.lists(LANES, max_size=200))
def test_all_take_subscriptions_by_id_first_and_then_lanes_by_key(lanes):
    locks = publishing_locks(lanes)
    assert len(locks) == len(set(locks))
    assert len(locks) <= 3 * 129
    for (kind, key), (next_kind, next_key) in pairwise(locks):
        assert (kind == 2, key) < (next_kind == 2, next_key)
