"""Reading a topology: formats, shape, lines, and how mistakes are told."""

import json
from pathlib import Path

import pytest

from towpath.errors import InvalidTopology, Mistake
from towpath.topology import Topology, load_topology, parse_topology, topology_schema

MINIMAL = """\
name = "shop"

[topics.orders]

[subscriptions."orders.bill"]
topic = "orders"
handler = "shop.orders:bill"
"""


EXCLUSIVE = {"partition_mode": "exclusive"}


def write(folder: Path, text: str, name: str = "topology.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def mistakes_in(file: Path) -> tuple[Mistake, ...]:
    with pytest.raises(InvalidTopology) as caught:
        load_topology(file)
    return caught.value.mistakes


def only_mistake(folder: Path, text: str) -> Mistake:
    (mistake,) = mistakes_in(write(folder, text))
    return mistake


@pytest.mark.parametrize(("document", "kind"), [([], "a list"), (None, "a NoneType"), ("name", "'name'")])
def test_a_document_that_is_no_table_is_refused(document, kind):
    with pytest.raises(
        InvalidTopology, match=f"^the topology must be a table with the keys of topology.toml, not {kind}$"
    ):
        parse_topology(document)


# --- Formats ---------------------------------------------------------------------------------------------------


def test_the_smallest_topology_gets_every_default(tmp_path: Path) -> None:
    topology = load_topology(write(tmp_path, MINIMAL))
    topic, subscription = topology.topics["orders"], topology.subscriptions["orders.bill"]
    assert topic.model_dump() == {
        "transport": "aws",
        "max_payload_bytes": 261_120,
        "retention_days": 7,
        "fifo": None,
        "fair": False,
        "deduplication": None,
        "deduplication_ttl_seconds": 86_400,
        "external_publish": False,
        "status": "active",
    }
    assert subscription.model_dump(by_alias=True) == {
        "topic": "orders",
        "handler": "shop.orders:bill",
        "host": None,
        "partition_mode": "none",
        "filter": None,
        "status": "active",
        "max_attempts": 5,
        "backoff": {"base_seconds": 10, "max_seconds": 900},
        "lease_seconds": 60,
        "heartbeat": "auto",
        "max_processing_seconds": None,
        "accept_foreign": True,
        "dead_letter_retention_days": 14,
        "lambda": {
            "timeout_seconds": 60,
            "memory_mb": 512,
            "architecture": "arm64",
            "runtime": "python3.13",
            "maximum_concurrency": None,
            "batch_size": None,
            "batch_window_seconds": 0,
            "concurrency": None,
        },
    }


def test_the_default_host_is_lambda_on_aws_and_worker_on_a_database(tmp_path: Path) -> None:
    on_aws = load_topology(write(tmp_path, MINIMAL))
    on_database = load_topology(
        write(tmp_path, MINIMAL.replace("[topics.orders]", '[topics.orders]\ntransport = "database"'))
    )
    assert on_aws.host_of(on_aws.subscriptions["orders.bill"]) == "lambda"
    assert on_database.host_of(on_database.subscriptions["orders.bill"]) == "worker"


def test_a_subscription_whose_topic_is_not_there_is_taken_to_be_on_aws() -> None:
    """The rules look at it before its mistake is told."""
    topology = Topology.model_validate({"name": "shop", "subscriptions": {"s": {"topic": "t", **EXCLUSIVE}}})
    subscription = topology.subscriptions["s"]
    assert topology.transport_of(subscription) == "aws"
    assert topology.host_of(subscription) == "lambda"
    assert topology.is_fifo("t") is False
    assert topology.has_fifo_queue(subscription) is False


def test_an_exclusive_subscription_has_a_fifo_queue_on_aws_only() -> None:
    on_aws = parse_topology(document(subscription=EXCLUSIVE))
    on_database = parse_topology(document(topic={"transport": "database"}, subscription=EXCLUSIVE))
    assert on_aws.has_fifo_queue(on_aws.subscriptions["orders.bill"]) is True
    assert on_database.has_fifo_queue(on_database.subscriptions["orders.bill"]) is False


def test_an_exclusive_subscription_makes_no_other_topic_fifo() -> None:
    topology = parse_topology(document(subscription=EXCLUSIVE, topics={"orders": {}, "imports": {}}))
    assert (topology.is_fifo("orders"), topology.is_fifo("imports")) == (True, False)


def test_json_with_the_same_keys_gives_the_same_topology(tmp_path: Path) -> None:
    document = {
        "name": "shop",
        "topics": {"orders": {}},
        "subscriptions": {"orders.bill": {"topic": "orders", "handler": "shop.orders:bill", "filter": None}},
    }
    from_json = load_topology(write(tmp_path, json.dumps(document), "topology.json"))
    assert from_json == load_topology(write(tmp_path, MINIMAL)) == parse_topology(document)


def test_a_document_is_told_of_by_the_name_that_it_is_given() -> None:
    with pytest.raises(InvalidTopology, match=r"^the topology has 1 mistake:"):
        parse_topology({"name": "Shop"})
    with pytest.raises(InvalidTopology, match=r"^the answer has 1 mistake:"):
        parse_topology({"name": "Shop"}, "the answer")


def test_a_topology_cannot_be_changed(tmp_path: Path) -> None:
    topology = load_topology(write(tmp_path, MINIMAL))
    with pytest.raises(ValueError, match="frozen"):
        topology.name = "other"


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    assert load_topology(write(tmp_path, "\ufeff" + MINIMAL)).name == "shop"


def test_a_missing_file_is_one_sentence_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidTopology) as caught:
        load_topology(tmp_path / "none.toml")
    assert str(caught.value).startswith(f"{tmp_path / 'none.toml'} does not exist; ")
    assert "\n" not in str(caught.value)


