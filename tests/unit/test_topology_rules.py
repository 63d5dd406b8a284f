"""What keys mean together: one test or more for each rule, named after it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from towpath import limits
from towpath.envelope import Prepared, Sources, prepare
from towpath.errors import InvalidFilter, InvalidTopology
from towpath.filters import FilterPolicy
from towpath.message import NewMessage
from towpath.topology import Topology, parse_topology


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
EXTERNAL = {"host": "external", "handler": None}


# --- Names -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a", "shop-2", "x" * 20, "-"])
def test_topology_name_can_begin_resource_names(name: str) -> None:
    assert parse_topology({"name": name}).name == name


@pytest.mark.parametrize("name", ["", "x" * 21, "Shop", "a_b", "a.b", "ä", "a\n"])
def test_topology_name_can_begin_resource_names_or_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopology, match="name: must be 1 to 20 of a-z, 0-9 and -, not"):
        parse_topology({"name": name})


@pytest.mark.parametrize("name", ["Orders", "a..b", "-a", "a b", "", "x" * 201])
def test_topics_and_subscriptions_are_named_in_words(name: str) -> None:
    written = document()
    written["topics"] = {"t": {}, name: {}}
    written["subscriptions"] = {name: {"topic": "t", "handler": "app:run"}}
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    problem = "must be named in words of a-z and 0-9 joined by single '.', '-' or '_', at most 200 characters"
    assert [mistake.problem for mistake in caught.value.mistakes] == [problem] * 2
    assert {mistake.path.partition(".")[0] for mistake in caught.value.mistakes} == {"topics", "subscriptions"}


@pytest.mark.parametrize("name", ["o", "orders.new-2_x", "x" * 200])
def test_topics_and_subscriptions_are_named_in_words_of_up_to_200_characters(name: str) -> None:
    written = {"name": "shop", "topics": {name: {}}, "subscriptions": {name: {"topic": name, "handler": "app:run"}}}
    assert list(parse_topology(written).subscriptions) == [name]


def test_a_badly_named_subscription_has_its_other_mistakes_told_too() -> None:
    written = document(**{"Bad Name": {"handler": "no path", "topic": "elsewhere"}})
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(written)
    assert len(caught.value.mistakes) == 3


def test_a_topology_may_have_topics_without_subscriptions() -> None:
    assert accepted().subscriptions == {}


def test_several_subscriptions_may_have_the_same_handler() -> None:
    assert len(accepted(a={}, b={}, c={"filter": {"kind": ["pdf"]}}).subscriptions) == 3


# --- Topics ------------------------------------------------------------------------------------------------------


def test_topic_exists() -> None:
    assert refused(s={"topic": "tt"}) == [
        'subscriptions.s.topic: names a topic that is not in this file, "tt"; did you mean "t"?'
    ]
    assert refused(s={"topic": "T"})[0].endswith('"T"; did you mean "t"?')
    assert refused(s={"topic": "elsewhere"}) == [
        'subscriptions.s.topic: names a topic that is not in this file, "elsewhere"; the topics are: t'
    ]


def test_topic_exists_in_a_file_that_has_any() -> None:
    with pytest.raises(InvalidTopology, match='not in this file, "orders"; the topics are: none'):
        parse_topology({"name": "shop", "subscriptions": {"s": {"topic": "orders", "handler": "app:run"}}})


def test_what_rests_on_an_unknown_topic_is_not_told() -> None:
    assert len(refused(DATABASE, s={"topic": "elsewhere", "dead_letter_retention_days": 30})) == 1


def test_ordered_needs_a_database() -> None:
    assert refused(s=ORDERED) == [
        (
            'topics.t.transport: must be "database", since AWS cannot keep the order that the subscription s '
            '(partition_mode "ordered") asks for; under [topics.t] write: transport = "database"'
        )
    ]
    (mistake,) = refused(s=ORDERED, r=ORDERED, x=EXCLUSIVE)
    assert "that the subscriptions s, r (partition_mode" in mistake
    assert accepted(DATABASE, s=ORDERED)


def test_ordered_needs_a_database_for_its_own_topic_only() -> None:
    written = document(DATABASE, s=ORDERED)
    written["topics"]["u"] = {}
    written["subscriptions"]["v"] = {"topic": "u", "handler": "app:run"}
    assert parse_topology(written)


def test_ordered_needs_a_database_shows_how_a_name_with_dots_is_written() -> None:
    written = {
        "name": "shop",
        "topics": {"a.b": {}},
        "subscriptions": {"s": {"topic": "a.b", "handler": "a:b", **ORDERED}},
    }
    with pytest.raises(InvalidTopology, match=r'under \[topics."a.b"\] write: transport = "database"'):
        parse_topology(written)


def test_exclusive_needs_fifo() -> None:
    assert refused({"fifo": False}, s={}, x=EXCLUSIVE) == [
        (
            "topics.t.fifo: must not be false, since x is exclusive, which takes a FIFO topic on aws; "
            "leave it out or write: fifo = true"
        )
    ]
    assert accepted({"fifo": True}, x=EXCLUSIVE)
    assert accepted({"fifo": False}, s={})


def test_a_topic_is_fifo_when_a_subscription_is_exclusive_or_when_it_says_so() -> None:
    assert not accepted(s={}).is_fifo("t")
    assert accepted(s={}, x=EXCLUSIVE).is_fifo("t")
    assert accepted({"fifo": True}).is_fifo("t")
    assert not accepted({"fifo": False}, s={}).is_fifo("t")
    assert not accepted(DATABASE, x=EXCLUSIVE).is_fifo("t")


def test_fair_needs_a_standard_topic() -> None:
    problem = "topics.t.fair: must be false on a FIFO topic, whose partition keys are its message groups already"
    assert accepted({"fair": True}, s={})
    assert refused({"fair": True}, x=EXCLUSIVE) == [problem]
    assert refused({"fair": True, "fifo": True}) == [problem]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("fifo", True, "is for topics on aws; on a database each subscription's partition_mode says it"),
        ("fifo", False, "is for topics on aws; on a database each subscription's partition_mode says it"),
        ("fair", True, "is for topics on aws"),
        ("deduplication", False, "cannot be false on a database, which always takes deduplication keys"),
    ],
)
def test_sns_settings_need_aws(key: str, value: bool, reason: str) -> None:
    assert refused(DATABASE | {key: value}) == [f"topics.t.{key}: {reason}; leave it out"]


def test_sns_settings_need_aws_except_where_they_say_what_a_database_does() -> None:
    assert accepted(DATABASE | {"deduplication": True, "fair": False})
    assert accepted({"deduplication": False, "fair": True, "fifo": False})


def test_retention_fits_sqs() -> None:
    assert accepted({"retention_days": 1})
    assert accepted({"retention_days": 14})
    assert refused({"retention_days": 15}) == ["topics.t.retention_days: must be from 1 to 14 on aws, not 15"]


def test_retention_is_1_to_3650_days_on_a_database() -> None:
    assert accepted(DATABASE | {"retention_days": 3_650})
    for days in (0, 3_651):
        (mistake,) = refused(DATABASE | {"retention_days": days})
        assert mistake == f"topics.t.retention_days: must be a whole number from 1 to 3,650, not {days}"


def test_subscriptions_fit_a_fifo_topic() -> None:
    hundred = {f"s{n}": {} for n in range(99)}
    assert accepted({"fifo": True}, **hundred, s99={})
    assert refused(**hundred, s99={}, x=EXCLUSIVE) == [
        "topics.t: is a FIFO topic with 101 subscriptions, SNS allows 100; put some of them on a second topic"
    ]


def test_subscriptions_fit_a_fifo_topic_and_any_number_fits_another() -> None:
    many = {f"s{n}": {} for n in range(101)}
    assert accepted(**many)
    assert accepted(DATABASE, **many, x=EXCLUSIVE)


FILTERED, DISABLED = {"filter": {"kind": ["pdf"]}}, {"status": "disabled"}


def test_filter_policies_fit_sns() -> None:
    filtered = {f"s{n}": FILTERED if n % 2 else DISABLED for n in range(200)}
    assert accepted(**filtered, without={})
    assert refused(**filtered, one=FILTERED) == [
        "topics.t: has 201 subscriptions with a filter, SNS allows 200; put some of them on a second topic"
    ]
    assert accepted(DATABASE, **filtered, one=FILTERED)


def test_filter_policies_fit_sns_in_an_account() -> None:
    topics = {f"t{n}": {} for n in range(51)}
    written = {f"s{n}": {"topic": f"t{n % 51}", "handler": "app:run", "status": "disabled"} for n in range(10_000)}
    topology = {"name": "shop", "topics": topics, "subscriptions": written}
    assert parse_topology(topology)
    written["one"] = {"topic": "t50", "handler": "app:run", "status": "disabled"}
    with pytest.raises(InvalidTopology) as caught:
        parse_topology(topology)
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        (
            "subscriptions: has 10,001 subscriptions with a filter, SNS allows an account 10,000; filter in handlers, "
            "or deploy in two accounts"
        )
    ]


# --- Hosts, handlers, dead letters -------------------------------------------------------------------------------


def test_dead_letter_retention_fits_sqs() -> None:
    assert accepted(s={"dead_letter_retention_days": 14})
    assert refused(s={"dead_letter_retention_days": 15}) == [
        "subscriptions.s.dead_letter_retention_days: must be from 1 to 14 on aws, not 15"
    ]
    assert accepted(DATABASE, s={"dead_letter_retention_days": 3_650})


@pytest.mark.parametrize("host", ["lambda", "external"])
def test_host_fits_the_transport(host: str) -> None:
    keys = {"host": host} if host == "lambda" else EXTERNAL
    assert accepted(s=keys)
    assert refused(DATABASE, s=keys) == [
        f'subscriptions.s.host: must be "worker" on a database topic, not "{host}", which is on aws only'
    ]


@pytest.mark.parametrize("transport", ["aws", "database"])
@pytest.mark.parametrize("mode", ["none", "exclusive"])
def test_host_fits_the_transport_when_it_is_a_worker(transport: str, mode: str) -> None:
    assert accepted({"transport": transport}, s={"host": "worker", "partition_mode": mode})


@pytest.mark.parametrize("status", ["active", "disabled"])
def test_external_is_never_paused(status: str) -> None:
    assert accepted(s=EXTERNAL | {"status": status})
    assert accepted(s={"host": "worker", "status": "paused"})
    assert refused(s=EXTERNAL | {"status": "paused"}) == [
        (
            'subscriptions.s.status: must be "active" or "disabled" with host "external", whose consumer Towpath '
            "cannot pause"
        )
    ]


@pytest.mark.parametrize("host", ["lambda", "worker"])
def test_handler_is_there_unless_external(host: str) -> None:
    assert refused(s={"host": host, "handler": None}) == [
        'subscriptions.s.handler: is missing; write for instance: handler = "app.documents:process"'
    ]
    assert accepted(s=EXTERNAL)
    assert refused(s={"host": "external"}) == [
        'subscriptions.s.handler: has no place with host "external", whose consumer is not ours; leave it out'
    ]


@pytest.mark.parametrize("path", ["app:run", "app.documents:process", "app.documents:Reader.read", "größe:lauf"])
def test_handler_is_an_import_path(path: str) -> None:
    assert accepted(s={"handler": path})


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("app.run", "app:run"),
        ("app.documents.process", "app.documents:process"),
        ("app:run()", "app:run"),
        (" app:run ", "app:run"),
        ("app/documents.py:run", "app.documents:run"),
    ],
)
def test_handler_is_an_import_path_and_another_form_is_told_what_it_means(path: str, meant: str) -> None:
    assert refused(s={"handler": path}) == [
        f'subscriptions.s.handler: must have the form "package.module:function", not "{path}"; did you mean "{meant}"?'
    ]


@pytest.mark.parametrize("path", ["", "app", "app:", ":run", "app:2", "app run:x", "a:b:c"])
def test_handler_is_an_import_path_or_is_refused(path: str) -> None:
    assert refused(s={"handler": path}) == [
        f'subscriptions.s.handler: must have the form "package.module:function", not "{path}"'
    ]


def test_filter_is_a_policy() -> None:
    assert accepted(s={"filter": {"kind": ["pdf", {"prefix": "image/"}]}})


def test_filter_is_a_policy_and_every_mistake_in_it_is_told_at_its_path() -> None:
    policy = {"kind": "pdf", "size": [{"prefix": ""}, {"numerc": 1}]}
    with pytest.raises(InvalidFilter) as caught:
        FilterPolicy.parse(policy)
    assert len(caught.value.mistakes) == 3
    told = sorted(f"subscriptions.s.filter.{mistake}" for mistake in caught.value.mistakes)
    assert sorted(refused(s={"filter": policy})) == told


def test_filter_is_a_policy_and_is_told_as_a_whole_where_it_is_wrong_as_a_whole() -> None:
    assert refused(s={"filter": {}})[0].startswith("subscriptions.s.filter: has no keys")
    six = {f"k{i}": ["v"] for i in range(6)}
    assert refused(s={"filter": six}) == ["subscriptions.s.filter: has 6 keys, SNS allows 5"]
    many = {f"k{i}": ["v"] * n for i, n in enumerate((10, 15))}
    assert accepted(s={"filter": many})
    (mistake,) = refused(s={"filter": many | {"k2": ["v"] * 2}})
    assert "300 combinations of values, SNS allows 150" in mistake


# --- Batches and time-outs ---------------------------------------------------------------------------------------


def batch(size: int | None = None, window: int = 0, **keys: Any) -> dict[str, Any]:
    return {"lambda": {"batch_window_seconds": window, **({} if size is None else {"batch_size": size})}, **keys}


def test_batches_fit_the_queue() -> None:
    assert accepted(s=batch(10))
    assert accepted(s=batch(11, window=1))
    assert accepted(s=batch(10_000, window=300))
    assert refused(s=batch(11)) == [
        (
            "subscriptions.s.lambda.batch_size: must be at most 10 without a batch window, not 11; "
            "add: batch_window_seconds = 1"
        )
    ]


def test_a_batch_holds_at_most_10000_messages() -> None:
    (mistake,) = refused(s=batch(10_001, window=300))
    assert mistake == "subscriptions.s.lambda.batch_size: must be a whole number from 1 to 10,000, not 10001"


def test_batches_fit_the_queue_when_it_is_fifo() -> None:
    assert accepted(s=batch(10, **EXCLUSIVE))
    assert accepted(s=batch(**EXCLUSIVE))
    assert refused(s=batch(11, **EXCLUSIVE)) == [
        "subscriptions.s.lambda.batch_size: must be from 1 to 10 on a FIFO queue, not 11"
    ]
    assert refused(s=batch(window=1, **EXCLUSIVE)) == [
        "subscriptions.s.lambda.batch_window_seconds: must be 0 on a FIFO queue, not 1"
    ]
    assert len(refused(s=batch(11, window=1, **EXCLUSIVE))) == 2


def test_batches_fit_the_queue_of_a_none_subscription_on_a_fifo_topic_which_is_standard() -> None:
    assert accepted({"fifo": True}, s=batch(100, window=5))
    assert accepted(s=batch(100, window=5), x=EXCLUSIVE)


def test_batches_fit_the_queue_where_a_function_reads_it() -> None:
    assert accepted(s=batch(11, host="worker"))
    assert accepted(s=batch(11, window=1, host="worker", **EXCLUSIVE))


def test_processing_ends_before_the_function() -> None:
    assert accepted(s={"max_processing_seconds": 60})
    assert refused(s={"max_processing_seconds": 60.5}) == [
        "subscriptions.s.max_processing_seconds: must be at most lambda.timeout_seconds (60) on Lambda, not 60.5"
    ]
    assert accepted(s={"max_processing_seconds": 900, "lambda": {"timeout_seconds": 900}})
    assert accepted(s={"max_processing_seconds": 7_200, "host": "worker"})
    assert accepted(s=EXTERNAL | {"max_processing_seconds": 100})


def test_processing_ends_before_sqs_takes_back() -> None:
    assert accepted(s={"host": "worker", "max_processing_seconds": 43_200})
    assert refused(s={"host": "worker", "max_processing_seconds": 43_201}) == [
        (
            "subscriptions.s.max_processing_seconds: must be at most 43,200 on aws, where SQS takes a message back "
            "after that, not 43,201"
        )
    ]
    assert accepted(DATABASE, s={"max_processing_seconds": 43_201})


def test_a_queue_never_hides_a_message_for_longer_than_sqs_can() -> None:
    """No rule is needed for what the bounds of the single keys rule out."""
    longest_wait = limits.LAMBDA_TIMEOUT_SECONDS[1] * limits.VISIBILITY_TIMEOUT_FACTOR + limits.ESM_BATCH_WINDOW_SECONDS
    assert max(longest_wait, limits.LEASE_SECONDS[1]) <= limits.SQS_MAX_VISIBILITY_SECONDS


def test_sqs_counts_as_many_receives_as_the_most_attempts_need() -> None:
    assert limits.MAX_ATTEMPTS[1] + limits.REDRIVE_EXTRA <= 1_000  # the largest maxReceiveCount of a redrive policy


def test_the_smallest_limit_of_a_topic_lets_the_smallest_message_through() -> None:
    sources = Sources(clock=lambda: datetime(2026, 1, 1, tzinfo=UTC), random_bytes=bytes)
    name = "x" * limits.TOPIC_NAME_LENGTH
    assert isinstance(prepare(name, NewMessage(payload=None), limits.MIN_MESSAGE_BYTES, sources), Prepared)


# --- What a function gets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "size", "threads"),
    [
        ({}, 10, 10),
        (EXCLUSIVE, 1, 1),
        ({"lambda": {"batch_size": 4}}, 4, 4),
        ({"lambda": {"batch_size": 100, "batch_window_seconds": 1}}, 100, 10),
        ({"lambda": {"concurrency": 3}}, 10, 3),
        (EXCLUSIVE | {"lambda": {"batch_size": 7}}, 7, 7),
    ],
)
def test_a_function_gets_batches_and_threads_as_written_or_by_its_queue(
    keys: dict[str, Any], size: int, threads: int
) -> None:
    topology = accepted(s=keys)
    subscription = topology.subscriptions["s"]
    assert (topology.batch_size_of(subscription), topology.threads_of(subscription)) == (size, threads)
