"""How mistakes are told: everything at once, the nearest name, the table where a key belongs, values short."""

import json
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import InvalidTopology
from towpath.records import key_path
from towpath.topology import load_topology, parse_topology
from towpath.topology.findings import shown

TWENTY = """\
name = "The Shop"
region = "eu-west-1"

[topics.orders]
transport = "Database"
retention_day = 7
max_payload_bytes = 1_000_000
status = "paused"

[topics."orders.new"]
fifo = false
fair = "yes"
handler = "shop.orders:ship"

[topics.Imports]

[subscriptions."orders.bill"]
topic = "orders_new"
handler = "shop/orders.py:bill"
partition_mode = "Exclusive"
timeout_seconds = 60
max_attempts = 0
backoff = { base_seconds = -1, maximum_seconds = 900 }

[subscriptions."orders.ship"]
handler = "shop.orders:ship"
filter = { kind = "pdf", size = [
  { numeric = [">", "10"] },
] }
lambda = { memory = 512, timeout_seconds = 1, lease_seconds = 30 }

[subscriptions.orders.index]
topic = "orders"
handler = "shop.orders:index"

[subscriptions.mail]
topic = "orders.new"
host = "external"
handler = "shop.mail:send"
dead_letter_retention_days = 30
"""

FOUND = [
    (1, "name", 'must be 1 to 20 of a-z, 0-9 and -, not "The Shop"'),
    (2, "region", "is not a known key; known here are name, subscriptions, topics"),
    (5, "topics.orders.transport", 'must be "aws" or "database", not "Database"; did you mean "database"?'),
    (6, "topics.orders.retention_day", "is not a known key; did you mean 'retention_days'?"),
    (7, "topics.orders.max_payload_bytes", "must be a whole number from 512 to 261,120, not 1000000"),
    (8, "topics.orders.status", 'must be "active" or "disabled", not "paused"'),
    (12, 'topics."orders.new".fair', 'must be true or false, not "yes"'),
    (13, 'topics."orders.new".handler', "is no key of a topic, but of a subscription"),
    (
        15,
        "topics.Imports",
        "must be named in words of a-z and 0-9 joined by single '.', '-' or '_', at most 200 characters",
    ),
    (
        18,
        'subscriptions."orders.bill".topic',
        'names a topic that is not in this file, "orders_new"; did you mean "orders.new"?',
    ),
    (
        19,
        'subscriptions."orders.bill".handler',
        'must have the form "package.module:function", not "shop/orders.py:bill"; did you mean "shop.orders:bill"?',
    ),
    (
        20,
        'subscriptions."orders.bill".partition_mode',
        'must be "none", "exclusive" or "ordered", not "Exclusive"; did you mean "exclusive"?',
    ),
    (
        21,
        'subscriptions."orders.bill".timeout_seconds',
        "is no key of a subscription, but of the lambda table; write: lambda = { timeout_seconds = ... }",
    ),
    (22, 'subscriptions."orders.bill".max_attempts', "must be a whole number from 1 to 995, not 0"),
    (23, 'subscriptions."orders.bill".backoff.base_seconds', "must be a number from 0 to 43,200, not -1"),
    (
        23,
        'subscriptions."orders.bill".backoff.maximum_seconds',
        "is not a known key; did you mean 'max_seconds'?",
    ),
    (25, 'subscriptions."orders.ship".topic', 'is missing; write for instance: topic = "orders"'),
    (27, 'subscriptions."orders.ship".filter.kind', None),
    (28, 'subscriptions."orders.ship".filter.size[0].numeric[1]', None),
    (30, 'subscriptions."orders.ship".lambda.lease_seconds', "is no key of the lambda table, but of a subscription"),
    (30, 'subscriptions."orders.ship".lambda.memory', "is not a known key; did you mean 'memory_mb'?"),
    (30, 'subscriptions."orders.ship".lambda.timeout_seconds', "must be a whole number from 2 to 900, not 1"),
    (
        32,
        "subscriptions.orders.index",
        'is not a known table; a name with dots is written in quotes: [subscriptions."orders.index"]',
    ),
    (39, "subscriptions.mail.handler", 'has no place with host "external", whose consumer is not ours; leave it out'),
    (40, "subscriptions.mail.dead_letter_retention_days", "must be from 1 to 14 on aws, not 30"),
]


