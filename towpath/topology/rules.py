"""What the keys of a topology mean together. One function for each rule; each yields every place that breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Final

from towpath import limits
from towpath.envelope import is_topic_name
from towpath.errors import InvalidFilter
from towpath.filters import FilterPolicy
from towpath.handler import is_handler_path
from towpath.records import key_path
from towpath.topology.findings import Finding, Path, shown
from towpath.topology.models import Subscription, Topology

Rule = Callable[[Topology], Iterator[Finding]]

_NAME = re.compile(rf"[a-z0-9-]{{1,{limits.NAME_LENGTH}}}")


def is_prefix_name(text: str) -> bool:
    """Whether ``text`` can begin resource names, as the names of a topology and of an environment do."""
    return _NAME.fullmatch(text) is not None


def _names(topology: Topology) -> Iterator[Finding]:
    if not is_prefix_name(topology.name):
        problem = f"must be 1 to {limits.NAME_LENGTH} of a-z, 0-9 and -, not {shown(topology.name)}"
        yield Finding(path=("name",), problem=problem)
    named: list[Path] = [("topics", name) for name in topology.topics]
    named += [("subscriptions", name) for name in topology.subscriptions]
    for path in named:
        if not is_topic_name(path[1]):
            problem = (
                "must be named in words of a-z and 0-9 joined by single '.', '-' or '_', "
                f"at most {limits.TOPIC_NAME_LENGTH} characters"
            )
            yield Finding(path=path, problem=problem)


def _topic_exists(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        if subscription.topic not in topology.topics:
            nearest = get_close_matches(subscription.topic, topology.topics, n=1)
            known = ", ".join(topology.topics) or "none"
            hint = f"did you mean {shown(nearest[0])}?" if nearest else f"the topics are: {known}"
            problem = f"names a topic that is not in this file, {shown(subscription.topic)}; {hint}"
            yield Finding(path=_key(name, "topic"), problem=problem, rests_on=(("topics",),))


def _ordered_needs_a_database(topology: Topology) -> Iterator[Finding]:
    for topic_name, topic in topology.topics.items():
        ordered = _readers(topology, topic_name, "ordered")
        if topic.transport == "aws" and ordered:
            subject = "subscription" if len(ordered) == 1 else "subscriptions"
            problem = (
                f'must be "database", since AWS cannot keep the order that the {subject} {", ".join(ordered)} '
                f'(partition_mode "ordered") asks for; under [{key_path(("topics", topic_name))}] '
                f'write: transport = "database"'
            )
            yield Finding(path=_transport(topic_name), problem=problem, rests_on=_modes(ordered))


def _exclusive_needs_fifo(topology: Topology) -> Iterator[Finding]:
    for topic_name, topic in topology.topics.items():
        exclusive = _readers(topology, topic_name, "exclusive")
        if topic.transport == "aws" and topic.fifo is False and exclusive:
            problem = (
                f"must not be false, since {', '.join(exclusive)} is exclusive, which takes a FIFO topic on aws; "
                "leave it out or write: fifo = true"
            )
            rests_on = (*_modes(exclusive), _transport(topic_name))
            yield Finding(path=("topics", topic_name, "fifo"), problem=problem, rests_on=rests_on)


def _fair_is_for_standard_topics(topology: Topology) -> Iterator[Finding]:
    for topic_name, topic in topology.topics.items():
        if topic.fair and topology.is_fifo(topic_name):
            exclusive = _readers(topology, topic_name, "exclusive")
            problem = "must be false on a FIFO topic, whose partition keys are its message groups already"
            rests_on = (*_modes(exclusive), _transport(topic_name))
            yield Finding(path=("topics", topic_name, "fair"), problem=problem, rests_on=rests_on)


def _database_topics_have_no_sns_settings(topology: Topology) -> Iterator[Finding]:
    for topic_name, topic in topology.topics.items():
        if topic.transport != "database":
            continue
        written = {"fifo": topic.fifo is not None, "fair": topic.fair, "deduplication": topic.deduplication is False}
        reasons = {
            "fifo": "is for topics on aws; on a database each subscription's partition_mode says it",
            "fair": "is for topics on aws",
            "deduplication": "cannot be false on a database, which always takes deduplication keys",
        }
        for key in (key for key, there in written.items() if there):
            problem = f"{reasons[key]}; leave it out"
            yield Finding(path=("topics", topic_name, key), problem=problem, rests_on=(_transport(topic_name),))


def _retention_on_aws(topology: Topology) -> Iterator[Finding]:
    for topic_name, topic in topology.topics.items():
        if topic.transport == "aws" and topic.retention_days > limits.SQS_MAX_RETENTION_DAYS:
            problem = _days(topic.retention_days)
            yield Finding(
                path=("topics", topic_name, "retention_days"), problem=problem, rests_on=(_transport(topic_name),)
            )
    for name, subscription in topology.subscriptions.items():
        days = subscription.dead_letter_retention_days
        if topology.transport_of(subscription) == "aws" and days > limits.SQS_MAX_RETENTION_DAYS:
            path = _key(name, "dead_letter_retention_days")
            yield Finding(path=path, problem=_days(days), rests_on=_on_topic(name, subscription))


def _days(found: int) -> str:
    return f"must be from 1 to {limits.SQS_MAX_RETENTION_DAYS} on aws, not {found:,}"


def _host_fits_the_transport(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        host = topology.host_of(subscription)
        if topology.transport_of(subscription) == "database" and host != "worker":
            problem = f'must be "worker" on a database topic, not "{host}", which is on aws only'
            yield Finding(path=_key(name, "host"), problem=problem, rests_on=_on_topic(name, subscription))


def _handler(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        path, rests_on = _key(name, "handler"), (_key(name, "host"),)
        if subscription.host == "external":
            if subscription.handler is not None:
                problem = 'has no place with host "external", whose consumer is not ours; leave it out'
                yield Finding(path=path, problem=problem, rests_on=rests_on)
        elif subscription.handler is None:
            problem = 'is missing; write for instance: handler = "app.documents:process"'
            yield Finding(path=path, problem=problem, rests_on=rests_on)
        elif not is_handler_path(subscription.handler):
            problem = f'must have the form "package.module:function", not {shown(subscription.handler)}'
            yield Finding(path=path, problem=problem)


def _filter_is_valid(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        if subscription.filter is None:
            continue
        try:
            FilterPolicy.parse(subscription.filter)
        except InvalidFilter as error:
            for mistake in error.mistakes:
                yield Finding(path=_key(name, "filter"), inside=mistake.path, problem=mistake.problem)


def _batches_fit_the_queue(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        size, window = subscription.function.batch_size or 1, subscription.function.batch_window_seconds
        size_path, window_path = _key(name, "lambda", "batch_size"), _key(name, "lambda", "batch_window_seconds")
        rests_on = (*_on_topic(name, subscription), _key(name, "partition_mode"), window_path, size_path)
        if topology.has_fifo_queue(subscription):
            if size > limits.ESM_FIFO_BATCH:
                problem = f"must be from 1 to {limits.ESM_FIFO_BATCH} on a FIFO queue, not {size:,}"
                yield Finding(path=size_path, problem=problem, rests_on=rests_on)
            if window > 0:
                problem = f"must be 0 on a FIFO queue, not {window}"
                yield Finding(path=window_path, problem=problem, rests_on=rests_on)
        elif size > limits.SQS_BATCH_ENTRIES and window < 1:
            problem = (
                f"must be at most {limits.SQS_BATCH_ENTRIES} without a batch window, not {size:,}; "
                "add: batch_window_seconds = 1"
            )
            yield Finding(path=size_path, problem=problem, rests_on=rests_on)


def _processing_ends_before_the_function(topology: Topology) -> Iterator[Finding]:
    for name, subscription in topology.subscriptions.items():
        longest, timeout = subscription.max_processing_seconds, subscription.function.timeout_seconds
        if topology.host_of(subscription) == "lambda" and longest is not None and longest > timeout:
            problem = f"must be at most lambda.timeout_seconds ({timeout}) on Lambda, not {longest:g}"
            rests_on = (*_on_topic(name, subscription), _key(name, "host"), _key(name, "lambda", "timeout_seconds"))
            yield Finding(path=_key(name, "max_processing_seconds"), problem=problem, rests_on=rests_on)


RULES: Final[tuple[Rule, ...]] = (
    _topic_exists,
    _ordered_needs_a_database,
    _exclusive_needs_fifo,
    _fair_is_for_standard_topics,
    _database_topics_have_no_sns_settings,
    _retention_on_aws,
    _host_fits_the_transport,
    _handler,
    _filter_is_valid,
    _batches_fit_the_queue,
    _processing_ends_before_the_function,
    _names,  # last: a name's path is the beginning of all paths in its table
)


def large_fifo_batches(topology: Topology) -> Iterator[Finding]:
    """Allowed, and warned of: a FIFO batch of more than one message."""
    for name, subscription in topology.subscriptions.items():
        if topology.has_fifo_queue(subscription) and (subscription.function.batch_size or 1) > 1:
            problem = (
                "is more than 1 on a FIFO queue: messages returned behind a failed one use up receives of their own"
            )
            yield Finding(path=_key(name, "lambda", "batch_size"), problem=problem)


def _key(subscription: str, *keys: str) -> Path:
    return ("subscriptions", subscription, *keys)


def _transport(topic_name: str) -> Path:
    return ("topics", topic_name, "transport")


def _on_topic(name: str, subscription: Subscription) -> tuple[Path, ...]:
    return (_key(name, "topic"), _transport(subscription.topic))


def _modes(names: list[str]) -> tuple[Path, ...]:
    return tuple(_key(name, key) for name in names for key in ("partition_mode", "topic"))


def _readers(topology: Topology, topic_name: str, mode: str) -> list[str]:
    readers = topology.subscriptions.items()
    return [name for name, s in readers if s.topic == topic_name and s.partition_mode == mode]
