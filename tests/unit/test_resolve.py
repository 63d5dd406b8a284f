"""Every derived value of the manifest, one test for each rule."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.golden.__main__ import rendered
from towpath.backoff import BackOff
from towpath.errors import InvalidTopology
from towpath.function_settings import FunctionSettings
from towpath.manifest import AwsSubscription, Manifest
from towpath.resolve import resolve, with_all_on_database
from towpath.settlement import SubscriptionPolicy
from towpath.topology import Topology, load_topology, parse_topology

GOLDEN = Path(__file__).parent / "golden"
DATABASE = {"transport": "database"}
EXCLUSIVE = {"partition_mode": "exclusive"}


def topology(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Topology:
    """One topic ``t`` and these subscriptions of it; host external has no handler."""
    written = {
        name: {"topic": "t", **({} if keys.get("host") == "external" else {"handler": "app:run"}), **keys}
        for name, keys in subscriptions.items()
    }
    return parse_topology({"name": "shop", "topics": {"t": dict(topic or {})}, "subscriptions": written})


def resolved(topic: Mapping[str, Any] | None = None, **subscriptions: Mapping[str, Any]) -> Manifest:
    return resolve(topology(topic, **subscriptions), "prod")


def on_aws(topic: Mapping[str, Any] | None = None, **keys: Any) -> AwsSubscription:
    """The AWS part of one subscription ``s`` with these keys."""
    aws = resolved(topic, s=keys).subscriptions["s"].aws
    assert aws is not None
    return aws


# --- The manifest as a whole -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.toml")), ids=lambda file: file.stem)
def test_a_manifest_is_rendered_byte_for_byte_as_before(file: Path) -> None:
    assert rendered(file) == file.with_suffix(".json").read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.toml")), ids=lambda file: file.stem)
def test_a_manifest_comes_back_from_json_as_it_was(file: Path) -> None:
    manifest = resolve(load_topology(file), "prod")
    assert Manifest.from_json(manifest.to_json()) == manifest
    on_database = resolve(with_all_on_database(load_topology(file)), "dev")
    assert Manifest.from_json(on_database.to_json()) == on_database


def test_the_golden_topologies_use_every_key() -> None:
    text = (GOLDEN / "everything.toml").read_text(encoding="utf-8")
    schema = Topology.model_json_schema()
    keys = {key for table in schema["$defs"].values() for key in table["properties"]}
    assert sorted(key for key in keys if key not in text) == []


def test_equal_topologies_give_equal_bytes_whatever_the_order_of_their_keys() -> None:
    one = parse_topology({"name": "shop", "topics": {"a": {"fair": True, "retention_days": 3}, "b": {}}})
    other = parse_topology({"topics": {"b": {}, "a": {"retention_days": 3, "fair": True}}, "name": "shop"})
    assert resolve(one, "prod").to_json() == resolve(other, "prod").to_json()


@pytest.mark.parametrize("environment", ["", "Prod", "x" * 21, "a_b"])
def test_an_environment_is_named_like_a_topology(environment: str) -> None:
    with pytest.raises(InvalidTopology, match="the environment's name must be 1 to 20 of a-z, 0-9 and -, not"):
        resolve(topology(), environment)


def test_whole_seconds_are_written_whole() -> None:
    keys = {"backoff": {"base_seconds": 2.0, "max_seconds": 7.5}, "max_processing_seconds": 30.0}
    text = resolved(DATABASE, s=keys).to_json()
    assert '"base_seconds": 2,' in text
    assert '"max_seconds": 7.5' in text
    assert '"max_processing_seconds": 30,' in text


def test_a_subscription_keeps_what_was_written() -> None:
    keys: dict[str, Any] = {
        "partition_mode": "ordered",
        "filter": {"kind": ["pdf", {"prefix": "image/"}]},
        "status": "paused",
        "max_attempts": 7,
        "backoff": {"base_seconds": 1, "max_seconds": 2},
        "lease_seconds": 90,
        "heartbeat": "manual",
        "max_processing_seconds": 45,
        "accept_foreign": False,
        "dead_letter_retention_days": 30,
    }
    subscription = resolved(DATABASE, s=keys).subscriptions["s"]
    assert subscription.aws is None
    assert (subscription.transport, subscription.host, subscription.topic) == ("database", "worker", "t")
    assert subscription.filter_policy == {"kind": ("pdf", {"prefix": "image/"})}
    assert subscription.dead_letter_retention_days == 30
    assert subscription.policy("s") == SubscriptionPolicy(
        subscription="s",
        topic="t",
        handler="app:run",
        partition_mode="ordered",
        status="paused",
        max_attempts=7,
        backoff=BackOff(base_seconds=1, max_seconds=2),
        lease_seconds=90,
        heartbeat="manual",
        max_processing_seconds=45,
        accept_foreign=False,
    )


# --- Topics ------------------------------------------------------------------------------------------------------


def test_a_database_topic_has_no_aws_part_and_always_takes_deduplication_keys() -> None:
    topic = resolved({**DATABASE, "deduplication_ttl_seconds": 60}).topics["t"]
    assert topic.aws is None
    assert (topic.deduplication.enabled, topic.deduplication.ttl_seconds) == (True, 60)


def test_an_aws_topic_takes_deduplication_keys_only_when_it_says_so_and_then_has_a_table() -> None:
    without, declared = resolved().topics["t"], resolved({"deduplication": True}).topics["t"]
    assert without.aws is not None
    assert declared.aws is not None
    assert (without.deduplication.enabled, without.aws.deduplication_table_name) == (False, None)
    assert (declared.deduplication.enabled, declared.aws.deduplication_table_name) == (True, "shop-prod-t-dedup")


def test_a_fifo_topic_scopes_throughput_to_the_message_group_and_never_deduplicates_by_content() -> None:
    topic = resolved(s=EXCLUSIVE).topics["t"].aws
    assert topic is not None
    assert (topic.fifo, topic.topic_name) == (True, "shop-prod-t.fifo")
    assert (topic.fifo_throughput_scope, topic.content_based_deduplication) == ("MessageGroup", False)


def test_a_standard_topic_has_no_fifo_settings() -> None:
    topic = resolved({"fair": True}, s={}).topics["t"].aws
    assert topic is not None
    assert (topic.fifo, topic.topic_name, topic.fifo_throughput_scope) == (False, "shop-prod-t", None)
    assert topic.fair is True


# --- Queues ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lease", "timeout", "window", "visibility"), [(60, 60, 0, 360), (361, 60, 0, 361), (5, 60, 20, 380), (5, 2, 0, 12)]
)
def test_a_lambda_queue_hides_for_the_lease_or_six_timeouts_and_the_window(
    lease: int, timeout: int, window: int, visibility: int
) -> None:
    function = {"timeout_seconds": timeout, "batch_window_seconds": window}
    assert on_aws(lease_seconds=lease, **{"lambda": function}).queue.visibility_timeout_seconds == visibility


@pytest.mark.parametrize("host", ["worker", "external"])
def test_another_queue_hides_for_the_lease(host: str) -> None:
    assert on_aws(host=host, lease_seconds=45).queue.visibility_timeout_seconds == 45


def test_the_redrive_policy_is_a_net_five_receives_beyond_max_attempts() -> None:
    assert on_aws(max_attempts=5).queue.max_receive_count == 10
    assert on_aws(max_attempts=995).queue.max_receive_count == 1_000


def test_sqs_alone_counts_for_an_external_consumer() -> None:
    assert on_aws(host="external", max_attempts=5).queue.max_receive_count == 5


def test_a_queue_keeps_messages_for_the_topics_retention_and_dead_letters_for_their_own() -> None:
    aws = on_aws({"retention_days": 3}, dead_letter_retention_days=9)
    assert aws.queue.message_retention_seconds == 3 * 86_400
    assert aws.dead_letter_queue.message_retention_seconds == 9 * 86_400
    assert aws.delivery_failure_queue.message_retention_seconds == 9 * 86_400
    assert on_aws().dead_letter_queue.message_retention_seconds == 14 * 86_400


def test_every_queue_states_size_long_polling_and_encryption() -> None:
    aws = on_aws(lease_seconds=30)
    for queue in (aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue):
        assert (queue.maximum_message_size, queue.receive_wait_time_seconds, queue.sqs_managed_sse) == (
            262_144,
            20,
            True,
        )
    for queue in (aws.dead_letter_queue, aws.delivery_failure_queue):
        assert (queue.max_receive_count, queue.visibility_timeout_seconds) == (None, 30)


def test_an_exclusive_subscription_has_fifo_queues_for_high_throughput() -> None:
    aws = on_aws(**EXCLUSIVE)
    for queue in (aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue):
        assert (queue.fifo, queue.deduplication_scope) == (True, "messageGroup")
        assert (queue.fifo_throughput_limit, queue.content_based_deduplication) == ("perMessageGroupId", False)
        assert queue.name.endswith(".fifo")


def test_a_none_subscription_on_a_fifo_topic_has_a_standard_queue() -> None:
    aws = on_aws({"fifo": True})
    for queue in (aws.queue, aws.dead_letter_queue):
        assert (queue.fifo, queue.deduplication_scope, queue.fifo_throughput_limit) == (False, None, None)
    assert aws.delivery_failure_queue.fifo  # of the topic's type, as SNS asks


# --- SNS subscription --------------------------------------------------------------------------------------------


def test_sns_delivers_raw_and_filters_by_attributes() -> None:
    subscription = on_aws(filter={"b": ["x"], "a": [{"exists": True}]}).sns_subscription
    assert subscription.raw_message_delivery is True
    assert subscription.filter_policy_scope == "MessageAttributes"
    assert subscription.filter_policy == '{"a":[{"exists":true}],"b":["x"]}'


def test_without_a_filter_there_is_no_policy() -> None:
    assert on_aws().sns_subscription.filter_policy is None
    assert resolved(s={}).subscriptions["s"].filter_policy is None


def test_a_disabled_subscription_has_a_filter_that_nothing_passes() -> None:
    manifest = resolved(s={"status": "disabled", "filter": {"kind": ["pdf"]}})
    subscription = manifest.subscriptions["s"]
    assert subscription.aws is not None
    assert subscription.aws.sns_subscription.filter_policy == '{"towpath-disabled":[{"exists":true}]}'
    assert subscription.filter_policy == {"kind": ("pdf",)}


# --- Lambda ------------------------------------------------------------------------------------------------------


def test_a_function_is_what_its_table_says() -> None:
    table = {"timeout_seconds": 33, "memory_mb": 1_024, "architecture": "x86_64", "runtime": "python3.12"}
    function = on_aws(**{"lambda": table}).function
    assert function is not None
    assert (function.timeout_seconds, function.memory_mb) == (33, 1_024)
    assert (function.architecture, function.runtime) == ("x86_64", "python3.12")
    assert (function.handler, function.alias) == ("lambda_runtime.entry.handler", "live")
    assert (function.name, function.role_name) == ("shop-prod-s", "shop-prod-s")
    assert function.log_group_name == "/aws/lambda/shop-prod-s"
    assert function.queue_url_environment == {
        "TOWPATH_QUEUE_URL": "queue",
        "TOWPATH_DEAD_LETTER_QUEUE_URL": "dead_letter_queue",
    }


def test_a_function_reads_its_subscription_from_its_environment() -> None:
    manifest = resolved(s={"max_attempts": 3, **EXCLUSIVE, "lambda": {"timeout_seconds": 33, "batch_size": 4}})
    function = manifest.subscriptions["s"].aws.function  # type: ignore[union-attr]
    text = function.environment["TOWPATH_SUBSCRIPTION"]
    assert FunctionSettings.from_json(text) == FunctionSettings(
        policy=manifest.subscriptions["s"].policy("s"), fifo=True, concurrency=4, timeout_seconds=33
    )
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


@pytest.mark.parametrize(("size", "threads"), [(None, 10), (1, 1), (9, 9), (10, 10), (100, 10)])
def test_a_function_has_a_thread_for_each_message_of_a_batch_up_to_ten(size: int | None, threads: int) -> None:
    table = {"batch_window_seconds": 1} if size is None else {"batch_size": size, "batch_window_seconds": 1}
    function = on_aws(**{"lambda": table}).function
    assert function is not None
    assert FunctionSettings.from_json(function.environment["TOWPATH_SUBSCRIPTION"]).concurrency == threads


def test_threads_can_be_said() -> None:
    function = on_aws(**{"lambda": {"concurrency": 64}}).function
    assert function is not None
    assert FunctionSettings.from_json(function.environment["TOWPATH_SUBSCRIPTION"]).concurrency == 64


@pytest.mark.parametrize(("mode", "size"), [("none", 10), ("exclusive", 1)])
def test_a_batch_is_ten_messages_and_one_from_a_fifo_queue(mode: str, size: int) -> None:
    mapping = on_aws(partition_mode=mode).event_source_mapping
    assert mapping is not None
    assert mapping.batch_size == size


def test_the_event_source_mapping_reports_failures_one_by_one() -> None:
    table = {"batch_size": 50, "batch_window_seconds": 3, "maximum_concurrency": 20}
    mapping = on_aws(**{"lambda": table}).event_source_mapping
    assert mapping is not None
    assert mapping.function_response_types == ("ReportBatchItemFailures",)
    assert (mapping.batch_size, mapping.batch_window_seconds, mapping.maximum_concurrency) == (50, 3, 20)


@pytest.mark.parametrize(("status", "enabled"), [("active", True), ("paused", False), ("disabled", False)])
def test_the_event_source_mapping_is_enabled_iff_the_subscription_is_active(status: str, enabled: bool) -> None:
    mapping = on_aws(status=status).event_source_mapping
    assert mapping is not None
    assert mapping.enabled is enabled


@pytest.mark.parametrize("host", ["worker", "external"])
def test_another_host_has_neither_function_nor_mapping(host: str) -> None:
    aws = on_aws(host=host)
    assert (aws.function, aws.event_source_mapping) == (None, None)
    assert {alarm.namespace for alarm in aws.alarms} == {"AWS/SQS"}


def test_settings_beyond_lambdas_4_kb_of_environment_are_refused() -> None:
    assert resolved(s={"handler": "app:" + "x" * 3_000})
    with pytest.raises(InvalidTopology) as caught:
        resolved(s={"handler": "app:" + "x" * 4_000})
    (mistake,) = caught.value.mistakes
    assert mistake.path == "subscriptions.s"
    assert "which allows 4,096; shorten the handler's path" in mistake.problem


def test_all_variables_together_count_towards_lambdas_4_kb() -> None:
    """Names and values, with 160 bytes for each of the two queues' URLs."""
    function = on_aws().function
    assert function is not None
    names = "".join([*function.environment, *function.queue_url_environment])
    room = 4_096 - len(function.environment["TOWPATH_SUBSCRIPTION"]) - len(names) - 2 * 160
    assert resolved(s={"handler": "app:run" + "x" * room})
    with pytest.raises(InvalidTopology, match=r"needs 4,097 bytes"):
        resolved(s={"handler": "app:run" + "x" * (room + 1)})