def test_more_than_twenty_mistakes_of_every_kind_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "topology.toml"
    file.write_text(TWENTY, encoding="utf-8")
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    found = [(m.line, m.path, m.problem) for m in caught.value.mistakes]
    wanted = [(line, path, problem or told) for (line, path, problem), (_, _, told) in zip(FOUND, found, strict=False)]
    assert found == wanted
    assert str(caught.value).startswith(f"{file} has 25 mistakes:\n  line 1: name: must be ")


def test_the_same_mistakes_in_json_are_told_alike(tmp_path: Path) -> None:
    file = tmp_path / "topology.json"
    file.write_text(json.dumps(tomllib.loads(TWENTY), indent=2), encoding="utf-8")
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    assert sorted(mistake.path for mistake in caught.value.mistakes) == sorted(path for _, path, _ in FOUND)
    assert all(mistake.line is not None for mistake in caught.value.mistakes)


# --- Names -------------------------------------------------------------------------------------------------------


def problem(topic: object = None, subscription: Any = None, **root: object) -> str:
    """What is told of the one mistake in it."""
    written = {
        "name": "shop",
        "topics": {"orders": topic if topic is not None else {}},
        "subscriptions": {"bill": {"topic": "orders", "handler": "shop:bill", **(subscription or {})}},
        **root,
    }
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    (mistake,) = caught.value.mistakes
    return mistake.problem


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("lease_second", "lease_seconds"),
        ("leaseSeconds", "lease_seconds"),
        ("LEASE-SECONDS", "lease_seconds"),
        ("max_attemps", "max_attempts"),
        ("partition-mode", "partition_mode"),
        ("filters", "filter"),
        ("topics", "topic"),
        ("lamda", "lambda"),
    ],
)
def test_a_misspelt_key_is_told_the_nearest_one(key: str, meant: str) -> None:
    assert problem(subscription={key: 1}) == f"is not a known key; did you mean {meant!r}?"


@pytest.mark.parametrize(("key", "meant"), [("topic", "topics"), ("Subscriptions", "subscriptions"), ("nam", "name")])
def test_a_misspelt_table_is_told_the_nearest_one(key: str, meant: str) -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology({"name": "shop", key: {}})
    (mistake,) = caught.value.mistakes
    assert mistake.problem == f"is not a known key; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("place", "key", "told"),
    [
        ("topic", "max_attempts", "is no key of a topic, but of a subscription"),
        ("topic", "name", "is no key of a topic, but of the file"),
        ("topic", "memory_mb", "is no key of a topic, but of the lambda table"),
        ("subscription", "retention_days", "is no key of a subscription, but of a topic"),
        (
            "subscription",
            "batch_size",
            "is no key of a subscription, but of the lambda table; write: lambda = { batch_size = ... }",
        ),
        (
            "subscription",
            "max_seconds",
            "is no key of a subscription, but of the backoff table; write: backoff = { max_seconds = ... }",
        ),
        ("lambda", "status", "is no key of the lambda table, but of a topic and of a subscription"),
        ("backoff", "max_attempts", "is no key of the backoff table, but of a subscription"),
        ("file", "transport", "is no key of the file, but of a topic"),
    ],
)
def test_a_key_in_the_wrong_table_is_told_where_it_belongs(place: str, key: str, told: str) -> None:
    match place:
        case "topic":
            assert problem({key: 1}) == told
        case "file":
            assert problem(**{key: 1}) == told
        case "subscription":
            assert problem(subscription={key: 1}) == told
        case _:
            assert problem(subscription={place: {key: 1}}) == told


def test_a_table_in_the_place_of_a_key_is_told_how_a_name_with_dots_is_written() -> None:
    assert problem({"new": {}}).endswith('a name with dots is written in quotes: [topics."orders.new"]')


# --- What no key can hold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 1 << 20_000], ids=["above", "below", "far above"])
def test_whole_numbers_have_64_bits(value: int) -> None:
    assert problem(subscription={"max_attempts": value}) == "is a whole number of more than 64 bits"


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_whole_numbers_of_64_bits_are_told_as_any_other(value: int) -> None:
    assert problem(subscription={"max_attempts": value}) == f"must be a whole number from 1 to 995, not {value}"


def test_text_has_no_half_of_a_surrogate_pair() -> None:
    told = "has half of a surrogate pair"
    assert problem({"transport": "a\ud800"}) == f"is no text: 'a\\ud800' {told}"
    assert problem({"transport": "\udfff"}) == f"is no text: '\\udfff' {told}"
    assert "surrogate" not in problem({"transport": "\ud7ff\ue000"})
    assert problem(subscription={"filter": {"kind": ["pdf", "\udc00"]}}) == f"is no text: '\\udc00' {told}"


