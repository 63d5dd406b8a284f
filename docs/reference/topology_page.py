"""Writes ``topology.md`` from the models, the rules and an example of each rule; ``generate.py`` runs it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from towpath.topology import topology_schema
from towpath.topology.findings import mistakes_of, no_lines
from towpath.topology.rules import RULES, WARNINGS, Rule
from towpath.topology.shape import read_shape

WIDTH = 120
DERIVED = ("batch_size", "concurrency", "deduplication", "fifo", "host")  # their defaults depend on other keys

HEAD = """\
# Topology

A team describes its topics and subscriptions once, in `topology.toml`. `towpath manifest render` turns that into the
[manifest](manifest.md), with every default and every derived value written out; everything else reads the manifest.
This page has every key, default, bound and rule.

```toml
name = "documents"

[topics."documents.process"]
deduplication = true

[subscriptions."documents.convert"]
topic = "documents.process"
handler = "app.documents:process"
partition_mode = "exclusive"
filter = { kind = ["pdf", "docx"] }
max_attempts = 5
backoff = { base_seconds = 10, max_seconds = 900 }
lambda = { timeout_seconds = 60, memory_mb = 512, maximum_concurrency = 50 }
```

A file whose name ends in `.json` holds the same keys as JSON. Both are UTF-8 text.

`towpath topology check` reports every mistake at once: its line, the path of its key, what is allowed there, and the
nearest valid name for a typo; then it exits 2. An unknown key is a mistake, and a key in the wrong table is told where
it belongs. A value is never turned into another type: `"5"` is no number, `1` is not `true`. One slip is one mistake:
what merely follows from another mistake is not reported. What is allowed and probably not wanted is a warning: it is
shown, and the exit is 0. `--json` gives both to programs.

`check` also refuses what could be rendered for no environment, such as two names that become the same name on AWS; what
fails in some environments only is a warning, and `--environment prod` looks at one.

[`topology.schema.json`](topology.schema.json) is the JSON Schema, for editors (`towpath topology schema` prints it). In
a TOML file, editors that use Taplo find it by a first line such as `#:schema topology.schema.json`. It knows the keys
one by one and a few of the rules below; all of them only `check` knows.
"""

TABLES: Mapping[str, str] = {
    "The file": "",
    '`[topics."NAME"]`': "Topic",
    '`[subscriptions."NAME"]`': "Subscription",
    "`backoff`": "BackOffTable",
    "`lambda`": "LambdaTable",
}


def topology_page() -> str:
    """The whole page."""
    schema = topology_schema()
    lines = [HEAD]
    for heading, table in TABLES.items():
        level = "###" if table.endswith("Table") else "##"
        lines += [f"{level} {heading}", "", *_key_table(schema["$defs"][table] if table else schema), ""]
    lines += ["## Rules", "", "What keys mean together. Under each rule, the mistake that an example of it makes.", ""]
    lines += [line for rule in RULES for line in _rule(rule)]
    lines += ["", "## Warnings", "", "What is allowed and probably not wanted.", ""]
    lines += [line for rule in WARNINGS for line in _rule(rule)]
    return "\n".join(lines) + "\n"


def _key_table(table: Mapping[str, Any]) -> Iterator[str]:
    yield "| key | default | allowed | meaning |"
    yield "|---|---|---|---|"
    for key, schema in table["properties"].items():
        default = "required" if key in table.get("required", ()) else _default(key, schema)
        yield f"| `{key}` | {default} | {_allowed(schema)} | {schema['description']} |"


def _default(key: str, schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    if isinstance(default, dict):
        return "see below"
    if default is None:
        return "derived" if key in DERIVED else "none"
    if isinstance(default, bool):
        return str(default).lower()
    return f"`{default}`" if isinstance(default, str) else f"{default:,}"


def _allowed(schema: Mapping[str, Any]) -> str:
    form = next((form for form in schema.get("anyOf", ()) if form["type"] != "null"), schema)
    if "enum" in form:
        return ", ".join(f"`{value}`" for value in form["enum"])
    if "minimum" in form:
        fractions = ", fractions too" if form["type"] == "number" else ""
        return f"{form['minimum']:,} to {form['maximum']:,}{fractions}"
    if "exclusiveMinimum" in form:
        return f"above {form['exclusiveMinimum']:,}, to {form['maximum']:,}, fractions too"
    return {"boolean": "true, false", "string": "text", "object": "a table", None: "a table"}[form.get("type")]


def _rule(rule: Rule) -> Iterator[str]:
    sentence = " ".join((rule.__doc__ or "").split())
    yield from textwrap.wrap(sentence, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False)
    yield f"  `{example_message(rule)}`"


def example_message(rule: Rule) -> str:
    """What is said of the rule's example."""
    topology, _ = read_shape(EXAMPLES[rule.__name__])
    return str(mistakes_of(rule(topology), no_lines)[0])


