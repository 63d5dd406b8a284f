"""Writes ``manifest.md`` from the records of the manifest; ``generate.py`` runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from towpath import limits
from towpath.manifest.schema import manifest_schema

HEAD = f"""\
# Manifest

What everything else reads: the [topology](topology.md) of one environment, resolved. Every default is written out and
every derived value is there. They are decided in `towpath/resolve/` and nowhere else: Terraform, CDK, the Lambda
runtime, transports and commands copy what the manifest says.

`towpath manifest render --environment prod` writes `manifest.json`: JSON with sorted keys and without a time stamp, so
that equal topologies give equal bytes. The environment is named like a topology. `--all-on database` puts every topic
on a database, for development and on-premises use: workers run every handler, and subscriptions whose consumers are
not ours are left out. [Comparing manifests](../how-to/compare-manifests.md) says what a change means for a running
system.

## Reading it

- **Version.** `manifest_version` is {limits.MANIFEST_VERSION}. Whenever a key comes, goes or means something else, the
  version rises by one. A reader reads exactly the version that it knows, and refuses any other with one sentence: use
  the Towpath that wrote it, or render it again.
- **Strictly.** Every key must be there, and no other: a key that a reader does not know would be a rule that it does
  not keep. `Manifest.load` reports all mistakes at once, with their paths, also what records must say together: that
  topics exist, that a FIFO queue has a FIFO topic, that no two resources share a name.
  [`manifest.schema.json`](manifest.schema.json) is the JSON Schema of the keys (`towpath manifest schema` prints it).
- **Lossless.** What is read and written again is the same text, byte for byte.
- **Placeholders.** What only a deployment knows stands as `${{partition}}`, `${{region}}` and `${{account}}`;
  `${{key_arn}}` is its KMS key, `${{topic_arn}}` and `${{queue_arn}}` are the topic and the queue that a policy is made
  for. They occur in policies only. A renderer replaces them and computes nothing.
- **Given to renderers from outside**: artifacts, a KMS key, whom alarms tell, a VPC, more tags. `key_statements` hold
  with a key, `vpc_statements` in a VPC, and a deployment may choose another `log_retention_days`.

## Derived values

