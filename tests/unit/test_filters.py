"""Filter policies over attributes: which messages pass, and which policies are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy


def matches(conditions: list, value: object = ...) -> bool:
    attributes = {} if value is ... else {"kind": value}
    return FilterPolicy.parse({"kind": conditions}).matches(attributes)


def mistakes(policy: dict) -> list[str]:
    with pytest.raises(InvalidFilter) as caught:
        FilterPolicy.parse(policy)
    return [str(mistake) for mistake in caught.value.mistakes]


# --- Matching --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "value", "passes"),
    [
        (["pdf"], "pdf", True),
        (["pdf"], "PDF", False),
        (["pdf"], "pdfx", False),
        (["docx", "pdf"], "pdf", True),
        ([""], "pdf", False),
        (["1"], 1, False),
        ([{"prefix": "text/"}], "text/plain", True),
        ([{"prefix": "text/"}], "text/", True),
        ([{"prefix": "text/"}], "text", False),
        ([{"prefix": "1"}], 12, False),
        ([{"anything-but": "pdf"}], "docx", True),
        ([{"anything-but": "pdf"}], "pdf", False),
        ([{"anything-but": ["pdf", "docx"]}], "docx", False),
        ([{"anything-but": ["pdf", "docx"]}], "odt", True),
        ([{"anything-but": ["1"]}], 1, True),
        ([{"anything-but": {"prefix": "text/"}}], "text/plain", False),
        ([{"anything-but": {"prefix": "text/"}}], "image/png", True),
        ([{"anything-but": {"prefix": "1"}}], 1, True),
        ([{"exists": True}], "pdf", True),
        ([{"exists": True}], 0, True),
        ([{"exists": True}], (), True),
        ([{"exists": False}], "pdf", False),
        (["pdf", {"prefix": "text/"}], "text/plain", True),
        (["pdf", {"exists": False}], "docx", False),
    ],
)
def test_a_condition_holds_or_not(conditions, value, passes):
    assert matches(conditions, value) is passes


@pytest.mark.parametrize(
    ("conditions", "value", "passes"),
    [
        (["a"], ("b", "a"), True),
        (["a"], ("b", "c"), False),
        (["a"], (), False),
        ([{"prefix": "a"}], ("b", "ab"), True),
        ([{"anything-but": "a"}], ("a", "b"), True),
        ([{"anything-but": "a"}], ("a", "a"), False),
        ([{"anything-but": "a"}], (), False),
    ],
)
def test_a_list_passes_when_any_of_its_texts_does(conditions, value, passes):
    assert matches(conditions, value) is passes


@pytest.mark.parametrize(
    "conditions",
    [["pdf"], [{"prefix": "p"}], [{"anything-but": "pdf"}], [{"anything-but": {"prefix": "p"}}], [{"exists": True}]],
)
def test_a_missing_attribute_meets_no_condition_but_exists_false(conditions):
    assert not matches(conditions)
    assert matches([*conditions, {"exists": False}])


def test_every_key_must_hold():
    policy = FilterPolicy.parse({"kind": ["pdf"], "size": [{"exists": True}]})
    assert policy.matches({"kind": "pdf", "size": 3, "more": "x"})
    assert not policy.matches({"kind": "pdf"})
    assert not policy.matches({"kind": "docx", "size": 3})


@given(st.text(), st.integers() | st.floats(allow_nan=False))
def test_a_number_meets_no_condition_on_text(text, number):
    assert not matches([text], number)
    assert not matches([{"prefix": "x" + text}], number)


@pytest.mark.parametrize("text", ["\0", "\0a"])
def test_a_number_is_not_taken_for_an_odd_text(text):
    assert not matches([text, {"prefix": text}], 1)
    assert matches([{"anything-but": {"prefix": text}}], 1)
    assert matches([{"anything-but": text}], 1)


@given(st.text(), st.text())
def test_prefix_and_anything_but_prefix_are_opposites_on_text(prefix, value):
    prefix = "p" + prefix
    assert matches([{"prefix": prefix}], value) is not matches([{"anything-but": {"prefix": prefix}}], value)
    assert matches([{"prefix": prefix}], prefix + value)


@given(st.lists(st.text(max_size=2), min_size=1, max_size=4), st.text(max_size=2))
def test_exact_and_anything_but_are_opposites_on_text(values, value):
    assert matches(list(values), value) is (value in values)
    assert matches([{"anything-but": values}], value) is (value not in values)


# --- Canonical text --------------------------------------------------------------------------------------------


def test_the_canonical_text_has_sorted_keys_and_no_blanks():
    policy = FilterPolicy.parse({"b": ["ä", {"prefix": "x"}], "a": ({"anything-but": ("y",)},)})
    assert policy.to_json() == '{"a":[{"anything-but":["y"]}],"b":["ä",{"prefix":"x"}]}'


def test_equal_policies_give_equal_text_whatever_the_order_of_keys():
    first = FilterPolicy.parse({"a": ["1"], "b": [{"exists": True}]})
    second = FilterPolicy.parse({"b": ({"exists": True},), "a": ("1",)})
    assert first.to_json() == second.to_json()


# --- Refused policies ------------------------------------------------------------------------------------------


def test_a_policy_without_keys_is_refused():
    assert mistakes({}) == ["has no keys; leave the filter out to receive everything"]


def test_five_keys_are_accepted_and_six_are_not():
    five = {f"k{i}": ["a"] for i in range(5)}
    FilterPolicy.parse(five)
    assert mistakes(five | {"k5": ["a"]}) == ["has 6 keys, SNS allows 5"]


def test_150_combinations_are_accepted_and_151_are_not():
    FilterPolicy.parse({"a": ["v"] * 15, "b": ["v"] * 10})
    assert mistakes({"a": ["v"] * 151}) == ["makes 151 combinations of values, SNS allows 150"]
    assert mistakes({"a": ["v"] * 16, "b": ["v"] * 10}) == ["makes 160 combinations of values, SNS allows 150"]


def test_a_policy_of_256_kib_is_accepted_and_a_byte_more_is_not():
    frame = len('{"a":[""]}')
    FilterPolicy.parse({"a": ["x" * (262_144 - frame)]})
    assert mistakes({"a": ["x" * (262_145 - frame)]}) == ["is 262,145 bytes of JSON, SNS allows 262,144"]
    FilterPolicy.parse({"a": ["ä" * (131_072 - frame // 2)]})
    assert mistakes({"a": ["ä" * (131_073 - frame // 2)]}) == ["is 262,146 bytes of JSON, SNS allows 262,144"]


@pytest.mark.parametrize("conditions", [[], (), "pdf", None, 7, {"prefix": "x"}])
def test_conditions_must_be_a_list_that_holds_something(conditions):
    assert mistakes({"kind": conditions}) == ["kind: must be a non-empty list of conditions"]


@pytest.mark.parametrize("condition", [1, None, True, [], ["a"], {}, {"prefix": "a", "exists": True}])
def test_a_condition_must_be_text_or_an_object_of_one_operator(condition):
    assert mistakes({"kind": [condition]}) == [
        "kind[0]: must be text or an object with one of exists, prefix, anything-but"
    ]


@pytest.mark.parametrize("operator", ["suffix", "numeric", "wildcard", "cidr", "equals-ignore-case", "$or"])
def test_an_operator_of_sns_that_is_not_there_yet_is_refused_as_that(operator):
    assert mistakes({"kind": [{operator: "x"}]}) == [
        (
            f"kind[0]: has the operator {operator!r}, which Towpath does not support yet; "
            "allowed are exists, prefix, anything-but"
        )
    ]


@pytest.mark.parametrize("operator", ["Prefix", "", "numerc"])
def test_an_operator_that_sns_does_not_have_is_refused_as_that(operator):
    assert mistakes({"kind": [{operator: "x"}]}) == [
        f"kind[0]: has the operator {operator!r}, which SNS does not know; allowed are exists, prefix, anything-but"
    ]


@pytest.mark.parametrize(
    ("condition", "mistake"),
    [
        ({"exists": "yes"}, "kind[0].exists: must be true or false"),
        ({"exists": 1}, "kind[0].exists: must be true or false"),
        ({"exists": None}, "kind[0].exists: must be true or false"),
        ({"prefix": ""}, "kind[0].prefix: must be non-empty text"),
        ({"prefix": 1}, "kind[0].prefix: must be non-empty text"),
        ({"prefix": ["a"]}, "kind[0].prefix: must be non-empty text"),
        ({"anything-but": {"prefix": ""}}, "kind[0].anything-but.prefix: must be non-empty text"),
        *(
            ({"anything-but": wrong}, "kind[0].anything-but: must be text, a list of text, or an object with 'prefix'")
            for wrong in ([], 1, None, ["a", 1], {}, {"suffix": "a"}, {"prefix": "a", "suffix": "b"}, True)
        ),
    ],
)
def test_a_wrong_operand_is_refused_where_it_stands(condition, mistake):
    assert mistakes({"kind": [condition]}) == [mistake]


def test_all_mistakes_are_told_at_once():
    policy = {"a": [], "b": ["fine", {"prefix": ""}, 7], "c": [{"exists": 1}], "d": ["x"], "e": ["x"], "f": ["x"]}
    assert mistakes(policy) == [
        "has 6 keys, SNS allows 5",
        "a: must be a non-empty list of conditions",
        "b[1].prefix: must be non-empty text",
        "b[2]: must be text or an object with one of exists, prefix, anything-but",
        "c[0].exists: must be true or false",
    ]


def test_checking_changes_nothing_of_what_was_given():
    given_policy = {"kind": ["a", {"anything-but": ["b"]}]}
    FilterPolicy.parse(given_policy)
    assert given_policy == {"kind": ["a", {"anything-but": ["b"]}]}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["prefix", "exists", "anything-but", "x", ""]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.text(max_size=3), json_like, max_size=3),
    st.dictionaries(st.text(max_size=3), st.text(), max_size=3),
)
def test_a_policy_is_refused_with_its_mistakes_or_works(policy, attributes):
    try:
        parsed = FilterPolicy.parse(policy)
    except InvalidFilter:
        assert mistakes(policy)
    else:
        assert parsed.matches(attributes) in (True, False)
