"""Every derived value of the manifest, one test for each rule."""

import json
from typing import Any

import pytest

from tests.unit.resolving import DATABASE, EXCLUSIVE, function_of, on_aws, resolved, topology
from towpath.backoff import BackOff
from towpath.errors import InvalidTopology
from towpath.function_settings import FunctionSettings
from towpath.manifest import DeduplicationTable
from towpath.resolve import resolve
from towpath.settlement import SubscriptionPolicy
from towpath.topology import parse_topology

# --- The manifest as a whole -------------------------------------------------------------------------------------


def test_equal_topologies_give_equal_bytes_whatever_the_order_of_their_keys() -> None:
    one = parse_topology({"name": "shop", "topics": {"a": {"fair": True, "retention_days": 3}, "b": {}}})
    other = parse_topology({"topics": {"b": {}, "a": {"retention_days": 3, "fair": True}}, "name": "shop"})
    assert resolve(one, "prod").to_json() == resolve(other, "prod").to_json()


@pytest.mark.parametrize("environment", ["", "Prod", "x" * 21, "a_b"])
def test_an_environment_is_named_like_a_topology(environment: str) -> None:
    with pytest.raises(InvalidTopology, match="the environment's name must be 1 to 20 of a-z, 0-9 and -, not"):
        resolve(topology(), environment)


@pytest.mark.parametrize("environment", ["a", "-", "prod-eu-1", "x" * 20])
def test_the_environment_comes_second_in_every_name(environment: str) -> None:
    aws = resolve(topology(None, s={}), environment).subscriptions["s"].aws
    assert aws is not None
    assert aws.queue.name == f"shop-{environment}-s"


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


def test_an_aws_topic_takes_deduplication_keys_only_when_it_says_so() -> None:
    without, declared = resolved().topics["t"], resolved({"deduplication": True}).topics["t"]
    assert without.aws is not None
    assert declared.aws is not None
    assert (without.deduplication.enabled, without.aws.deduplication_table) == (False, None)
    assert (declared.deduplication.enabled, declared.deduplication.ttl_seconds) == (True, 86_400)


def test_the_ledger_of_deduplication_keys_is_a_table_on_demand_that_clears_itself_up() -> None:
    topic = resolved({"deduplication": True}).topics["t"].aws
    assert topic is not None
    assert topic.deduplication_table == DeduplicationTable(
        name="shop-prod-t-dedup",
        partition_key="deduplication_key",
        partition_key_type="S",
        ttl_attribute="expires_at",
        billing_mode="PAY_PER_REQUEST",
        point_in_time_recovery=False,
    )


def test_a_topic_keeps_what_was_written() -> None:
    keys = {"status": "disabled", "max_payload_bytes": 2_000, "retention_days": 3, "external_publish": True}
    topic = resolved({**keys, "deduplication_ttl_seconds": 77}).topics["t"]
    assert {key: getattr(topic, key) for key in keys} == keys
    assert (topic.transport, topic.deduplication.ttl_seconds) == ("aws", 77)


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


def test_only_its_own_queue_may_move_messages_to_a_dead_letter_queue() -> None:
    """It is SNS and not SQS that writes to the queue of failed deliveries."""
    aws = on_aws()
    queues = (aws.queue, aws.dead_letter_queue, aws.delivery_failure_queue)
    assert [queue.redrive_allow for queue in queues] == [None, "byQueue", None]


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
        assert not queue.name.endswith(".fifo")


def test_failed_deliveries_of_a_fifo_topic_go_to_a_fifo_queue_whatever_the_subscriptions_own() -> None:
    """Amazon SNS developer guide, "Amazon SNS dead-letter queues": it is the topic's type that counts."""
    failed = on_aws({"fifo": True}).delivery_failure_queue
    assert (failed.fifo, failed.name) == (True, "shop-prod-s-failed.fifo")
    assert (failed.deduplication_scope, failed.fifo_throughput_limit) == ("messageGroup", "perMessageGroupId")
    assert not on_aws().delivery_failure_queue.fifo


# --- SNS subscription --------------------------------------------------------------------------------------------


def test_sns_delivers_raw_and_filters_by_attributes() -> None:
    subscription = on_aws(filter={"b": ["x"], "a": [{"exists": True}]}).sns_subscription
    assert (subscription.protocol, subscription.raw_message_delivery) == ("sqs", True)
    assert subscription.filter_policy_scope == "MessageAttributes"
    assert subscription.filter_policy == '{"a":[{"exists":true}],"b":["x"]}'


def test_what_sns_cannot_deliver_goes_to_a_queue_of_its_own() -> None:
    assert on_aws().sns_subscription.redrive_target == "delivery_failure_queue"


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
    function = function_of(**{"lambda": table})
    assert {key: getattr(function, key) for key in table} == table


def test_a_function_starts_at_the_runtimes_entry_point_and_is_called_by_its_alias() -> None:
    function = function_of()
    assert (function.handler, function.alias) == ("lambda_runtime.entry.handler", "live")
    assert (function.name, function.role_name) == ("shop-prod-s", "shop-prod-s")


def test_a_function_logs_to_a_group_of_its_own_for_thirty_days() -> None:
    function = function_of()
    assert (function.log_group_name, function.log_retention_days) == ("/aws/lambda/shop-prod-s", 30)


def test_the_urls_of_its_queues_have_variables_of_their_own() -> None:
    assert function_of().queue_url_environment == {
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


@pytest.mark.parametrize(("size", "threads"), [(None, 10), (1, 1), (9, 9), (10, 10), (11, 10), (100, 10)])
def test_a_function_has_a_thread_for_each_message_of_a_batch_up_to_ten(size: int | None, threads: int) -> None:
    function = function_of(**{"lambda": {"batch_window_seconds": 1} | ({} if size is None else {"batch_size": size})})
    assert function.concurrency == threads
    assert FunctionSettings.from_json(function.environment["TOWPATH_SUBSCRIPTION"]).concurrency == threads


def test_threads_can_be_said() -> None:
    function = function_of(**{"lambda": {"concurrency": 64}})
    assert function.concurrency == 64
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
    assert {alarm.namespace for alarm in aws.alarms.values()} == {"AWS/SQS"}


# --- Tags --------------------------------------------------------------------------------------------------------


def test_tags_say_what_a_resource_belongs_to() -> None:
    manifest = resolved(s={})
    topic, subscription = manifest.topics["t"].aws, manifest.subscriptions["s"].aws
    assert topic is not None
    assert subscription is not None
    shared = {"towpath:topology": "shop", "towpath:environment": "prod"}
    assert topic.tags == shared | {"towpath:topic": "t"}
    assert subscription.tags == shared | {"towpath:subscription": "s"}