"""

DERIVED = {
    "names": (
        "`{name}-{environment}-{slug}`, then `-dlq` (dead letters), `-failed` (deliveries that SNS could not make), "
        "`-dedup` (table), `-consumer` (policy), what an alarm watches, `.fifo`. Slug: lower case, each run of other "
        f"characters one `-`. Too long for its service ({limits.SQS_NAME_LENGTH} for SQS, {limits.SNS_NAME_LENGTH} for "
        f"SNS, {limits.LAMBDA_NAME_LENGTH} for Lambda and IAM roles, suffix included): cut, plus `-` and 8 hex digits "
        "of the SHA-256 of the logical name. Two names that meet are a mistake"
    ),
    "visibility timeout": (
        f"on Lambda the larger of the lease and {limits.VISIBILITY_TIMEOUT_FACTOR} × timeout + batch window, else the "
        "lease"
    ),
    "`max_receive_count`": (
        f"`max_attempts` + {limits.REDRIVE_EXTRA}: Towpath dead-letters at `max_attempts` itself, and SQS what crashes "
        "past that. For an external consumer, for whom only SQS counts, `max_attempts`"
    ),
    "queues": (
        f"size limit of {limits.SQS_MESSAGE_BYTES:,} bytes and long polling of {limits.SQS_LONG_POLL_SECONDS} s always "
        "stated, encrypted by SQS; FIFO in high-throughput mode. Exclusive subscriptions have FIFO queues, others "
        "standard ones, also on a FIFO topic; the `-failed` queue is of its "
        "[topic's type](../decisions/0008-failed-deliveries-follow-the-topic.md)"
    ),
    "SNS subscription": (
        "raw delivery; the filter in canonical form, scope `MessageAttributes`; for a disabled subscription a filter "
        "that nothing passes; what cannot be delivered goes to the `-failed` queue"
    ),
    "function": (
        "alias `live`, settings as compact JSON in `TOWPATH_SUBSCRIPTION`, one thread for each message of a batch up "
        f"to ten; more than Lambda's {limits.LAMBDA_ENVIRONMENT_BYTES:,} bytes of environment is a mistake"
    ),
    "event source mapping": (
        "`ReportBatchItemFailures`; a batch of ten, of one from a FIFO queue; enabled exactly when the subscription is "
        "`active`"
    ),
    "alarms": (
        "dead letters and failed deliveries: any; age of the oldest message: over an hour, or over what a delivery's "
        "own attempts and waits can take, at most half the retention; in flight: over "
        f"{limits.ALARM_IN_FLIGHT:,}; function errors and throttles: any; an invocation that is still running "
        f"{limits.DEADLINE_GUARD_SECONDS:g} s, or a fifth of its timeout, before its end. One bad period of five "
        "minutes is enough, and no data is no alarm"
    ),
    "policies of resources": (
        "a topic takes messages from its account, a queue from its topic, a dead-letter queue from its queue; nobody "
        "gets in without TLS"
    ),
    "access": (
        "publishers, workers, operators, each function and each other consumer: the named resources only, divided into "
        "[policies](../decisions/0007-policies-name-every-resource.md) of at most "
        f"{limits.IAM_MANAGED_POLICY_CHARACTERS:,} characters wherever they are deployed; more than "
        f"{limits.IAM_POLICIES_PER_ROLE} to a role are a mistake"
    ),
    "stacks": (
        f"topics in one; subscriptions in one of {limits.STACK_GROUPS} by a hash of their names, at most "
        f"{limits.SUBSCRIPTIONS_PER_STACK} to each, so that a subscription "
        "[stays in its stack](../decisions/0006-a-subscription-stays-in-its-stack.md)"
    ),
    "deduplication table": "on demand, one item to a key, deleted by DynamoDB some time after `expires_at`",
    "tags": "`towpath:topology`, `towpath:environment`, and `towpath:topic` or `towpath:subscription`",
}

NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def manifest_page() -> str:
    """The whole page."""
    schema = manifest_schema()
    lines = [HEAD + "| value | rule |", "|---|---|", *(f"| {value} | {rule} |" for value, rule in DERIVED.items())]
    lines += ["", "## Records", ""]
    lines += ["### The file", "", *_record(schema)]
    for name in _in_order(schema):
        lines += ["", f"### {name}", "", *_record(schema["$defs"][name])]
    return "\n".join(lines) + "\n"


def _in_order(schema: Mapping[str, Any]) -> list[str]:
    """The records in the order in which a reader of the page meets them."""
    met: dict[str, None] = {}

    def visit(record: Mapping[str, Any]) -> None:
        own = [name for held in record["properties"].values() for name in _named(held)]
        new = [name for name in dict.fromkeys(own) if name not in met]
        met.update(dict.fromkeys(new))
        for name in new:
            visit(schema["$defs"][name])

    visit(schema)
    return list(met)


def _named(held: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in held:
        yield held["$ref"].rpartition("/")[2]
    for inner in (*held.get("anyOf", ()), held.get("items"), held.get("additionalProperties")):
        if isinstance(inner, Mapping):
            yield from _named(inner)


def _record(record: Mapping[str, Any]) -> Iterator[str]:
    yield record["description"].replace("``", "`")
    yield ""
    yield "| key | holds | meaning |"
    yield "|---|---|---|"
    for key, held in record["properties"].items():
        yield f"| `{key}` | {_holds(held)} | {held['description'].replace('``', '`')} |"


def _holds(held: Mapping[str, Any]) -> str:
    if "$ref" in held:
        name = held["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in held:
        return " or ".join(f"`{json.dumps(value)}`" for value in held["enum"])
    if "anyOf" in held:
        return " or ".join(_holds(inner) for inner in held["anyOf"])
    if held.get("type") == "array":
        return f"list: {_holds(held['items'])}"
    if held.get("type") == "object":
        return f"object of: {_holds(held['additionalProperties'])}"
    return "null" if held.get("type") == "null" else NAMES.get(held.get("type", ""), "any JSON")
