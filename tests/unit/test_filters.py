"""Filter policies over attributes: one test for each rule, and three for each bound."""

import json

import pytest

from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy

OPERATORS = "prefix, suffix, equals-ignore-case, anything-but, numeric, exists, cidr, wildcard"


def matches(conditions: list, value: object = ...) -> bool:
    """Whether a message passes whose attribute ``kind`` is ``value``, or that has only another one."""
    attributes = {"other": "x"} if value is ... else {"kind": value}
    return FilterPolicy.parse({"kind": conditions}).matches(attributes)


def mistakes(policy: object) -> list[str]:
    with pytest.raises(InvalidFilter) as caught:
        FilterPolicy.parse(policy)
    return [str(mistake) for mistake in caught.value.mistakes]


def accepted(*conditions: object) -> FilterPolicy:
    return FilterPolicy.parse({"kind": list(conditions)})


# --- Text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "passing", "refused"),
    [
        ("pdf", ["pdf"], ["PDF", "pdfx", "xpdf", "pd"]),
        ("1", ["1"], [1, 1.0]),
        ("true", ["true"], ["True"]),
        ({"prefix": "text/"}, ["text/plain", "text/"], ["text", "Text/plain", "a text/"]),
        ({"prefix": "1"}, ["12"], [12, 1]),
        ({"suffix": ".pdf"}, ["a.pdf", ".pdf"], ["a.pdfx", "pdf", "a.PDF"]),
        ({"suffix": "2"}, ["12"], [12, 2]),
        ({"equals-ignore-case": "PDF"}, ["pdf", "PDF", "Pdf"], ["pdfx", "xpdf", "pd"]),
        ({"equals-ignore-case": "straße"}, ["STRAßE"], ["strasse"]),
        ({"equals-ignore-case": "1"}, ["1"], [1]),
        ({"wildcard": "*.pdf"}, ["a.pdf", ".pdf", "b.pdf.pdf"], ["pdf", "a.pdfx", "a.PDF"]),
        ({"wildcard": "docs/*"}, ["docs/", "docs/a", "docs/a/b\nc"], ["doc", "a/docs/"]),
        ({"wildcard": "a*b*c"}, ["abc", "a--b--c", "abbc", "abcbc"], ["ab", "acb", "ac", "abcd", "xabc"]),
        ({"wildcard": "*b*"}, ["b", "abc"], ["ac"]),
        ({"wildcard": "aa*aa"}, ["aaaa", "aaxaa"], ["aaa", "aa"]),
        ({"wildcard": "a*a*a"}, ["aaa", "aXaXa"], ["aa", "a"]),
        ({"wildcard": "a*bc*c"}, ["abcc", "abcbcc"], ["abc", "abbc"]),
        ({"wildcard": "*a*a*"}, ["aa", "xaxax"], ["a", "xax"]),
        ({"wildcard": "*"}, ["a", "*"], [1]),
        ({"wildcard": "plain"}, ["plain"], ["plainer", "plai"]),
        ({"wildcard": r"a\*b"}, ["a*b"], ["a-b", r"a\*b", "ab"]),
        ({"wildcard": r"\**"}, ["*", "*x"], ["x*", "x"]),
        ({"wildcard": r"*\*"}, ["*", "x*"], ["x"]),
    ],
)
def test_a_condition_on_text(condition, passing, refused):
    assert [matches([condition], value) for value in passing] == [True] * len(passing)
    assert [matches([condition], value) for value in refused] == [False] * len(refused)


@pytest.mark.parametrize("operator", ["", "prefix", "suffix", "equals-ignore-case", "anything-but"])
@pytest.mark.parametrize(("written", "meant"), [(r"a\\b", r"a\b"), (r"say \"hi\"", 'say "hi"'), (r"x\\\"", 'x\\"')])
def test_double_quotes_and_backslashes_are_escaped_once_more_than_json_does(operator, written, meant):
    condition = {operator: written} if operator else written
    passes = operator != "anything-but"
    assert matches([condition], meant) is passes
    assert matches([condition], written) is not passes


@pytest.mark.parametrize(
    ("network", "passing", "refused"),
    [
        ("10.0.0.0/24", ["10.0.0.0", "10.0.0.255"], ["10.0.1.0", "9.255.255.255", "10.0.0.0/24", "10.0.0", "a", "::"]),
        ("10.0.0.2/31", ["10.0.0.2", "10.0.0.3"], ["10.0.0.1", "10.0.0.4"]),
        ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["256.0.0.0", "::1", "1.2.3.4.5", "٣.0.0.0", 1, 10.0]),
        ("2001:db8::/32", ["2001:db8::1", "2001:DB8:0:0::ffff"], ["2001:db9::", "10.0.0.1", "2001:db8::1%eth0"]),
        ("::/0", ["::", "ffff::1"], ["0.0.0.0", "::ffff:10.0.0.1", ":::"]),
    ],
)
def test_cidr_holds_for_an_address_of_the_network(network, passing, refused):
    assert [matches([{"cidr": network}], value) for value in passing] == [True] * len(passing)
    assert [matches([{"cidr": network}], value) for value in refused] == [False] * len(refused)


# --- Numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "passing", "refused"),
    [
        (301.5, [301.5, 3.015e2], [301, "301.5", ("301.5",)]),
        (7, [7, 7.0], [7.1, "7", -7]),
        ({"numeric": ["=", 7]}, [7, 7.0], [6.99999, 7.00001, "7", ("7",)]),
        ({"numeric": ["<", 7]}, [6.99999, -1e9], [7, 7.00001, "6"]),
        ({"numeric": ["<=", 7]}, [7, 6.99999], [7.00001]),
        ({"numeric": [">", 7]}, [7.00001, 1e9], [7, 6.99999, "8"]),
        ({"numeric": [">=", 7]}, [7, 7.00001], [6.99999]),
        ({"numeric": [">", 0, "<", 10]}, [0.00001, 9.99999], [0, 10]),
        ({"numeric": [">=", 0, "<=", 10]}, [0, -0.0, 10], [-0.00001, 10.00001]),
        ({"numeric": [">", -3, "<=", -1]}, [-2.99999, -1], [-3, -0.99999]),
    ],
)
def test_a_condition_on_numbers(condition, passing, refused):
    assert [matches([condition], value) for value in passing] == [True] * len(passing)
    assert [matches([condition], value) for value in refused] == [False] * len(refused)


