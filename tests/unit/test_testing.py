"""``towpath.testing``: handlers as Lambda functions in a test's own process."""

import shutil
import threading
from datetime import timedelta

import pytest

from lambda_runtime.local import FunctionEnded
from towpath import Context, FatalError, Message, NewMessage, PublishResult, Retry, connect
from towpath.backoff import BackOff
from towpath.errors import SubscriptionNotFound, Unsupported
from towpath.function_settings import FunctionSettings
from towpath.message import utc_now
from towpath.resolve import resolve
from towpath.settlement import SubscriptionPolicy
from towpath.testing import LambdaSettings, lambda_settings, local_lambda
from towpath.topology import parse_topology


def settings(*, fifo=False, concurrency=10, timeout_seconds=60, policy=None, **rest):
    rules = SubscriptionPolicy(
        subscription="documents.convert",
        topic="documents.process",
        handler=None,
        backoff=BackOff(base_seconds=10, max_seconds=900),
        **policy or {},
    )
    function = FunctionSettings(policy=rules, fifo=fifo, concurrency=concurrency, timeout_seconds=timeout_seconds)
    return LambdaSettings(function=function, **rest)


def test_a_message_goes_through_the_function_and_a_retry_comes_again_after_its_delay():
    seen = []

    def process(message: Message, context: Context):
        seen.append((message.payload, context.attempt))
        return Retry(after=30) if context.attempt == 1 else None

    function = local_lambda(process)
    (message_id,) = function.send(NewMessage(payload={"page": 1}))
    (invocation,) = function.run()
    assert len(invocation.failed) == 1
    assert function.run() == []
    function.advance(30)
    assert len(function.run()) == 1
    assert seen == [({"page": 1}, 1), ({"page": 1}, 2)]
    assert (function.waiting, function.dead_letters) == (0, [])
    assert message_id


def test_a_dead_letter_has_its_reason_error_and_attempts():
    def process(message: Message, context: Context):
        raise FatalError("page 3 is missing")

    function = local_lambda(process, settings())
    (message_id,) = function.send(NewMessage(payload=1))
    function.run()
    (entry,) = function.dead_letters
    assert (entry.message_id, entry.subscription) == (message_id, "documents.convert")
    assert (entry.reason, entry.error, entry.attempts) == ("page 3 is missing", "FatalError: page 3 is missing", 1)
    assert abs(entry.dead_since - utc_now()) < timedelta(minutes=1)
    assert function.waiting == 0


def test_a_failing_handler_is_tried_as_often_as_it_may_and_then_set_aside():
    attempts = []

    def process(message: Message, context: Context):
        attempts.append(context.attempt)
        raise ValueError("no")

    function = local_lambda(process, settings(policy={"max_attempts": 3}))
    function.send(NewMessage())
    for _ in range(6):
        function.run()
        function.advance(1_000)
    assert attempts == [1, 2, 3]
    assert [entry.reason for entry in function.dead_letters] == ["MaxAttemptsExceeded"]


def test_a_foreign_body_is_handled_as_it_stands():
    seen = []
    function = local_lambda(lambda message, context: seen.append((message.id, message.payload)))
    sqs_id = function.send_body('{"order": 4711}')
    function.run()
    assert seen == [(sqs_id, {"order": 4711})]


def test_groups_of_a_fifo_queue_keep_their_order_and_wait_behind_a_retry():
    seen = []

    def process(message: Message, context: Context):
        seen.append(message.payload)
        return Retry(after=5) if message.payload == "a1" and context.attempt == 1 else None

    function = local_lambda(process, settings(fifo=True, concurrency=1))
    function.send(*(NewMessage(payload=name, partition_key=name[0]) for name in ("a1", "a2", "b1")))
    function.run()
    function.advance(5)
    function.run()
    assert [name for name in seen if name[0] == "a"] == ["a1", "a1", "a2"]
    assert seen.count("b1") == 1


def test_what_a_crash_leaves_behind_is_set_aside_by_sqs_itself_in_the_end():
    def process(message: Message, context: Context):
        raise KeyboardInterrupt

    function = local_lambda(process, settings(visibility_seconds=10, max_receive_count=1))
    function.send(NewMessage())
    with pytest.raises(KeyboardInterrupt):
        function.run()
    function.advance(10)
    assert function.run() == []
    (entry,) = function.dead_letters
    assert (entry.reason, entry.error) == ("MaxReceivesExceeded", "SQS set it aside")