# --- Alarms ------------------------------------------------------------------------------------------------------


def test_each_way_of_failing_unseen_has_an_alarm() -> None:
    aws = on_aws()
    found = {(a.metric_name, *a.dimensions.values()): (a.statistic, a.threshold) for a in aws.alarms}
    assert found == {
        ("ApproximateNumberOfMessagesVisible", "shop-prod-s-dlq"): ("Maximum", 0),
        ("ApproximateNumberOfMessagesVisible", "shop-prod-s-failed"): ("Maximum", 0),
        ("ApproximateAgeOfOldestMessage", "shop-prod-s"): ("Maximum", 3_600),
        ("ApproximateNumberOfMessagesNotVisible", "shop-prod-s"): ("Maximum", 108_000),
        ("Errors", "shop-prod-s"): ("Sum", 0),
        ("Throttles", "shop-prod-s"): ("Sum", 0),
    }
    for alarm in aws.alarms:
        assert alarm.comparison == "GreaterThanThreshold"
        assert (alarm.period_seconds, alarm.evaluation_periods) == (300, 1)
        assert alarm.treat_missing_data == "notBreaching"
        assert alarm.name.startswith("shop-prod-s-")
        assert list(alarm.dimensions) == ["QueueName" if alarm.namespace == "AWS/SQS" else "FunctionName"]