def test_numbers_are_compared_to_five_decimal_places():
    almost = 0.1 + 0.2
    assert almost != 0.3
    assert matches([0.3], almost)
    assert matches([{"numeric": ["=", 0.3]}], almost)
    assert matches([{"numeric": ["<=", 0.3]}], almost)
    assert not matches([{"numeric": [">", 0.3]}], almost)
    assert not matches([{"anything-but": [0.3]}], almost)
    assert matches([2], 2.000004)
    assert matches([2], 1.999996)
    assert not matches([2], 2.000006)
    assert not matches([2], 1.999994)
    assert matches([{"numeric": ["<", 2]}], 1.999994)
    assert not matches([{"numeric": ["<", 2]}], 1.999996)
    assert matches([{"numeric": [">", 2]}], 2.000006)
    assert not matches([{"numeric": [">=", 2]}], 1.999994)
    assert matches([{"numeric": [">=", 2]}], 1.999996)
    assert not matches([{"numeric": ["<=", 2]}], 2.000006)


def test_half_a_place_is_rounded_up():
    half = 0.000005
    assert matches([0.00001], half)
    assert not matches([0], half)
    assert not matches([{"numeric": ["=", 0]}], half)
    assert not matches([{"numeric": ["<=", 0]}], half)
    assert matches([{"numeric": [">", 0]}], half)
    assert matches([{"numeric": ["<", 0]}], -0.000006)
    assert matches([0], -half)


@pytest.mark.parametrize("number", [1e9, -1e9, 999_999_999.99999, -999_999_999.99999, 0.00001, 123_456_789.12345])
def test_the_largest_and_the_smallest_numbers_keep_their_decimal_places(number):
    assert matches([number], number)
    for off in (number - 0.00001, number + 0.00001):
        assert not matches([number], off)
        assert not matches([{"numeric": ["=", number]}], off)
        assert matches([{"anything-but": number}], off)
    assert not matches([{"numeric": ["<", number]}], number)
    assert not matches([{"numeric": [">", number]}], number)


@pytest.mark.parametrize("value", [True, False, None])
def test_booleans_and_null_are_values_that_no_attribute_of_a_message_has(value):
    policy = accepted(value)
    assert [policy.matches({"kind": v}) for v in ("true", "false", "null", "None", 1, 0, ("true",))] == [False] * 7
    assert not policy.matches({"other": "x"})


# --- anything-but ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("refused", "passing", "failing"),
    [
        ("pdf", ["docx", "PDF", 1], ["pdf"]),
        (["pdf", "docx"], ["odt"], ["pdf", "docx"]),
        (["1"], [1, "2"], ["1"]),
        ("", ["a", 1], []),
        (100, [101, 100.1, "100", "a"], [100, 100.0]),
        ([100, 500], [50], [100, 500]),
        (0, [1, "0"], [0, -0.0]),
        ({"prefix": "text/"}, ["image/png", "text", 1], ["text/plain", "text/"]),
        ({"suffix": ".tmp"}, ["a.pdf", "tmp", 1], ["a.tmp", ".tmp"]),
        ({"wildcard": "*ball"}, ["hockey", "balls", 1], ["baseball", "ball"]),
        ({"wildcard": r"\*"}, ["a", r"\*"], ["*"]),
    ],
)
def test_anything_but_holds_for_every_other_value(refused, passing, failing):
    assert [matches([{"anything-but": refused}], value) for value in passing] == [True] * len(passing)
    assert [matches([{"anything-but": refused}], value) for value in failing] == [False] * len(failing)


# --- Lists and missing attributes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "value", "passes"),
    [
        (["a"], ("b", "a"), True),
        (["a"], ("b", "c"), False),
        (["a"], (), False),
        ([{"prefix": "a"}], ("b", "ab"), True),
        ([{"suffix": "a"}], ("ba", "c"), True),
        ([{"equals-ignore-case": "a"}], ("b", "A"), True),
        ([{"wildcard": "a*c"}], ("b", "abc"), True),
        ([{"cidr": "10.0.0.0/8"}], ("b", "10.0.0.1"), True),
        ([{"numeric": ["=", 1]}], ("1",), False),
        ([1], ("1",), False),
        ([{"anything-but": "a"}], ("a", "b"), True),
        ([{"anything-but": ["a", "b"]}], ("a", "b"), False),
        ([{"anything-but": 1}], ("1",), True),
        ([{"anything-but": "a"}], (), False),
        ([{"anything-but": {"prefix": "a"}}], ("ab", "b"), True),
        ([{"anything-but": {"suffix": "a"}}], ("ba",), False),
        ([{"anything-but": {"wildcard": "*a*"}}], ("bab", "b"), True),
        ([{"exists": True}], ("a",), True),
        ([{"exists": True}], (), False),
        ([{"exists": False}], (), False),
        ([{"exists": False}], ("a",), False),
    ],
)
def test_a_list_meets_a_condition_when_one_of_its_texts_does_and_an_empty_one_meets_none(conditions, value, passes):
    assert matches(conditions, value) is passes


@pytest.mark.parametrize("value", ["pdf", 0, -1.5, ("a", "b")])
def test_exists_holds_for_an_attribute_that_is_there_or_is_not(value):
    assert matches([{"exists": True}], value)
    assert not matches([{"exists": True}])
    assert not matches([{"exists": False}], value)
    assert matches([{"exists": False}])


EVERY_CONDITION = [
    *("pdf", "", 1, True, None),
    *({"prefix": "p"}, {"suffix": "p"}, {"equals-ignore-case": "p"}, {"wildcard": "*"}, {"cidr": "0.0.0.0/0"}),
    *({"numeric": ["<", 1]}, {"numeric": [">", 1, "<", 2]}, {"exists": True}),
    *({"anything-but": refused} for refused in ("pdf", ["pdf"], 1, [1], {"prefix": "p"}, {"suffix": "p"})),
    {"anything-but": {"wildcard": "p*"}},
]


