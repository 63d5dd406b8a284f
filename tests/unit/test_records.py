"""Reading JSON into frozen dataclasses: strict, and with all mistakes at once."""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from towpath.errors import InvalidManifest, Mistake
from towpath.records import key_path, read_json, read_json_record, read_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    count: int
    ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    on: bool
    version: Literal[1]
    mode: Literal["a", "b"]
    always: Literal[True] = True
    inner: Inner | None = None
    inners: dict[str, Inner] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    anything: Any = None


SMALLEST = {"name": "n", "on": True, "version": 1, "mode": "a"}


def read(**keys: Any) -> Outer:
    return read_record(Outer, {**SMALLEST, **keys}, InvalidManifest, "the record")


def mistakes(**keys: Any) -> list[str]:
    with pytest.raises(InvalidManifest) as caught:
        read(**keys)
    return [str(mistake) for mistake in caught.value.mistakes]


def test_fields_with_defaults_may_be_left_out() -> None:
    assert read() == Outer(name="n", on=True, version=1, mode="a")


def test_nested_records_lists_and_mappings_are_read() -> None:
    inner = {"count": 1, "ratio": 2}
    found = read(inner=inner, inners={"x.y": inner}, words=["a"], anything={"free": [None]})
    expected = Inner(count=1, ratio=2)
    assert (found.inner, found.inners, found.words) == (expected, {"x.y": expected}, ("a",))
    assert found.anything == {"free": [None]}


def test_null_is_for_optional_fields_only() -> None:
    assert read(inner=None).inner is None
    assert mistakes(name=None) == ["name: must be text, not null"]


def test_a_missing_key_is_a_mistake() -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_record(Outer, {"name": "n", "on": True}, InvalidManifest, "the record")
    assert [str(mistake) for mistake in caught.value.mistakes] == ["version: is missing", "mode: is missing"]
    assert mistakes(inner={"count": 1}) == ["inner.ratio: is missing"]


def test_an_unknown_key_is_a_mistake() -> None:
    assert mistakes(nmae="n", inner={"count": 1, "ratio": None, "more": 1}) == [
        "nmae: is not a known key",
        "inner.more: is not a known key",
    ]


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("name", 1, "must be text, not 1"),
        ("on", 1, "must be true or false, not 1"),
        ("on", "true", 'must be true or false, not "true"'),
        ("version", 2, "must be 1, not 2"),
        ("version", True, "must be 1, not true"),
        ("version", 1.0, "must be 1, not 1.0"),
        ("always", 1, "must be true, not 1"),
        ("mode", "c", 'must be "a" or "b", not "c"'),
        ("mode", ["a"], 'must be "a" or "b", not ["a"]'),
        ("inner", [], "must be an object"),
        ("inners", [], "must be an object"),
        ("words", "abc", "must be a list"),
        ("words", {"a": 1}, "must be a list"),
    ],
)
def test_a_value_of_another_type_is_a_mistake(key: str, value: object, problem: str) -> None:
    assert mistakes(**{key: value}) == [f"{key}: {problem}"]


@pytest.mark.parametrize("value", ["1", True, 1.5, None])
def test_a_whole_number_is_no_text_boolean_or_fraction(value: object) -> None:
    assert mistakes(inner={"count": value, "ratio": None}) == [
        f"inner.count: must be a whole number, not {json.dumps(value)}"
    ]


@pytest.mark.parametrize("value", ["1", True])
def test_a_number_is_no_text_or_boolean(value: object) -> None:
    assert mistakes(inner={"count": 1, "ratio": value}) == [f"inner.ratio: must be a number, not {json.dumps(value)}"]


def test_all_mistakes_are_told_at_once_with_their_paths() -> None:
    assert mistakes(
        name=1, extra=2, inners={"a.b": {"count": "x"}, "c": {"count": 1, "ratio": "y"}}, words=["ok", 3]
    ) == [
        "extra: is not a known key",
        "name: must be text, not 1",
        'inners."a.b".ratio: is missing',
        'inners."a.b".count: must be a whole number, not "x"',
        'inners.c.ratio: must be a number, not "y"',
        "words[1]: must be text, not 3",
    ]


