"""Message attributes as SNS and SQS carry them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fakes.strategies import attribute_values
from towpath.attributes import attribute_text, attribute_type, attributes_bytes, read_attribute


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("pdf", "String", "pdf"),
        ('"', "String", '"'),
        ("1", "String", "1"),
        (0, "Number", "0"),
        (-7, "Number", "-7"),
        (10**9, "Number", "1000000000"),
        (1e9, "Number", "1000000000.0"),
        (0.1, "Number", "0.1"),
        (-0.0, "Number", "-0.0"),
        (1e-7, "Number", "1e-07"),
        (999_999_999.9999999, "Number", "999999999.9999999"),
        ((), "String.Array", "[]"),
        (("a", "ä"), "String.Array", '["a","ä"]'),
        (('"',), "String.Array", '["\\""]'),
    ],
)
def test_an_attribute_has_the_type_and_text_of_sns(value, kind, text):
    assert (attribute_type(value), attribute_text(value)) == (kind, text)


def test_attributes_weigh_name_type_and_value_in_bytes():
    assert attributes_bytes({}) == 0
    assert attributes_bytes({"ab": "ä"}) == 2 + 6 + 2
    assert attributes_bytes({"ab": "ä", "n": 10}) == 10 + 1 + 6 + 2


@given(attribute_values)
@example(-0.0)
@example(5e-324)
def test_every_attribute_reads_back_from_its_type_and_text_as_it_was(value):
    back = read_attribute(attribute_type(value), attribute_text(value))
    assert (back, type(back), str(back)) == (value, type(value), str(value))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("String", "1", "1"),
        ("String.custom", "1", "1"),
        ("Number", "12", 12),
        ("Number.int", "12", 12),
        ("Number.float", "1.50", 1.5),
        ("String.Array", '["a"]', ("a",)),
        ("String.Array", '["a",1,1.5,true,false,null]', ("a", "1", "1.5", "true", "false", "null")),
        ("String.Array.custom", '["a"]', '["a"]'),
        ("Binary", "AAEC", "AAEC"),
    ],
)
def test_attributes_of_a_foreign_message_are_read_by_their_types(kind, text, value):
    assert read_attribute(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Number", ""),
        ("Number", "a"),
        ("Number", "true"),
        ("Number", '"1"'),
        ("Number", "[1]"),
        ("Number", "NaN"),
        ("Number", "-Infinity"),
        ("Number", "1e400"),
        ("Number", "-1e400"),
        ("Number", "[" * 100_000),
        ("Number", "1" * 5_000),
        ("String.Array", ""),
        ("String.Array", "a"),
        ("String.Array", "{}"),
        ("String.Array", "[NaN]"),
        ("String.Array", '["a", "\\ud800"]'),
        ("String.Array", '[{"\\ud800": 1}]'),
        ("String.Array", "[1" + "0" * 5_000 + "]"),
        ("String.Array", "[" * 100_000),
    ],
)
def test_text_that_is_not_what_its_type_says_stays_text(kind, text):
    assert read_attribute(kind, text) == text


@given(st.sampled_from(["Number", "String.Array", "Number.x", "String"]), st.text(max_size=8))
def test_reading_an_attribute_never_raises(kind, text):
    assert isinstance(read_attribute(kind, text), str | int | float | tuple)


def test_a_deeply_nested_item_of_a_foreign_list_does_no_harm():
    assert isinstance(read_attribute("String.Array", "[" * 900 + "]" * 900), str | tuple)