def test_keys_are_text() -> None:
    assert problem({"\udc00": 1}) == "has the key '\\udc00', which is no text"
    assert problem({3: 1}) == "has the key 3, which is no text"


def test_a_list_within_a_filter_has_the_place_of_its_item_told() -> None:
    written = {"name": "shop", "topics": {"t": {}}, "subscriptions": {"s": {"topic": "t", "handler": "a:b"}}}
    written["subscriptions"]["s"]["filter"] = {"a b": ["x", {"prefix": 2**70}]}
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    assert [mistake.path for mistake in caught.value.mistakes] == ['subscriptions.s.filter."a b"[1].prefix']


def nested(levels: int, inmost: Any = None, around: Any = lambda value: [value]) -> Any:
    value: Any = around(inmost)
    for _ in range(levels - 1):
        value = around(value)
    return value


@pytest.mark.parametrize(
    "around",
    [lambda value: [value], lambda value: (value,), lambda value: {"k": value}],
    ids=["list", "tuple", "table"],
)
def test_tables_and_lists_are_at_most_twenty_deep(around: Any) -> None:
    shown = "a table" if isinstance(around(1), dict) else "a list"
    assert problem({"fair": nested(17, 1, around)}) == f"must be true or false, not {shown}"
    told = "is deeper than 20 tables and lists in each other"
    assert problem({"fair": nested(18, 1, around)}) == told
    assert problem({"fair": nested(200, 1, around)}) == told


def test_what_a_tuple_holds_is_looked_at_as_in_a_list() -> None:
    assert "surrogate" in problem(subscription={"filter": {"kind": ("pdf", "\udc00")}})


def test_what_no_key_can_hold_hides_no_other_mistake() -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology({3: 1, "name": "Shop", "topics": {"t": {"fair": 2**64, "transport": "asw", "status": "off"}}})
    assert [mistake.path for mistake in caught.value.mistakes] == [
        "",
        "name",
        "topics.t.fair",
        "topics.t.status",
        "topics.t.transport",
    ]


def test_one_thing_that_no_key_can_hold_is_one_mistake() -> None:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology({"name": "\ud800", "topics": {"t": {"transport": 2**64}}})
    assert [mistake.path for mistake in caught.value.mistakes] == ["name", "topics.t.transport"]


# --- Values and paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('"\n', '"\\"\\n"'),
        ("ä", '"ä"'),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ({}, "a table"),
        ([], "a list"),
        ((), "a list"),
        (date(2026, 1, 2), "2026-01-02"),
        ("x" * 78, '"' + "x" * 78 + '"'),
        ("x" * 79, '"' + "x" * 75 + '..."'),
    ],
)
def test_a_value_is_shown_as_its_author_would_know_it(value: object, text: str) -> None:
    assert shown(value) == text
    assert len(text) <= 80


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("topics", "orders"), "topics.orders"),
        (("topics", "orders.new", "fair"), 'topics."orders.new".fair'),
        (("topics", 'a"b\n', ""), 'topics."a\\"b\\n".""'),
        (("filter", "kind", 0, "prefix"), "filter.kind[0].prefix"),
    ],
)
def test_a_path_is_told_as_toml_writes_it(path: tuple[str | int, ...], text: str) -> None:
    assert key_path(path) == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [("backof", "backoff"), ("lamda", "lambda"), ("filtr", "filter"), ("Filter", "filter")],
)
def test_a_misspelt_table_of_a_subscription_is_no_name_without_quotes(written: str, meant: str) -> None:
    document = {
        "name": "shop",
        "topics": {"orders": {}},
        "subscriptions": {"ship": {"topic": "orders", "handler": "a:b", written: {"x": 1}, "max_attempts": 0}},
    }
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(document)
    assert {mistake.path: mistake.problem for mistake in caught.value.mistakes} == {
        f"subscriptions.ship.{written}": f"is not a known key; did you mean {meant!r}?",
        "subscriptions.ship.max_attempts": "must be a whole number from 1 to 995, not 0",
    }


def test_a_misspelt_table_of_all_subscriptions_hides_no_mistake_of_others() -> None:
    document = {
        "name": "shop",
        "topics": {"orders": {}},
        "subscription": {"bill": {}},
        "subscriptions": {"ship": {"topic": "orders", "handler": "a:b", "filter": {"kind": []}}},
    }
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(document)
    assert [mistake.path for mistake in caught.value.mistakes] == ["subscription", "subscriptions.ship.filter.kind"]
