"""The SNS subscription of a queue against the manifest: how messages come from the topic into the queue."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from aws_transport.checking.facts import Attributes, Look, Seen
from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told, text_of, unseen
from towpath.manifest import SnsSubscription

_FILTERED: Final = "what is published from now on may be kept out, or let in, that should not be"
_PENDING: Final = "PendingConfirmation"


def delivery_findings(
    subject: str, wanted: SnsSubscription, look: Look[Attributes], failed_arn: str
) -> Iterator[Finding]:
    """Everything about the SNS subscription that is otherwise; ``failed_arn`` is the queue of failed deliveries."""
    told = Told(subject=subject, code="delivery", of="the SNS subscription of its queue")
    missing = unseen(look, told, "nothing of its topic reaches its queue")
    if missing is not None:
        yield missing
    if not isinstance(look, Seen):
        return
    found = look.value
    if found.get("PendingConfirmation") == "true" or found.get("SubscriptionArn") == _PENDING:
        yield told.finding("pending", f"{told.of} waits to be confirmed, and delivers nothing", "it is confirmed")
    if found.get("RawMessageDelivery", "false") != "true":
        yield told.finding(
            "raw", f"{told.of} delivers within SNS's own envelope, without the message's attributes", "raw delivery"
        )
    yield from _filter(told, wanted, found)
    target = _target(found)
    if target != failed_arn:
        lost = f"has {'no queue' if target is None else target} for what it cannot deliver"
        yield told.finding("redrive", f"{told.of} {lost}", failed_arn)


def _filter(told: Told, wanted: SnsSubscription, found: Attributes) -> Iterator[Finding]:
    policy = text_of(found, "FilterPolicy")
    if _meaning(policy) != _meaning(wanted.filter_policy):
        yield told.finding(
            "filter", f"{told.of} has the filter {policy or 'none'}: {_FILTERED}", wanted.filter_policy or "no filter"
        )
    scope = found.get("FilterPolicyScope", wanted.filter_policy_scope)
    if policy is not None and scope != wanted.filter_policy_scope:
        yield told.finding("filter-scope", f"{told.of} filters by {scope}", wanted.filter_policy_scope)


def _meaning(policy: str | None) -> str:
    """The policy's canonical text. An empty one filters nothing."""
    try:
        return json.dumps(json.loads(policy or "{}"), sort_keys=True)
    except ValueError:
        return str(policy)


def _target(found: Attributes) -> str | None:
    try:
        target = json.loads(found.get("RedrivePolicy") or "{}").get("deadLetterTargetArn")
    except (ValueError, AttributeError):
        return None
    return str(target) if target else None
