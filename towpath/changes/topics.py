"""What a change of a topic means for a running system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from towpath.changes.differences import Difference
from towpath.changes.phrases import always, destructive, lossy, number, other, safe, switch
from towpath.changes.rules import Rule, Told, anything_else
from towpath.manifest import Topic

_RENAMED: Final = ("manifest:name", "manifest:environment")


def _moved(old: Topic, new: Topic, _found: Sequence[Difference]) -> Told:
    left = "its SNS topic and SQS queues are deleted" if old.transport == "aws" else "what the database has stays there"
    return destructive(
        f"moves from {old.transport} to {new.transport}: {left}, and no message moves along; make a topic of another "
        "name there, let consumers finish what this one holds, then remove it"
    )


def _replaced(old: Topic, new: Topic, _found: Sequence[Difference]) -> Told:
    before, after = (topic.aws.topic_name if topic.aws is not None else "none" for topic in (old, new))
    kinds = {True: "FIFO", False: "standard"}
    turned = (
        f", since it is {kinds[old.aws.fifo]} and is to be {kinds[new.aws.fifo]}"
        if old.aws is not None and new.aws is not None and old.aws.fifo is not new.aws.fifo
        else ""
    )
    return destructive(
        f"the SNS topic {before} is deleted, with its SNS subscriptions and their queues of failed deliveries, and "
        f"{after} made in its place{turned}; publishers need the new bindings"
    )


def _ledger(old: Topic, new: Topic, _found: Sequence[Difference]) -> Told:
    if new.deduplication.enabled and not old.deduplication.enabled:
        return safe("takes deduplication keys from now on, and gets a table for them")
    if new.deduplication.enabled:
        return destructive("gets another table of deduplication keys, which starts empty")
    return destructive(
        "takes no deduplication keys any more: messages with one are rejected, and the table of keys is deleted"
    )


def _retention(old: Topic, new: Topic, found: Sequence[Difference]) -> Told:
    if new.transport == "aws":
        falls = "older ones are deleted, also those that nobody has handled yet"
        return number("queues keep messages for", "days", falls=falls)(old, new, found)
    return number("what is final is kept for", "days", falls="older history is deleted")(old, new, found)


def _status(_old: Topic, new: Topic, _found: Sequence[Difference]) -> Told:
    if new.status == "disabled":
        return lossy("is disabled: what is published to it is rejected")
    return safe("is active again: what is published to it is accepted")


RULES: Final = (
    Rule(paths=("transport",), tell=_moved),
    Rule(paths=("aws",), tell=_moved, follows=("transport",)),
    Rule(paths=("aws.fifo",), tell=_replaced),
    Rule(paths=("aws.topic_name", "aws.fifo_throughput_scope"), tell=_replaced, follows=("aws.fifo", *_RENAMED)),
    Rule(paths=("status",), tell=_status),
    Rule(
        paths=("max_payload_bytes",),
        tell=number("the largest message has", "bytes", falls="larger ones are rejected at publish"),
    ),
    Rule(paths=("retention_days",), tell=_retention),
    Rule(
        paths=("external_publish",),
        tell=switch(
            on=lossy("may be published to over HTTP, by everybody who has a key for it"),
            off=lossy("may no longer be published to over HTTP: what is sent there is rejected"),
        ),
    ),
    Rule(paths=("deduplication.enabled", "aws.deduplication_table"), tell=_ledger, follows=("transport",)),
    Rule(paths=("aws.deduplication_table.name",), tell=_ledger, follows=_RENAMED),
    Rule(
        paths=("deduplication.ttl_seconds",),
        tell=number("a deduplication key counts for", "seconds", falls="a repeat after that is a message of its own"),
    ),
    Rule(
        paths=("aws.fair",),
        tell=switch(
            on=safe("partition keys go along as message groups, for the fair queues of SQS"),
            off=safe("partition keys no longer go along as message groups"),
        ),
    ),
    Rule(
        paths=("aws.deduplication_table.*",),
        tell=other("its table of deduplication keys has", "destructive", "it is made anew, and starts empty"),
    ),
    Rule(paths=("aws.tags*",), tell=always(safe("its tags change")), follows=_RENAMED),
    Rule(paths=("*",), tell=anything_else),
)
