"""What is allowed and probably not wanted. A warning never keeps a topology from being rendered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Final

from towpath import limits
from towpath.backoff import BackOff
from towpath.topology.findings import Finding
from towpath.topology.models import Host, Subscription, Topology
from towpath.topology.rules.places import key_of, topic_key

_DAY_SECONDS: Final = 86_400

# Keys that change nothing with a host, and why.
_IDLE_KEYS: Final[Mapping[Host, Mapping[str, str]]] = {
    "lambda": {"heartbeat": "the queue hides a message for longer than its function can run"},
    "worker": {"function": "there is no function"},
    "external": {
        "accept_foreign": "the consumer is not ours",
        "backoff": "the consumer is not ours",
        "function": "there is no function",
        "heartbeat": "the consumer is not ours",
        "max_processing_seconds": "the consumer is not ours",
    },
}


def topology_should_have_topics(topology: Topology) -> Iterator[Finding]:
    """A topology without topics deploys nothing."""
    if not topology.topics:
        yield Finding(
            path=("topics",), problem='is empty, so that nothing is deployed; add for instance: [topics."orders"]'
        )


def topics_should_reach_somebody(topology: Topology) -> Iterator[Finding]:
    """What is published to an active topic without a subscription that takes deliveries goes nowhere."""
    reached = {s.topic for s in topology.subscriptions.values() if s.status != "disabled"}
    for name, topic in topology.topics.items():
        if topic.status == "active" and name not in reached:
            problem = "has no subscription that takes deliveries: what is published to it goes nowhere"
            yield Finding(path=("topics", name), problem=problem)


def disabled_topics_should_have_no_readers(topology: Topology) -> Iterator[Finding]:
    """The subscriptions of a disabled topic only work off what is left in it."""
    for name, topic in topology.topics.items():
        waiting = [n for n, s in topology.subscriptions.items() if s.topic == name and s.status == "active"]
        if topic.status == "disabled" and waiting:
            problem = f"is disabled, so that its active subscriptions get nothing new: {', '.join(waiting)}"
            yield Finding(path=topic_key(name, "status"), problem=problem)


def paused_on_aws_loses_what_waits_too_long(topology: Topology) -> Iterator[Finding]:
    """SQS deletes what waits in a paused subscription for longer than the topic's `retention_days`."""
    for name, subscription in topology.subscriptions.items():
        if topology.transport_of(subscription) == "aws" and subscription.status == "paused":
            days = topology.topics[subscription.topic].retention_days
            problem = f"is paused: SQS deletes what waits longer than the topic's retention_days ({days})"
            yield Finding(path=key_of(name, "status"), problem=problem)


def handlers_should_be_in_modules(topology: Topology) -> Iterator[Finding]:
    """A handler's path has a module before its `:`, not a file: `app:run` is in `app.py`."""
    for name, subscription in topology.subscriptions.items():
        module, _, function = (subscription.handler or "").partition(":")
        if module.endswith(".py"):
            package = module.removesuffix(".py")
            problem = (
                f"names the module py in the package {package}, not the file {module}; "
                f'did you mean "{package}:{function}"?'
            )
            yield Finding(path=key_of(name, "handler"), problem=problem)


def dead_letters_should_outlive_messages(topology: Topology) -> Iterator[Finding]:
    """On aws `dead_letter_retention_days` is better longer than the topic's `retention_days`: a message that SQS
    itself sets aside keeps its age, and may be deleted as soon as it is a dead letter.
    """
    for name, subscription in topology.subscriptions.items():
        if topology.transport_of(subscription) != "aws":
            continue
        days, source = subscription.dead_letter_retention_days, topology.topics[subscription.topic].retention_days
        if days <= source and days < limits.SQS_MAX_RETENTION_DAYS:
            problem = (
                f"is {days}, not longer than the topic's retention_days ({source}): a message that SQS sets aside "
                f"keeps its age and may be deleted at once; write: dead_letter_retention_days = "
                f"{limits.SQS_MAX_RETENTION_DAYS}"
            )
            yield Finding(path=key_of(name, "dead_letter_retention_days"), problem=problem)


