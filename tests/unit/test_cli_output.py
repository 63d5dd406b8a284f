"""What commands print: as it is, whatever it looks like."""

import json

import pytest

from towpath.cli.output import print_failure, print_json, print_sentence, print_table, print_warning

ODD = ["[red]", "[/]", "a\\", "value:x:1", ":smile:", "[link=x]", "{}", "ä😀", "1,234"]


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize("text", ODD)
def test_text_is_shown_as_it_is_and_never_as_markup(capsys, text):
    print_table(["name"], [[text]])
    print_sentence(text)
    print_failure(text)
    printed = capsys.readouterr()
    assert text in printed.out.splitlines()[-3]
    assert printed.out.splitlines()[-1] == text
    assert printed.err == f"error: {text}\n"


@pytest.mark.parametrize(("text", "shown"), [("\x1b[31mred", "\\x1b[31mred"), ("a\x9b2J\0", "a\\x9b2J\\x00")])
def test_a_table_gives_the_terminal_no_commands(capsys, text, shown):
    print_table(["name"], [[text]])
    assert capsys.readouterr().out.splitlines()[-2] == f"│ {shown} │"


def test_what_is_not_there_shows_as_a_dash(capsys):
    print_table(["a", "b", "c"], [[None, 0, ""]])
    assert capsys.readouterr().out.splitlines()[3].split() == ["│", "-", "│", "0", "│", "│"]


def test_a_long_sentence_stays_on_one_line(capsys):
    print_failure("word " * 100 + "end")
    print_sentence("word " * 100 + "end")
    printed = capsys.readouterr()
    assert printed.err.count("\n") == printed.out.count("\n") == 1


def test_a_table_for_a_pipe_breaks_no_name_whatever_its_width(capsys):
    print_table(["a", "b"], [["documents.convert." * 8, "x" * 150]])
    assert "documents.convert." * 8 in capsys.readouterr().out


def test_a_table_for_a_pipe_may_be_wider_than_any_terminal(capsys):
    print_table(["a", "b"], [["x" * 700, "y" * 700], ["1", "2"]])
    assert f"│ {'x' * 700} │ {'y' * 700} │" in capsys.readouterr().out.splitlines()


def test_a_row_for_a_pipe_stays_one_line(capsys):
    print_table(["a", "b"], [["one\ntwo\r\nthree", 1]])
    assert capsys.readouterr().out.splitlines()[3] == "│ one two three │ 1 │"


def test_a_table_that_fits_the_width_stays_a_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "13")
    print_table(["a", "b"], [["1234", "5"]])
    assert "│ 1234 │ 5 │" in capsys.readouterr().out


def test_a_table_that_does_not_fit_shows_each_row_as_a_block_and_breaks_no_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    print_table(["name", "pending"], [["documents.convert." * 3, 1], ["short", None]], title="Two of them")
    assert capsys.readouterr().out == (
        f"Two of them\n\nname     {'documents.convert.' * 3}\npending  1\n\nname     short\npending  -\n"
    )


def test_json_is_one_document_in_utf_8(capsys):
    print_json({"ä": [1, None]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"ä": [1, None]}
    assert "ä" in printed
    assert printed.endswith("}\n")


def test_nothing_is_coloured_where_no_terminal_is(capsys):
    print_failure("x")
    print_table(["a"], [["b"]])
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err


def test_failures_and_warnings_give_the_terminal_no_commands(capsys):
    for tell in (print_failure, print_warning):
        tell("a\x1b]0;title\x07b\x9b31mc\nd")
        assert capsys.readouterr().err.endswith(": a\\x1b]0;title\\x07b\\x9b31mc\nd\n")


def test_json_gives_the_terminal_no_commands_and_stays_the_same(capsys):
    print_json({"a": "\x1b[31m\x9b31m\x7f é"})
    out = capsys.readouterr().out
    assert out.splitlines()[1] == '  "a": "\\u001b[31m\\u009b31m\\u007f é"'
    assert json.loads(out) == {"a": "\x1b[31m\x9b31m\x7f é"}