@pytest.mark.parametrize("condition", EVERY_CONDITION)
def test_a_missing_attribute_meets_no_condition_but_exists_false(condition):
    assert not matches([condition])
    assert matches([condition, {"exists": False}])


@pytest.mark.parametrize("policy", [{"kind": [{"exists": False}]}, {"$or": [{"a": [{"exists": False}]}, {"b": ["x"]}]}])
def test_a_message_without_any_attribute_passes_no_policy(policy):
    assert not FilterPolicy.parse(policy).matches({})
    assert FilterPolicy.parse(policy).matches({"other": "x"})


# --- Several conditions, keys, alternatives ----------------------------------------------------------------------


def test_one_condition_of_a_key_is_enough():
    conditions = ["pdf", {"prefix": "text/"}, {"suffix": ".md"}, {"numeric": [">", 10]}, 3, {"exists": False}]
    assert [matches(conditions, value) for value in ("pdf", "text/x", "a.md", 11, 3)] == [True] * 5
    assert matches(conditions)
    assert [matches(conditions, value) for value in ("docx", 10, "3", ())] == [False] * 4


@pytest.mark.parametrize("operator", ["prefix", "suffix", "equals-ignore-case", "wildcard"])
def test_several_conditions_of_one_operator_each_count(operator):
    conditions = [{operator: "aa"}, {operator: "bb"}, {operator: "cc"}]
    assert [matches(conditions, value) for value in ("aa", "bb", "cc")] == [True] * 3
    assert not matches(conditions, "dd")


def test_several_numeric_conditions_and_networks_each_count():
    conditions = [{"numeric": ["<", 0]}, {"numeric": [">", 10]}, {"cidr": "10.0.0.0/8"}, {"cidr": "11.0.0.0/8"}]
    assert [matches(conditions, value) for value in (-1, 11, "10.1.1.1", "11.1.1.1")] == [True] * 4
    assert [matches(conditions, value) for value in (5, "12.1.1.1")] == [False] * 2


def test_two_anything_buts_refuse_only_what_both_refuse():
    conditions = [{"anything-but": ["a", "b"]}, {"anything-but": ["b", "c"]}]
    assert [matches(conditions, value) for value in "abc"] == [True, False, True]


def test_every_key_must_hold():
    policy = FilterPolicy.parse({"kind": ["pdf"], "size": [{"exists": True}]})
    assert policy.matches({"kind": "pdf", "size": 3, "more": "x"})
    assert not policy.matches({"kind": "pdf"})
    assert not policy.matches({"kind": "docx", "size": 3})


def test_or_holds_when_one_of_its_alternatives_does():
    policy = FilterPolicy.parse({"$or": [{"a": ["x"]}, {"b": ["y"], "c": ["z"]}, {"a": ["w"]}]})
    passing = [{"a": "x"}, {"a": "w"}, {"b": "y", "c": "z"}, {"a": "x", "b": "n"}]
    assert [policy.matches(attributes) for attributes in passing] == [True] * 4
    assert [policy.matches(attributes) for attributes in ({"b": "y"}, {"c": "z"}, {"a": "n"})] == [False] * 3


def test_keys_beside_an_or_must_hold_too():
    policy = FilterPolicy.parse({"source": ["s"], "$or": [{"a": ["x"]}, {"b": ["y"]}]})
    assert policy.matches({"source": "s", "b": "y"})
    assert not policy.matches({"source": "s"})
    assert not policy.matches({"source": "n", "a": "x"})
    assert not policy.matches({"a": "x", "b": "y"})


def test_an_or_within_an_or():
    inner = {"type": ["t"], "$or": [{"id": [1, 2]}, {"space": [3]}]}
    policy = FilterPolicy.parse({"source": ["s"], "$or": [{"name": ["n"]}, inner]})
    assert policy.matches({"source": "s", "name": "n"})
    assert policy.matches({"source": "s", "type": "t", "id": 2})
    assert policy.matches({"source": "s", "type": "t", "space": 3})
    assert not policy.matches({"source": "s", "type": "t"})
    assert not policy.matches({"source": "s", "id": 2})
    assert not policy.matches({"type": "t", "id": 2})


def test_a_policy_of_nothing_but_an_or_whose_alternatives_are_ors():
    two = {"$or": [{"a": ["x"]}, {"b": ["y"]}]}
    policy = FilterPolicy.parse({"$or": [two, {"$or": [{"c": ["z"]}, {"d": ["w"]}]}]})
    assert policy.matches({"d": "w"})
    assert not policy.matches({"d": "z"})


# --- Canonical text ----------------------------------------------------------------------------------------------


def test_the_canonical_text_has_sorted_keys_and_no_blanks():
    policy = FilterPolicy.parse({"b": ["ä", {"prefix": "x"}], "a": ({"anything-but": ("y",)},)})
    assert policy.to_json() == '{"a":[{"anything-but":["y"]}],"b":["ä",{"prefix":"x"}]}'


def test_the_canonical_text_of_an_or():
    policy = FilterPolicy.parse({"b": ["x"], "$or": ({"d": ("y",), "c": [None]}, {"a": [True, 1.0]})})
    assert policy.to_json() == '{"$or":[{"c":[null],"d":["y"]},{"a":[true,1]}],"b":["x"]}'


def test_equal_policies_are_equal_and_give_equal_text_whatever_the_order_of_keys():
    first = FilterPolicy.parse({"a": ["1"], "b": [{"exists": True}]})
    second = FilterPolicy.parse({"b": ({"exists": True},), "a": ("1",)})
    assert first.to_json() == second.to_json()
    assert first == second
    assert hash(first) == hash(second)
    assert first != FilterPolicy.parse({"a": ["1"], "b": [{"exists": False}]})


