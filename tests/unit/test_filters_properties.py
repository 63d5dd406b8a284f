"""Filter policies, as laws: against a plain evaluator, and between policies."""

import ipaddress
import json
import re
from decimal import ROUND_FLOOR, Decimal

from hypothesis import example, given, settings
from hypothesis import strategies as st

from towpath import NewMessage
from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy
from towpath.validation import first_fault

laws = settings(max_examples=150)

# --- What is drawn: few letters and numbers, so that policies and attributes meet ---------------------------------

texts = st.text(alphabet='abAB*1."\\é/', min_size=1, max_size=4) | st.sampled_from(["10.0.0.1", "10.1.2.3", "::1", "1"])
numbers = st.integers(-3, 3) | st.sampled_from([0.5, -0.5, 1.00001, 0.99999, 1e9, -1e9, 1.0, -0.0])
values = texts | numbers | st.lists(texts, max_size=3).map(tuple)
attributes = st.dictionaries(st.sampled_from("abcdef"), values, max_size=4)


def escaped(text):
    return re.sub(r'(["\\])', r"\\\1", text)


written = texts.map(escaped)
parts = st.text(alphabet="abAB1./é", max_size=2)
patterns = parts | st.builds("{}*{}".format, parts, parts) | st.builds(r"{}\*{}".format, parts, parts)
patterns = patterns.filter(bool)
ranges = st.tuples(numbers, numbers).filter(lambda pair: pair[0] < pair[1])
numeric = st.builds(lambda c, n: [c, n], st.sampled_from(["=", "<", "<=", ">", ">="]), numbers) | st.builds(
    lambda low, high, pair: [low, pair[0], high, pair[1]],
    st.sampled_from([">", ">="]),
    st.sampled_from(["<", "<="]),
    ranges,
)
refused = (
    written
    | numbers
    | st.lists(written, min_size=1, max_size=3)
    | st.lists(numbers, min_size=1, max_size=3)
    | st.sampled_from(["prefix", "suffix"]).flatmap(lambda name: written.map(lambda text: {name: text}))
    | patterns.map(lambda pattern: {"wildcard": pattern})
)
conditions = (
    written
    | numbers
    | st.sampled_from([True, False, None])
    | st.sampled_from(["prefix", "suffix", "equals-ignore-case"]).flatmap(lambda n: written.map(lambda t: {n: t}))
    | patterns.map(lambda pattern: {"wildcard": pattern})
    | st.sampled_from(["10.0.0.0/8", "10.0.0.0/31", "::/64"]).map(lambda network: {"cidr": network})
    | numeric.map(lambda operand: {"numeric": operand})
    | refused.map(lambda operand: {"anything-but": operand})
    | st.booleans().map(lambda operand: {"exists": operand})
)
lists = st.lists(conditions, min_size=1, max_size=3)


def shaped(*keys, **alternatives):
    """Policies with these keys, and an ``$or`` of these policies."""
    fixed = dict.fromkeys(keys, lists)
    return st.fixed_dictionaries(
        fixed | {"$or": st.tuples(*alternatives.values()).map(list)} if alternatives else fixed
    )


flat = shaped("a") | shaped("a", "b") | shaped("a", "b", "c", "d")
policies = (
    flat
    | shaped(one=shaped("a"), two=shaped("b"))
    | shaped("a", one=shaped("b"), two=shaped("c", "d"))
    | shaped(one=shaped("a"), two=shaped("a"), three=shaped("a", "b"))
    | shaped("a", one=shaped("b"), two=shaped("c", one=shaped("d"), two=shaped("e")))
)


@given(attributes)
def test_what_is_drawn_are_attributes_of_a_message(drawn):
    assert first_fault(NewMessage(payload=1, attributes=drawn)) is None


# --- The plain evaluator: each condition by itself, nothing prepared ----------------------------------------------


def plainly_matches(policy, drawn):
    if not drawn:
        return False
    for key, conditions in policy.items():
        if key == "$or":
            if not any(plainly_matches(member, drawn) for member in conditions):
                return False
        elif not any(plainly_met(condition, drawn.get(key)) for condition in conditions):
            return False
    return True


