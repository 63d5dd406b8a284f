"""Which values are JSON that survives the wire, and what is said of one that is not."""

import collections
import enum
import json
from types import MappingProxyType

import pytest
from hypothesis import given

from tests.fakes.strategies import any_json, json_values
from towpath.json_values import is_plain_json, is_text, json_fault, parsed, shown

SURROGATE = "\ud800"
HUGE = 10**4_300  # one digit too many


def nested(depth: int, kind: type = list) -> object:
    value: object = 1
    for _ in range(depth):
        value = kind([value])
    return value


def fault(value: object, name: str = "payload") -> str | None:
    found = json_fault(value, name)
    return None if found is None else found.text


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Ratio(float):
    pass


class Text(str):
    __slots__ = ()


# --- Text ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["", "a", "\0", "ä", "\ud7ff\ue000\ufffe\uffff", "\U0010ffff", Colour.RED])
def test_text_that_utf_8_can_carry_is_text(value):
    assert is_text(value) is True


@pytest.mark.parametrize("value", [SURROGATE, "a\udfff", "ä\udc80", "\ud83d\ude00", None, b"a", 7])
def test_a_lone_surrogate_is_no_text_and_nothing_else_is(value):
    assert is_text(value) is False


# --- What is JSON ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 10**30, 1.5, -0.0, 5e-324, 1.7e308, "", "ä\0", [], {}, (), [1, "a", None], (1, 2), {"": [{}]}],
)
def test_every_json_value_is_plain(value):
    assert is_plain_json(value)
    assert json_fault(value, "payload") is None


@pytest.mark.parametrize("value", [HUGE - 1, -HUGE + 1], ids=["positive", "negative"])
def test_an_integer_of_4300_digits_is_the_longest(value):
    assert is_plain_json(value)
    assert fault(value) is None
    assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["positive", "negative"])
def test_an_integer_of_a_digit_more_is_refused(value):
    assert not is_plain_json(value)
    assert fault([value]) == "payload[0] is an integer of more than 4,300 digits; send it as text"


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Level.HIGH,
        Ratio(0.5),
        Text("a"),
        {Colour.RED: 1},
        {Colour.RED: [None, True, "a", 0.5, {}, ()]},
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        collections.namedtuple("Pair", "a b")(1, [2]),
    ],
)
def test_a_subclass_of_a_json_type_counts_as_what_it_holds(value):
    assert not is_plain_json(value)
    assert fault(value) is None
    json.dumps(value)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (float("nan"), "payload is nan, which JSON does not have"),
        ([float("inf")], "payload[0] is inf, which JSON does not have"),
        ({"a": float("-inf")}, "payload.a is -inf, which JSON does not have"),
        (Ratio("nan"), "payload is nan, which JSON does not have"),
        ({"a": [0, {1, 2}]}, "payload.a[1] is a set, which JSON does not have"),
        ({1: "a"}, "payload has the key a int; JSON keys are text that UTF-8 can carry"),
        ({"a": {None: "a"}}, "payload.a has the key a NoneType; JSON keys are text that UTF-8 can carry"),
        ({(1,): 1}, "payload has the key a tuple; JSON keys are text that UTF-8 can carry"),
        ({"a": 1, SURROGATE: 1}, "payload has the key '\\ud800'; JSON keys are text that UTF-8 can carry"),
        (SURROGATE, "payload holds a lone surrogate, which UTF-8 cannot carry"),
        ({"a": ["x" + SURROGATE]}, "payload.a[0] holds a lone surrogate, which UTF-8 cannot carry"),
        ({"a b": {"": {1}}}, "payload['a b'][''] is a set, which JSON does not have"),
        ({"a\nb": {1}}, "payload['a\\nb'] is a set, which JSON does not have"),
        (((1, b"x"),), "payload[0][1] is a bytes, which JSON does not have"),
        (MappingProxyType({}), "payload is a mappingproxy, which JSON does not have"),
        (range(3), "payload is a range, which JSON does not have"),
        (1j, "payload is a complex, which JSON does not have"),
        (object(), "payload is a object, which JSON does not have"),
    ],
)
def test_what_is_no_json_is_told_with_its_path(value, told):
    assert not is_plain_json(value)
    assert fault(value) == told


def test_a_key_of_too_many_digits_is_told_without_them():
    assert fault({HUGE: 1}) == "payload has the key a int; JSON keys are text that UTF-8 can carry"


def test_the_first_fault_in_the_order_of_writing_is_told():
    assert fault({"a": [1, {"b": {1}}], "c": {2}}) == "payload.a[1].b is a set, which JSON does not have"


def test_a_fault_is_told_within_what_the_caller_calls_it():
    assert fault({"a": {1}}, "checkpoint") == "checkpoint.a is a set, which JSON does not have"


