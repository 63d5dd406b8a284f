"""Topology files as they come: encodings, line ends, broken syntax, and what is no topology at all."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from towpath.errors import InvalidTopology, Mistake
from towpath.topology import load_topology, read_topology

SOUND = 'name = "shop"\n\n[topics.orders]\nfair = true\n'
WRONG = 'name = "shop"\n\n[topics.orders]\nfair = 1\n'

Written = Callable[[str | bytes, str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(content: str | bytes, name: str) -> Path:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


def only_mistake(file: Path) -> Mistake:
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    (mistake,) = caught.value.mistakes
    assert caught.value.subject == str(file)
    return mistake


# --- Text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_byte_order_marks_and_line_ends_change_no_line(written: Written, mark: bytes, line_end: bytes) -> None:
    content = mark + WRONG.encode().replace(b"\n", line_end)
    assert only_mistake(written(content, "t.toml")).line == 4
    document = mark + b'{"name": "shop",\n"topics":\n{"orders": {\n"fair": 1}}}'.replace(b"\n", line_end)
    assert only_mistake(written(document, "t.json")).line == 4


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_text_in_another_encoding_is_told_how_to_be_saved(written: Written, encoding: str) -> None:
    mistake = only_mistake(written((SOUND + "# Bestellungen für alle\n").encode(encoding), "t.toml"))
    assert mistake.problem == "is not UTF-8 text; save it as UTF-8"
    assert mistake.line == {"utf-16": 1, "latin-1": 5}[encoding]


def test_a_return_alone_is_no_line_end_in_toml(written: Written) -> None:
    assert "is not valid TOML" in only_mistake(written(SOUND.replace("\n", "\r"), "t.toml")).problem


# --- Syntax ------------------------------------------------------------------------------------------------------


def test_a_key_that_is_twice_in_toml_is_refused_with_its_line(written: Written) -> None:
    mistake = only_mistake(written(SOUND + "fair = false\n", "t.toml"))
    assert (mistake.path, mistake.line) == ("", 5)
    assert mistake.problem == "is not valid TOML: Cannot overwrite a value"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("a = " + "[" * 5_000, "tables and lists are too deep in each other"),
        ("a = " + "9" * 5_000, "a whole number is too long to be read"),
    ],
)
def test_what_python_cannot_read_is_not_valid(written: Written, content: str, reason: str) -> None:
    assert only_mistake(written(content, "t.toml")) == Mistake(path="", problem=f"is not valid TOML: {reason}")


def test_numbers_that_json_does_not_have_are_refused(written: Written) -> None:
    for number in ("NaN", "Infinity", "-Infinity"):
        mistake = only_mistake(written(f'{{"name": {number}}}', "t.json"))
        assert mistake.problem == f"is not valid JSON: {number} is no number of JSON"


def test_a_number_too_long_for_json_is_refused(written: Written) -> None:
    mistake = only_mistake(written('{"name": ' + "9" * 5_000 + "}", "t.json"))
    assert mistake.problem == "is not valid JSON: a whole number is too long to be read"


def test_keys_that_are_twice_in_json_are_mistakes_beside_others(written: Written) -> None:
    content = '{"name": "Shop",\n"topics": {\n"t": {"fair": true,\n"fair": true}},\n"topics": {}}'
    with pytest.raises(InvalidTopology) as caught:
        load_topology(written(content, "t.json"))
    assert [(m.line, m.path, m.problem.partition(";")[0]) for m in caught.value.mistakes] == [
        (1, "name", 'must be 1 to 20 of a-z, 0-9 and -, not "Shop"'),
        (2, "topics", "is written 2 times, in the lines 2 and 5"),
    ]


def test_a_key_that_is_twice_is_told_where_it_is(written: Written) -> None:
    content = '{"name": "shop", "topics": {"t": {"fair": true,\n"fair": true,\n"fair": false}}}'
    mistake = only_mistake(written(content, "t.json"))
    assert (mistake.line, mistake.path) == (1, "topics.t.fair")
    assert mistake.problem == "is written 3 times, in the lines 1 and 2 and 3; only one can hold"


# --- What is none ------------------------------------------------------------------------------------------------


def test_yaml_is_told_to_be_none(written: Written) -> None:
    mistake = only_mistake(written("name: shop\ntopics: {}\n", "topology.yml"))
    assert mistake.problem == "is YAML by its name; a topology is written in TOML or JSON"
    assert only_mistake(written("name: shop\n", "topology.YAML")) == mistake


def test_toml_may_have_any_name_but_that_of_json(written: Written) -> None:
    assert load_topology(written(SOUND, "topology")).name == "shop"
    assert load_topology(written(SOUND, "topology.yml")).name == "shop"
    assert load_topology(written('{"name": "shop"}', "topology.JSON")).name == "shop"


@pytest.mark.parametrize("suffix", ["json", "toml"])
def test_a_manifest_is_told_to_be_none(written: Written, suffix: str) -> None:
    content = {"json": json.dumps({"manifest_version": 1, "topics": {}}), "toml": "manifest_version = 1\n[topics]\n"}
    mistake = only_mistake(written(content[suffix], f"manifest.{suffix}"))
    assert mistake.problem == "is a manifest; the topology that it was rendered from is wanted"


def test_a_key_of_a_manifest_alone_makes_none(written: Written) -> None:
    assert only_mistake(written('{"name": "shop", "manifest_version": 1}', "t.json")).path == "manifest_version"


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        (b"\xff", "t.toml", ", line 1, is not UTF-8 text; save it as UTF-8"),
        ("name: shop\n", "t.yaml", " is YAML by its name; a topology is written in TOML or JSON"),
        ("a b", "t.toml", ", line 1, is not valid TOML: Expected '=' after a key in a key/value pair"),
        ("\n\na\n\n", "t.toml", ", line 3, is not valid TOML: Expected '=' after a key in a key/value pair"),
        ("\na = [\n", "t.toml", ", line 2, is not valid TOML: Invalid value at the end of the file"),
        ('{"name":\n', "t.json", ", line 2, is not valid JSON: Expecting value"),
        ('{"name": NaN}', "t.json", " is not valid JSON: NaN is no number of JSON"),
        ("[]", "t.json", " must be a JSON object"),
        ('{"manifest_version": 1, "topics": {}}', "t.json", " is a manifest; the topology that it was rendered from"),
    ],
)
def test_what_is_wrong_with_a_file_as_a_whole_is_one_sentence_about_it(
    written: Written, content: str | bytes, name: str, sentence: str
) -> None:
    file = written(content, name)
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    assert str(caught.value).startswith(f"{file}{sentence}")
    assert "\n" not in str(caught.value)


def test_a_folder_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidTopology) as caught:
        load_topology(tmp_path)
    assert str(caught.value) == f"{tmp_path} cannot be read: Is a directory"


# --- What comes back ---------------------------------------------------------------------------------------------


def test_a_file_that_was_read_knows_its_lines(written: Written) -> None:
    content = SOUND + '[topics.imports]\n[subscriptions.s]\ntopic = "orders"\nhandler = "a:b"\nstatus = "paused"\n'
    file = written(content, "t.toml")
    read = read_topology(file)
    assert read.path == file
    assert read.topology == load_topology(file)
    assert [(warning.line, warning.path) for warning in read.warnings()] == [
        (5, "topics.imports"),
        (9, "subscriptions.s.status"),
    ]
    later = [Mistake(path="subscriptions.s", problem="late"), Mistake(path="topics.orders.fair", problem="early")]
    assert [(mistake.line, mistake.problem) for mistake in read.placed(later)] == [(4, "early"), (6, "late")]


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("topology.toml", '{"name": "shop"}', "; it looks like JSON: then its name must end in .json"),
        ("topology.toml", 'name = "shop"\n[topics.t]\nfair = True\n', "; true and false are written in lower case"),
        ("topology.toml", 'name = "shop"\nbackoff = {\n  x = 1\n}\n', "; a table in braces stays on one line"),
        ("topology.json", 'name = "shop"\n', "; a topology in TOML has a name that ends in .toml"),
    ],
)
def test_broken_syntax_is_told_with_what_was_probably_meant(tmp_path: Path, name: str, text: str, hint: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InvalidTopology) as caught:
        load_topology(tmp_path / name)
    (mistake,) = caught.value.mistakes
    assert mistake.problem.endswith(hint)