def test_a_long_value_is_not_repeated_in_full() -> None:
    assert mistakes(on="x" * 78) == [f'on: must be true or false, not "{"x" * 78}"']
    assert mistakes(on="x" * 79) == [f'on: must be true or false, not "{"x" * 79}...']


def test_where_defaults_are_refused_every_key_must_be_there() -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_record(Outer, SMALLEST, InvalidManifest, "the record", defaults="refused")
    missing = ("always", "inner", "inners", "words", "anything")
    assert [str(mistake) for mistake in caught.value.mistakes] == [f"{key}: is missing" for key in missing]


def test_what_stands_beside_a_missing_key_is_checked_too() -> None:
    assert mistakes(inner={"ratio": "x"}) == ["inner.count: is missing", 'inner.ratio: must be a number, not "x"']


@pytest.mark.parametrize("document", [None, [], "text", 1])
def test_a_document_that_is_no_object_is_one_sentence(document: object) -> None:
    with pytest.raises(InvalidManifest, match=r"^the record must be an object$"):
        read_record(Outer, document, InvalidManifest, "the record")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000])
def test_text_that_is_no_json_is_one_sentence(text: str) -> None:
    with pytest.raises(InvalidManifest, match=r"^the record is not JSON: [^\n]+$"):
        read_json_record(Outer, text, InvalidManifest, "the record")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": {"b": 1, "b": 1}}', "is not JSON: the key 'b' is there twice"),
        ('{"ratio": NaN}', "is not JSON: NaN is no number"),
        ('{"ratio": -Infinity}', "is not JSON: -Infinity is no number"),
        ('{"ratio": 1e999}', "is not JSON: the number 1e999 is too large"),
        ('{"name": "\\ud800"}', "holds half of a surrogate pair, which no text has"),
        ('{"\\udc00": 1}', "holds half of a surrogate pair, which no text has"),
    ],
)
def test_text_that_could_not_be_written_again_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_json(text, InvalidManifest, "the record")
    assert str(caught.value) == f"the record {problem}"


def test_a_whole_surrogate_pair_is_one_letter() -> None:
    assert read_json('{"name": "\\ud83d\\ude00", "ratio": 1.5e3}', InvalidManifest, "the record") == {
        "name": "\U0001f600",
        "ratio": 1500.0,
    }


def test_a_key_path_is_written_as_toml_writes_it() -> None:
    assert key_path(["subscriptions", "a.b", "lease_seconds"]) == 'subscriptions."a.b".lease_seconds'
    assert key_path(["a-b", "c d", ""]) == 'a-b."c d".""'
    assert key_path(["kind", 0, "prefix"]) == "kind[0].prefix"
    assert key_path([]) == ""


def test_a_mistake_is_told_with_its_line_and_path_where_they_are_known() -> None:
    assert str(Mistake(path="a.b", problem="is wrong", line=3)) == "line 3: a.b: is wrong"
    assert str(Mistake(path="", problem="is wrong", line=3)) == "line 3: is wrong"
    assert str(Mistake(path="a", problem="is wrong")) == "a: is wrong"


def test_one_mistake_of_the_whole_is_one_sentence_and_others_are_a_list() -> None:
    whole, part = Mistake(path="", problem="is empty"), Mistake(path="a", problem="is wrong")
    assert str(InvalidManifest("m.json", [whole])) == "m.json is empty"
    assert str(InvalidManifest("m.json", [Mistake(path="", problem="ends", line=2)])) == "m.json, line 2, ends"
    assert str(InvalidManifest("m.json", [part])) == "m.json has 1 mistake:\n  a: is wrong"
    assert str(InvalidManifest("m.json", [whole, part])) == "m.json has 2 mistakes:\n  is empty\n  a: is wrong"