def test_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"name = \xff")
    assert "cannot be read" in mistakes_in(tmp_path)[0].problem
    assert "is not UTF-8 text" in mistakes_in(tmp_path / "bytes.toml")[0].problem


def test_a_toml_syntax_error_has_its_line(tmp_path: Path) -> None:
    file = write(tmp_path, 'name = "shop"\n\n[topics.orders]\nfair yes\n')
    (mistake,) = mistakes_in(file)
    assert (mistake.line, mistake.path) == (4, "")
    with pytest.raises(InvalidTopology, match=r"topology.toml, line 4, is not valid TOML: [^(]+$"):
        load_topology(file)


def test_toml_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    assert "at the end of the file" in only_mistake(tmp_path, 'name = "shop').problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name": }', "is not valid JSON"),
        ('{"name": "a", "name": "b"}', "is written 2 times, in the lines 1 and 1; only one can hold"),
        ("[]", "must be a JSON object"),
        ("[" * 100_000, "is not valid JSON"),
    ],
)
def test_json_that_is_broken_or_ambiguous_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    (mistake,) = mistakes_in(write(tmp_path, text, "topology.json"))
    assert problem in mistake.problem


def test_a_json_syntax_error_has_its_line(tmp_path: Path) -> None:
    (mistake,) = mistakes_in(write(tmp_path, '{"name":\n\n}', "topology.json"))
    assert mistake.line == 3


# --- Shape: each key by itself -----------------------------------------------------------------------------------


def document(*, topic: object = None, subscription: object = None, **root: object) -> dict[str, object]:
    """A valid topology, with these keys put over those of its one topic and its one subscription."""
    return {
        "name": "shop",
        "topics": {"orders": topic if topic is not None else {}},
        "subscriptions": {
            "orders.bill": subscription
            if subscription is not None and not isinstance(subscription, dict)
            else {"topic": "orders", "handler": "shop.orders:bill", **(subscription or {})}
        },
        **root,
    }


