"""What is said of each change, and how bad it is."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.resolving import DATABASE, EXCLUSIVE, resolved, topology
from towpath.changes import Change, changes
from towpath.manifest import Manifest, ResourceStatement
from towpath.resolve import resolve
from towpath.topology import parse_topology

Keys = Mapping[str, Any]


def of_subscription(before: Keys, after: Keys, topic: Keys | None = None) -> dict[str, str]:
    """The changes of the subscription ``s`` and of nothing else: sentence to impact."""
    found = changes(resolved(topic, s=before), resolved(topic, s=after))
    return {change.sentence: change.impact for change in found if change.kind == "subscription"}


def of_topic(before: Keys, after: Keys, **subscriptions: Keys) -> dict[str, str]:
    found = changes(resolved(before, **subscriptions), resolved(after, **subscriptions))
    return {change.sentence: change.impact for change in found if change.kind == "topic"}


def edited(edit: Callable[[Any], Any], **keys: Any) -> Change:
    """The one change when the AWS part of ``s`` is edited by hand."""
    old = resolved(None, s=keys)
    subscription = old.subscriptions["s"]
    new = replace(old, subscriptions={"s": replace(subscription, aws=edit(subscription.aws))})
    (change,) = changes(old, new)
    return change


# --- What comes and goes -----------------------------------------------------------------------------------------


def test_a_removed_subscription_is_destructive_with_its_queue_and_messages() -> None:
    (change, *_) = changes(resolved(None, s={}), resolved())
    assert (change.impact, change.kind, change.name) == ("destructive", "subscription", "s")
    assert change.sentence == (
        "is removed: its queue shop-prod-s is deleted, with its dead letters and all messages in them"
    )
    assert change.paths == ("subscriptions.s",)


def test_on_a_database_a_removed_subscription_is_destructive_too() -> None:
    (change,) = changes(resolved(DATABASE, s={}), resolved(DATABASE))
    assert (change.impact, change.sentence) == (
        "destructive",
        "is removed: a database lets it go only when it has no deliveries",
    )


def test_a_subscription_that_looks_like_a_removed_one_is_told_to_start_empty() -> None:
    removed, *_ = changes(resolved(None, old={"max_attempts": 7}), resolved(None, new={"max_attempts": 7}, other={}))
    assert removed.sentence.endswith(
        "; new looks like it under a new name, and starts empty: let this one finish first"
    )
    removed, *_ = changes(resolved(None, old={"max_attempts": 7}), resolved(None, new={"max_attempts": 8}))
    assert "looks like it" not in removed.sentence


def test_a_removed_topic_is_destructive() -> None:
    empty, with_topic = resolve(topology(DATABASE), "prod"), resolved()
    (change,) = changes(with_topic, replace(with_topic, topics={}))
    assert (change.impact, change.kind, change.name, change.paths) == ("destructive", "topic", "t", ("topics.t",))
    assert change.sentence == "is removed: its SNS topic is deleted, and publishers are rejected"
    (change,) = changes(empty, replace(empty, topics={}))
    assert change.sentence == "is removed: the database no longer takes messages for it, and publishers are rejected"


def test_what_is_new_is_safe() -> None:
    found = changes(replace(resolved(), topics={}), resolved(None, s={}))
    new = {(c.kind, c.name): (c.impact, c.sentence) for c in found if "is new" in c.sentence}
    assert new == {
        ("subscription", "s"): ("safe", "is new: it gets what is published to t from then on"),
        ("topic", "t"): ("safe", "is new, on aws"),
    }


# --- Subscriptions -----------------------------------------------------------------------------------------------


def test_another_partition_mode_is_another_queue() -> None:
    told = of_subscription({}, EXCLUSIVE, {"fifo": True})
    assert told == {
        (
            "its partition mode is exclusive instead of none: its queue shop-prod-s is deleted, with its "
            "dead letters and all messages in them, and shop-prod-s.fifo made in its place; make a "
            "subscription of another name and let this one finish first"
        ): "destructive",
        "an invocation has 1 thread instead of 10": "safe",
    }


def test_on_a_database_a_partition_mode_changes_only_without_deliveries() -> None:
    assert of_subscription({}, {"partition_mode": "ordered"}, DATABASE) == {
        (
            "its partition mode is ordered instead of none: a database takes that only while it has no "
            "deliveries; let workers finish, settle its dead letters"
        ): "destructive"
    }


@pytest.mark.parametrize(
    ("before", "after", "impact", "told"),
    [
        (
            "lambda",
            "worker",
            "destructive",
            (
                "its host is worker instead of lambda: its function is deleted, and its messages wait until a "
                "worker takes them"
            ),
        ),
        (
            "lambda",
            "external",
            "destructive",
            (
                "its host is external instead of lambda: its function is deleted, and somebody else must take "
                "its messages, which SQS sets aside after as many receives as it has attempts"
            ),
        ),
        (
            "worker",
            "external",
            "lossy",
            (
                "its host is external instead of worker: somebody else must take its messages, which SQS sets "
                "aside after as many receives as it has attempts"
            ),
        ),
        (
            "external",
            "worker",
            "lossy",
            "its host is worker instead of external: its messages wait until a worker takes them",
        ),
        (
            "worker",
            "lambda",
            "safe",
            "its host is lambda instead of worker: a function takes its messages; stop the workers that did",
        ),
    ],
)
def test_another_host(before: str, after: str, impact: str, told: str) -> None:
    found = of_subscription({"host": before}, {"host": after})
    assert found.pop(told) == impact
    assert all(sentence.startswith("SQS hides") for sentence in found)


def test_another_topic() -> None:
    def reading(name: str) -> Manifest:
        base = resolved(None, s={})
        subscription = replace(base.subscriptions["s"], topic=name)
        return replace(base, topics={"t": base.topics["t"], "u": base.topics["t"]}, subscriptions={"s": subscription})

    (change,) = changes(reading("t"), reading("u"))
    assert (change.impact, change.sentence) == (
        "lossy",
        (
            "takes its messages from u instead of t: what it has got is handled still, and what is "
            "published while the change is made may not reach it"
        ),
    )


FILTER = {"filter": {"kind": ["a"]}}
WIDER = "what is published from then on; what it has already stays; it lets through all that the old one did"
NARROW = "what is published from then on; what it has already stays, and what the filter keeps out never comes"


@pytest.mark.parametrize(
    ("before", "after", "impact", "told"),
    [
        ({}, FILTER, "lossy", f'gets the filter {{"kind": ["a"]}} instead of null, for {NARROW}'),
        (
            FILTER,
            {"filter": {"kind": ["a", "b"]}},
            "safe",
            f'gets the filter {{"kind": ["a", "b"]}} instead of {{"kind": ["a"]}}, for {WIDER}',
        ),
        (
            FILTER,
            {"filter": {"other": ["a"]}},
            "lossy",
            f'gets the filter {{"other": ["a"]}} instead of {{"kind": ["a"]}}, for {NARROW}',
        ),
        (
            FILTER,
            {},
            "safe",
            "its filter goes and it gets everything of what is published from then on; what it has already stays",
        ),
        ({}, {"status": "disabled"}, "lossy", "is disabled: what is published meanwhile never reaches it"),
        (
            {},
            {"status": "paused"},
            "lossy",
            "is paused: it gets deliveries, which wait until it is active again or they are too old",
        ),
        ({"status": "paused"}, {}, "safe", "is active: it gets deliveries and they are handled"),
        ({"status": "disabled", **FILTER}, FILTER, "safe", "is active: it gets deliveries and they are handled"),
        (
            {"max_attempts": 5},
            {"max_attempts": 3},
            "lossy",
            (
                "attempts are 3 instead of 5: deliveries that were tried 3 times or more become dead letters "
                "without another try"
            ),
        ),
        (
            {"max_attempts": 2},
            {"max_attempts": 1},
            "lossy",
            (
                "attempts are 1 instead of 2: deliveries that were tried once or more become dead letters "
                "without another try"
            ),
        ),
        ({"max_attempts": 5}, {"max_attempts": 995}, "safe", "attempts are 995 instead of 5"),
        (
            {"backoff": {"base_seconds": 10}},
            {"backoff": {"base_seconds": 1}},
            "safe",
            "the first wait between attempts is up to 1 second instead of 10",
        ),
        (
            {"backoff": {"max_seconds": 900}},
            {"backoff": {"max_seconds": 1.5}},
            "safe",
            "waits between attempts are up to 1.5 seconds instead of 900",
        ),
        (
            {},
            {"heartbeat": "manual"},
            "lossy",
            "its leases are renewed by heartbeats of the handler alone: one that gives none in time runs twice",
        ),
        (
            {"heartbeat": "manual"},
            {},
            "safe",
            "its leases are renewed while handlers run, also without heartbeats of theirs",
        ),
        (
            {},
            {"max_processing_seconds": 30},
            "lossy",
            (
                "a handler may take 30 seconds instead of as long as its host lets it: handlers that take "
                "longer are asked to stop"
            ),
        ),
        (
            {"max_processing_seconds": 30},
            {},
            "safe",
            "a handler may take as long as its host lets it instead of 30 seconds",
        ),
        (
            {},
            {"accept_foreign": False},
            "lossy",
            "bodies that are no Towpath envelope become dead letters, also those that wait",
        ),
        ({"accept_foreign": False}, {}, "safe", "bodies that are no Towpath envelope are handled"),
        (
            {},
            {"dead_letter_retention_days": 1},
            "lossy",
            "dead letters are kept for 1 day instead of 14: older ones are deleted",
        ),
        (
            {},
            {"handler": "app:other"},
            "safe",
            'its handler is "app:other" instead of "app:run": what waits goes there too',
        ),
    ],
)
def test_a_change_of_handling_is_one_sentence(before: Keys, after: Keys, impact: str, told: str) -> None:
    """All that follows from it, the queue's attributes, alarms and the function's settings, is in the same change."""
    assert of_subscription(before, after) == {told: impact}


def test_a_shorter_lease_is_lossy_and_on_aws_so_is_the_shorter_visibility() -> None:
    assert of_subscription({"host": "worker"}, {"host": "worker", "lease_seconds": 30}) == {
        (
            "a lease holds for 30 seconds instead of 60: a delivery whose lease is not renewed in time comes again"
        ): "lossy",
        "SQS hides what it hands out for 30 seconds instead of 60: what takes longer is handed out twice": "lossy",
    }
    assert of_subscription({}, {"lease_seconds": 90}, DATABASE) == {
        "a lease holds for 90 seconds instead of 60": "safe"
    }


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (
            {"timeout_seconds": 30},
            {
                "an invocation may take 30 seconds instead of 60: one that takes longer is cut off": "lossy",
                "SQS hides what it hands out for 180 seconds instead of 360: what takes longer is handed out twice": (
                    "lossy"
                ),
            },
        ),
        (
            {"memory_mb": 256},
            {"its function has 256 MB of memory instead of 512: it is slower, and killed when it needs more": "lossy"},
        ),
        ({"memory_mb": 1_024}, {"its function has 1,024 MB of memory instead of 512": "safe"}),
        (
            {"architecture": "x86_64"},
            {'its function runs on "x86_64" instead of "arm64": deploy a zip that is bundled for it': "safe"},
        ),
        (
            {"runtime": "python3.12"},
            {'its function runs on "python3.12" instead of "python3.13": deploy a zip that is bundled for it': "safe"},
        ),
        ({"concurrency": 3}, {"an invocation has 3 threads instead of 10": "safe"}),
        ({"batch_size": 9, "concurrency": 10}, {"an invocation gets up to 9 messages instead of 10": "safe"}),
        (
            {"maximum_concurrency": 7},
            {"invocations at once are up to 7 instead of as many as the account allows": "safe"},
        ),
        (
            {"batch_window_seconds": 4},
            {
                "Lambda gathers a batch for 4 seconds instead of 0": "safe",
                "SQS hides what it hands out for 364 seconds instead of 360": "safe",
            },
        ),
    ],
)
def test_a_change_of_the_function(table: Keys, told: dict[str, str]) -> None:
    assert of_subscription({}, {"lambda": table}) == told


# --- Topics ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "impact", "told"),
    [
        ({}, {"status": "disabled"}, "lossy", "is disabled: what is published to it is rejected"),
        ({"status": "disabled"}, {}, "safe", "is active again: what is published to it is accepted"),
        (
            {},
            {"max_payload_bytes": 2_000},
            "lossy",
            "the largest message has 2,000 bytes instead of 261,120: larger ones are rejected at publish",
        ),
        (
            {"retention_days": 7},
            {"retention_days": 3},
            "lossy",
            (
                "queues keep messages for 3 days instead of 7: older ones are deleted, also those that nobody "
                "has handled yet"
            ),
        ),
        ({"retention_days": 7}, {"retention_days": 14}, "safe", "queues keep messages for 14 days instead of 7"),
        (
            {**DATABASE, "retention_days": 7},
            {**DATABASE, "retention_days": 3},
            "lossy",
            "what is final is kept for 3 days instead of 7: older history is deleted",
        ),
        (
            {},
            {"external_publish": True},
            "lossy",
            "may be published to over HTTP, by everybody who has a key for it",
        ),
        (
            {"external_publish": True},
            {},
            "lossy",
            "may no longer be published to over HTTP: what is sent there is rejected",
        ),
        ({}, {"deduplication": True}, "safe", "takes deduplication keys from now on, and gets a table for them"),
        (
            {"deduplication": True},
            {},
            "destructive",
            "takes no deduplication keys any more: messages with one are rejected, and the table of keys is deleted",
        ),
        (
            {},
            {"deduplication_ttl_seconds": 60},
            "lossy",
            "a deduplication key counts for 60 seconds instead of 86,400: a repeat after that is a message of its own",
        ),
        ({}, {"fair": True}, "safe", "partition keys go along as message groups, for the fair queues of SQS"),
        ({"fair": True}, {}, "safe", "partition keys no longer go along as message groups"),
        (
            {},
            {"fifo": True},
            "destructive",
            (
                "the SNS topic shop-prod-t is deleted, with its SNS subscriptions and their queues of failed "
                "deliveries, and shop-prod-t.fifo made in its place, since it is standard and is to be FIFO; "
                "publishers need the new bindings"
            ),
        ),
        (
            {},
            DATABASE,
            "destructive",
            (
                "moves from aws to database: its SNS topic and SQS queues are deleted, and no message moves "
                "along; make a topic of another name there, let consumers finish what this one holds, then "
                "remove it"
            ),
        ),
        (
            DATABASE,
            {},
            "destructive",
            (
                "moves from database to aws: what the database has stays there, and no message moves along; "
                "make a topic of another name there, let consumers finish what this one holds, then remove it"
            ),
        ),
    ],
)
def test_a_change_of_a_topic_is_one_sentence(before: Keys, after: Keys, impact: str, told: str) -> None:
    assert of_topic(before, after) == {told: impact}
    with_subscription = of_topic(before, after, s={})
    assert with_subscription == {told: impact}


def test_what_follows_from_a_topic_is_not_told_again_of_its_subscriptions() -> None:
    for after in (DATABASE, {"retention_days": 3}, {"fifo": True}):
        found = changes(resolved(None, s={}), resolved(after, s={}))
        assert [change for change in found if change.kind == "subscription"] == []


# --- The deployment ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "environment"), [("shop", "dev"), ("store", "prod")])
def test_another_name_or_environment_is_another_deployment_in_one_sentence(name: str, environment: str) -> None:
    written = topology({"deduplication": True}, s={}, w={"host": "worker"})
    old = resolve(written, "prod")
    new = resolve(written.model_copy(update={"name": name}), environment)
    (change,) = changes(old, new)
    assert (change.impact, change.kind, change.name) == ("destructive", "manifest", "")
    assert change.sentence == (
        f"is of {name} in {environment} instead of shop in prod: every resource on AWS gets another "
        "name, so all that there is would be deleted, with all messages, and made anew; compare "
        "manifests of one name and environment"
    )


def test_another_environment_of_a_database_is_nothing_to_it() -> None:
    (change,) = changes(resolve(topology(DATABASE, s={}), "dev"), resolve(topology(DATABASE, s={}), "prod"))
    assert (change.impact, change.sentence) == (
        "safe",
        "is of shop in prod instead of shop in dev, which a database does not keep",
    )


def test_what_differs_besides_the_environment_is_told_too() -> None:
    old, new = resolve(topology(None, s={}), "dev"), resolve(topology(None, s={"max_attempts": 9}), "prod")
    assert [change.kind for change in changes(old, new)] == ["manifest", "subscription"]


def test_the_last_topic_on_aws_takes_what_there_is_in_common_with_it() -> None:
    on_aws, on_database = resolved(), resolved(DATABASE)
    assert {c.sentence: c.impact for c in changes(on_aws, on_database) if c.kind == "manifest"} == {
        "has nothing on AWS any more: policies, dashboard and all other resources there are deleted": "destructive"
    }
    assert {c.sentence: c.impact for c in changes(on_database, on_aws) if c.kind == "manifest"} == {
        "has something on AWS for the first time": "safe"
    }


def test_permissions_that_come_and_go_with_resources_are_safe() -> None:
    found = changes(resolved(None, a={}, b={}), resolved(None, b={}, c={}))
    (access,) = (change for change in found if change.sentence.startswith("operators"))
    assert (access.impact, access.kind) == ("safe", "aws")
    assert access.sentence == (
        "operators may also sqs:ChangeMessageVisibility on shop-prod-c-dlq and 9 more, may no longer "
        "sqs:ChangeMessageVisibility on shop-prod-a-dlq and 9 more"
    )


def test_permissions_on_what_stays_are_lossy_and_a_policy_to_be_given_is_named() -> None:
    found = changes(resolved(None, s={}), resolved(None, s={"host": "worker"}))
    (access,) = (change for change in found if change.sentence.startswith("workers"))
    assert (access.impact, access.sentence) == (
        "lossy",
        "workers may also sqs:ChangeMessageVisibility on shop-prod-s and 4 more, need the policy shop-prod-worker-1",
    )
    found = changes(resolved(None, s={"host": "worker"}), resolved(None, s={}))
    (access,) = (change for change in found if change.sentence.startswith("workers"))
    assert (access.impact, access.sentence) == (
        "lossy",
        (
            "workers may no longer sqs:ChangeMessageVisibility on shop-prod-s and 4 more, lose the policy "
            "shop-prod-worker-1"
        ),
    )


def test_a_policy_of_another_name_is_lossy_though_it_allows_the_same() -> None:
    old = resolved()
    assert old.aws is not None
    (policy,) = old.aws.access.publisher
    access = replace(old.aws.access, publisher=(replace(policy, name="other"),))
    (change,) = changes(old, replace(old, aws=replace(old.aws, access=access)))
    assert (change.impact, change.sentence) == (
        "lossy",
        "publishers need the policy other, lose the policy shop-prod-publisher-1",
    )


def test_another_use_of_the_key_is_told() -> None:
    old = resolved()
    assert old.aws is not None
    (policy,) = old.aws.access.publisher
    (key,) = policy.key_statements
    changed = replace(policy, key_statements=(replace(key, actions=("kms:Decrypt",)),))
    access = replace(old.aws.access, publisher=(changed,))
    (change,) = changes(old, replace(old, aws=replace(old.aws, access=access)))
    assert (change.impact, change.sentence) == (
        "lossy",
        "publishers may no longer kms:GenerateDataKey* on ${key_arn}",
    )


def test_the_same_permissions_in_other_statements_are_safe() -> None:
    old = resolved({"deduplication": True})
    assert old.aws is not None
    (policy,) = old.aws.access.publisher
    access = replace(old.aws.access, publisher=(replace(policy, statements=policy.statements[::-1]),))
    (change,) = changes(old, replace(old, aws=replace(old.aws, access=access)))
    assert (change.impact, change.sentence) == ("safe", "publishers may do the same, in other statements")


@pytest.mark.parametrize(
    ("key", "whose"),
    [
        ("topic_policy", "every topic"),
        ("queue_policy", "every queue"),
        ("dead_letter_queue_policy", "every dead-letter queue"),
    ],
)
def test_a_policy_of_resources_that_changes_is_lossy(key: str, whose: str) -> None:
    old = resolved()
    assert old.aws is not None
    statements: tuple[ResourceStatement, ...] = getattr(old.aws, key)
    (change,) = changes(old, replace(old, aws=replace(old.aws, **{key: statements[:-1]})))
    assert (change.impact, change.sentence) == (
        "lossy",
        f"the policy of {whose} changes ({key}.RefuseWithoutTls): others may use it, or some no longer",
    )


# --- Edits by hand, or by another Towpath ------------------------------------------------------------------------


def test_another_name_of_a_queue_is_destructive() -> None:
    change = edited(lambda aws: replace(aws, queue=replace(aws.queue, name="other")))
    assert (change.impact, change.sentence) == (
        "destructive",
        "the queue shop-prod-s is deleted, with all messages in it, and other made",
    )


def test_another_stack_is_destructive_for_cloudformation() -> None:
    change = edited(lambda aws: replace(aws, stack_group=9, stack_name="towpath-shop-prod-subscriptions-9"))
    assert change.impact == "destructive"
    assert change.sentence.startswith("is in the stack towpath-shop-prod-subscriptions-9 instead of towpath-shop-prod-")
    assert change.sentence.endswith("with Terraform nothing happens")
    assert change.paths == ("subscriptions.s.aws.stack_group", "subscriptions.s.aws.stack_name")


def test_a_lost_alarm_is_lossy_and_a_changed_or_new_one_safe() -> None:
    def without(aws: Any) -> Any:
        return replace(aws, alarms={watches: alarm for watches, alarm in aws.alarms.items() if watches != "errors"})

    change = edited(without)
    assert (change.impact, change.sentence) == ("lossy", "the alarm errors goes")
    base = resolved(None, s={})
    old = replace(base, subscriptions={"s": replace(base.subscriptions["s"], aws=without(base.subscriptions["s"].aws))})
    (change,) = changes(old, base)
    assert (change.impact, change.sentence) == ("safe", "the alarm errors is new")
    change = edited(
        lambda aws: replace(aws, alarms={**aws.alarms, "age": replace(aws.alarms["age"], period_seconds=60)})
    )
    assert (change.impact, change.sentence) == ("safe", "the alarm age.period_seconds is 60 instead of 300")


def test_lambda_that_no_longer_reads_which_messages_failed_is_lossy() -> None:
    def without_switch(aws: Any) -> Any:
        return replace(aws, event_source_mapping=replace(aws.event_source_mapping, function_response_types=()))

    assert edited(without_switch).impact == "lossy"


def test_settings_that_no_record_explains_are_lossy() -> None:
    def other_settings(aws: Any) -> Any:
        return replace(aws, function=replace(aws.function, environment={"TOWPATH_SUBSCRIPTION": "{}"}))

    change = edited(other_settings)
    assert (change.impact, change.sentence) == (
        "lossy",
        "its function is told other rules than before, which the manifest's records do not say",
    )


@pytest.mark.parametrize(
    ("key", "value", "impact", "told"),
    [
        ("max_receive_count", 7, "lossy", "SQS sets aside what it handed out 7 times instead of 10: "),
        ("max_receive_count", 12, "safe", "SQS sets aside what it handed out 12 times instead of 10"),
        ("message_retention_seconds", 60, "lossy", "its queue keeps a message for 60 seconds instead of 604,800: "),
        ("maximum_message_size", 1_024, "lossy", "its queues take messages of up to 1,024 bytes instead of 262,144: "),
        ("sqs_managed_sse", False, "lossy", "SQS no longer encrypts what its queues hold"),
        ("receive_wait_time_seconds", 0, "safe", "a receive waits for messages for up to 0 seconds instead of 20"),
        ("redrive_allow", "byQueue", "lossy", 'aws.queue.redrive_allow is "byQueue" instead of null'),
    ],
)
def test_an_attribute_of_a_queue(key: str, value: object, impact: str, told: str) -> None:
    change = edited(lambda aws: replace(aws, queue=replace(aws.queue, **{key: value})))
    assert change.impact == impact
    assert change.sentence.startswith(told)


def test_what_nobody_has_words_for_is_told_and_lossy() -> None:
    change = edited(lambda aws: replace(aws, function=replace(aws.function, handler="other.handler")))
    assert (change.impact, change.sentence) == (
        "lossy",
        'aws.function.handler is "other.handler" instead of "lambda_runtime.entry.handler"',
    )


def test_long_values_are_told_short() -> None:
    change = edited(lambda aws: replace(aws, function=replace(aws.function, handler="x" * 79)))
    assert f'is "{"x" * 79}... instead of' in change.sentence
    change = edited(lambda aws: replace(aws, function=replace(aws.function, handler="x" * 78)))
    assert f'is "{"x" * 78}" instead of' in change.sentence


def test_the_worst_comes_first() -> None:
    old = resolved(None, a={}, b={}, c={})
    new = resolved(None, a={"max_attempts": 9}, c={"status": "paused"}, d={})
    impacts = [change.impact for change in changes(old, new)]
    assert impacts == sorted(impacts, key=["destructive", "lossy", "safe"].index)
    assert {"destructive", "lossy", "safe"} == set(impacts)


# --- What a fuzzer and a person found ----------------------------------------------------------------------------


@pytest.mark.parametrize(("before", "after"), [(1, True), (True, 1), (0, False)])
def test_true_is_not_one(before: object, after: object) -> None:
    told = of_subscription({"filter": {"k": [before]}}, {"filter": {"k": [after]}}, DATABASE)
    assert list(told.values()) == ["lossy"]


def test_a_subscription_that_moves_to_another_topic_loses_by_that_topics_retention() -> None:
    def written(topic: str, days: int) -> Manifest:
        subscriptions = {"s": {"topic": topic, "handler": "a:b"}}
        topics = {"t": {"retention_days": days}, "u": {"retention_days": 1}}
        document = {"name": "shop", "topics": topics, "subscriptions": subscriptions}
        return resolve(parse_topology(document), "prod")

    found = {change.sentence: change for change in changes(written("t", 7), written("u", 14))}
    falls = "its queue keeps a message for 86,400 seconds instead of 604,800: older ones are deleted, handled or not"
    assert found[falls].impact == "lossy"


def test_a_function_in_place_of_an_external_consumer_takes_a_right_away() -> None:
    told = of_subscription({"host": "external", "handler": None}, {"host": "lambda"})
    (sentence,) = [sentence for sentence in told if sentence.startswith("its host is")]
    assert told[sentence] == "lossy"
    assert sentence.endswith("a function takes its messages, and whoever did may no longer use its queue")


def test_of_several_queues_the_one_whose_number_falls_is_told() -> None:
    def edit(aws: Any) -> Any:
        dead = replace(aws.dead_letter_queue, maximum_message_size=1_024)
        return replace(aws, queue=replace(aws.queue, maximum_message_size=1_000_000), dead_letter_queue=dead)

    change = edited(edit)
    assert change.impact == "lossy"
    assert "1,024 bytes instead of 262,144" in change.sentence


def test_of_several_queues_one_that_is_no_longer_encrypted_counts() -> None:
    def edit(aws: Any) -> Any:
        return replace(aws, queue=replace(aws.queue, sqs_managed_sse=False))

    assert edited(edit).impact == "lossy"
