"""Log lines of a worker: one a record, for people or for programs."""

import json
import logging
import sys
from pathlib import Path

import pytest

import towpath
from towpath.cli.logs import JsonLines, Text

MOMENT = 1_769_847_300.123_9


def record(
    message: str = "delivery %s", *args: object, level: int = logging.INFO, **extras: object
) -> logging.LogRecord:
    made = logging.LogRecord("towpath.delivery", level, __file__, 1, message, args or ("completed",), None)
    made.created = MOMENT
    vars(made).update(extras)
    return made


def with_error(made: logging.LogRecord) -> logging.LogRecord:
    try:
        raise ValueError("bad")
    except ValueError:
        made.exc_info = sys.exc_info()
    return made


def test_text_has_time_level_message_and_the_extra_fields():
    line = Text().format(record(subscription="documents.convert", attempt=2))
    assert line == "2026-01-31T08:15:00.123Z INFO    delivery completed subscription=documents.convert attempt=2"


def test_text_without_extra_fields_ends_with_the_message():
    assert Text().format(record()) == "2026-01-31T08:15:00.123Z INFO    delivery completed"


def test_json_has_time_level_logger_message_and_the_extra_fields():
    line = JsonLines().format(record(subscription="documents.convert", attempt=2))
    assert json.loads(line) == {
        "time": "2026-01-31T08:15:00.123Z",
        "level": "INFO",
        "logger": "towpath.delivery",
        "message": "delivery completed",
        "subscription": "documents.convert",
        "attempt": 2,
    }


@pytest.mark.parametrize("value", ["two\nlines", "a\r\nb", "\u2028", '"quoted"', "ä😀"])
def test_json_is_one_line_whatever_it_holds(value):
    line = JsonLines().format(record("%s", value, reason=value, odd=object()))
    assert "\n" not in line
    assert json.loads(line)["message"] == json.loads(line)["reason"] == value


def test_text_gives_the_terminal_no_commands():
    made = record("reason: %s", "\x1b[31mred", reason="\x9b2J", traceback="Traceback:\n  one\x1b]0;title\x07\n\ttwo")
    lines = Text().format(made).split("\n")
    assert lines[0].endswith("reason: \\x1b[31mred reason=\\x9b2J")
    assert lines[1:] == ["Traceback:", "  one\\x1b]0;title\\x07", "\ttwo"]


@pytest.mark.parametrize("value", ["two\nlines", "a\r\nb"])
def test_text_is_one_line_though_a_field_has_several(value):
    line = Text().format(record("reason: %s", value, reason=value))
    assert len(line.splitlines()) == 1


def test_a_traceback_follows_its_line_in_text_and_is_a_field_in_json():
    text = Text().format(with_error(record(level=logging.ERROR)))
    first, *rest = text.splitlines()
    assert first == "2026-01-31T08:15:00.123Z ERROR   delivery completed"
    assert rest[-1] == "ValueError: bad"
    assert json.loads(JsonLines().format(with_error(record())))["traceback"].endswith("ValueError: bad")


def test_a_traceback_that_is_a_field_follows_its_line_too():
    text = Text().format(record(state="pending", traceback="Traceback ...\n  line\nValueError: bad\n"))
    first, *rest = text.splitlines()
    assert first.endswith("delivery completed state=pending")
    assert rest == ["Traceback ...", "  line", "ValueError: bad"]


def test_a_traceback_of_what_was_raised_on_purpose_is_for_programs_only():
    intended = record(error="FatalError: bad", intended=True, traceback="Traceback ...")
    assert Text().format(intended).endswith("delivery completed error=FatalError: bad")
    intended.reason = "bad"
    assert Text().format(intended).endswith("delivery completed error=FatalError reason=bad")
    assert json.loads(JsonLines().format(intended))["traceback"] == "Traceback ..."


HEADER = "Traceback (most recent call last):\n"
OURS = f'  File "{Path(towpath.__file__).parent}/dispatch.py", line 115, in _run\n    decision = handled()\n    ^^^^\n'
LOOP = '  File "/usr/lib/python3.11/asyncio/runners.py", line 118, in run\n    return task\n'
THEIRS = '  File "/srv/towpath/app.py", line 6, in convert\n    int("x")\n'


def below(traceback: str) -> str:
    """What text shows of a traceback."""
    return Text().format(record(traceback=traceback)).partition("\n")[2]


def test_a_handlers_traceback_begins_with_the_handler():
    cause = f"{HEADER}{THEIRS}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert below(f"{cause}{HEADER}{OURS}{OURS}{LOOP}{THEIRS}ValueError: x") == f"{cause}{HEADER}{THEIRS}ValueError: x"


@pytest.mark.parametrize(
    "traceback",
    [
        f"{HEADER}{THEIRS}{OURS}{LOOP}{THEIRS}ValueError: x",
        f"{HEADER}{OURS}{OURS}ValueError: x",
        f"{OURS}{THEIRS}ValueError: x",  # its beginning was cut off
        "ValueError: x",
    ],
)
def test_a_traceback_that_does_not_go_from_towpath_to_a_handler_is_whole(traceback):
    assert below(traceback) == traceback


def test_text_says_nothing_twice_and_nothing_that_is_not_there():
    line = Text().format(record(reason="ValueError: bad", error="ValueError: bad", correlation_id=None))
    assert line.endswith("delivery completed reason=ValueError: bad")