def told(document: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(document)
    return [str(mistake) for mistake in caught.value.mistakes]


TOPIC, SUBSCRIPTION = "topics.orders", 'subscriptions."orders.bill"'


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("max_payload_bytes", 512, 261_120),
        ("deduplication_ttl_seconds", 60, 2_592_000),
    ],
)
def test_topic_numbers_are_bounded(key: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(parse_topology(document(topic={key: value})).topics["orders"], key) == value
    for value in (lowest - 1, highest + 1):
        problem = f"must be a whole number from {lowest:,} to {highest:,}, not {value}"
        assert told(document(topic={key: value})) == [f"{TOPIC}.{key}: {problem}"]


@pytest.mark.parametrize(("key", "lowest", "highest"), [("max_attempts", 1, 995), ("lease_seconds", 5, 43_200)])
def test_subscription_numbers_are_bounded(key: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        assert getattr(parse_topology(document(subscription={key: value})).subscriptions["orders.bill"], key) == value
    for value in (lowest - 1, highest + 1):
        problem = f"must be a whole number from {lowest:,} to {highest:,}, not {value}"
        assert told(document(subscription={key: value})) == [f"{SUBSCRIPTION}.{key}: {problem}"]


@pytest.mark.parametrize(
    ("key", "lowest", "highest"),
    [
        ("timeout_seconds", 2, 900),
        ("memory_mb", 128, 10_240),
        ("maximum_concurrency", 2, 1_000),
        ("batch_window_seconds", 0, 300),
        ("concurrency", 1, 1_000),
    ],
)
def test_lambda_numbers_are_bounded(key: str, lowest: int, highest: int) -> None:
    for value in (lowest, highest):
        topology = parse_topology(document(subscription={"lambda": {key: value}}))
        assert getattr(topology.subscriptions["orders.bill"].function, key) == value
    for value in (lowest - 1, highest + 1):
        problem = f"must be a whole number from {lowest:,} to {highest:,}, not {value}"
        assert told(document(subscription={"lambda": {key: value}})) == [f"{SUBSCRIPTION}.lambda.{key}: {problem}"]


@pytest.mark.parametrize("key", ["base_seconds", "max_seconds"])
def test_back_off_seconds_are_bounded_and_may_have_fractions(key: str) -> None:
    for value in (0, 0.5, 43_200):
        topology = parse_topology(document(subscription={"backoff": {key: value}}))
        assert getattr(topology.subscriptions["orders.bill"].backoff, key) == value
    for value in (-0.5, 43_200.5):
        problem = f"must be a number from 0 to 43,200, not {value}"
        assert told(document(subscription={"backoff": {key: value}})) == [f"{SUBSCRIPTION}.backoff.{key}: {problem}"]


@pytest.mark.parametrize("key", ["base_seconds", "max_seconds"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), True, "10"])
def test_back_off_seconds_are_finite_numbers(key: str, value: object) -> None:
    (mistake,) = told(document(subscription={"backoff": {key: value}}))
    assert mistake.startswith(f"{SUBSCRIPTION}.backoff.{key}: must be a number from 0 to 43,200, not ")


@pytest.mark.parametrize("value", [0, -1, 2_592_000.5, float("nan"), float("inf"), True, "60"])
def test_max_processing_seconds_is_a_number_above_zero_and_within_thirty_days(value: object) -> None:
    (mistake,) = told(document(subscription={"max_processing_seconds": value}))
    problem = "must be a number above 0, at most 2,592,000, not "
    assert mistake.startswith(f"{SUBSCRIPTION}.max_processing_seconds: {problem}")


def test_a_worker_on_a_database_may_process_for_thirty_days() -> None:
    topology = parse_topology(
        document(topic={"transport": "database"}, subscription={"max_processing_seconds": 2_592_000})
    )
    assert topology.subscriptions["orders.bill"].max_processing_seconds == 2_592_000


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("host", "lambada", '"lambda", "worker" or "external", not "lambada"; did you mean "lambda"?'),
        ("partition_mode", "exclusiv", '"none", "exclusive" or "ordered", not "exclusiv"; did you mean "exclusive"?'),
        ("status", "off", '"active", "paused" or "disabled", not "off"'),
        ("heartbeat", True, '"auto" or "manual", not true'),
        ("accept_foreign", "yes", 'true or false, not "yes"'),
        ("accept_foreign", 1, "true or false, not 1"),
        ("max_attempts", 2.0, "a whole number from 1 to 995, not 2.0"),
        ("max_attempts", True, "a whole number from 1 to 995, not true"),
        ("handler", ["a:b"], "text, not a list"),
        ("topic", 3, "text, not 3"),
        ("filter", "pdf", 'a table, not "pdf"'),
        ("backoff", 3, "a table, not 3"),
        ("lambda", [], "a table, not a list"),
    ],
)
def test_a_value_that_a_subscription_key_does_not_allow_is_told_with_what_is(
    key: str, value: object, allowed: str
) -> None:
    assert told(document(subscription={key: value})) == [f"{SUBSCRIPTION}.{key}: must be {allowed}"]


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("transport", "databse", '"aws" or "database", not "databse"; did you mean "database"?'),
        ("status", "paused", '"active" or "disabled", not "paused"'),
        ("fifo", "yes", 'true or false, not "yes"'),
        ("fair", 0, "true or false, not 0"),
        ("deduplication", {}, "true or false, not a table"),
        ("external_publish", "", 'true or false, not ""'),
    ],
)
def test_a_value_that_a_topic_key_does_not_allow_is_told_with_what_is(key: str, value: object, allowed: str) -> None:
    assert told(document(topic={key: value})) == [f"{TOPIC}.{key}: must be {allowed}"]


def test_the_runtime_is_one_of_lambdas_pythons() -> None:
    (mistake,) = told(document(subscription={"lambda": {"runtime": "python3.9"}}))
    assert mistake.startswith(f'{SUBSCRIPTION}.lambda.runtime: must be "python3.11", "python3.12", ')


