"""What a change of a subscription means for a running system: who handles its deliveries, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from towpath.changes.differences import Difference
from towpath.changes.phrases import destructive, filtered, lossy, number, other, safe, switch
from towpath.changes.rules import Rule, Told
from towpath.manifest import Subscription

_MOVED: Final = ("transport", "topic:transport")


def _topic(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    return lossy(
        f"takes its messages from {new.topic} instead of {old.topic}: what it has got is handled still, and what is "
        "published while the change is made may not reach it"
    )


def _moved(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    return destructive(f"moves from {old.transport} to {new.transport}: no delivery moves along")


def _partition_mode(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    turned = f"its partition mode is {new.partition_mode} instead of {old.partition_mode}"
    if old.aws is not None and new.aws is not None:
        return destructive(
            f"{turned}: its queue {old.aws.queue.name} is deleted, with its dead letters and all messages in them, and "
            f"{new.aws.queue.name} made in its place; make a subscription of another name and let this one finish first"
        )
    return destructive(
        f"{turned}: a database takes that only while it has no deliveries; let workers finish, settle its dead letters"
    )


def _host(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    turned = f"its host is {new.host} instead of {old.host}"
    if new.host == "lambda" and old.host == "external":
        return lossy(f"{turned}: a function takes its messages, and whoever did may no longer use its queue")
    if new.host == "lambda":
        return safe(f"{turned}: a function takes its messages; stop the workers that did")
    deleted = "its function is deleted, and " if old.host == "lambda" else ""
    means = (
        "its messages wait until a worker takes them"
        if new.host == "worker"
        else "somebody else must take its messages, which SQS sets aside after as many receives as it has attempts"
    )
    told = f"{turned}: {deleted}{means}"
    return destructive(told) if deleted else lossy(told)


def _filter(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    return filtered(old.filter_policy, new.filter_policy)


def _status(_old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    if new.status == "active":
        return safe("is active: it gets deliveries and they are handled")
    if new.status == "paused":
        return lossy("is paused: it gets deliveries, which wait until it is active again or they are too old")
    return lossy("is disabled: what is published meanwhile never reaches it")


def _max_attempts(old: Subscription, new: Subscription, found: Sequence[Difference]) -> Told:
    times = "once" if new.max_attempts == 1 else f"{new.max_attempts:,} times"
    falls = f"deliveries that were tried {times} or more become dead letters without another try"
    return number("attempts are", falls=falls)(old, new, found)


def _heartbeat(_old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    if new.heartbeat == "auto":
        return safe("its leases are renewed while handlers run, also without heartbeats of theirs")
    return lossy("its leases are renewed by heartbeats of the handler alone: one that gives none in time runs twice")


def _dead_letter_retention(old: Subscription, new: Subscription, found: Sequence[Difference]) -> Told:
    unit = "days" if found[0].path[-1].endswith("days") else "seconds"
    return number("dead letters are kept for", unit, falls="older ones are deleted")(old, new, found)


HANDLING: Final = (
    Rule(paths=("topic",), tell=_topic),
    Rule(paths=("transport",), tell=_moved, follows=("topic:transport",)),
    Rule(paths=("aws",), tell=_moved, follows=_MOVED),
    Rule(paths=("partition_mode",), tell=_partition_mode),
    Rule(paths=("host",), tell=_host, follows=_MOVED),
    Rule(
        paths=("aws.function", "aws.event_source_mapping", "aws.consumer_policy"),
        tell=_host,
        follows=("host",),
    ),
    Rule(paths=("handler",), tell=other("its handler is", "safe", "what waits goes there too"), follows=("host",)),
    Rule(paths=("filter_policy", "filter_policy.*"), tell=_filter),
    Rule(
        paths=("aws.sns_subscription.filter_policy",),
        tell=_filter,
        follows=("filter_policy", "filter_policy.*", "status"),
    ),
    Rule(paths=("status",), tell=_status),
    Rule(paths=("max_attempts",), tell=_max_attempts),
    Rule(paths=("backoff.base_seconds",), tell=number("the first wait between attempts is up to", "seconds")),
    Rule(paths=("backoff.max_seconds",), tell=number("waits between attempts are up to", "seconds")),
    Rule(
        paths=("lease_seconds",),
        tell=number("a lease holds for", "seconds", falls="a delivery whose lease is not renewed in time comes again"),
    ),
    Rule(paths=("heartbeat",), tell=_heartbeat),
    Rule(
        paths=("max_processing_seconds",),
        tell=number(
            "a handler may take",
            "seconds",
            falls="handlers that take longer are asked to stop",
            none="as long as its host lets it",
        ),
    ),
    Rule(
        paths=("accept_foreign",),
        tell=switch(
            on=safe("bodies that are no Towpath envelope are handled"),
            off=lossy("bodies that are no Towpath envelope become dead letters, also those that wait"),
        ),
    ),
    Rule(
        paths=("dead_letter_retention_days",),
        tell=_dead_letter_retention,
    ),
    Rule(
        paths=(
            "aws.dead_letter_queue.message_retention_seconds",
            "aws.delivery_failure_queue.message_retention_seconds",
        ),
        tell=_dead_letter_retention,
        follows=("dead_letter_retention_days",),
    ),
)
