"""There is a runbook for each alarm of a manifest and each finding of a check-up, and the index leads to all."""

import ast
import re
from pathlib import Path

import pytest

from towpath.resolve import resolve
from towpath.topology import parse_topology

PROJECT = Path(__file__).resolve().parents[2]
RUNBOOKS = PROJECT / "docs/runbooks"
INDEX = (RUNBOOKS / "README.md").read_text()
ROW = re.compile(r"^\| `([a-z-]+)` \| \[[^\]]*\]\(([a-z-]+\.md)(?:#[^)]*)?\) \|$", re.MULTILINE)
PAGES = sorted(page for page in RUNBOOKS.glob("*.md") if page.name != "README.md")


def section(heading):
    """The pages that the index names under a heading, by code."""
    return dict(ROW.findall(INDEX.partition(f"## {heading}")[2].partition("\n## ")[0]))


def alarms():
    topology = {
        "name": "shop",
        "topics": {"orders.placed": {}},
        "subscriptions": {"orders.ship": {"topic": "orders.placed", "handler": "shop:ship"}},
    }
    return set(resolve(parse_topology(topology), "prod").subscriptions["orders.ship"].aws.alarms)


def findings():
    """Every code that a check-up gives: the argument ``code`` of each ``Finding`` in the source."""
    calls = (
        call
        for file in (PROJECT / "local_transport").rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Finding"
    )
    return {keyword.value.value for call in calls for keyword in call.keywords if keyword.arg == "code"}


@pytest.mark.parametrize(
    ("heading", "codes"), [("An alarm on AWS", alarms()), ("A finding of `towpath db check`", findings())]
)
def test_each_has_a_page_that_speaks_of_it_and_no_other_has(heading, codes):
    found = section(heading)
    assert found.keys() == codes
    assert [code for code, page in found.items() if f"`{code}`" not in (RUNBOOKS / page).read_text()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_runbook_is_in_the_index_and_has_a_part_for_aws_and_one_for_afterwards(page):
    text = page.read_text()
    assert f"]({page.name}" in INDEX
    if page.name != "database-findings.md":  # which has a part for each code
        assert re.findall(r"^## (.*)$", text, re.MULTILINE)[0] == "What you see"
        assert "\n## On AWS\n" in text
        assert "\n## Afterwards\n" in text