def retries_should_end_before_retention(topology: Topology) -> Iterator[Finding]:
    """On aws all waits between a delivery's attempts together are better shorter than the topic's `retention_days`:
    SQS deletes what is older, and it never becomes a dead letter.
    """
    for name, subscription in topology.subscriptions.items():
        if topology.transport_of(subscription) != "aws" or subscription.host == "external":
            continue
        days = topology.topics[subscription.topic].retention_days
        waits = _longest_waits(subscription)
        if waits > days * _DAY_SECONDS:
            problem = (
                f"allows retries for {waits / _DAY_SECONDS:.1f} days with this backoff, and SQS deletes a message "
                f"after the topic's retention_days ({days}), without a dead letter"
            )
            yield Finding(path=key_of(name, "max_attempts"), problem=problem)


def _longest_waits(subscription: Subscription) -> float:
    backoff = BackOff(base_seconds=subscription.backoff.base_seconds, max_seconds=subscription.backoff.max_seconds)
    return backoff.longest_total(subscription.max_attempts)


def backoff_should_grow(topology: Topology) -> Iterator[Finding]:
    """A back-off whose `base_seconds` are above its `max_seconds` never waits longer than `max_seconds`."""
    for name, subscription in topology.subscriptions.items():
        base, longest = subscription.backoff.base_seconds, subscription.backoff.max_seconds
        if base > longest:
            problem = f"is above max_seconds ({longest:,g}), so that no wait is longer than that"
            yield Finding(path=key_of(name, "backoff", "base_seconds"), problem=problem)


def fifo_batches_burn_receives(topology: Topology) -> Iterator[Finding]:
    """A FIFO batch over 1 is allowed: messages returned behind a failed one use up receives of their own."""
    for name, subscription in topology.subscriptions.items():
        on_lambda = topology.host_of(subscription) == "lambda"
        if on_lambda and topology.has_fifo_queue(subscription) and topology.batch_size_of(subscription) > 1:
            problem = (
                "is more than 1 on a FIFO queue: messages returned behind a failed one use up receives of their own"
            )
            yield Finding(path=key_of(name, "lambda", "batch_size"), problem=problem)


def threads_should_have_messages(topology: Topology) -> Iterator[Finding]:
    """More threads (`lambda.concurrency`) than the batch has messages have nothing to do."""
    for name, subscription in topology.subscriptions.items():
        threads, size = topology.threads_of(subscription), topology.batch_size_of(subscription)
        if topology.host_of(subscription) == "lambda" and threads > size:
            problem = f"is {threads}, more threads than a batch has messages ({size})"
            yield Finding(path=key_of(name, "lambda", "concurrency"), problem=problem)


def batches_should_end_before_the_function(topology: Topology) -> Iterator[Finding]:
    """A batch whose messages may need longer than the function has, one after another in each thread, is returned in
    part, which uses up receives.
    """
    for name, subscription in topology.subscriptions.items():
        longest, timeout = subscription.max_processing_seconds, subscription.function.timeout_seconds
        if topology.host_of(subscription) != "lambda" or longest is None:
            continue
        size = topology.batch_size_of(subscription)
        rounds = size if topology.has_fifo_queue(subscription) else ceil(size / topology.threads_of(subscription))
        if rounds > 1 and rounds * longest > timeout:
            problem = (
                f"is {size}, which may need {rounds * longest:,g} s of a function that has {timeout} "
                f"(max_processing_seconds {longest:g}, {rounds} in turn): what is not reached is returned and uses up "
                "a receive"
            )
            yield Finding(path=key_of(name, "lambda", "batch_size"), problem=problem)


def keys_should_mean_something(topology: Topology) -> Iterator[Finding]:
    """A key that changes nothing with its host or without another key was probably meant to."""
    for name, topic in topology.topics.items():
        if (
            topic.transport == "aws"
            and not topic.deduplication
            and "deduplication_ttl_seconds" in topic.model_fields_set
        ):
            problem = "says nothing without: deduplication = true"
            yield Finding(path=topic_key(name, "deduplication_ttl_seconds"), problem=problem)
    for name, subscription in topology.subscriptions.items():
        host = topology.host_of(subscription)
        for key, reason in _IDLE_KEYS[host].items():
            if key in subscription.model_fields_set:
                written = Subscription.model_fields[key].alias or key
                problem = f'says nothing with host "{host}", where {reason}'
                yield Finding(path=key_of(name, written), problem=problem)