def test_an_entry_that_is_no_table_is_one_mistake() -> None:
    assert told(document(subscription=7)) == [f"{SUBSCRIPTION}: must be a table, not 7"]
    assert told(document(topic="aws")) == [f'{TOPIC}: must be a table, not "aws"']
    assert told(document(topics=[])) == ["topics: must be a table, not a list"]


def test_a_long_value_is_told_short() -> None:
    (mistake,) = told(document(topic={"status": "x" * 500}))
    assert len(mistake) < 200


def test_an_unknown_key_is_a_mistake_with_the_nearest_known_one() -> None:
    assert told(document(subscription={"lease_second": 60})) == [
        f"{SUBSCRIPTION}.lease_second: is not a known key; did you mean 'lease_seconds'?"
    ]
    assert told(document(subscription={"lambda": {"memory": 512}})) == [
        f"{SUBSCRIPTION}.lambda.memory: is not a known key; did you mean 'memory_mb'?"
    ]


def test_an_unknown_key_without_a_near_one_is_told_with_all_known_ones() -> None:
    assert told(document(zzz=1)) == ["zzz: is not a known key; known here are name, subscriptions, topics"]
    assert told(document(subscription={"backoff": {"zzz": 1}})) == [
        f"{SUBSCRIPTION}.backoff.zzz: is not a known key; known here are base_seconds, max_seconds"
    ]


def test_a_missing_key_is_a_mistake() -> None:
    assert told({"subscriptions": {"orders.bill": {"handler": "shop.orders:bill"}}}) == [
        'name: is missing; write for instance: name = "shop"',
        f'{SUBSCRIPTION}.topic: is missing; write for instance: topic = "orders"',
    ]


# --- One slip is one mistake -------------------------------------------------------------------------------------


def test_a_misspelt_required_key_is_not_also_missing() -> None:
    misspelt = document()
    misspelt["subscriptions"] = {"orders.bill": {"topci": "orders", "handler": "shop.orders:bill"}}
    assert told(misspelt) == [f"{SUBSCRIPTION}.topci: is not a known key; did you mean 'topic'?"]


def test_a_misspelt_table_of_topics_does_not_make_every_topic_unknown() -> None:
    misspelt = document()
    misspelt["topic"] = misspelt.pop("topics")
    assert told(misspelt) == ["topic: is not a known key; did you mean 'topics'?"]


def test_a_name_with_dots_and_without_quotes_is_told_how_to_be_written(tmp_path: Path) -> None:
    text = 'name = "shop"\n[topics.orders]\n[subscriptions.orders.bill]\ntopic = "orders"\nhandler = "a:b"\n'
    mistake = only_mistake(tmp_path, text)
    assert mistake.path == "subscriptions.orders.bill"
    assert mistake.problem.endswith('a name with dots is written in quotes: [subscriptions."orders.bill"]')
    assert mistake.line == 3


def test_a_topic_with_dots_and_without_quotes_does_not_make_its_name_unknown(tmp_path: Path) -> None:
    text = 'name = "shop"\n[topics.a.b]\n[subscriptions.x]\ntopic = "a.b"\nhandler = "a:b"\n'
    assert only_mistake(tmp_path, text).path == "topics.a.b"


def test_a_misspelt_transport_raises_no_doubt_about_what_rests_on_it() -> None:
    doubtful = document(topic={"transport": "databas"}, subscription={"partition_mode": "ordered"})
    assert [mistake.partition(":")[0] for mistake in told(doubtful)] == [f"{TOPIC}.transport"]


@pytest.mark.parametrize(
    ("topic", "subscription", "slip"),
    [
        ({"transport": "databas", "retention_days": 30}, {}, "topics.orders.transport"),
        ({"transport": "databas"}, {"dead_letter_retention_days": 30}, "topics.orders.transport"),
        ({"transport": "databas", "fifo": False}, {"partition_mode": "exclusive"}, "topics.orders.transport"),
        ({"transport": "databas", "fifo": True, "fair": True}, {}, "topics.orders.transport"),
        ({"transport": "databas"}, {"max_processing_seconds": 100}, "topics.orders.transport"),
        ({"transport": "databas"}, {"lambda": {"batch_size": 20}}, "topics.orders.transport"),
        ({"fair": True, "fifo": "yes"}, {}, "topics.orders.fifo"),
        ({}, {"host": "externl", "handler": None}, f"{SUBSCRIPTION}.host"),
        ({}, {"host": "workr", "max_processing_seconds": 100}, f"{SUBSCRIPTION}.host"),
        (
            {},
            {"max_processing_seconds": 100, "lambda": {"timeout_seconds": 901}},
            f"{SUBSCRIPTION}.lambda.timeout_seconds",
        ),
        ({}, {"lambda": {"batch_size": 20, "batch_window": 3}}, f"{SUBSCRIPTION}.lambda.batch_window"),
        ({}, {"partition_mode": "exclusiv", "lambda": {"batch_size": 20}}, f"{SUBSCRIPTION}.partition_mode"),
    ],
)
def test_what_rests_on_a_mistaken_key_is_not_told(topic: object, subscription: object, slip: str) -> None:
    assert [mistake.split(": ")[0] for mistake in told(document(topic=topic, subscription=subscription))] == [slip]


