"""Stacks: at most twenty subscriptions to one, and a subscription stays where it is."""

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.resolving import DATABASE, deployment, resolved
from towpath.resolve import resolve
from towpath.resolve.stacks import stack_groups
from towpath.topology import parse_topology

NAMES = st.lists(st.text("abcdefg.", min_size=1, max_size=6), unique=True, max_size=400)


def remainder(name: str, count: int) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % count


def in_one_group(count: int) -> list[str]:
    """Names that all have the hash of group 0."""
    names = (f"s{n}" for n in range(100_000))
    return [name for name, _ in zip((n for n in names if remainder(n, 8) == 0), range(count), strict=False)]


def test_a_subscriptions_stack_is_one_of_eight_by_the_hash_of_its_name() -> None:
    names = [f"s{n}" for n in range(60)]
    assert stack_groups(names) == {name: remainder(name, 8) for name in names}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(NAMES)
def test_no_stack_has_more_than_twenty_subscriptions(names: list[str]) -> None:
    groups = stack_groups(names)
    assert sorted(groups) == sorted(names)
    assert max(Counter(groups.values()).values(), default=0) <= 20


@settings(max_examples=40, deadline=None, derandomize=True)
@given(NAMES, st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter(names: list[str], random: object) -> None:
    shuffled = list(names)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert stack_groups(shuffled) == stack_groups(names)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.lists(st.text("abcdefg.", min_size=1, max_size=6), unique=True, min_size=1, max_size=60))
def test_a_subscription_that_comes_or_goes_moves_no_other_while_no_group_overflows(names: list[str]) -> None:
    groups = stack_groups(names)
    if max(groups.values()) < 8:
        for gone in names:
            rest = {name: group for name, group in groups.items() if name != gone}
            assert stack_groups(rest) == rest


def test_twenty_share_a_stack_and_the_twenty_first_divides_it() -> None:
    names = in_one_group(21)
    assert set(stack_groups(names[:20]).values()) == {0}
    assert set(stack_groups(names).values()) == {0, 8}


def test_of_a_group_that_overflows_one_half_stays_and_the_others_groups_are_left_alone() -> None:
    full, others = in_one_group(21), [f"o{n}" for n in range(30) if remainder(f"o{n}", 8) != 0]
    before, after = stack_groups([*full[:20], *others]), stack_groups([*full, *others])
    moved = {name for name in before if before[name] != after[name]}
    assert moved == {name for name in full[:20] if remainder(name, 16) == 8}
    assert 0 < len(moved) < 20


def test_a_group_is_divided_as_often_as_it_takes() -> None:
    """Names whose hashes are alike in more than three bits."""
    names = [f"s{n}" for n in range(60_000) if remainder(f"s{n}", 512) == 5][:41]
    groups = stack_groups(names)
    assert max(Counter(groups.values()).values()) <= 20
    assert all(group % 512 == 5 for group in groups.values())


def test_the_manifest_says_a_subscriptions_stack_and_the_one_of_topics() -> None:
    aws = resolved(None, s={}).subscriptions["s"].aws
    assert aws is not None
    assert aws.stack_group == remainder("s", 8)
    assert aws.stack_name == f"towpath-shop-prod-subscriptions-{aws.stack_group}"
    assert deployment().topics_stack_name == "towpath-shop-prod-topics"


@pytest.mark.parametrize("name", ["0", "-", "a" * 20])
def test_a_stacks_name_begins_with_a_letter_whatever_the_topologys_does(name: str) -> None:
    aws = resolve(parse_topology({"name": name, "topics": {"t": {}}}), "prod").aws
    assert aws is not None
    assert aws.topics_stack_name == f"towpath-{name}-prod-topics"


def test_subscriptions_on_a_database_take_no_place_in_a_stack() -> None:
    names = in_one_group(21)
    written = {
        "name": "shop",
        "topics": {"t": {}, "d": DATABASE},
        "subscriptions": {name: {"topic": "t" if name == names[0] else "d", "handler": "app:run"} for name in names},
    }
    found = [s.aws.stack_group for s in resolve(parse_topology(written), "prod").subscriptions.values() if s.aws]
    assert found == [0]
