"""Design rules of the topology, what keys mean together: one test for each rule, named after it."""

from collections.abc import Mapping
from typing import Any

import pytest

from towpath.errors import InvalidFilter, InvalidTopology
from towpath.filters import FilterPolicy
from towpath.topology import Topology, parse_topology, warnings_of


def document(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> dict[str, Any]:
    """One topic ``t`` and these subscriptions of it; each handler is there unless it is said otherwise."""
    written = {name: {"topic": "t", "handler": "app:run", **keys} for name, keys in subscriptions.items()}
    return {"name": "shop", "topics": {"t": dict(topic or {})}, "subscriptions": written}


def accepted(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Topology:
    return parse_topology(document(topic, **subscriptions))


def refused(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> list[str]:
    with pytest.raises(InvalidTopology) as caught:
        accepted(topic, **subscriptions)
    return [str(mistake) for mistake in caught.value.mistakes]


DATABASE = {"transport": "database"}
EXCLUSIVE, ORDERED = {"partition_mode": "exclusive"}, {"partition_mode": "ordered"}


# --- Names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "shop-2", "x" * 20, "-"])
def test_a_topology_name_is_1_to_20_of_lower_case_letters_digits_and_hyphens(name: str) -> None:
    assert parse_topology({"name": name}).name == name


@pytest.mark.parametrize("name", ["", "x" * 21, "Shop", "a_b", "a.b", "ä", "a\n"])
def test_another_topology_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopology, match="name: must be 1 to 20 of a-z, 0-9 and -, not"):
        parse_topology({"name": name})


@pytest.mark.parametrize("name", ["Orders", "a..b", "-a", "a b", "", "x" * 201])
def test_topics_and_subscriptions_are_named_in_lower_case_words(name: str) -> None:
    written = document()
    written["topics"] = {"t": {}, name: {}}
    written["subscriptions"] = {name: {"topic": "t", "handler": "app:run"}}
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    assert len(caught.value.mistakes) == 2
    assert all("must be named in words of a-z and 0-9" in m.problem for m in caught.value.mistakes)


def test_a_badly_named_subscription_has_its_other_mistakes_told_too() -> None:
    written = document(**{"Bad Name": {"handler": "no path", "topic": "elsewhere"}})
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    assert len(caught.value.mistakes) == 3


def test_a_topology_may_have_topics_without_subscriptions() -> None:
    assert accepted().subscriptions == {}


# --- Topics ------------------------------------------------------------------------------------------------------


def test_the_topic_of_a_subscription_must_exist() -> None:
    assert refused(s={"topic": "tt"}) == [
        'subscriptions.s.topic: names a topic that is not in this file, "tt"; did you mean "t"?'
    ]
    assert refused(s={"topic": "elsewhere"}) == [
        'subscriptions.s.topic: names a topic that is not in this file, "elsewhere"; the topics are: t'
    ]


def test_what_rests_on_an_unknown_topic_is_not_told() -> None:
    assert len(refused(DATABASE, s={"topic": "elsewhere", "dead_letter_retention_days": 30})) == 1


def test_ordered_on_aws_is_refused_with_the_line_to_add() -> None:
    (mistake,) = refused(s=ORDERED, r=ORDERED, x=EXCLUSIVE)
    assert mistake.startswith('topics.t.transport: must be "database", since AWS cannot keep the order ')
    assert "subscriptions s, r" in mistake
    assert mistake.endswith('under [topics.t] write: transport = "database"')
    assert accepted(DATABASE, s=ORDERED)


def test_a_topic_is_fifo_when_a_subscription_is_exclusive_or_when_it_says_so() -> None:
    assert not accepted(s={}).is_fifo("t")
    assert accepted(s={}, x=EXCLUSIVE).is_fifo("t")
    assert accepted({"fifo": True}).is_fifo("t")
    assert not accepted({"fifo": False}, s={}).is_fifo("t")
    assert not accepted(DATABASE, x=EXCLUSIVE).is_fifo("t")


def test_fifo_is_never_false_against_an_exclusive_subscription() -> None:
    (mistake,) = refused({"fifo": False}, s={}, x=EXCLUSIVE)
    assert mistake.startswith("topics.t.fifo: must not be false, since x is exclusive")
    assert accepted({"fifo": True}, x=EXCLUSIVE)


def test_fair_is_for_standard_topics() -> None:
    assert accepted({"fair": True}, s={})
    assert refused({"fair": True}, x=EXCLUSIVE)[0].startswith("topics.t.fair: must be false on a FIFO topic")
    assert refused({"fair": True, "fifo": True})[0].startswith("topics.t.fair: ")


@pytest.mark.parametrize(("key", "value"), [("fifo", True), ("fifo", False), ("fair", True), ("deduplication", False)])
def test_what_is_for_sns_topics_is_refused_on_a_database(key: str, value: bool) -> None:
    (mistake,) = refused({"transport": "database", key: value})
    assert mistake.startswith(f"topics.t.{key}: ")
    assert mistake.endswith("leave it out")


def test_deduplication_may_be_said_to_be_there_on_a_database() -> None:
    assert accepted({"transport": "database", "deduplication": True, "fair": False})


def test_retention_is_1_to_14_days_on_aws() -> None:
    assert accepted({"retention_days": 1})
    assert accepted({"retention_days": 14})
    assert refused({"retention_days": 15}) == ["topics.t.retention_days: must be from 1 to 14 on aws, not 15"]


def test_retention_is_1_to_3650_days_on_a_database() -> None:
    assert accepted({"transport": "database", "retention_days": 3_650})
    for days in (0, 3_651):
        (mistake,) = refused({"transport": "database", "retention_days": days})
        assert mistake == f"topics.t.retention_days: must be a whole number from 1 to 3,650, not {days}"


def test_dead_letters_are_kept_1_to_14_days_on_aws() -> None:
    assert accepted(s={"dead_letter_retention_days": 14})
    assert refused(s={"dead_letter_retention_days": 15}) == [
        "subscriptions.s.dead_letter_retention_days: must be from 1 to 14 on aws, not 15"
    ]
    assert accepted(DATABASE, s={"dead_letter_retention_days": 3_650})


# --- Hosts and handlers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["lambda", "external"])
def test_lambda_and_external_are_hosts_on_aws_only(host: str) -> None:
    keys = {"host": host} if host == "lambda" else {"host": host, "handler": None}
    assert accepted(s=keys)
    assert refused(DATABASE, s=keys) == [
        f'subscriptions.s.host: must be "worker" on a database topic, not "{host}", which is on aws only'
    ]


@pytest.mark.parametrize("transport", ["aws", "database"])
def test_a_worker_is_a_host_on_both_transports(transport: str) -> None:
    assert accepted({"transport": transport}, s={"host": "worker"})


@pytest.mark.parametrize("host", ["lambda", "worker"])
def test_a_handler_is_required(host: str) -> None:
    assert refused(s={"host": host, "handler": None}) == [
        'subscriptions.s.handler: is missing; write for instance: handler = "app.documents:process"'
    ]


def test_an_external_subscription_has_no_handler() -> None:
    assert accepted(s={"host": "external", "handler": None})
    assert refused(s={"host": "external"})[0].startswith('subscriptions.s.handler: has no place with host "external"')


@pytest.mark.parametrize("path", ["app:run", "app.documents:process", "app.documents:Reader.read"])
def test_a_handler_is_an_import_path(path: str) -> None:
    assert accepted(s={"handler": path})


@pytest.mark.parametrize("path", ["", "app", "app.run", "app:", ":run", "app:run()", "app/documents.py:run"])
def test_another_form_of_handler_is_refused(path: str) -> None:
    (mistake,) = refused(s={"handler": path})
    assert mistake.startswith('subscriptions.s.handler: must have the form "package.module:function", not ')


# --- Filters -----------------------------------------------------------------------------------------------------


def test_a_filter_is_a_valid_filter_policy() -> None:
    assert accepted(s={"filter": {"kind": ["pdf", {"prefix": "image/"}]}})


def test_every_mistake_of_a_filter_is_told_at_its_path() -> None:
    policy = {"kind": "pdf", "size": [{"prefix": ""}, {"numerc": 1}]}
    with pytest.raises(InvalidFilter) as caught:
        FilterPolicy.parse(policy)
    assert len(caught.value.mistakes) == 3
    told = sorted(f"subscriptions.s.filter.{mistake}" for mistake in caught.value.mistakes)
    assert sorted(refused(s={"filter": policy})) == told


def test_a_filter_that_is_wrong_as_a_whole_is_told_at_the_filter() -> None:
    assert refused(s={"filter": {}})[0].startswith("subscriptions.s.filter: has no keys")
    six = {f"k{i}": ["v"] for i in range(6)}
    assert refused(s={"filter": six}) == ["subscriptions.s.filter: has 6 keys, SNS allows 5"]


# --- Batches and time-outs ---------------------------------------------------------------------------------------


def batch(size: int | None = None, window: int = 0, **keys: Any) -> dict[str, Any]:
    return {"lambda": {"batch_window_seconds": window, **({} if size is None else {"batch_size": size})}, **keys}


def test_a_batch_over_10_needs_a_batch_window() -> None:
    assert accepted(s=batch(10))
    assert accepted(s=batch(11, window=1))
    (mistake,) = refused(s=batch(11))
    assert mistake.startswith("subscriptions.s.lambda.batch_size: must be at most 10 without a batch window, not 11;")
    assert mistake.endswith("add: batch_window_seconds = 1")


def test_a_batch_holds_at_most_10000_messages() -> None:
    assert accepted(s=batch(10_000, window=300))
    (mistake,) = refused(s=batch(10_001, window=300))
    assert mistake == "subscriptions.s.lambda.batch_size: must be a whole number from 1 to 10,000, not 10001"


def test_a_fifo_batch_holds_at_most_10_messages() -> None:
    assert accepted(s=batch(10, **EXCLUSIVE))
    (mistake,) = refused(s=batch(11, **EXCLUSIVE))
    assert mistake == "subscriptions.s.lambda.batch_size: must be from 1 to 10 on a FIFO queue, not 11"


def test_a_fifo_queue_has_no_batch_window() -> None:
    (mistake,) = refused(s=batch(window=1, **EXCLUSIVE))
    assert mistake == "subscriptions.s.lambda.batch_window_seconds: must be 0 on a FIFO queue, not 1"


def test_a_standard_queue_on_a_fifo_topic_has_the_batches_of_a_standard_queue() -> None:
    assert accepted({"fifo": True}, s=batch(100, window=5))


def test_a_fifo_batch_over_1_is_allowed_and_warned_of() -> None:
    (warning,) = warnings_of(accepted(s=batch(2, **EXCLUSIVE), one=batch(1, **EXCLUSIVE), standard=batch(10)))
    assert warning.path == "subscriptions.s.lambda.batch_size"
    assert "receives" in warning.problem


def test_max_processing_on_lambda_is_at_most_the_timeout() -> None:
    assert accepted(s={"max_processing_seconds": 60})
    assert refused(s={"max_processing_seconds": 60.5}) == [
        "subscriptions.s.max_processing_seconds: must be at most lambda.timeout_seconds (60) on Lambda, not 60.5"
    ]
    assert accepted(s={"max_processing_seconds": 900, "lambda": {"timeout_seconds": 900}})
    assert accepted(s={"max_processing_seconds": 7_200, "host": "worker"})
    assert accepted(DATABASE, s={"max_processing_seconds": 7_200})