# --- One example of each rule: it breaks that rule and no other -------------------------------------------------


def example(
    topic: Mapping[str, Any] | None = None, subscription: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """A topology without mistakes and warnings, with these keys put over those of its topic and its subscription."""
    written = {"topic": "orders", "handler": "shop.orders:ship", **(subscription or {})}
    subscriptions = {"ship": {key: value for key, value in written.items() if value is not None}}
    return {"name": "shop", "topics": {"orders": dict(topic or {})}, "subscriptions": subscriptions, **more}


def many(count: int, **keys: Any) -> dict[str, Any]:
    """So many subscriptions with these keys."""
    return {f"s{n}": {"topic": "orders", "handler": "shop.orders:ship", **keys} for n in range(count)}


EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    # mistakes
    "topic_exists": example(subscription={"topic": "order"}),
    "ordered_needs_a_database": example(subscription={"partition_mode": "ordered"}),
    "exclusive_needs_fifo": example({"fifo": False}, {"partition_mode": "exclusive"}),
    "fair_needs_a_standard_topic": example({"fair": True}, {"partition_mode": "exclusive"}),
    "sns_settings_need_aws": example({"transport": "database", "fifo": True}),
    "retention_fits_sqs": example({"retention_days": 30}),
    "dead_letter_retention_fits_sqs": example(subscription={"dead_letter_retention_days": 30}),
    "subscriptions_fit_a_fifo_topic": example({"fifo": True}, subscriptions=many(101)),
    "filter_policies_fit_sns": example(subscriptions=many(201, filter={"kind": ["pdf"]})),
    "host_fits_the_transport": example({"transport": "database"}, {"host": "lambda"}),
    "external_is_never_paused": example(subscription={"host": "external", "handler": None, "status": "paused"}),
    "handler_is_there_unless_external": example(subscription={"host": "external"}),
    "handler_is_an_import_path": example(subscription={"handler": "shop/orders.py:ship"}),
    "filter_is_a_policy": example(subscription={"filter": {"kind": [{"prefx": "pdf"}]}}),
    "batches_fit_the_queue": example(subscription={"lambda": {"batch_size": 100}}),
    "processing_ends_before_the_function": example(subscription={"max_processing_seconds": 90}),
    "processing_ends_before_sqs_takes_back": example(subscription={"host": "worker", "max_processing_seconds": 86_400}),
    "topology_name_can_begin_resource_names": example(name="The Shop"),
    "topics_and_subscriptions_are_named_in_words": example(
        topics={"Orders": {}}, subscriptions={"ship": {"topic": "Orders", "handler": "shop.orders:ship"}}
    ),
    # warnings
    "topology_should_have_topics": {"name": "shop"},
    "topics_should_reach_somebody": example(subscription={"status": "disabled"}),
    "disabled_topics_should_have_no_readers": example({"status": "disabled"}),
    "paused_on_aws_loses_what_waits_too_long": example(subscription={"status": "paused"}),
    "handlers_should_be_in_modules": example(subscription={"handler": "shop.py:ship"}),
    "dead_letters_should_outlive_messages": example({"retention_days": 7}, {"dead_letter_retention_days": 7}),
    "retries_should_end_before_retention": example(
        {"retention_days": 1}, {"max_attempts": 12, "backoff": {"max_seconds": 43_200, "base_seconds": 60}}
    ),
    "backoff_should_grow": example(subscription={"backoff": {"base_seconds": 1_800}}),
    "fifo_batches_burn_receives": example(subscription={"partition_mode": "exclusive", "lambda": {"batch_size": 5}}),
    "threads_should_have_messages": example(subscription={"lambda": {"batch_size": 5, "concurrency": 10}}),
    "batches_should_end_before_the_function": example(
        subscription={"max_processing_seconds": 30, "lambda": {"concurrency": 1}}
    ),
    "keys_should_mean_something": example(subscription={"host": "worker", "lambda": {"memory_mb": 1_024}}),
}