def test_five_mistakes_are_five_whatever_their_kind(tmp_path: Path) -> None:
    text = """\
name = "Shop"

[topics.orders]
transport = "asw"

[subscriptions."orders.bill"]
topic = "order"
handler = "shop.orders.bill"
lease_second = 60
"""
    with pytest.raises(InvalidTopology) as caught:
        load_topology(write(tmp_path, text))
    assert (
        str(caught.value)
        == f"""\
{tmp_path / "topology.toml"} has 5 mistakes:
  line 1: name: must be 1 to 20 of a-z, 0-9 and -, not "Shop"
  line 4: topics.orders.transport: must be "aws" or "database", not "asw"; did you mean "aws"?
  line 7: subscriptions."orders.bill".topic: names a topic that is not in this file, "order"; did you mean "orders"?
  line 8: subscriptions."orders.bill".handler: must have the form "package.module:function", not "shop.orders.bill"; \
did you mean "shop.orders:bill"?
  line 9: subscriptions."orders.bill".lease_second: is not a known key; did you mean 'lease_seconds'?"""
    )


# --- Lines -------------------------------------------------------------------------------------------------------


LINES = """\
# a comment
name = "Shop"

topics.orders.fair = 1
topics.orders.status = \"\"\"
off\"\"\"

[subscriptions]

  [subscriptions."a b".filter]
  kind = [
    "pdf",
    { numerc = 1 },
  ]
  [subscriptions."a b"]
  topic = "orders"
  lambda = { timeout_seconds = 1, memory_mb = 1 }

  [subscriptions.c]
  handler = "a:b"
"""


def test_each_mistake_has_the_line_of_its_key_or_of_the_table_that_lacks_it(tmp_path: Path) -> None:
    found = {mistake.path: mistake.line for mistake in mistakes_in(write(tmp_path, LINES))}
    assert found == {
        "name": 2,
        "topics.orders.fair": 4,
        "topics.orders.status": 5,
        'subscriptions."a b"': 15,
        'subscriptions."a b".filter.kind[1]': 13,
        'subscriptions."a b".handler': 15,
        'subscriptions."a b".lambda.timeout_seconds': 17,
        'subscriptions."a b".lambda.memory_mb': 17,
        "subscriptions.c.topic": 19,
    }


def test_mistakes_are_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    lines = [mistake.line for mistake in mistakes_in(write(tmp_path, LINES))]
    assert lines == sorted(lines)


# --- Schema ------------------------------------------------------------------------------------------------------


def test_the_schema_has_every_key_under_its_written_name() -> None:
    definitions = topology_schema()["$defs"]
    assert set(definitions["Subscription"]["properties"]) >= {"topic", "handler", "lambda", "filter", "backoff"}
    assert definitions["LambdaTable"]["properties"]["timeout_seconds"]["maximum"] == 900
    assert all(
        "description" in p for table in definitions.values() for p in table["properties"].values() if "$ref" not in p
    )


def test_every_key_of_the_models_has_a_description() -> None:
    assert all(field.description for field in Topology.model_fields.values())


@pytest.mark.parametrize("before", range(8))
@pytest.mark.parametrize("length", range(7))
def test_lines_are_found_before_within_and_after_a_value_of_many_lines(
    tmp_path: Path, before: int, length: int
) -> None:
    value = "".join(f'  "v{i}",\n' for i in range(length))
    text = (
        "#\n" * before + f'zero = 0\nname = "shop"\n[topics.t]\none = [\n{value}]\ntwo = 2\n\n[topics.u]\nthree = 3\n'
    )
    found = {mistake.path: mistake.line for mistake in mistakes_in(write(tmp_path, text))}
    after = before + length
    assert found == {
        "zero": before + 1,
        "topics.t.one": before + 4,
        "topics.t.two": after + 6,
        "topics.u.three": after + 9,
    }