def test_the_age_alarm_waits_for_a_deliverys_own_retries() -> None:
    """Four attempts of at most 300 s each, and waits of 1,000, 2,000 and 3,000 s between them."""
    keys = {"max_attempts": 4, "backoff": {"base_seconds": 1_000, "max_seconds": 3_000}, "lease_seconds": 300}
    (age,) = (a for a in on_aws(host="worker", **keys).alarms if a.metric_name == "ApproximateAgeOfOldestMessage")
    assert age.threshold == 4 * 300 + 1_000 + 2_000 + 3_000


def test_the_age_alarm_comes_by_half_the_retention_however_many_attempts_there_are() -> None:
    aws = on_aws({"retention_days": 3}, max_attempts=995)
    (age,) = (a for a in aws.alarms if a.metric_name == "ApproximateAgeOfOldestMessage")
    assert age.threshold == 3 * 86_400 / 2


# --- Stacks ------------------------------------------------------------------------------------------------------


def test_twenty_subscriptions_share_a_stack_in_the_order_of_the_file() -> None:
    names = [f"s{i}" for i in reversed(range(41))]
    manifest = resolved(None, **{name: {} for name in names})
    groups = [manifest.subscriptions[name].aws.stack_group for name in names]  # type: ignore[union-attr]
    assert groups == [0] * 20 + [1] * 20 + [2]