def test_a_handler_that_ignores_its_abort_to_the_end_fails_the_invocation():
    def process(message: Message, context: Context):
        for _ in range(3_000):
            if function.is_ended:
                break
            threading.Event().wait(0.01)

    function = local_lambda(process, settings(timeout_seconds=2))
    function.send(NewMessage())
    (invocation,) = function.run()
    assert isinstance(invocation.error, FunctionEnded)
    assert function.waiting == 1


def test_a_bad_message_is_refused_before_it_is_sent():
    with pytest.raises(ValueError, match="InvalidPayload"):
        local_lambda(lambda message, context: None).send(NewMessage(payload=object()))


def test_publishing_goes_through_what_is_given():
    sent = []

    def publish(topic, messages):
        sent.extend(messages)
        return [PublishResult(id="1", status="accepted") for _ in messages]

    function = local_lambda(
        lambda message, context: context.publish("next", NewMessage(payload=2)) and None, publish=publish
    )
    function.send(NewMessage())
    function.run()
    assert [message.payload for message in sent] == [2]


TOPOLOGY = {
    "name": "docs",
    "topics": {"documents.process": {}, "notes": {}},
    "subscriptions": {
        "documents.convert": {
            "topic": "documents.process",
            "handler": "app.documents:process",
            "partition_mode": "exclusive",
            "max_attempts": 3,
            "lambda": {"timeout_seconds": 20, "batch_size": 5},
        },
        "notes.read": {"topic": "notes", "handler": "app.documents:process", "host": "worker"},
    },
}


def test_settings_are_those_that_the_manifest_deploys():
    manifest = resolve(parse_topology(TOPOLOGY, "test"), "test")
    found = lambda_settings(manifest, "documents.convert")
    assert (found.function.policy.max_attempts, found.function.fifo, found.batch_size) == (3, True, 5)
    assert (found.visibility_seconds, found.max_receive_count, found.reports_item_failures) == (120, 8, True)


def test_a_subscription_without_a_function_has_no_settings():
    manifest = resolve(parse_topology(TOPOLOGY, "test"), "test")
    for name in ("notes.read", "missing"):
        with pytest.raises(SubscriptionNotFound, match=r"has functions for documents\.convert"):
            lambda_settings(manifest, name)


# --- Over a transport's consumer -------------------------------------------------------------------------------


@pytest.fixture
def database(sqlite_with_tables, tmp_path):
    url = f"sqlite:///{shutil.copy(sqlite_with_tables, tmp_path / 'local.db')}"
    with connect(url) as transport:
        topology = {
            "name": "docs",
            "topics": {"documents.process": {"transport": "database"}},
            "subscriptions": {
                "documents.convert": {
                    "topic": "documents.process",
                    "handler": "app:process",
                    "partition_mode": "exclusive",
                    "max_attempts": 2,
                }
            },
        }
        transport.apply(resolve(parse_topology(topology, "test"), "test"))
        yield transport


def test_a_database_can_take_the_place_of_the_queue(database):
    seen = []

    def process(message: Message, context: Context):
        seen.append((message.payload, context.attempt))
        if message.payload == "dead":
            raise FatalError("never")
        return Retry(after=0) if message.payload == "again" and context.attempt == 1 else None

    messages = [NewMessage(payload=name, partition_key=name) for name in ("done", "again", "dead")]
    database.publish("documents.process", messages)
    function = local_lambda(process, settings(), consumer=database.consumer("documents.convert"))
    function.run()
    assert sorted(seen) == [("again", 1), ("again", 2), ("dead", 1), ("done", 1)]
    (stats,) = database.operator().stats()
    assert (stats.pending, stats.leased, stats.completed, stats.dead) == (0, 0, 2, 1)
    (entry,) = database.operator().dead_letters("documents.convert", 10)
    assert entry.reason == "never"
    assert entry.error.startswith("FatalError: never")


def test_a_function_that_fails_as_a_whole_leaves_its_leases_to_run_out(database):
    def process(message: Message, context: Context):
        raise KeyboardInterrupt

    database.publish("documents.process", [NewMessage()])
    function = local_lambda(process, settings(), consumer=database.consumer("documents.convert"))
    with pytest.raises(KeyboardInterrupt):
        function.run()
    (stats,) = database.operator().stats()
    assert (stats.pending, stats.leased) == (1, 0)  # a person's interrupt gives back what it holds


def test_messages_of_a_consumer_are_published_not_sent(database):
    function = local_lambda(lambda message, context: None, consumer=database.consumer("documents.convert"))
    with pytest.raises(Unsupported, match="publish them to its transport"):
        function.send(NewMessage())
