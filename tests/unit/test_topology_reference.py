"""``docs/reference/topology.md`` says what the code does: every key, default and bound."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from towpath.topology import BackOffTable, LambdaTable, Subscription, Topic, Topology

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "topology.md").read_text(encoding="utf-8")

TABLES: dict[str, type[BaseModel]] = {
    "The file": Topology,
    '`[topics."NAME"]`': Topic,
    '`[subscriptions."NAME"]`': Subscription,
    "`backoff`": BackOffTable,
    "`lambda`": LambdaTable,
}


def rows(heading: str) -> dict[str, tuple[str, str]]:
    """The table under ``heading``: what each key's row says is its default and what is allowed."""
    section = re.split(rf"^#+ {re.escape(heading)}$", PAGE, flags=re.MULTILINE)[1].split("\n#")[0]
    return {
        key: (default, allowed)
        for key, default, allowed in re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", section, re.MULTILINE)
    }


def properties(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = model.model_json_schema()["properties"]
    return found


@pytest.mark.parametrize(("heading", "model"), TABLES.items())
def test_the_page_has_every_key_in_the_order_of_the_code(heading: str, model: type[BaseModel]) -> None:
    assert list(rows(heading)) == list(properties(model))


@pytest.mark.parametrize(("heading", "model"), TABLES.items())
def test_the_page_has_every_default(heading: str, model: type[BaseModel]) -> None:
    required = model.model_json_schema().get("required", [])
    for key, schema in properties(model).items():
        default = schema.get("default")
        expected = {
            "str": [f"`{default}`"],
            "bool": [str(default).lower()],
            "int": [f"{default:,}" if isinstance(default, int) else ""],
            "dict": ["see below"],
            "NoneType": ["required"] if key in required else ["none", "derived"],
        }[type(default).__name__]
        assert rows(heading)[key][0] in expected, key


@pytest.mark.parametrize(("heading", "model"), TABLES.items())
def test_the_page_has_every_bound_and_every_value(heading: str, model: type[BaseModel]) -> None:
    for key, schema in properties(model).items():
        allowed = rows(heading)[key][1]
        for form in schema.get("anyOf", [schema]):
            if "maximum" in form:
                assert allowed.startswith(f"{form['minimum']:,} to {form['maximum']:,}"), key
            if "exclusiveMinimum" in form:
                assert allowed.startswith(f"above {form['exclusiveMinimum']}"), key
            if "enum" in form:
                assert re.findall(r"`([\w.]+)`", allowed)[: len(form["enum"])] == form["enum"] or key == "host", key
                assert all(f"`{value}`" in allowed for value in form["enum"]), key
            if form.get("type") == "boolean":
                assert allowed.startswith("true, false"), key
