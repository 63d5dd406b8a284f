"""What the records of a manifest must say together: a manifest edited by hand is refused with a sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from towpath.errors import InvalidManifest
from towpath.manifest import Manifest

GOLDEN = Path(__file__).parent / "golden" / "everything.json"
Document = dict[str, Any]


def mistakes(edit: Callable[[Document], object]) -> list[str]:
    written = json.loads(GOLDEN.read_text(encoding="utf-8"))
    edit(written)
    with pytest.raises(InvalidManifest) as caught:
        Manifest.from_json(json.dumps(written))
    return [str(mistake) for mistake in caught.value.mistakes]


def put(value: object, *path: str) -> Callable[[Document], None]:
    def edit(written: Document) -> None:
        for key in path[:-1]:
            written = written[key]
        written[path[-1]] = value

    return edit


def on(subscription: str, value: object, *path: str) -> list[str]:
    """The mistakes of the subscription after one edit, told without its path."""
    start = f'subscriptions."{subscription}".'
    found = mistakes(put(value, "subscriptions", subscription, *path))
    assert all(mistake.startswith(start) for mistake in found)
    return [mistake.removeprefix(start) for mistake in found]


def test_ordered_on_aws_is_refused() -> None:
    told = 'must not be "ordered" on aws, which cannot keep that order; put the topic on a database'
    assert on("orders.index", "ordered", "partition_mode") == [f"partition_mode: {told}"]


def test_exclusive_on_a_standard_topic_is_refused() -> None:
    told = "is true of an exclusive subscription, and SNS delivers to a FIFO queue from a FIFO topic only"
    assert on("orders.index", "exclusive", "partition_mode") == [f"aws.queue.fifo: {told}"]


def test_a_fifo_queue_would_make_a_subscription_of_mode_none_exclusive() -> None:
    assert on("orders.changes.log", True, "aws", "queue", "fifo") == [
        'aws.queue.fifo: must be false, for a subscription in partition mode "none"'
    ]
    assert on("orders.changes.apply", False, "aws", "queue", "fifo") == [
        'aws.queue.fifo: must be true, for a subscription in partition mode "exclusive"'
    ]


def test_a_dead_letter_queue_is_of_its_queues_type_and_the_one_of_failed_deliveries_of_its_topics() -> None:
    assert on("orders.changes.log", True, "aws", "dead_letter_queue", "fifo") == [
        "aws.dead_letter_queue.fifo: must be false, as its queue is"
    ]
    assert on("orders.changes.log", False, "aws", "delivery_failure_queue", "fifo") == [
        "aws.delivery_failure_queue.fifo: must be true, as its topic is"
    ]


def test_fifo_names_and_only_they_end_in_fifo() -> None:
    wanted, unwanted = 'must end in ".fifo", as FIFO names do', 'must not end in ".fifo", as only FIFO names do'
    assert on("orders.changes.apply", "x", "aws", "queue", "name") == [f"aws.queue.name: {wanted}"]
    assert on("orders.index", "x.fifo", "aws", "dead_letter_queue", "name") == [
        f"aws.dead_letter_queue.name: {unwanted}"
    ]
    assert mistakes(put("x", "topics", "orders.changes", "aws", "topic_name")) == [
        f'topics."orders.changes".aws.topic_name: {wanted}'
    ]
    assert mistakes(put("x.fifo", "topics", "orders", "aws", "topic_name")) == [
        f"topics.orders.aws.topic_name: {unwanted}"
    ]


def test_a_subscription_reads_a_topic_of_the_manifest_on_the_same_transport() -> None:
    assert on("orders.index", "order", "topic") == ["topic: names no topic of this manifest; did you mean 'orders'?"]
    assert on("orders.index", "database", "transport") == ['transport: must be its topic\'s, "aws"']


def test_the_aws_part_is_there_on_aws_and_only_there() -> None:
    parts = json.loads(GOLDEN.read_text(encoding="utf-8"))
    not_null, null = 'must not be null, since transport is "aws"', 'must be null, since transport is "database"'
    assert on("orders.index", None, "aws") == [f"aws: {not_null}"]
    put_there = put(parts["subscriptions"]["orders.index"]["aws"], "subscriptions", "ledger.mail", "aws")
    assert f'subscriptions."ledger.mail".aws: {null}' in mistakes(put_there)
    assert mistakes(put(None, "topics", "orders", "aws"))[0] == f"topics.orders.aws: {not_null}"
    put_there = put(parts["topics"]["orders"]["aws"], "topics", "ledger", "aws")
    assert f"topics.ledger.aws: {null}" in mistakes(put_there)


def test_what_there_is_in_common_on_aws_is_there_when_a_topic_is_on_aws() -> None:
    assert mistakes(put(None, "aws")) == ["aws: must not be null, since a topic is on aws"]
    written = json.loads((GOLDEN.parent / "database.json").read_text(encoding="utf-8"))
    written["aws"] = json.loads(GOLDEN.read_text(encoding="utf-8"))["aws"]
    with pytest.raises(InvalidManifest, match=r"aws: must be null, since no topic is on aws"):
        Manifest.from_json(json.dumps(written))


def test_only_workers_serve_a_database() -> None:
    assert on("ledger.mail", "lambda", "host") == ['host: must be "worker" on a database']


def test_a_handler_is_there_unless_the_consumer_is_not_ours() -> None:
    assert on("orders.index", None, "handler") == ['handler: must not be null, since host is "worker"']
    assert on("orders.partner", "shop:run", "handler") == ['handler: must be null, since host is "external"']


def test_function_and_mapping_are_there_for_lambda_and_a_consumers_policy_for_others() -> None:
    def told(**wrong: str) -> list[str]:
        return [f"aws.{part}: must {rest}" for part, rest in wrong.items()]

    missing, there = 'not be null, since host is "lambda"', 'be null, since host is "worker"'
    assert on("orders.paused", None, "aws", "function") == told(function=missing)
    assert on("orders.paused", None, "aws", "event_source_mapping") == told(event_source_mapping=missing)
    assert on("orders.index", None, "aws", "consumer_policy") == told(
        consumer_policy='not be null, since host is "worker"'
    )
    assert on("orders.index", "lambda", "host") == told(
        function=missing, event_source_mapping=missing, consumer_policy='be null, since host is "lambda"'
    )
    assert on("orders.paused", "worker", "host") == told(
        function=there, event_source_mapping=there, consumer_policy='not be null, since host is "worker"'
    )


def test_a_queue_hides_messages_at_least_as_long_as_its_function_runs() -> None:
    """Lambda refuses the mapping otherwise. The function of this subscription has 120 s."""
    told = "must be at least the function's timeout, 120, or Lambda refuses the queue"
    path = ("aws", "queue", "visibility_timeout_seconds")
    assert on("orders.invoice", 119, *path) == [f"aws.queue.visibility_timeout_seconds: {told}"]
    written = json.loads(GOLDEN.read_text(encoding="utf-8"))
    put(120, "subscriptions", "orders.invoice", *path)(written)
    assert Manifest.from_json(json.dumps(written))


def test_lambda_polls_for_active_subscriptions_only() -> None:
    told = "must be true exactly when the subscription is active, and it is"
    path = ("aws", "event_source_mapping", "enabled")
    assert on("orders.invoice", False, *path) == [f"aws.event_source_mapping.enabled: {told} active"]
    assert on("orders.paused", True, *path) == [f"aws.event_source_mapping.enabled: {told} paused"]


def test_no_two_resources_of_a_kind_have_one_name() -> None:
    def twice(resource: str, name: str, *paths: str) -> list[str]:
        later, first = paths
        return [f"{later}: is the {resource} {name!r}, as is {first}"]

    def both(*path: str) -> tuple[str, str]:
        ends = ".".join(path)
        return f'subscriptions."orders.partner".{ends}', f'subscriptions."orders.index".{ends}'

    name = "everything-prod-orders-index"
    assert mistakes(put(name, "subscriptions", "orders.partner", "aws", "queue", "name")) == twice(
        "SQS queue", name, *both("aws", "queue", "name")
    )
    assert mistakes(put(f"{name}-age", "subscriptions", "orders.partner", "aws", "alarms", "age", "name")) == twice(
        "CloudWatch alarm", f"{name}-age", *both("aws", "alarms", "age", "name")
    )
    name = "everything-prod-orders-disabled"
    path = ("aws", "function", "role_name")
    assert mistakes(put(name, "subscriptions", "orders.paused", *path)) == twice(
        "IAM role",
        name,
        'subscriptions."orders.paused".aws.function.role_name',
        'subscriptions."orders.disabled".aws.function.role_name',
    )
    name = "everything-prod-orders-changes.fifo"
    assert mistakes(put(name, "topics", "orders.imports", "aws", "topic_name")) == twice(
        "SNS topic", name, 'topics."orders.imports".aws.topic_name', 'topics."orders.changes".aws.topic_name'
    )


def test_all_contradictions_are_told_at_once() -> None:
    def edit(written: Document) -> None:
        put("x.fifo", "topics", "orders", "aws", "topic_name")(written)
        put("lost", "subscriptions", "ledger.mail", "topic")(written)
        put(None, "subscriptions", "orders.index", "handler")(written)

    assert [mistake.partition(": ")[0] for mistake in mistakes(edit)] == [
        "topics.orders.aws.topic_name",
        'subscriptions."ledger.mail".topic',
        'subscriptions."orders.index".handler',
    ]