def test_there_is_one_way_to_write_a_number():
    first = FilterPolicy.parse({"a": [1, 300, 0.5, {"numeric": [">", 0, "<", 10]}, {"anything-but": [2]}]})
    second = FilterPolicy.parse({"a": [1.0, 3e2, 0.50, {"numeric": [">", -0.0, "<", 1e1]}, {"anything-but": [2.0]}]})
    assert first.to_json() == second.to_json()
    assert first.to_json() == '{"a":[1,300,0.5,{"numeric":[">",0,"<",10]},{"anything-but":[2]}]}'


def test_true_and_1_are_different_policies():
    assert FilterPolicy.parse({"a": [True]}) != FilterPolicy.parse({"a": [1]})


def test_what_it_shows_of_itself_is_the_policy():
    assert repr(accepted("a", {"prefix": "b"})) == "FilterPolicy(keys={'kind': ('a', {'prefix': 'b'})})"


def test_the_keys_are_the_policy_in_plain_values():
    policy = FilterPolicy.parse({"$or": ({"a": ("x", {"anything-but": ("y",)})}, {"b": [1.0]})})
    assert policy.keys == {"$or": ({"a": ["x", {"anything-but": ["y"]}]}, {"b": [1]})}
    assert json.loads(policy.to_json()) == {"$or": [{"a": ["x", {"anything-but": ["y"]}]}, {"b": [1]}]}


def test_what_was_given_is_neither_kept_nor_changed():
    given_policy = {"kind": ["a", {"anything-but": ["b"]}], "$or": [{"x": ["y"]}, {"z": ["w"]}]}
    policy = FilterPolicy.parse(given_policy)
    assert given_policy == {"kind": ["a", {"anything-but": ["b"]}], "$or": [{"x": ["y"]}, {"z": ["w"]}]}
    text = policy.to_json()
    given_policy["kind"][1]["anything-but"].append("c")
    given_policy["$or"][0]["x"].append("n")
    assert policy.keys == {"kind": ("a", {"anything-but": ["b"]}), "$or": ({"x": ["y"]}, {"z": ["w"]})}
    assert policy.matches({"kind": "c", "x": "y"})
    assert not policy.matches({"kind": "c", "x": "n"})
    assert policy.to_json() == text


# --- Bounds ------------------------------------------------------------------------------------------------------


def test_five_keys_are_accepted_and_six_are_not():
    FilterPolicy.parse({f"k{i}": ["a"] for i in range(4)})
    FilterPolicy.parse({f"k{i}": ["a"] for i in range(5)})
    assert mistakes({f"k{i}": ["a"] for i in range(6)}) == ["has 6 keys, SNS allows 5"]


def test_the_keys_within_an_or_count_and_the_or_itself_does_not():
    nested = {"b": ["x"], "$or": [{"c": ["x"]}, {"d": ["x"]}]}
    FilterPolicy.parse({"$or": [{"a": ["x"]}, nested]})
    FilterPolicy.parse({"e": ["x"], "$or": [{"a": ["x"]}, nested]})
    six = {"e": ["x"], "f": ["x"], "$or": [{"a": ["x"]}, nested]}
    assert mistakes(six) == ["has 6 keys, those in $or included, SNS allows 5"]


def test_a_key_counts_each_time_it_is_written():
    FilterPolicy.parse({"$or": [{"a": [name]} for name in "vwxyz"]})
    assert mistakes({"$or": [{"a": [name]} for name in "uvwxyz"]})[0].startswith("has 6 keys")


def test_150_combinations_are_accepted_and_151_are_not():
    FilterPolicy.parse({"a": ["v"] * 149})
    FilterPolicy.parse({"a": ["v"] * 150})
    FilterPolicy.parse({"a": ["v"] * 15, "b": ["v"] * 10})
    assert mistakes({"a": ["v"] * 151}) == ["makes 151 combinations of values, SNS allows 150"]
    assert mistakes({"a": ["v"] * 16, "b": ["v"] * 10}) == ["makes 160 combinations of values, SNS allows 150"]
    assert mistakes({"a": ["v"] * 40, "b": ["v"] * 50}) == ["makes 2,000 combinations of values, SNS allows 150"]


def test_the_combinations_of_an_or_are_the_sum_of_its_alternatives():
    """The example of AWS's page on AND/OR logic makes (1 * 2) + (1 * 1 * 2) + (1 * 1 * 3)."""

    def policy(source, name, kind, number, space):
        inner = {"metricType": ["v"] * kind, "$or": [{"metricId": [1] * number}, {"spaceId": [1] * space}]}
        return {"source": ["v"] * source, "$or": [{"metricName": ["v"] * name}, inner]}

    FilterPolicy.parse(policy(1, 2, 1, 2, 3))
    FilterPolicy.parse(policy(1, 22, 16, 4, 4))
    FilterPolicy.parse(policy(2, 11, 8, 4, 4))
    assert mistakes(policy(1, 23, 16, 4, 4)) == ["makes 151 combinations of values, SNS allows 150"]
    assert mistakes(policy(4, 6, 4, 4, 4)) == ["makes 152 combinations of values, SNS allows 150"]


def test_what_anything_but_refuses_makes_no_combinations():
    accepted(*["v"] * 149, {"anything-but": ["v"] * 200})