def plainly_met(condition, value):
    if value is None:
        return condition == {"exists": False}
    if isinstance(value, tuple):
        return any(plainly_met(condition, item) for item in value)
    if not isinstance(condition, dict):
        return plainly_equal(condition, value)
    ((operator, operand),) = condition.items()
    if operator == "exists":
        return operand
    if operator == "anything-but":
        return not any(plainly_met(inner, value) for inner in (operand if isinstance(operand, list) else [operand]))
    if operator == "numeric":
        return not isinstance(value, str) and plainly_in_range(operand, value)
    return isinstance(value, str) and plainly_like(operator, operand, value)


def plainly_equal(condition, value):
    if isinstance(condition, str) and isinstance(value, str):
        return unescaped(condition) == value
    both_numbers = not isinstance(condition, bool | str | None) and not isinstance(value, str)
    return both_numbers and decimal(condition) == decimal(value)


def plainly_in_range(operand, value):
    while operand:
        comparison, bound, *operand = operand
        number, limit = decimal(value), decimal(bound)
        holds = {"=": number == limit, "<": number < limit, "<=": number <= limit, ">": number > limit}
        if not (holds | {">=": number >= limit})[comparison]:
            return False
    return True


def plainly_like(operator, operand, value):
    match operator:
        case "prefix":
            return value[: len(unescaped(operand))] == unescaped(operand)
        case "suffix":
            return value[::-1].startswith(unescaped(operand)[::-1])
        case "equals-ignore-case":
            return unescaped(operand).lower() == value.lower()
        case "wildcard":
            expression = re.escape(operand).replace(r"\\\*", "[*]").replace(r"\*", ".*")
            return re.fullmatch(expression, value, re.DOTALL) is not None
        case "cidr":
            try:
                return ipaddress.ip_address(value) in ipaddress.ip_network(operand)
            except ValueError:
                return False


def unescaped(text):
    return text.replace("\\\\", "\0").replace('\\"', '"').replace("\0", "\\")


def decimal(number):
    return (Decimal(repr(number)) * 10**5 + Decimal("0.5")).to_integral_value(ROUND_FLOOR)


@laws
@given(policies, attributes)
@example({"a": [{"anything-but": 1}]}, {"a": ("1",)})
@example({"a": [{"exists": False}]}, {})
def test_a_policy_matches_what_the_plain_evaluator_says(policy, drawn):
    assert FilterPolicy.parse(policy).matches(drawn) is plainly_matches(policy, drawn)


@laws
@given(lists, values | st.none())
def test_each_list_of_conditions_holds_for_what_the_plain_evaluator_says(conditions, value):
    drawn = {"other": "x"} | ({} if value is None else {"a": value})
    assert FilterPolicy.parse({"a": conditions}).matches(drawn) is plainly_matches({"a": conditions}, drawn)


# --- Reading and writing -----------------------------------------------------------------------------------------


@laws
@given(policies)
def test_reading_what_was_written_gives_the_same_policy(policy):
    parsed = FilterPolicy.parse(policy)
    again = FilterPolicy.parse(json.loads(parsed.to_json()))
    assert again == parsed
    assert again.keys == parsed.keys
    assert again.to_json() == parsed.to_json()
    assert FilterPolicy.parse(parsed.keys) == parsed


@laws
@given(policies, attributes)
def test_a_policy_that_was_written_and_read_matches_the_same(policy, drawn):
    parsed = FilterPolicy.parse(policy)
    assert FilterPolicy.parse(json.loads(parsed.to_json())).matches(drawn) is parsed.matches(drawn)


