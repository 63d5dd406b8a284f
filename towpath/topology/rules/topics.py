"""What the keys of a topic mean together, and with the subscriptions that read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from towpath import limits
from towpath.records import key_path
from towpath.topology.findings import Finding
from towpath.topology.models import Topology
from towpath.topology.rules.places import mode_keys, readers, topic_key

_WHY_NOT_ON_A_DATABASE: Final = {
    "fifo": "is for topics on aws; on a database each subscription's partition_mode says it",
    "fair": "is for topics on aws",
    "deduplication": "cannot be false on a database, which always takes deduplication keys",
}


def ordered_needs_a_database(topology: Topology) -> Iterator[Finding]:
    """A topic with an Ordered subscription is on a database: AWS cannot keep the order of a key whose delivery is
    retried or set aside.
    """
    for name, topic in topology.topics.items():
        ordered = readers(topology, name, "ordered")
        if topic.transport == "aws" and ordered:
            subject = "subscription" if len(ordered) == 1 else "subscriptions"
            problem = (
                f'must be "database", since AWS cannot keep the order that the {subject} {", ".join(ordered)} '
                f'(partition_mode "ordered") asks for; under [{key_path(("topics", name))}] write: '
                'transport = "database"'
            )
            yield Finding(path=topic_key(name, "transport"), problem=problem, rests_on=mode_keys(ordered))


def exclusive_needs_fifo(topology: Topology) -> Iterator[Finding]:
    """On aws a topic with an exclusive subscription is FIFO, so that `fifo = false` contradicts it."""
    for name, topic in topology.topics.items():
        exclusive = readers(topology, name, "exclusive")
        if topic.transport == "aws" and topic.fifo is False and exclusive:
            problem = (
                f"must not be false, since {', '.join(exclusive)} is exclusive, which takes a FIFO topic on aws; "
                "leave it out or write: fifo = true"
            )
            rests_on = (*mode_keys(exclusive), topic_key(name, "transport"))
            yield Finding(path=topic_key(name, "fifo"), problem=problem, rests_on=rests_on)


def fair_needs_a_standard_topic(topology: Topology) -> Iterator[Finding]:
    """`fair` is for standard topics: the partition keys of a FIFO topic are its message groups already."""
    for name, topic in topology.topics.items():
        if topic.fair and topology.is_fifo(name):
            problem = "must be false on a FIFO topic, whose partition keys are its message groups already"
            rests_on = (*mode_keys(readers(topology, name, "exclusive")), topic_key(name, "transport"))
            yield Finding(path=topic_key(name, "fair"), problem=problem, rests_on=rests_on)


def sns_settings_need_aws(topology: Topology) -> Iterator[Finding]:
    """`fifo`, `fair = true` and `deduplication = false` say nothing that a database does, and are refused there."""
    for name, topic in topology.topics.items():
        if topic.transport == "database":
            written = {
                "fifo": topic.fifo is not None,
                "fair": topic.fair,
                "deduplication": topic.deduplication is False,
            }
            for key in (key for key, is_there in written.items() if is_there):
                problem = f"{_WHY_NOT_ON_A_DATABASE[key]}; leave it out"
                yield Finding(path=topic_key(name, key), problem=problem, rests_on=(topic_key(name, "transport"),))


def retention_fits_sqs(topology: Topology) -> Iterator[Finding]:
    """SQS keeps a message 14 days at most, so `retention_days` is 1 to 14 on aws."""
    for name, topic in topology.topics.items():
        if topic.transport == "aws" and topic.retention_days > limits.SQS_MAX_RETENTION_DAYS:
            problem = f"must be from 1 to {limits.SQS_MAX_RETENTION_DAYS} on aws, not {topic.retention_days:,}"
            path, rests_on = topic_key(name, "retention_days"), (topic_key(name, "transport"),)
            yield Finding(path=path, problem=problem, rests_on=rests_on)


def subscriptions_fit_a_fifo_topic(topology: Topology) -> Iterator[Finding]:
    """SNS takes at most 100 subscriptions of a FIFO topic."""
    for name in topology.topics:
        count = sum(s.topic == name for s in topology.subscriptions.values())
        if count > limits.SNS_FIFO_SUBSCRIPTIONS and topology.is_fifo(name):
            problem = (
                f"is a FIFO topic with {count:,} subscriptions, SNS allows {limits.SNS_FIFO_SUBSCRIPTIONS}; "
                "put some of them on a second topic"
            )
            yield Finding(path=("topics", name), problem=problem)


def filter_policies_fit_sns(topology: Topology) -> Iterator[Finding]:
    """SNS takes 200 filter policies for a topic and 10,000 for an account, its default quotas. A disabled
    subscription has one too.
    """
    filtered = {
        name: sum(s.topic == name and (s.filter is not None or s.status == "disabled") for s in subscriptions)
        for subscriptions in [topology.subscriptions.values()]
        for name, topic in topology.topics.items()
        if topic.transport == "aws"
    }
    for name, count in filtered.items():
        if count > limits.SNS_FILTER_POLICIES_PER_TOPIC:
            problem = (
                f"has {count:,} subscriptions with a filter, SNS allows {limits.SNS_FILTER_POLICIES_PER_TOPIC}; "
                "put some of them on a second topic"
            )
            yield Finding(path=("topics", name), problem=problem)
    if sum(filtered.values()) > limits.SNS_FILTER_POLICIES_PER_ACCOUNT:
        problem = (
            f"has {sum(filtered.values()):,} subscriptions with a filter, SNS allows an account "
            f"{limits.SNS_FILTER_POLICIES_PER_ACCOUNT:,}; filter in handlers, or deploy in two accounts"
        )
        yield Finding(path=("subscriptions",), problem=problem)