def test_a_new_subscription_at_the_end_moves_no_other_to_another_stack() -> None:
    names = {f"s{i}": {} for i in range(30)}
    before, after = resolved(None, **names), resolved(None, **names, a={})
    assert all(after.subscriptions[name] == subscription for name, subscription in before.subscriptions.items())


def test_database_subscriptions_take_no_place_in_a_stack() -> None:
    written = {
        "name": "shop",
        "topics": {"d": DATABASE, "t": {}},
        "subscriptions": {
            **{f"d{i}": {"topic": "d", "handler": "app:run"} for i in range(20)},
            "s": {"topic": "t", "handler": "app:run"},
        },
    }
    aws = resolve(parse_topology(written), "prod").subscriptions["s"].aws
    assert aws is not None
    assert aws.stack_group == 0


# --- Everything on the database ----------------------------------------------------------------------------------


def test_all_on_database_leaves_nothing_of_aws() -> None:
    manifest = resolve(with_all_on_database(load_topology(GOLDEN / "everything.toml")), "dev")
    assert {t.transport for t in manifest.topics.values()} == {"database"}
    assert all(t.aws is None and t.deduplication.enabled for t in manifest.topics.values())
    assert {(s.transport, s.host, s.aws) for s in manifest.subscriptions.values()} == {("database", "worker", None)}
    assert (manifest.access.publisher, manifest.access.worker, manifest.access.operator) == ((), (), ())


def test_all_on_database_is_a_topology_that_the_rules_accept() -> None:
    everything = with_all_on_database(load_topology(GOLDEN / "everything.toml"))
    written = everything.model_dump(by_alias=True, exclude_defaults=True)
    assert parse_topology(written) == everything


def test_all_on_database_leaves_external_subscriptions_to_their_consumers() -> None:
    everything = load_topology(GOLDEN / "everything.toml")
    gone = set(everything.subscriptions) - set(with_all_on_database(everything).subscriptions)
    assert gone == {"orders.partner"}


def test_all_on_database_changes_no_rule_of_handling() -> None:
    everything = load_topology(GOLDEN / "everything.toml")
    on_aws, on_database = resolve(everything, "dev"), resolve(with_all_on_database(everything), "dev")
    for name, subscription in on_database.subscriptions.items():
        assert subscription.policy(name) == on_aws.subscriptions[name].policy(name)
        assert subscription.filter_policy == on_aws.subscriptions[name].filter_policy