def test_a_policy_of_256_kib_is_accepted_and_a_byte_more_is_not():
    frame = len('{"a":[""]}')
    FilterPolicy.parse({"a": ["x" * (262_143 - frame)]})
    FilterPolicy.parse({"a": ["x" * (262_144 - frame)]})
    assert mistakes({"a": ["x" * (262_145 - frame)]}) == ["is 262,145 bytes of JSON, SNS allows 262,144"]
    FilterPolicy.parse({"a": ["ä" * (131_072 - frame // 2)]})
    assert mistakes({"a": ["ä" * (131_073 - frame // 2)]}) == ["is 262,146 bytes of JSON, SNS allows 262,144"]


OUT_OF_RANGE = "must be from -1,000,000,000 to 1,000,000,000"
TOO_EXACT = "must have at most 5 decimal places"
NUMBERS = [
    *((sign * n, None) for sign in (1, -1) for n in (0, 999_999_999.99999, 999_999_999, 1e9, 10**9)),
    *((sign * n, OUT_OF_RANGE) for sign in (1, -1) for n in (1_000_000_000.00001, 10**9 + 1, 1e300, float("inf"))),
    (float("nan"), OUT_OF_RANGE),
    (10**400, OUT_OF_RANGE),
    *((n, None) for n in (0.1, 0.1234, -0.12345, 0.00001, 123_456_789.12345)),
    *((n, TOO_EXACT) for n in (0.123456, -0.000001, 0.1 + 0.2, 5e-324, 123_456_789.123456)),
]


@pytest.mark.parametrize(("number", "fault"), NUMBERS)
@pytest.mark.parametrize(
    ("made", "path"),
    [
        (lambda n: n, "kind[0]"),
        (lambda n: {"anything-but": n}, "kind[0].anything-but"),
        (lambda n: {"anything-but": [1, n]}, "kind[0].anything-but[1]"),
        (lambda n: {"numeric": ["=", n]}, "kind[0].numeric[1]"),
    ],
    ids=["exact", "anything-but", "anything-but list", "numeric"],
)
def test_numbers_go_to_a_billion_with_five_decimal_places(made, path, number, fault):
    if fault is None:
        accepted(made(number))
    else:
        assert mistakes({"kind": [made(number)]}) == [f"{path}: {fault}"]


@pytest.mark.parametrize("operator", ["wildcard", "anything-but"])
def test_a_pattern_has_three_wildcards_at_most(operator):
    def made(pattern):
        return {"wildcard": pattern} if operator == "wildcard" else {operator: {"wildcard": pattern}}

    accepted(made("a*b*c"))
    accepted(made("*a*b*"))
    accepted(made(r"*a*b*\*\*"))
    path = "wildcard" if operator == "wildcard" else "anything-but.wildcard"
    problem = f"kind[0].{path}: has 4 wildcards, SNS allows 3 in a pattern"
    assert mistakes({"kind": [made("*a*b*c*")]}) == [problem]


def complexity(policy):
    (mistake,) = mistakes(policy)
    assert mistake.startswith("has a wildcard complexity of ")
    assert mistake.endswith("SNS allows 100; put fewer conditions beside the wildcards of a key")
    return int(mistake.split()[5])


def test_wildcards_of_100_points_are_accepted_and_101_are_not():
    one = {"wildcard": "a*"}
    FilterPolicy.parse({"a": [one] * 9, "b": [one] * 4})
    FilterPolicy.parse({"a": [one] * 9, "b": [one] * 4, "c": [one], "d": [one], "e": [one]})
    FilterPolicy.parse({"a": [one] * 10})
    assert complexity({"a": [one] * 10, "b": [one]}) == 101
    assert complexity({"a": [one] * 11}) == 121


def test_the_points_of_a_key_are_those_of_its_conditions_times_their_number():
    """AWS's example: two patterns of one point each are (1 + 1) * 2. What is no pattern has no points but counts."""
    accepted({"wildcard": "*.txt"}, {"wildcard": "log*"}, *["v"] * 48)
    assert complexity({"kind": [{"wildcard": "*.txt"}, {"wildcard": "log*"}, *["v"] * 49]}) == 102
    accepted({"wildcard": "plain"}, *["v"] * 99)
    assert complexity({"kind": [{"wildcard": "plain"}, *["v"] * 100]}) == 101


def test_what_is_no_pattern_has_no_points():
    others = [1, 0.5, True, None, "anything-but", {"prefix": "a"}, {"exists": True}]
    accepted({"wildcard": "a*"}, *others, *["v"] * 92)
    assert complexity({"kind": [{"wildcard": "a*"}, *others, *["v"] * 93]}) == 101


def test_a_pattern_of_several_wildcards_has_three_points_for_each():
    accepted({"wildcard": "a*b*c"}, *["v"] * 15)
    assert complexity({"kind": [{"wildcard": "a*b*c"}, *["v"] * 16]}) == 102
    accepted({"wildcard": "*a*b*"}, *["v"] * 10)
    assert complexity({"kind": [{"wildcard": "*a*b*"}, *["v"] * 11]}) == 108


def test_anything_but_has_a_point_beside_that_of_its_pattern_where_there_are_wildcards():
    but, but_pattern = {"anything-but": {"prefix": "a"}}, {"anything-but": {"wildcard": "a*"}}
    accepted(but, {"wildcard": "a*"}, *["v"] * 48)
    assert complexity({"kind": [but, {"wildcard": "a*"}, *["v"] * 49]}) == 102
    accepted(but_pattern, *["v"] * 49)
    assert complexity({"kind": [but_pattern, *["v"] * 50]}) == 102
    accepted(*[but] * 20)
    assert complexity({"kind": [but] * 10, "b": [{"wildcard": "a*"}]}) == 101


def test_the_points_within_an_or_count():
    one = {"wildcard": "a*"}
    FilterPolicy.parse({"$or": [{"a": [one] * 8}, {"b": [one] * 6}]})
    assert complexity({"$or": [{"a": [one] * 8}, {"b": [one] * 6}, {"c": [one]}]}) == 101


def nested_or(levels, **last):
    policy = last or {"last": ["x"]}
    for level in range(levels):
        policy = {"$or": [{f"k{level}": ["x"]}, policy]}
    return policy


TOO_DEEP = '"$or"[1].' * 4 + '"$or": is nested more than 4 deep, which needs too many keys for SNS'


def test_ors_are_nested_as_deep_as_five_keys_reach():
    FilterPolicy.parse(nested_or(3))
    FilterPolicy.parse(nested_or(4))
    assert mistakes(nested_or(5)) == [TOO_DEEP]


def test_the_bounds_count_as_deep_as_ors_are_nested_and_no_deeper():
    many, patterns = ["x"] * 147, [{"wildcard": "a*"}] * 11
    assert mistakes(nested_or(4, a=["x"], b=["x"])) == ["has 6 keys, those in $or included, SNS allows 5"]
    assert mistakes(nested_or(4, a=many)) == ["makes 151 combinations of values, SNS allows 150"]
    assert complexity(nested_or(4, a=patterns)) == 121
    for last in ({"a": ["x"], "b": ["x"]}, {"a": many * 2}, {"a": patterns}):
        assert mistakes(nested_or(5, **last)) == [TOO_DEEP]


def test_the_bounds_hold_for_tuples_too():
    assert mistakes({"a": ("v",) * 151}) == ["makes 151 combinations of values, SNS allows 150"]
    one = ({"wildcard": "a*"},)
    assert complexity({"$or": ({"a": one * 10}, {"b": one})}) == 101
    six = {"$or": tuple({f"k{n}": ("x",)} for n in range(6))}
    assert mistakes(six) == ["has 6 keys, those in $or included, SNS allows 5"]


def test_nesting_without_end_is_refused_too():
    assert "is nested more than 4 deep" in mistakes(nested_or(100_000))[-1]


# --- Refused policies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, True, 1, "kind", [], ["kind"]])
def test_a_policy_is_an_object(policy):
    assert mistakes(policy) == ["must be an object with lists of conditions"]


def test_a_policy_without_keys_is_refused():
    assert mistakes({}) == ["has no keys; leave the filter out to receive everything"]


ALONE = "must be a non-empty list of conditions; put brackets around it, also when it is only one"


@pytest.mark.parametrize("conditions", [[], (), None])
def test_conditions_must_be_a_list_that_holds_something(conditions):
    assert mistakes({"kind": conditions}) == ["kind: must be a non-empty list of conditions"]


@pytest.mark.parametrize("condition", ["pdf", "", 7, 7.5, True, {"prefix": "x"}, {"numeric": ["=", 1], "more": 1}])
def test_one_condition_alone_is_told_to_stand_in_brackets(condition):
    assert mistakes({"kind": condition}) == [f"kind: {ALONE}"]


@pytest.mark.parametrize("key", ["or", "Or", "$OR", "OR$"])
def test_what_is_nearly_or_is_told_as_that_alone(key):
    policy = {key: [{"kind": ["pdf"]}, {"size": ["big"]}]}
    (told,) = mistakes(policy)
    assert told.endswith(': is the name of an attribute; did you mean "$or"?')


@pytest.mark.parametrize("conditions", [["x"], [{"prefix": "p"}, "x"]])
def test_an_attribute_may_be_called_or(conditions):
    assert FilterPolicy.parse({"or": conditions}).matches({"or": "x"})


def test_combinations_without_end_are_told_in_words():
    policy = {f"k{number}": ["a"] * 10 for number in range(5_000)}
    assert "makes more than 1,000,000,000 combinations of values, SNS allows 150" in mistakes(policy)


@pytest.mark.parametrize("nested", [{}, {"key": ["x"]}])
def test_a_nested_policy_is_refused_as_that(nested):
    problem = "must be a non-empty list of conditions; over attributes SNS takes no policy within a policy"
    assert mistakes({"kind": nested}) == [f"kind: {problem}"]


@pytest.mark.parametrize("condition", [[], ["a"], {}, {"prefix": "a", "exists": True}, b"a"])
def test_a_condition_is_a_value_or_an_object_of_one_operator(condition):
    problem = f"must be text, a number, true, false, null, or an object with one of {OPERATORS}"
    assert mistakes({"kind": [condition]}) == [f"kind[0]: {problem}"]


@pytest.mark.parametrize(
    ("operator", "end"),
    [
        ("numerc", "; did you mean 'numeric'?"),
        ("Prefix", "; did you mean 'prefix'?"),
        ("equals_ignore_case", "; did you mean 'equals-ignore-case'?"),
        ("", f"; allowed are {OPERATORS}"),
        ("$or", f"; allowed are {OPERATORS}"),
        ("regex", f"; allowed are {OPERATORS}"),
    ],
)
def test_an_operator_that_sns_does_not_have_is_refused_with_the_nearest(operator, end):
    problem = f"has the operator {operator!r}, which SNS does not know{end}"
    assert mistakes({"kind": [{operator: "x"}]}) == [f"kind[0]: {problem}"]


def test_a_long_or_odd_operator_is_told_in_short():
    (told,) = mistakes({"kind": [{"x" * 1000: 1}]})
    assert f"has the operator '{'x' * 80}', which" in told
    (told,) = mistakes({"kind": [{"\ud800": 1}]})
    assert r"has the operator '\\ud800', which" in told
    assert "has the operator '7', which" in mistakes({"kind": [{7: 1}]})[0]


TEXT = "must be non-empty text"
ESCAPES = "must have a backslash before every double quote and backslash, as SNS wants them"
SURROGATE = "holds a lone surrogate, which UTF-8 cannot carry"
PATTERN = r"must have no double quote, and a backslash only as \* for an asterisk; a * can stand in their place"
CIDR = 'must be a network whose address has no bits below its mask, such as "10.0.0.0/24" or "2001:db8::/32"'
RANGE = 'must be a comparison such as ["<", 10], or a range, its lower bound first, such as [">=", 1, "<", 10]'
BUT = "must be text, a number, a list of either, or an object with one of prefix, suffix, wildcard"
NO_VALUE = "must be text or a number"


@pytest.mark.parametrize("operator", ["prefix", "suffix", "equals-ignore-case", "wildcard"])
@pytest.mark.parametrize("operand", ["", None, True, 1, ["a"], {"prefix": "a"}])
def test_operators_on_text_take_text(operator, operand):
    assert mistakes({"kind": [{operator: operand}]}) == [f"kind[0].{operator}: {TEXT}"]
    if operator != "equals-ignore-case":
        but = {"anything-but": {operator: operand}}
        assert mistakes({"kind": [but]}) == [f"kind[0].anything-but.{operator}: {TEXT}"]


@pytest.mark.parametrize("text", ['"', "\\", r"\a", r"a\\\b", r"\"a\\" + '"', "a\\"])
def test_a_double_quote_or_backslash_that_is_not_escaped_is_refused(text):
    assert mistakes({"kind": [text]}) == [f"kind[0]: {ESCAPES}"]
    assert mistakes({"kind": [{"anything-but": ["a", text]}]}) == [f"kind[0].anything-but[1]: {ESCAPES}"]
    for operator in ("prefix", "suffix", "equals-ignore-case", "anything-but"):
        assert mistakes({"kind": [{operator: text}]}) == [f"kind[0].{operator}: {ESCAPES}"]


def test_text_that_utf_8_cannot_carry_is_refused():
    text = "a\udcff"
    assert mistakes({"kind": [text]}) == [f"kind[0]: {SURROGATE}"]
    assert mistakes({"kind": [{"anything-but": [text]}]}) == [f"kind[0].anything-but[0]: {SURROGATE}"]
    for operator in ("prefix", "suffix", "equals-ignore-case", "anything-but", "wildcard"):
        assert mistakes({"kind": [{operator: text}]}) == [f"kind[0].{operator}: {SURROGATE}"]
    assert mistakes({text: ["a"]}) == [f'"a\\udcff": {SURROGATE}']


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a**b", "must not have two wildcards in a row"),
        ("**", "must not have two wildcards in a row"),
        ("a**", "must not have two wildcards in a row"),
        (r"a\b", PATTERN),
        (r"a\\b", PATTERN),
        ("a\\", PATTERN),
        ('a"b', PATTERN),
        (r"\"", PATTERN),
    ],
)
def test_a_pattern_that_sns_does_not_read_is_refused(pattern, problem):
    assert mistakes({"kind": [{"wildcard": pattern}]}) == [f"kind[0].wildcard: {problem}"]
    but = {"anything-but": {"wildcard": pattern}}
    assert mistakes({"kind": [but]}) == [f"kind[0].anything-but.wildcard: {problem}"]


@pytest.mark.parametrize("operand", ["yes", 1, 0, None, [True]])
def test_exists_takes_true_or_false(operand):
    assert mistakes({"kind": [{"exists": operand}]}) == ["kind[0].exists: must be true or false"]


@pytest.mark.parametrize(
    "operand",
    [
        *(None, 1, True, "", "10.0.0.0", "10.0.0.1/24", "10.0.0/24", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/"),
        *("/24", "10.0.0.0/24/24", "10.0.0.0/255.255.255.0", "10.0.0.0/a", "10.0.0.0/ 8", "a/8", "10.0.0.0/٨"),
        *("::ffff:10.0.0.0/120", "fe80::%1/64", "2001:db8::/129", "2001:db8::1/32", "256.0.0.0/8", "010.0.0.0/8"),
    ],
)
def test_cidr_takes_a_network(operand):
    assert mistakes({"kind": [{"cidr": operand}]}) == [f"kind[0].cidr: {CIDR}"]


@pytest.mark.parametrize(("widest", "single"), [("10.0.0.0/31", "10.0.0.0/32"), ("2001:db8::/127", "2001:db8::/128")])
def test_a_mask_of_all_bits_is_refused(widest, single):
    accepted({"cidr": widest})
    problem = "is a single address, which SNS takes as a text of its own, without a mask"
    assert mistakes({"kind": [{"cidr": single}]}) == [f"kind[0].cidr: {problem}"]


@pytest.mark.parametrize(
    "operand",
    [
        *(None, 5, "=", True, {}, [], ["="], [">="], [5], [1, "<="], ["==", 1], ["=", 1, 2], [["="], 1]),
        *(["<", 100, ">", 10], ["<=", 1, ">", 0], ["=", 1, "<", 2], [">=", 1, ">", 2], [">", 1, "=", 2]),
        *([">", 20, 30], [">", 20, "<="], [">", 20, "test", 30], [">", 20, "<", 30, "<", 50]),
    ],
)
def test_numeric_takes_a_comparison_or_a_range(operand):
    assert mistakes({"kind": [{"numeric": operand}]}) == [f"kind[0].numeric: {RANGE}"]


@pytest.mark.parametrize("bound", ["20", None, True, [1]])
def test_numeric_compares_with_numbers(bound):
    problem = "must be a number"
    assert mistakes({"kind": [{"numeric": ["=", bound]}]}) == [f"kind[0].numeric[1]: {problem}"]
    assert mistakes({"kind": [{"numeric": [">", bound, "<", 30]}]}) == [f"kind[0].numeric[1]: {problem}"]
    assert mistakes({"kind": [{"numeric": [">", 1, "<", bound]}]}) == [f"kind[0].numeric[3]: {problem}"]
    both = [f"kind[0].numeric[{index}]: {problem}" for index in (1, 3)]
    assert mistakes({"kind": [{"numeric": [">", bound, "<", bound]}]}) == both


def test_a_range_has_its_lower_bound_below_its_upper_bound():
    accepted({"numeric": [">=", 1, "<=", 1.00001]})
    for upper in (1, 1.0, 0.99999, -5):
        problem = "kind[0].numeric: must have its lower bound below its upper bound"
        assert mistakes({"kind": [{"numeric": [">=", 1, "<=", upper]}]}) == [problem]


@pytest.mark.parametrize("refused", [None, True, False, [], {}, {"prefix": "a", "suffix": "b"}])
def test_anything_but_takes_values_or_one_operator(refused):
    assert mistakes({"kind": [{"anything-but": refused}]}) == [f"kind[0].anything-but: {BUT}"]


@pytest.mark.parametrize("value", [None, True, ["a"], {"prefix": "a"}])
def test_anything_but_lists_only_text_and_numbers(value):
    assert mistakes({"kind": [{"anything-but": ["a", value]}]}) == [f"kind[0].anything-but[1]: {NO_VALUE}"]
    assert mistakes({"kind": [{"anything-but": [1, value]}]}) == [f"kind[0].anything-but[1]: {NO_VALUE}"]


@pytest.mark.parametrize("values", [["a", 1], [1, "a"], ["a", "b", 0.5]])
def test_anything_but_does_not_mix_text_and_numbers(values):
    assert mistakes({"kind": [{"anything-but": values}]}) == ["kind[0].anything-but: must be all text or all numbers"]


@pytest.mark.parametrize(
    ("operator", "end"),
    [
        ("equals-ignore-case", "; allowed are prefix, suffix, wildcard"),
        ("numeric", "; allowed are prefix, suffix, wildcard"),
        ("exists", "; allowed are prefix, suffix, wildcard"),
        ("cidr", "; allowed are prefix, suffix, wildcard"),
        ("anything-but", "; allowed are prefix, suffix, wildcard"),
        ("sufix", "; did you mean 'suffix'?"),
    ],
)
def test_anything_but_takes_no_other_operator(operator, end):
    problem = f"has the operator {operator!r}, which SNS does not document there{end}"
    assert mistakes({"kind": [{"anything-but": {operator: "a"}}]}) == [f"kind[0].anything-but: {problem}"]


# --- $or that is none --------------------------------------------------------------------------------------------

FEW = "must be a list of at least two objects, or SNS does not read it as an operator"


@pytest.mark.parametrize("value", [None, True, 1, "a", {}, {"a": ["x"]}, []])
def test_or_is_a_list_of_objects(value):
    assert mistakes({"$or": value}) == [f'"$or": {FEW}']


def test_or_has_two_alternatives_at_least():
    assert mistakes({"$or": [{"a": ["x"]}]}) == [f'"$or": {FEW}']
    assert mistakes({"$or": [{"a": []}]}) == [f'"$or": {FEW}', '"$or"[0].a: must be a non-empty list of conditions']
    FilterPolicy.parse({"$or": [{"a": ["x"]}, {"b": ["y"]}]})


@pytest.mark.parametrize("member", [None, True, 1, "a", [], {}])
def test_an_alternative_is_an_object_that_is_not_empty(member):
    problem = "must be an object with lists of conditions"
    assert mistakes({"$or": [{"a": ["x"]}, member]}) == [f'"$or"[1]: {problem}']


KEYWORDS = [
    *("prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "exists", "cidr", "wildcard", "exactly"),
    *("=", "<", "<=", ">", ">=", "regex", "not-wildcard", "not-equals-ignore-case", "in-date-range"),
    *("date-after", "date-on-or-after", "date-before", "date-on-or-before"),
    *("ip-address-in-range", "ip-address-not-in-range"),
]


@pytest.mark.parametrize("key", KEYWORDS)
def test_an_alternative_has_no_keyword_as_a_key(key):
    FilterPolicy.parse({key: ["x"]})  # else it is a name like others
    (mistake,) = mistakes({"$or": [{key: ["x"]}, {"b": ["y"]}]})
    assert mistake.endswith(": is a keyword of the language, so SNS does not read the $or around it as an operator")
    assert mistake.startswith('"$or"[0].')


def test_a_key_inside_and_outside_an_or_is_refused():
    problem = (
        "is tested outside this $or too, and SNS keeps one of the two tests; "
        "test the attribute either outside, or in each alternative"
    )
    assert mistakes({"a": ["x"], "$or": [{"a": ["y"]}, {"b": ["z"]}]}) == [f'"$or"[0].a: {problem}']
    inner = {"b": ["y"], "$or": [{"c": ["z"]}, {"a": ["w"], "b": ["v"]}]}
    assert mistakes({"$or": [inner, {"d": ["x"]}], "a": ["x"]}) == [
        "has 6 keys, those in $or included, SNS allows 5",
        f'"$or"[0]."$or"[1].a: {problem}',
        f'"$or"[0]."$or"[1].b: {problem}',
    ]
    FilterPolicy.parse({"$or": [{"a": ["y"]}, {"a": ["z"]}]})  # in alternatives beside each other it is none


# --- All mistakes ------------------------------------------------------------------------------------------------


def test_all_mistakes_are_told_at_once_in_the_order_of_the_policy():
    policy = {
        "b": ["fine", {"prefix": ""}, []],
        "a": [],
        "c": [{"exists": 1}, {"anything-but": ["x", None]}],
        "$or": [{"d.e": [{"numeric": ["<", "1"]}]}, {"f": "x", "g": [{"sufix": "x"}]}],
    }
    assert mistakes(policy) == [
        "has 6 keys, those in $or included, SNS allows 5",
        "b[1].prefix: must be non-empty text",
        f"b[2]: must be text, a number, true, false, null, or an object with one of {OPERATORS}",
        "a: must be a non-empty list of conditions",
        "c[0].exists: must be true or false",
        "c[1].anything-but[1]: must be text or a number",
        '"$or"[0]."d.e"[0].numeric[1]: must be a number',
        f'"$or"[1].f: {ALONE}',
        "\"$or\"[1].g[0]: has the operator 'sufix', which SNS does not know; did you mean 'suffix'?",
    ]


def test_what_comes_after_an_or_is_looked_at_too():
    policy = {"$or": ({"a": ()}, {"b": ("x",)}), "c": [], "d": [7e9]}
    assert mistakes(policy) == [
        '"$or"[0].a: must be a non-empty list of conditions',
        "c: must be a non-empty list of conditions",
        "d[0]: must be from -1,000,000,000 to 1,000,000,000",
    ]


def test_the_error_says_what_it_is_about():
    with pytest.raises(InvalidFilter, match=r"^the filter policy has no keys; leave the filter out"):
        FilterPolicy.parse({})
    with pytest.raises(InvalidFilter, match=r"^the filter policy is 262,145 bytes"):
        FilterPolicy.parse({"a": ["x" * 262_135]})
    with pytest.raises(InvalidFilter, match=r"^the filter policy has 2 mistakes:\n  a: must be .*\n  b: must be "):
        FilterPolicy.parse({"a": [], "b": []})


def test_a_bad_key_does_not_hide_what_is_under_it():
    assert mistakes({7: [{"prefix": ""}]}) == [
        "7: must be text, the name of an attribute",
        "7[0].prefix: must be non-empty text",
    ]


def test_what_exceeds_several_bounds_is_told_of_each():
    policy = {f"k{i}": [{"wildcard": "a*"}] * 6 for i in range(6)}
    assert [mistake.split(",")[0] for mistake in mistakes(policy)] == [
        "has 6 keys",
        "makes 46",
        "has a wildcard complexity of 216 points",
    ]
