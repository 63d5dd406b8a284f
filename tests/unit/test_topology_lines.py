"""Every key and every list item is found on its line, however TOML or JSON says it."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given

from tests.fakes.topologies import ANYTHING, Document, json_texts, toml_texts
from towpath.topology.lines import Place, json_places, line_finder, toml_places


def lines_of(places: list[Place]) -> dict[Any, int]:
    """The line of each path: where it is written, or else where a longer one first begins with it."""
    begun: dict[Any, int] = {}
    for place in sorted(places, key=lambda place: not place.is_whole):
        begun.setdefault(place.path, place.line)
    return begun


@given(toml_texts(ANYTHING))
def test_every_key_of_any_toml_has_its_line(written: tuple[Document, str, dict[Any, int]]) -> None:
    document, text, lines = written
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    assert tomllib.loads(text) == document
    assert lines_of(toml_places(text)) == lines


@given(json_texts(ANYTHING))
def test_every_key_of_any_json_has_its_line(written: tuple[Document, str, dict[Any, int]]) -> None:
    document, text, lines = written
    assert json.loads(text) == document
    assert lines_of(json_places(text)) == lines


def found(text: str) -> dict[Any, int]:
    tomllib.loads(text)  # the text of each test is valid
    return lines_of(toml_places(text))


def test_an_empty_file_has_no_places() -> None:
    assert found("") == found("\n\n# nothing\n") == {}
    assert json_places("{}") == []


def test_comments_and_strings_of_many_lines_are_no_keys() -> None:
    text = 'a = """\nb = 1\n"""" # """\nc = \'\'\'\n[d]\n\'\'\'\'\'  # e = 1\nf = "#"\n'
    assert found(text) == {("a",): 1, ("c",): 4, ("f",): 7}


def test_escaped_quotes_end_no_string() -> None:
    assert found('a = "\\"\\\\"\nb = """\\"""\n\\\\"""\nc = 1\n') == {("a",): 1, ("b",): 2, ("c",): 4}
    assert found("a = '\\'\nb = 1\n") == {("a",): 1, ("b",): 2}


def test_quoted_keys_are_read() -> None:
    assert found('"a.b" = 1\n\'c "d"\' = 1\n"\\u00e9\\t" = 1\n"" = 1\n') == {
        ("a.b",): 1,
        ('c "d"',): 2,
        ("é\t",): 3,
        ("",): 4,
    }


def test_a_dotted_key_begins_its_tables() -> None:
    assert found('a.b . "c" = 1\na.d = 2\n') == {("a",): 1, ("a", "b"): 1, ("a", "b", "c"): 1, ("a", "d"): 2}


def test_a_heading_after_those_of_its_tables_counts_more_than_they_do() -> None:
    text = "[a.b]\nc = 1\n\n[a]\nd = 1\n"
    assert found(text) == {("a",): 4, ("a", "b"): 1, ("a", "b", "c"): 2, ("a", "d"): 5}


def test_an_inline_table_and_the_lists_in_it_have_lines() -> None:
    text = 'a = { b = 1, c.d = [\n  1,\n  { e = "}" }, # ]\n  [],\n], f = {} }\ng = 1\n'
    assert found(text) == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "c"): 1,
        ("a", "c", "d"): 1,
        ("a", "c", "d", 0): 2,
        ("a", "c", "d", 1): 3,
        ("a", "c", "d", 1, "e"): 3,
        ("a", "c", "d", 2): 4,
        ("a", "f"): 5,
        ("g",): 6,
    }


def test_a_heading_begins_all_tables_around_it() -> None:
    assert found("[a.b.c]\nd = 1\n") == {
        ("a",): 1,
        ("a", "b"): 1,
        ("a", "b", "c"): 1,
        ("a", "b", "c", "d"): 2,
    }


