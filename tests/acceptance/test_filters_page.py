"""Every row of docs/reference/filters.md is tried."""

import json
import re
from pathlib import Path

import pytest

from tests.fakes.sns_on_localstack import DIFFERENCES, REFUSED_BY_LOCALSTACK, TAKEN_BY_LOCALSTACK
from towpath import limits
from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy
from towpath.filters.operands import OPERATORS

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/filters.md").read_text(encoding="utf-8")


def table(*head):
    """The rows of the table with this head, each as its cells."""
    _, _, rest = PAGE.partition(f"| {' | '.join(head)} |\n")
    rows = rest.partition("\n\n")[0].splitlines()[1:]
    assert rows, head
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def spans(cell):
    return [json.loads(code) for code in re.findall(r"`([^`]+)`", cell)]


def value(item):
    return tuple(item) if isinstance(item, list) else item


CONDITIONS = [row for row in table("condition", "meets it", "does not") if row[0].startswith("`")]
POLICIES = table("policy", "passes", "does not")
REFUSED = table("policy", "told")


@pytest.mark.parametrize(("condition", "meeting", "others"), CONDITIONS)
def test_a_condition_of_the_page_is_met_as_it_says(condition, meeting, others):
    policy = FilterPolicy.parse({"k": spans(condition)})
    assert [policy.matches({"k": value(item)}) for item in spans(meeting)] == [True] * len(spans(meeting))
    assert [policy.matches({"k": value(item)}) for item in spans(others)] == [False] * len(spans(others))
    assert spans(meeting) + spans(others) or "missing" in meeting + others
    if "missing" in meeting + others:
        assert policy.matches({"other": "x"}) is ("missing" in meeting)


def test_the_page_has_every_operator():
    written = " ".join(row[0] for row in CONDITIONS)
    assert [operator for operator in OPERATORS if f'{{"{operator}":' not in written] == []


@pytest.mark.parametrize(("policy", "passing", "others"), POLICIES)
def test_a_policy_of_the_page_passes_what_it_says(policy, passing, others):
    (written,) = spans(policy)
    parsed = FilterPolicy.parse(written)
    assert [parsed.matches(attributes) for attributes in spans(passing)] == [True] * len(spans(passing))
    assert [parsed.matches(attributes) for attributes in spans(others)] == [False] * len(spans(others))


@pytest.mark.parametrize(("policy", "told"), REFUSED)
def test_a_mistake_of_the_page_is_told_as_it_says(policy, told):
    (written,) = spans(policy)
    with pytest.raises(InvalidFilter) as caught:
        FilterPolicy.parse(written)
    assert [str(mistake) for mistake in caught.value.mistakes] == [told]


def test_the_bounds_of_the_page_are_those_that_are_kept():
    assert [row[1] for row in table("bound", "at most")] == [
        f"{bound:,.0f}"
        for bound in (
            limits.SNS_FILTER_KEYS,
            limits.SNS_FILTER_COMBINATIONS,
            limits.SNS_FILTER_BYTES,
            limits.SNS_FILTER_NUMBER,
            limits.SNS_FILTER_DECIMALS,
            limits.SNS_FILTER_WILDCARDS,
            limits.SNS_FILTER_WILDCARD_POINTS,
        )
    ]


def test_the_differences_of_the_page_are_those_that_are_tried():
    words = {True: "delivers", False: "does not"}
    assert [[spans(row[0])[0], spans(row[1])[0], *row[2:]] for row in table(*DIFFERENCE_HEAD)] == [
        [*d.example, words[d.towpath_delivers], words[not d.towpath_delivers], d.cause] for d in DIFFERENCES.values()
    ]


DIFFERENCE_HEAD = ("policy", "attributes", "AWS, Towpath", "LocalStack", "cause")


def test_the_policies_that_localstack_refuses_or_takes_are_those_that_are_tried():
    refused, taken = (
        [spans(line)[0] for line in part.splitlines() if line.startswith("| `")] for part in LOCALSTACK_LISTS
    )
    assert refused == list(REFUSED_BY_LOCALSTACK.values())
    assert taken == list(TAKEN_BY_LOCALSTACK.values())


LOCALSTACK_LISTS = PAGE.partition("refuses these policies, which AWS documents:")[2].split("It takes these,")