# --- Depth -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, lambda items: {"k": items[0]}, collections.UserList])
def test_a_hundred_arrays_and_objects_within_one_another_are_the_most(kind):
    if kind is collections.UserList:
        assert fault(nested(1, kind)) == "payload is a UserList, which JSON does not have"
        return
    assert is_plain_json(nested(100, kind))
    assert fault(nested(100, kind)) is None
    assert not is_plain_json(nested(101, kind))
    assert "is nested more than 100 deep, or contains itself" in fault(nested(101, kind))


def test_an_empty_array_is_as_deep_as_any_other():
    inner = [[]]
    for _ in range(98):
        inner = [inner]
    assert fault(inner) is None
    assert fault([inner]) is not None
    assert fault({"a": inner}) is not None


def test_how_deep_may_be_said():
    assert is_plain_json(nested(3), 3)
    assert not is_plain_json(nested(4), 3)
    assert not is_plain_json([], 0)
    assert is_plain_json(1, 0)


def test_what_contains_itself_is_told_so_however_often():
    once: list = []
    once.append(once)
    thrice: dict = {}
    thrice |= {"a": thrice, "b": thrice, "c": thrice}
    assert "contains itself" in fault(once)
    assert "contains itself" in fault(thrice)


def test_a_long_path_is_cut_in_its_middle():
    told = fault(nested(101, lambda items: {"k" * 30: items[0]}))
    assert (
        told == f"payload.{'k' * 30}.{'k' * 1}...{'k' * 9}.{'k' * 30} is nested more than 100 deep, or contains itself"
    )


def test_a_path_of_120_characters_is_not_cut():
    value: object = {1}
    for key in ("c" * 31, "b" * 39, "a" * 39):
        value = {key: value}
    path = "payload." + ".".join(("a" * 39, "b" * 39, "c" * 31))
    assert len(path) == 119
    assert fault(value) == f"{path} is a set, which JSON does not have"
    assert fault({"a" * 39: {"b" * 39: {"c" * 32: {1}}}}).startswith(path + "c is")
    assert "..." in fault({"a" * 39: {"b" * 39: {"c" * 33: {1}}}})


def test_a_key_of_40_characters_is_shown_whole_and_a_longer_one_is_cut():
    assert fault({"k" * 40: {1}}).startswith(f"payload.{'k' * 40} ")
    assert fault({"k" * 41: {1}}).startswith(f"payload['{'k' * 40}'] ")


# --- Size ------------------------------------------------------------------------------------------------------


def doubled(times: int) -> object:
    """A list of two, each of them the same list of two, and so on: 2 ** times values in JSON, few in memory."""
    value: object = "x"
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize("many", [[0] * 300_001, {"a": doubled(60)}], ids=["flat", "shared"])
def test_more_than_300_000_values_are_too_many_to_look_at(many):
    assert not is_plain_json(many)
    found = json_fault(many, "payload")
    assert found.text == "payload holds more than 300,000 values (one that is shared counts each time)"
    assert found.is_vast


def test_300_000_values_are_looked_at():
    assert is_plain_json([0] * 300_000)
    assert json_fault([0] * 299_999 + [Level.HIGH], "payload") is None
    assert not json_fault([0] * 299_999 + [object()], "payload").is_vast


# --- Showing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a'b", '"a\'b"'),
        ("\ud800\n", "'\\ud800\\n'"),
        ("x" * 80, repr("x" * 80)),
        ("x" * 81, repr("x" * 80)),
        (Colour.RED, "'red'"),
        (7, "a int"),
        (None, "a NoneType"),
        (b"secret", "a bytes"),
    ],
)
def test_a_wrong_value_is_shown_in_short_when_it_is_text_else_only_what_it_is(value, text):
    assert shown(value) == text


# --- Laws ------------------------------------------------------------------------------------------------------


@given(json_values)
def test_json_comes_back_from_its_text_and_has_no_fault(value):
    assert is_plain_json(value)
    assert json_fault(value, "payload") is None
    assert json.loads(json.dumps(value, allow_nan=False).encode()) == value


def survives(value: object) -> bool:
    """Whether the value comes back from UTF-8, by Python's own means."""
    try:
        return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode()) == value
    except (ValueError, RecursionError):
        return False


@given(any_json)
def test_a_value_has_a_fault_exactly_when_it_does_not_survive_utf_8(value):
    assert is_plain_json(value) is survives(value)
    assert (json_fault(value, "payload") is None) is survives(value)


@pytest.mark.parametrize(("before", "after"), [("", ""), (" \n", "\t"), ("", " "), ("\r", "")])
@pytest.mark.parametrize("text", ['{"a": [1, {"b": null}]}', "{}", "[1]", "2.5", '"x"'])
def test_blanks_around_json_are_none_of_it(text, before, after):
    assert parsed(before + text + after) == json.loads(text)


@pytest.mark.parametrize("text", ['{"a": 1}{', '{"a": 1} 2', '{"a": 1', '{"a": NaN}', "{", "", "[1]]"])
def test_what_is_more_or_less_than_json_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        parsed(text)
