"""``docs/reference/errors.md`` tells of every code, reason and exception that the code knows, and of no other."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from local_transport.details import ATTEMPTS_EXCEEDED
from towpath import errors
from towpath.message import RETRYABLE_CODES, PublishCode

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
SCRIPT = runpy.run_path(str(ROOT / "docs/reference/errors_page.py"))
PACKAGES = ("aws_transport", "lambda_runtime", "local_transport", "towpath")
FILES = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py") if path.name != "message.py"]  # the codes
SOURCES = [ast.parse(path.read_text(encoding="utf-8")) for path in FILES]
NODES = [node for source in SOURCES for node in ast.walk(source)]


def rows(heading: str) -> dict[str, list[str]]:
    """The table under ``heading``: the other cells of each row, by its name."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells}


def texts(keyword: str, *calls: str) -> Iterator[str]:
    """Every name that the packages write for ``keyword`` in a call of one of these names."""
    for node in NODES:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in calls:
            for argument in (given for given in node.keywords if given.arg == keyword):
                found = (part.value for part in ast.walk(argument.value) if isinstance(part, ast.Constant))
                yield from (text for text in found if isinstance(text, str) and text[:1].isupper())


# --- Codes of publishing ---------------------------------------------------------------------------------------


def test_every_code_of_publishing_is_told_in_its_order_with_whether_it_can_pass():
    told = {code: cells[0] for code, cells in rows("Codes of publishing").items()}
    assert list(told.items()) == [(code, "yes" if code in RETRYABLE_CODES else "no") for code in get_args(PublishCode)]


@pytest.mark.parametrize("code", get_args(PublishCode))
def test_every_code_of_publishing_is_one_that_a_transport_answers(code):
    assert code in {node.value for node in NODES if isinstance(node, ast.Constant)}


# --- Reasons and last errors -----------------------------------------------------------------------------------


def test_every_reason_that_towpath_gives_is_told():
    unreadable = {kind.__name__ for kind in (errors.InvalidEnvelope, errors.UnsupportedSchema, errors.InvalidPayload)}
    given = set(texts("reason", "DeadLettering", "Discard", "DeadLetterNote")) | {ATTEMPTS_EXCEEDED} | unreadable
    assert set(rows("Reasons of dead letters")) == given


def test_every_type_that_towpath_gives_a_failure_is_told():
    given = set(texts("type", "Failure"))
    told = set(rows("Last errors that no handler raised"))
    written = {node.value for node in NODES if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert given <= told <= written


def test_the_texts_of_the_sources_are_found():
    assert "ReceiveGuard" in set(texts("type", "Failure"))
    assert {"Expired", "MaxReceivesExceeded", "Unknown"} <= set(texts("reason", "Discard", "DeadLetterNote"))


# --- Exceptions ------------------------------------------------------------------------------------------------


def test_every_exception_is_told_with_what_it_is_and_what_to_do():
    known = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == "towpath.errors"
    }
    told = rows("Exceptions")
    assert list(told) == list(known)
    for name, (parent, meaning, what_to_do) in told.items():
        assert parent == f"`{known[name].__bases__[0].__name__}`"
        assert meaning.endswith(".")
        assert what_to_do.endswith(".")


def test_an_exception_that_does_not_say_what_to_do_is_no_part_of_the_page():
    class Silent(Exception):
        """Something is wrong."""

    with pytest.raises(ValueError, match="the docstring of Silent has no paragraph that begins 'What to do: '"):
        SCRIPT["_exception_row"](Silent)


# --- The page --------------------------------------------------------------------------------------------------


def test_no_row_is_empty_or_broken_by_its_text():
    for line in (line for line in PAGE.splitlines() if line.startswith("| `")):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        assert len(cells) in (3, 4), line
        assert all(cells), line
        assert line.count("`") % 2 == 0, line
