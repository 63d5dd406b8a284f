"""Which filter policies are known to let through all that another does."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath.filters import FilterPolicy


def wider(wide: dict[str, Any], narrow: dict[str, Any]) -> bool:
    return FilterPolicy.parse(wide).lets_through_all_of(FilterPolicy.parse(narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"k": ["a", "b"]}, {"k": ["a"]}),
        ({"k": ["a"]}, {"k": ["a"], "other": ["x"]}),
        ({"k": [{"prefix": "a"}]}, {"k": ["ab", {"prefix": "ac"}]}),
        ({"k": [{"suffix": "z"}]}, {"k": ["xyz", {"suffix": "yz"}]}),
        ({"k": [{"equals-ignore-case": "ab"}]}, {"k": ["AB", "ab"]}),
        ({"k": [{"exists": True}]}, {"k": ["a", 1, {"prefix": "b"}, {"numeric": [">", 1]}]}),
        ({"k": [{"anything-but": ["a"]}]}, {"k": [{"anything-but": ["b", "a"]}]}),
        ({"k": [{"numeric": [">=", 1]}]}, {"k": [1, {"numeric": [">", 1]}, {"numeric": ["=", 3]}]}),
        ({"k": [{"numeric": [">", 0, "<", 9]}]}, {"k": [{"numeric": [">", 0, "<=", 8]}]}),
        ({"$or": [{"a": ["x"]}, {"b": ["y"]}]}, {"a": ["x"]}),
        ({"$or": [{"a": ["x", "z"]}, {"b": ["y"]}]}, {"$or": [{"a": ["x"]}, {"b": ["y"]}]}),
    ],
)
def test_a_wider_policy_is_known_to_be_one(wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    assert wider(wide, narrow)
    assert wider(wide, wide)
    assert not wider(narrow, wide)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"k": ["a"]}, {"k": ["a", "b"]}),
        ({"k": ["a"], "other": ["x"]}, {"k": ["a"]}),
        ({"k": [{"exists": True}]}, {"k": [{"exists": False}]}),
        ({"k": [{"prefix": "ab"}]}, {"k": [{"prefix": "a"}]}),
        ({"k": [{"numeric": [">", 1]}]}, {"k": [1]}),
        ({"k": [{"numeric": [">", 1]}]}, {"k": ["2"]}),
        ({"k": [{"anything-but": ["a", "b"]}]}, {"k": [{"anything-but": ["a"]}]}),
        ({"k": [{"anything-but": ["a"]}]}, {"k": ["b"]}),  # of a list that holds both it is not known
        ({"k": [{"wildcard": "a*"}]}, {"k": [{"wildcard": "ab*"}]}),
        ({"a": ["x"]}, {"$or": [{"a": ["x"]}, {"b": ["y"]}]}),
    ],
)
def test_what_is_not_proven_is_not_said(wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    assert not wider(wide, narrow)


TEXTS = st.sampled_from(["a", "ab", "abc", "b", "B", ""])
NUMBERS = st.integers(-2, 3)
CONDITIONS = st.one_of(
    TEXTS,
    NUMBERS,
    st.sampled_from([{"exists": True}, {"exists": False}]),
    st.sampled_from(["a", "ab", "b"]).map(lambda text: {"prefix": text}),
    st.sampled_from(["a", "bc", "b"]).map(lambda text: {"suffix": text}),
    st.sampled_from(["a", "AB", "b"]).map(lambda text: {"equals-ignore-case": text}),
    st.lists(st.sampled_from(["a", "ab", "b"]), min_size=1, max_size=2, unique=True).map(lambda t: {"anything-but": t}),
    st.tuples(st.sampled_from([">", ">=", "<", "<=", "="]), NUMBERS).map(lambda pair: {"numeric": list(pair)}),
)
KEYS = st.dictionaries(st.sampled_from("pq"), st.lists(CONDITIONS, min_size=1, max_size=3), min_size=1, max_size=2)
MEMBERS = st.dictionaries(st.sampled_from("rs"), st.lists(CONDITIONS, min_size=1, max_size=2), min_size=1, max_size=1)
OR = st.lists(MEMBERS, min_size=2, max_size=2).map(lambda members: {"$or": members})
POLICIES = st.one_of(KEYS, OR, st.tuples(KEYS, OR).map(lambda both: both[0] | both[1]))
VALUES = st.one_of(TEXTS, NUMBERS, st.lists(TEXTS, max_size=3).map(tuple))
ATTRIBUTES = st.dictionaries(st.sampled_from("pqrs"), VALUES, max_size=4)


@settings(max_examples=200)
@given(wide=POLICIES, narrow=POLICIES, messages=st.lists(ATTRIBUTES, max_size=8))
def test_what_passes_the_narrower_passes_the_wider(
    wide: dict[str, Any], narrow: dict[str, Any], messages: list[dict[str, Any]]
) -> None:
    one, other = FilterPolicy.parse(wide), FilterPolicy.parse(narrow)
    if one.lets_through_all_of(other):
        assert [m for m in messages if other.matches(m) and not one.matches(m)] == []


@settings(max_examples=50)
@given(policy=KEYS, more=CONDITIONS, messages=st.lists(ATTRIBUTES, max_size=4))
def test_a_condition_more_is_wider(policy: dict[str, Any], more: Any, messages: list[dict[str, Any]]) -> None:
    key = next(iter(policy))
    assert wider(policy | {key: [*policy[key], more]}, policy)
