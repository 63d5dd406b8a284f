"""``docs/reference/topology.md`` says what the code does: every key, default and bound, and every rule."""

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import InvalidTopology, Mistake
from towpath.topology import BackOffTable, LambdaTable, Subscription, Topic, Topology, parse_topology, warnings_of
from towpath.topology.rules import RULES, WARNINGS, Rule

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PAGE = (REFERENCE / "topology.md").read_text(encoding="utf-8")
GENERATOR = runpy.run_path(str(REFERENCE / "topology_page.py"))
EXAMPLES: Mapping[str, Mapping[str, Any]] = GENERATOR["EXAMPLES"]
told: Callable[[Rule], str] = GENERATOR["example_message"]

by_name = pytest.mark.parametrize("rule", [*RULES, *WARNINGS], ids=lambda rule: rule.__name__)


@pytest.mark.parametrize("model", [Topology, Topic, Subscription, BackOffTable, LambdaTable])
def test_the_page_has_every_key_with_its_meaning(model: type[Topology]) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    for name, field in model.model_fields.items():
        key, meaning = field.alias or name, " ".join((field.description or "").replace("``", "`").split())
        assert meaning
        assert any(row.startswith(f"| `{key}` |") and row.endswith(f"| {meaning} |") for row in rows), name


@pytest.mark.parametrize(
    "row",
    [
        "| `name` | required | text |",
        "| `transport` | `aws` | `aws`, `database` |",
        "| `retention_days` | 7 | 1 to 3,650 |",
        "| `fifo` | derived | true, false |",
        "| `fair` | false | true, false |",
        "| `filter` | none | a table |",
        "| `backoff` | see below | a table |",
        "| `base_seconds` | 10 | 0 to 43,200, fractions too |",
        "| `max_processing_seconds` | none | above 0, to 2,592,000, fractions too |",
        "| `batch_size` | derived | 1 to 10,000 |",
    ],
)
def test_a_row_has_default_and_bounds(row: str) -> None:
    assert sum(line.startswith(row) for line in PAGE.splitlines()) == 1


def test_what_is_derived_says_by_default_what_it_is() -> None:
    for key in GENERATOR["DERIVED"]:
        assert any(f"| `{key}` |" in line and "By default" in line for line in PAGE.splitlines()), key


@by_name
def test_every_rule_is_on_the_page_with_the_message_of_its_example(rule: Rule) -> None:
    sentence = " ".join((rule.__doc__ or "").split())
    assert f"- {sentence} `{told(rule)}`" in " ".join(PAGE.split())


@by_name
def test_every_rule_is_a_sentence_for_people(rule: Rule) -> None:
    assert (rule.__doc__ or "").strip().endswith(".")


def test_there_is_an_example_of_each_rule_and_of_nothing_else() -> None:
    assert set(EXAMPLES) == {rule.__name__ for rule in (*RULES, *WARNINGS)}


def found_in(document: Mapping[str, Any]) -> tuple[list[Mistake], list[Mistake]]:
    """The mistakes of a document, and without any its warnings."""
    try:
        return [], warnings_of(parse_topology(document))
    except InvalidTopology as error:
        return list(error.mistakes), []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_example_of_a_rule_breaks_that_rule_alone(rule: Rule) -> None:
    mistakes, _ = found_in(EXAMPLES[rule.__name__])
    assert [str(mistake) for mistake in mistakes] == [told(rule)]


@pytest.mark.parametrize("rule", WARNINGS, ids=lambda rule: rule.__name__)
def test_the_example_of_a_warning_is_accepted_and_warned_of_that_alone(rule: Rule) -> None:
    mistakes, warnings = found_in(EXAMPLES[rule.__name__])
    assert (mistakes, [str(warning) for warning in warnings]) == ([], [told(rule)])


def test_the_example_that_all_others_change_has_neither_mistakes_nor_warnings() -> None:
    assert found_in(GENERATOR["example"]()) == ([], [])


@by_name
def test_each_rule_has_a_test_that_is_named_after_it(rule: Rule) -> None:
    tests = (Path(__file__).parent / "test_topology_rules.py").read_text(encoding="utf-8")
    tests += (Path(__file__).parent / "test_topology_warnings.py").read_text(encoding="utf-8")
    assert f"\ndef test_{rule.__name__}" in tests