def test_the_last_line_needs_no_end() -> None:
    assert found("a = 1") == {("a",): 1}
    assert found("[a]") == {("a",): 1}
    assert found("a = 1 # b") == {("a",): 1}


def test_json_may_begin_and_end_with_blank_lines() -> None:
    assert lines_of(json_places('\n\n{"a":\n1}\n')) == {("a",): 3}


def test_numbers_and_dates_are_one_value_each() -> None:
    text = "a = [1.5, -2e3, 1979-05-27 07:32:00, 1979-05-27T07:32:00Z, 0x_f]\nb = 1979-05-27 07:32:00\nc = inf\n"
    text = text.replace("0x_f", "0xf")
    assert sorted(found(text), key=str) == sorted([("a",), *(("a", n) for n in range(5)), ("b",), ("c",)], key=str)


def test_each_table_of_an_array_of_tables_is_an_item() -> None:
    text = "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 1\n[[a.e]]\n[[a.e]]\nf = 1\n[[g.h]]\n"
    assert found(text) == {
        ("a",): 1,
        ("a", 0): 1,
        ("a", 0, "b"): 2,
        ("a", 1): 3,
        ("a", 1, "c"): 4,
        ("a", 1, "c", "d"): 5,
        ("a", 1, "e"): 6,
        ("a", 1, "e", 0): 6,
        ("a", 1, "e", 1): 7,
        ("a", 1, "e", 1, "f"): 8,
        ("g",): 9,
        ("g", "h"): 9,
        ("g", "h", 0): 9,
    }


@pytest.mark.parametrize("inmost", ["", "1, 2", '{"k": 1}, 2', '{"k": [1, {"k": "]"}]}, {}, 3'])
@pytest.mark.parametrize("kind", ["toml", "json"])
def test_what_is_too_deep_is_passed_over(kind: str, inmost: str) -> None:
    deep = "[" * 40 + inmost + "]" * 40
    if kind == "toml":
        lines = found(f"a = {deep.replace(':', ' =')}\nb = 1\n")
    else:
        lines = lines_of(json_places(f'{{"a": {deep},\n"b": 1}}'))
    assert lines["b",] == 2
    assert len(lines) == 22
    assert max(map(len, lines)) == 21  # what lies in the deepest list that there may be


def test_a_key_that_is_twice_in_json_has_two_places() -> None:
    assert [(place.path, place.line) for place in json_places('{"a": 1,\n"a": 2}')] == [(("a",), 1), (("a",), 2)]


def test_escapes_in_json_keys_are_read() -> None:
    assert lines_of(json_places('{"\\u00e9\\/\\"": [",", {\n"}": 1}]}')) == {
        ('é/"',): 1,
        ('é/"', 0): 1,
        ('é/"', 1): 1,
        ('é/"', 1, "}"): 2,
    }


# --- Where to look -----------------------------------------------------------------------------------------------


def test_what_is_not_there_is_looked_for_in_the_nearest_table_that_is() -> None:
    line_of = line_finder(toml_places('a = 1\n\n[b."c.d"]\ne = [\n1,\n2]\n'))
    assert line_of("a") == 1
    assert line_of('b."c.d".e[1]') == 6
    assert line_of('b."c.d".e[7].f') == 4
    assert line_of('b."c.d".x.y.z') == 3
    assert line_of('b."c.x".y') == 3
    assert line_of("zzz") == line_of("") == 1
    assert line_of("bb") == 1  # not that of b


def test_a_heading_is_looked_for_where_it_is_written() -> None:
    line_of = line_finder(toml_places("x = 1\n[a.b]\n[a]\nc = 1\n"))
    assert (line_of("a"), line_of("a.d"), line_of("a.b"), line_of("a.c")) == (3, 3, 2, 4)


def test_paths_are_told_as_in_mistakes() -> None:
    line_of = line_finder([Place(path=("a b", "c", 0), line=7)])
    assert line_of('"a b".c[0]') == 7
    assert line_of('"a b".c') == 1
