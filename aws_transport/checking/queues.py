"""A subscription's three queues on AWS against the manifest: every attribute, redrive, encryption, policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_transport.checking.facts import Attributes
from aws_transport.checking.findings import DEPLOY_AGAIN, Finding, Severity
from aws_transport.checking.looks import Told, text_of
from aws_transport.checking.statements import policy_findings
from towpath.manifest import Queue

_MANAGED_KEYS = ("alias/aws/sqs", ":alias/aws/sqs")


def attribute_findings(told: Told, wanted: Queue, found: Attributes) -> Iterator[Finding]:
    """What every queue has: its kind, times, sizes, FIFO settings and encryption."""
    fifo = found.get("FifoQueue") == "true"
    if fifo is not wanted.fifo:
        yield told.finding(
            "fifo",
            f"{told.of} is {_kind(fifo=fifo)}",
            _kind(fifo=wanted.fifo),
            "make a subscription of another name: SQS cannot change it (docs/how-to/change-a-topology.md)",
        )
    numbers: tuple[tuple[str, str, str, int, Severity], ...] = (
        (
            "visibility",
            "a visibility timeout (s)",
            "VisibilityTimeout",
            wanted.visibility_timeout_seconds,
            "error",
        ),
        ("retention", "a retention (s)", "MessageRetentionPeriod", wanted.message_retention_seconds, "error"),
        ("size", "a size limit (bytes)", "MaximumMessageSize", wanted.maximum_message_size, "error"),
        (
            "wait",
            "a receive wait (s)",
            "ReceiveMessageWaitTimeSeconds",
            wanted.receive_wait_time_seconds,
            "warning",
        ),
    )
    for rule, said, name, number, less in numbers:
        finding = told.number(rule, said, found.get(name), number, less)
        if finding is not None:
            yield finding
    if found.get("DelaySeconds", "0") != "0":
        delay = f"{told.of} delays every message by {found['DelaySeconds']} seconds"
        yield told.finding("delay", delay, "no delay", severity="warning")
    yield from _fifo_settings(told, wanted, found)
    yield from _encryption(told, found)


def _kind(*, fifo: bool) -> str:
    return "a FIFO queue" if fifo else "a standard queue"


def _fifo_settings(told: Told, wanted: Queue, found: Attributes) -> Iterator[Finding]:
    if not wanted.fifo or found.get("FifoQueue") != "true":
        return
    if found.get("ContentBasedDeduplication", "false") != "false":
        yield told.finding(
            "content-deduplication",
            f"{told.of} deduplicates by content: equal messages are lost",
            "by message id alone",
        )
    scopes = (
        ("deduplication-scope", "the deduplication scope", "DeduplicationScope", wanted.deduplication_scope),
        ("throughput-limit", "the throughput limit", "FifoThroughputLimit", wanted.fifo_throughput_limit),
    )
    for rule, said, name, value in scopes:
        finding = told.other(rule, said, found.get(name), value, "warning")
        if finding is not None:
            yield finding


def _encryption(told: Told, found: Attributes) -> Iterator[Finding]:
    """SSE-SQS, or a KMS key of the deployment's. SNS cannot deliver to a queue with the key that AWS manages for SQS
    (Amazon SNS developer guide, "Configuring AWS KMS permissions"): what it cannot deliver is lost.
    """
    key = text_of(found, "KmsMasterKeyId")
    if key is not None and key.endswith(_MANAGED_KEYS):
        yield told.finding(
            "key", f"{told.of} has the key alias/aws/sqs, with which SNS cannot deliver", "SSE-SQS, or a key of yours"
        )
    elif key is None and found.get("SqsManagedSseEnabled") != "true":
        yield told.finding("encryption", f"{told.of} is not encrypted", "SSE-SQS, or a KMS key")


def redrive_findings(told: Told, wanted: Queue, found: Attributes, target_arn: str) -> Iterator[Finding]:
    """Where a queue's messages go that were received too often, and after how many receives."""
    policy = _object(found.get("RedrivePolicy"))
    if not policy:
        yield told.finding(
            "redrive",
            f"{told.of} has no redrive policy: what crashes its consumer comes again until it is too old",
            f"to {target_arn} after {wanted.max_receive_count} receives",
        )
        return
    target, count = policy.get("deadLetterTargetArn"), policy.get("maxReceiveCount")
    other = told.other("redrive-target", "dead letters going to", target, target_arn)
    if other is not None:
        yield other
    if wanted.max_receive_count is not None:
        few = told.number("redrive-count", "a redrive count", count, wanted.max_receive_count)
        if few is not None:
            yield few


def no_redrive_findings(told: Told, found: Attributes) -> Iterator[Finding]:
    """A queue whose messages must stay in it until a person takes them."""
    policy = _object(found.get("RedrivePolicy"))
    if policy:
        target = policy.get("deadLetterTargetArn")
        yield told.finding("redrive", f"{told.of} moves what was looked at often to {target}", "no redrive policy")


def allow_findings(told: Told, wanted: Queue, found: Attributes, source_arn: str) -> Iterator[Finding]:
    """Which queues may move their messages into a dead-letter queue."""
    if wanted.redrive_allow is None:
        return
    policy = _object(found.get("RedriveAllowPolicy"))
    sources = policy.get("sourceQueueArns", [])
    if policy.get("redrivePermission") == "denyAll" or (sources and source_arn not in sources):
        yield told.finding(
            "redrive-allow",
            f"{told.of} does not take dead letters from {source_arn}",
            f"{wanted.redrive_allow}: {source_arn}",
        )
    elif policy.get("redrivePermission") != wanted.redrive_allow or sources != [source_arn]:
        others = ", ".join(one for one in sources if one != source_arn) or "every queue"
        yield told.finding(
            "redrive-allow",
            f"{told.of} takes dead letters from {others}",
            f"{wanted.redrive_allow}: {source_arn}",
            DEPLOY_AGAIN,
            severity="warning",
        )


def queue_policy_findings(told: Told, found: Attributes, statements: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """The queue's own policy: SNS delivers from its topic alone, and nobody without TLS."""
    yield from policy_findings(told, text_of(found, "Policy"), statements)


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, Mapping) else {}
