"""What runs the pages finds what is wrong with them."""

import pytest

from tests.pages.blocks import PROJECT, Block, blocks_of
from tests.pages.calls import calls_in_code, calls_in_prose, faults
from tests.pages.shells import run, script_of


def page_of(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def console(code):
    return Block(page=PROJECT / "README.md", kind="console", code=code, line=1, situation="plain")


def test_blocks_are_found_in_lists_and_without_a_kind_and_know_their_situation(tmp_path):
    text = "```\nplain\n```\n\n<!-- run: shop -->\n1. Do:\n\n   ```console\n   $ true\n   ```\n"
    found = [(block.kind, block.code, block.line, block.situation) for block in blocks_of(page_of(tmp_path, text))]
    assert found == [("", "plain\n", 1, "plain"), ("console", "$ true\n", 8, "shop")]


def test_a_block_without_an_end_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"page\.md:2: this block has no end"):
        list(blocks_of(page_of(tmp_path, "text\n```sh\nls\n")))


def test_a_session_begins_with_a_command():
    with pytest.raises(ValueError, match="a session begins with a command"):
        script_of([console("what it prints\n")])


def test_a_command_that_fails_is_told_with_its_place_and_what_it_printed(tmp_path):
    with pytest.raises(AssertionError, match=r"README\.md:1: 'ls nowhere' fails:\n.*nowhere"):
        run([console("$ true\n$ ls nowhere\n$ true\n")], tmp_path, {}, tmp_path)


def test_all_that_is_not_printed_is_told_and_three_dots_stand_for_anything(tmp_path):
    session = [console("$ echo one; echo two >&2\none\ntwo\n...\n$ echo three\nfour\n"), console("$ echo five\nsix\n")]
    with pytest.raises(AssertionError) as told:
        run(session, tmp_path, {}, tmp_path)
    assert "'echo three' does not print ['four'], but:\nthree" in str(told.value)
    assert "'echo five' does not print ['six'], but:\nfive" in str(told.value)
    assert "two" not in str(told.value)


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        ("towpath stats --json | jq .", []),
        ("towpath bundle orders.ship --target host", []),
        ("towpath dead-letters replay 1-1 --edit - --reason 'a --word that is none'", []),
        ("towpath statistics", ["command statistics"]),
        ("towpath deliveries throw", ["command throw"]),
        ("towpath work orders.ship --onec", ["--onec"]),
        ("towpath bundle orders.ship --taget host", ["--taget"]),
    ],
)
def test_a_call_is_held_against_the_command_line(call, wrong):
    assert faults(call) == wrong


def test_calls_are_found_in_scripts_workflows_and_sentences_but_not_where_they_are_yet_to_come(tmp_path):
    assert calls_in_code("- run: towpath stats\n$ A=1 towpath work x \\\n>     --once\ntowpath = 1\n") == [
        "towpath stats",
        "towpath work x --once",
    ]
    page = page_of(tmp_path, "Run `towpath stats\n--json`.\n\n```sh\n`towpath no`\n```\n\nNot yet: `towpath fly`.\n")
    assert calls_in_prose(page) == ["towpath stats --json"]
