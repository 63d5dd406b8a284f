"""The pages of what goes wrong elsewhere name tests that exist, and leave no complaint without an answer."""

import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
PAGES = {
    "what-goes-wrong-elsewhere.md": 40,
    "what-goes-wrong-on-aws.md": 30,
}
ROWS = [
    line.strip("|").split(" | ")
    for name in PAGES
    for line in (PROJECT / "docs" / "explanation" / name).read_text().splitlines()
    if re.match(r"\| [^r-]", line)
]
TESTS = re.compile(r"`(test_\w+\.py)::(test_\w+)`")


@pytest.mark.parametrize(("name", "rows"), PAGES.items())
def test_the_page_has_its_rows(name, rows):
    text = (PROJECT / "docs" / "explanation" / name).read_text()
    assert len(re.findall(r"^\| [^r-]", text, re.MULTILINE)) > rows


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:40])
def test_a_complaint_has_a_source_an_answer_and_a_test_that_exists_or_a_sentence(row):
    reported, here, shown = (cell.strip() for cell in row)
    assert re.search(r"\w#\d+|report of|guide to|on SQLite", reported)
    assert here.endswith(".")
    named = TESTS.findall(shown)
    assert named or shown.endswith(".")
    for file, test in named:
        texts = [path.read_text() for path in (PROJECT / "tests").rglob(file)]
        assert any(re.search(rf"^def {test}\(", text, re.MULTILINE) for text in texts), f"{file} has no {test}"
