"""A topic on AWS against the manifest: the SNS topic, its policy, its table of deduplication keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aws_transport.bindings import TopicBinding
from aws_transport.checking.facts import Attributes, Look, Seen, Table, TopicFacts
from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told, text_of, unseen
from aws_transport.checking.statements import policy_findings
from towpath.manifest import AwsTopic, DeduplicationTable


def topic_findings(
    name: str, wanted: AwsTopic, binding: TopicBinding, facts: TopicFacts, policy: Sequence[Mapping[str, Any]]
) -> Iterator[Finding]:
    """Everything about the topic ``name`` that is otherwise than ``wanted``; ``policy`` are its statements."""
    told = Told(subject=f"topic {name}", code="topic", of=f"the SNS topic {wanted.topic_name}")
    yield from _binding(told, wanted, binding)
    missing = unseen(facts.attributes, told, "what is published is rejected")
    if missing is not None:
        yield missing
    if isinstance(facts.attributes, Seen):
        yield from _attributes(told, wanted, facts.attributes.value)
        yield from policy_findings(told, text_of(facts.attributes.value, "Policy"), policy)
    if wanted.deduplication_table is not None and facts.table is not None:
        yield from _table(told.subject, wanted.deduplication_table, facts.table)


def _binding(told: Told, wanted: AwsTopic, binding: TopicBinding) -> Iterator[Finding]:
    bound = binding.arn.rpartition(":")[2]
    if bound != wanted.topic_name:
        yield told.finding(
            "bound-elsewhere",
            f"the bindings name {binding.arn}",
            f"the topic {wanted.topic_name}",
            "write the bindings anew from this manifest's deployment",
        )
    if binding.fifo is not wanted.fifo:
        yield told.finding(
            "bound-kind",
            f"the bindings say {_kind(fifo=binding.fifo)}",
            _kind(fifo=wanted.fifo),
            "write the bindings anew from this manifest's deployment",
        )


def _kind(*, fifo: bool) -> str:
    return "a FIFO topic" if fifo else "a standard topic"


def _attributes(told: Told, wanted: AwsTopic, found: Attributes) -> Iterator[Finding]:
    fifo = found.get("FifoTopic") == "true"
    if fifo is not wanted.fifo:
        yield told.finding(
            "fifo",
            f"{told.of} is {_kind(fifo=fifo)}",
            _kind(fifo=wanted.fifo),
            "make a topic of another name: SNS cannot change it (docs/how-to/change-a-topology.md)",
        )
    if wanted.fifo and found.get("ContentBasedDeduplication", "false") != "false":
        yield told.finding(
            "content-deduplication",
            f"{told.of} deduplicates by content: equal messages are lost",
            "by message id alone",
        )
    scope = found.get("FifoThroughputScope")
    if wanted.fifo and scope is not None:  # LocalStack never gives it
        other = told.other("throughput-scope", "the throughput scope", scope, wanted.fifo_throughput_scope, "warning")
        if other is not None:
            yield other


def _table(subject: str, wanted: DeduplicationTable, look: Look[Table]) -> Iterator[Finding]:
    told = Told(subject=subject, code="table", of=f"the DynamoDB table {wanted.name}")
    missing = unseen(look, told, "messages with a deduplication key are rejected")
    if missing is not None:
        yield missing
    if not isinstance(look, Seen):
        return
    keys = [(key["AttributeName"], key["KeyType"]) for key in look.value.description.get("KeySchema", ())]
    if keys != [(wanted.partition_key, "HASH")]:
        yield told.finding(
            "key",
            f"{told.of} has the key {', '.join(name for name, _ in keys) or 'none'}",
            wanted.partition_key,
            "delete the table and deploy the manifest again: DynamoDB cannot change it",
        )
    billing: Mapping[str, str] = look.value.description.get("BillingModeSummary") or {"BillingMode": "PROVISIONED"}
    other = told.other("billing", "the billing mode", billing.get("BillingMode"), wanted.billing_mode, "warning")
    if other is not None:
        yield other
    yield from _expiry(told, wanted, look.value.ttl)


def _expiry(told: Told, wanted: DeduplicationTable, look: Look[Mapping[str, str]]) -> Iterator[Finding]:
    """Old keys count no longer, deleted or not; without TTL they stay and cost."""
    missing = unseen(look, told, "it has no TTL")
    if missing is not None:
        yield missing
    if not isinstance(look, Seen):
        return
    on = look.value.get("TimeToLiveStatus") in ("ENABLED", "ENABLING")
    found = look.value.get("AttributeName") if on else None
    if found != wanted.ttl_attribute:
        yield told.finding(
            "ttl",
            f"{told.of} has {'TTL by ' + found if found else 'no TTL'}: old keys are never deleted, and are paid for",
            f"TTL by {wanted.ttl_attribute}",
            severity="warning",
        )