def otherwise_written(value, random):
    """The same policy: keys in another order, tuples for lists, floats for whole numbers."""
    if isinstance(value, dict):
        items = [(key, otherwise_written(item, random)) for key, item in value.items()]
        random.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return random.choice((list, tuple))(otherwise_written(item, random) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return random.choice((int, float))(value)
    return value


@laws
@given(policies, st.randoms(use_true_random=False))
def test_equal_policies_have_equal_text(policy, random):
    assert FilterPolicy.parse(otherwise_written(policy, random)) == FilterPolicy.parse(policy)


words = st.sampled_from(
    ["prefix", "suffix", "equals-ignore-case", "anything-but", "numeric", "exists", "cidr", "wildcard", "$or", "a", ""]
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(["<", ">", "a*", "::/0"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words | st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


def parsed_or_refusal(document):
    try:
        return FilterPolicy.parse(document)
    except InvalidFilter as refusal:
        return refusal


@settings(max_examples=400)
@given(json_values | st.dictionaries(words, st.lists(json_values, max_size=3), max_size=3), attributes)
def test_any_json_is_a_policy_that_works_or_is_refused_with_its_mistakes(document, drawn):
    answer = parsed_or_refusal(document)
    if isinstance(answer, InvalidFilter):
        assert answer.mistakes
        assert all(mistake.problem for mistake in answer.mistakes)
        assert str(answer).encode()
    else:
        assert answer.matches(drawn) in (True, False)
        assert FilterPolicy.parse(json.loads(answer.to_json())) == answer


# --- Between policies --------------------------------------------------------------------------------------------


@laws
@given(st.lists(shaped("a") | shaped("b"), min_size=2, max_size=3), lists, attributes)
def test_or_is_the_union_of_its_alternatives(members, beside, drawn):
    united = any(FilterPolicy.parse(member).matches(drawn) for member in members)
    assert FilterPolicy.parse({"$or": members}).matches(drawn) is united
    both = united and FilterPolicy.parse({"c": beside}).matches(drawn)
    assert FilterPolicy.parse({"$or": members, "c": beside}).matches(drawn) is both


@laws
@given(refused, texts | numbers)
def test_anything_but_is_the_complement_for_a_single_value(operand, value):
    inside = operand if isinstance(operand, list) else [operand]
    holds = FilterPolicy.parse({"a": inside}).matches({"a": value})
    assert FilterPolicy.parse({"a": [{"anything-but": operand}]}).matches({"a": value}) is not holds


@laws
@given(lists, st.lists(texts, max_size=4))
def test_a_list_meets_what_one_of_its_texts_meets(conditions, items):
    policy = FilterPolicy.parse({"a": conditions})
    assert policy.matches({"a": tuple(items)}) is any(policy.matches({"a": item}) for item in items)


@laws
@given(lists, lists, values)
def test_conditions_of_a_key_widen_and_keys_narrow(first, second, value):
    one, other = ({"a": conditions} for conditions in (first, second))
    drawn = {"a": value, "b": value}
    holds = [FilterPolicy.parse(policy).matches(drawn) for policy in (one, other)]
    assert FilterPolicy.parse({"a": [*first, *second]}).matches(drawn) is any(holds)
    assert FilterPolicy.parse({"a": first, "b": second}).matches(drawn) is all(holds)


@given(st.floats(-1e9, 1e9), st.integers(-(10**14), 10**14))
def test_a_number_is_below_equal_to_or_above_another_and_only_one_of_them(number, hundred_thousandths):
    bound = hundred_thousandths / 10**5
    holds = [
        FilterPolicy.parse({"a": [{"numeric": [comparison, bound]}]}).matches({"a": number}) for comparison in "<=>"
    ]
    assert holds.count(True) == 1
    below, same, above = holds
    either = [FilterPolicy.parse({"a": [{"numeric": [c, bound]}]}).matches({"a": number}) for c in ("<=", ">=")]
    assert either == [below or same, above or same]
    if abs(number - bound) > 0.000006:
        assert same is False
        assert below is (number < bound)


@given(st.integers(-(10**14), 10**14), st.integers(-2, 2))
def test_a_plain_number_and_numeric_equals_mean_the_same(hundred_thousandths, off):
    bound, number = hundred_thousandths / 10**5, (hundred_thousandths + off) / 10**5
    plain, numeric = ({"a": [condition]} for condition in (bound, {"numeric": ["=", bound]}))
    assert FilterPolicy.parse(plain).matches({"a": number}) is (off == 0)
    assert FilterPolicy.parse(numeric).matches({"a": number}) is (off == 0)


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from(["a", "ab", "b", "*", r"\*"]), min_size=1, max_size=6),
    st.text("ab*", min_size=1, max_size=7),
)
def test_a_wildcard_matches_as_a_regular_expression_does(tokens, value):
    pattern = re.sub(r"(?<!\\)\*+", "*", "".join(tokens))
    if pattern.replace(r"\*", "").count("*") <= 3:
        expression = "".join({"*": ".*", r"\*": "[*]"}.get(token, token) for token in tokens)
        holds = re.fullmatch(expression, value) is not None
        assert FilterPolicy.parse({"k": [{"wildcard": pattern}]}).matches({"k": value}) is holds
