"""What the keys of a subscription mean together, and with its topic."""

from __future__ import annotations

from collections.abc import Iterator

from towpath import limits
from towpath.errors import InvalidFilter, nearest
from towpath.filters import FilterPolicy
from towpath.handler import is_handler_path
from towpath.topology.findings import Finding, shown
from towpath.topology.models import Topology
from towpath.topology.rules.places import key_of, transport_keys


def topic_exists(topology: Topology) -> Iterator[Finding]:
    """A subscription's topic is one of the file."""
    for name, subscription in topology.subscriptions.items():
        if subscription.topic not in topology.topics:
            near = nearest(subscription.topic, topology.topics)
            known = ", ".join(topology.topics) or "none"
            hint = f"did you mean {shown(near)}?" if near is not None else f"the topics are: {known}"
            problem = f"names a topic that is not in this file, {shown(subscription.topic)}; {hint}"
            yield Finding(path=key_of(name, "topic"), problem=problem, rests_on=(("topics",),))


def dead_letter_retention_fits_sqs(topology: Topology) -> Iterator[Finding]:
    """A dead-letter queue keeps a message 14 days at most, so `dead_letter_retention_days` is 1 to 14 on aws."""
    for name, subscription in topology.subscriptions.items():
        days = subscription.dead_letter_retention_days
        if topology.transport_of(subscription) == "aws" and days > limits.SQS_MAX_RETENTION_DAYS:
            problem = f"must be from 1 to {limits.SQS_MAX_RETENTION_DAYS} on aws, not {days:,}"
            path = key_of(name, "dead_letter_retention_days")
            yield Finding(path=path, problem=problem, rests_on=transport_keys(name, subscription))


def host_fits_the_transport(topology: Topology) -> Iterator[Finding]:
    """A database has workers only; `lambda` and `external` are hosts on aws."""
    for name, subscription in topology.subscriptions.items():
        host = topology.host_of(subscription)
        if topology.transport_of(subscription) == "database" and host != "worker":
            problem = f'must be "worker" on a database topic, not "{host}", which is on aws only'
            yield Finding(path=key_of(name, "host"), problem=problem, rests_on=transport_keys(name, subscription))


def external_is_never_paused(topology: Topology) -> Iterator[Finding]:
    """An external consumer takes its messages from the queue itself, so that Towpath cannot pause it."""
    for name, subscription in topology.subscriptions.items():
        if subscription.host == "external" and subscription.status == "paused":
            problem = 'must be "active" or "disabled" with host "external", whose consumer Towpath cannot pause'
            yield Finding(path=key_of(name, "status"), problem=problem, rests_on=(key_of(name, "host"),))


def handler_is_there_unless_external(topology: Topology) -> Iterator[Finding]:
    """A subscription has a handler, except with host `external`, whose consumer is not ours."""
    for name, subscription in topology.subscriptions.items():
        path, rests_on = key_of(name, "handler"), (key_of(name, "host"),)
        if subscription.host == "external" and subscription.handler is not None:
            problem = 'has no place with host "external", whose consumer is not ours; leave it out'
            yield Finding(path=path, problem=problem, rests_on=rests_on)
        if subscription.host != "external" and subscription.handler is None:
            problem = 'is missing; write for instance: handler = "app.documents:process"'
            yield Finding(path=path, problem=problem, rests_on=rests_on)


def handler_is_an_import_path(topology: Topology) -> Iterator[Finding]:
    """A handler is named by its import path, `package.module:function`."""
    for name, subscription in topology.subscriptions.items():
        written = subscription.handler
        if written is not None and not is_handler_path(written):
            problem = f'must have the form "package.module:function", not {shown(written)}'
            meant = _handler_meant(written)
            hint = f"; did you mean {shown(meant)}?" if meant is not None else ""
            yield Finding(path=key_of(name, "handler"), problem=problem + hint)


def _handler_meant(written: str) -> str | None:
    """What a file's path, a call or a path with dots alone was probably meant to be."""
    text = written.strip().removesuffix("()").replace(".py:", ":").replace("/", ".")
    module, _, function = text.rpartition(":" if ":" in text else ".")
    meant = f"{module}:{function}"
    return meant if is_handler_path(meant) else None


def filter_is_a_policy(topology: Topology) -> Iterator[Finding]:
    """A filter is an Amazon SNS filter policy over attributes, within SNS's bounds on every transport; see
    [filters](filters.md).
    """
    for name, subscription in topology.subscriptions.items():
        if subscription.filter is None:
            continue
        try:
            FilterPolicy.parse(subscription.filter)
        except InvalidFilter as error:
            for mistake in error.mistakes:
                yield Finding(path=key_of(name, "filter"), inside=mistake.path, problem=mistake.problem)
