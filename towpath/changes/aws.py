"""What changes of a subscription's resources on AWS mean, where no rule of its handling has said it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from towpath.changes.differences import ABSENT, Difference
from towpath.changes.permissions import Resources, policies
from towpath.changes.phrases import always, destructive, lossy, number, other, safe, switch
from towpath.changes.rules import Rule, Told, anything_else, shown
from towpath.manifest import Subscription

_RENAMED: Final = ("manifest:name", "manifest:environment")
_REPLACED: Final = ("partition_mode", "topic:aws.fifo", *_RENAMED)
_THREE: Final = ("queue", "dead_letter_queue", "delivery_failure_queue")


# What is said of a resource's attribute, whoever changes it: a manifest, or a plan of Terraform or CloudFormation.
RECEIVES: Final = number(
    "SQS sets aside what it handed out", "times", falls="what it has handed out as often goes at once"
)
VISIBILITY: Final = number("SQS hides what it hands out for", "seconds", falls="what takes longer is handed out twice")
RETENTION: Final = number("its queue keeps a message for", "seconds", falls="older ones are deleted, handled or not")
SIZE: Final = number("its queues take messages of up to", "bytes", falls="larger ones cannot be delivered")
ENCRYPTION: Final = switch(
    on=safe("SQS encrypts what its queues hold"), off=lossy("SQS no longer encrypts what its queues hold")
)
RAW_DELIVERY: Final = switch(
    on=lossy("SNS delivers messages as they are"),
    off=lossy("SNS delivers messages within an envelope of its own, without their attributes"),
)
LOG_RETENTION: Final = number("its log is kept for", "days", falls="what is older is deleted")
ANSWERS: Final = always(
    lossy("Lambda reads its function's answer otherwise: failed messages are deleted, or good ones repeated")
)
POLLING: Final = switch(
    on=safe("Lambda polls its queue"), off=lossy("Lambda no longer polls its queue, whose messages wait")
)


def rules(resources: Resources) -> tuple[Rule, ...]:
    """The rules, in a comparison whose resources are ``resources``; the last one speaks of everything."""
    return (*_QUEUES, *_FUNCTION, *_policies(resources), *_ALARMS, *_REST)


# --- Queues ------------------------------------------------------------------------------------------------------


def _queue_replaced(old: Subscription, new: Subscription, found: Sequence[Difference]) -> Told:
    roles = dict.fromkeys(difference.path[1] for difference in found)
    pairs = [(getattr(old.aws, role).name, getattr(new.aws, role).name) for role in roles]
    told = " and ".join(f"{before} is deleted, with all messages in it, and {after} made" for before, after in pairs)
    return destructive(f"the queue {told}")


_QUEUES: Final = (
    Rule(
        paths=tuple(f"aws.{role}.{key}" for role in _THREE for key in ("name", "fifo")),
        tell=_queue_replaced,
        follows=_REPLACED,
    ),
    Rule(
        paths=tuple(f"aws.{role}.{key}" for role in _THREE for key in ("deduplication_scope", "fifo_throughput_limit")),
        tell=anything_else,
        follows=_REPLACED,
    ),
    Rule(
        paths=("aws.queue.max_receive_count",),
        tell=RECEIVES,
        follows=("max_attempts", "host"),
    ),
    Rule(
        paths=("aws.queue.visibility_timeout_seconds",),
        tell=VISIBILITY,
    ),
    Rule(
        paths=("aws.*.visibility_timeout_seconds",),
        tell=number("SQS hides a dead letter that is looked at for", "seconds"),
        follows=("lease_seconds",),
    ),
    Rule(
        paths=("aws.queue.message_retention_seconds",),
        tell=RETENTION,
        follows=("topic:retention_days",),
    ),
    Rule(
        paths=("aws.*.maximum_message_size",),
        tell=SIZE,
    ),
    Rule(
        paths=("aws.*.sqs_managed_sse",),
        tell=ENCRYPTION,
    ),
    Rule(paths=("aws.*.receive_wait_time_seconds",), tell=number("a receive waits for messages for up to", "seconds")),
    Rule(
        paths=("aws.sns_subscription.raw_message_delivery",),
        tell=RAW_DELIVERY,
    ),
)


# --- Function ----------------------------------------------------------------------------------------------------


def _variables(_old: Subscription, _new: Subscription, found: Sequence[Difference]) -> Told:
    return lossy(f"its function has other variables: {', '.join(dict.fromkeys(d.path[-1] for d in found))}")


_SETTINGS: Final = (
    *("topic", "handler", "host", "partition_mode", "status", "max_attempts", "backoff.*", "lease_seconds"),
    *("heartbeat", "max_processing_seconds", "accept_foreign"),
    *("aws.queue.fifo", "aws.function.timeout_seconds", "aws.function.concurrency"),
)

_FUNCTION: Final = (
    Rule(
        paths=("aws.function.name", "aws.function.role_name", "aws.function.alias"),
        tell=other("of its function's name, role and alias", "destructive", "the one is deleted, the other made"),
        follows=_RENAMED,
    ),
    Rule(
        paths=("aws.function.log_group_name",),
        tell=other("its log group is", "destructive", "what was logged is deleted"),
        follows=("aws.function.name", *_RENAMED),
    ),
    Rule(
        paths=("aws.function.log_retention_days",),
        tell=LOG_RETENTION,
    ),
    Rule(
        paths=("aws.function.runtime", "aws.function.architecture"),
        tell=other("its function runs on", "safe", "deploy a zip that is bundled for it"),
    ),
    Rule(
        paths=("aws.function.memory_mb",),
        tell=number("its function has", "MB of memory", falls="it is slower, and killed when it needs more"),
    ),
    Rule(
        paths=("aws.function.timeout_seconds",),
        tell=number("an invocation may take", "seconds", falls="one that takes longer is cut off"),
    ),
    Rule(paths=("aws.function.concurrency",), tell=number("an invocation has", "threads")),
    Rule(
        paths=("aws.function.environment.TOWPATH_SUBSCRIPTION",),
        tell=always(lossy("its function is told other rules than before, which the manifest's records do not say")),
        follows=_SETTINGS,
    ),
    Rule(paths=("aws.function.environment.*", "aws.function.queue_url_environment.*"), tell=_variables),
    Rule(
        paths=("aws.event_source_mapping.batch_size",),
        tell=number("an invocation gets up to", "messages"),
        follows=("partition_mode",),
    ),
    Rule(
        paths=("aws.event_source_mapping.batch_window_seconds",), tell=number("Lambda gathers a batch for", "seconds")
    ),
    Rule(
        paths=("aws.event_source_mapping.maximum_concurrency",),
        tell=number("invocations at once are up to", none="as many as the account allows"),
    ),
    Rule(
        paths=("aws.event_source_mapping.function_response_types",),
        tell=ANSWERS,
    ),
    Rule(
        paths=("aws.event_source_mapping.enabled",),
        tell=POLLING,
        follows=("status",),
    ),
)


def _policies(resources: Resources) -> tuple[Rule, ...]:
    return (
        Rule(
            paths=("aws.function.policy.*",),
            tell=policies("its function", lambda s: (s.aws.function.policy,), resources),
            follows=_REPLACED,
        ),
        Rule(
            paths=("aws.consumer_policy.*",),
            tell=policies("a consumer of it", lambda s: (s.aws.consumer_policy,), resources),
            follows=("host", *_REPLACED),
        ),
    )


# --- Alarms, stack, tags -----------------------------------------------------------------------------------------


def _alarms(_old: Subscription, _new: Subscription, found: Sequence[Difference]) -> Told:
    gone = [difference.path[-1] for difference in found if difference.new is ABSENT]
    made = [difference.path[-1] for difference in found if difference.old is ABSENT]
    changed = [d for d in found if d.new is not ABSENT and d.old is not ABSENT]
    parts = [
        *([f"the alarm {', '.join(gone)} goes"] if gone else []),
        *([f"the alarm {', '.join(made)} is new"] if made else []),
        *(f"the alarm {'.'.join(d.path[2:])} is {shown(d.new)} instead of {shown(d.old)}" for d in changed),
    ]
    return lossy("; ".join(parts)) if gone else safe("; ".join(parts))


def _stack(old: Subscription, new: Subscription, _found: Sequence[Difference]) -> Told:
    before, after = (s.aws.stack_name if s.aws is not None else "none" for s in (old, new))
    return destructive(
        f"is in the stack {after} instead of {before}: CloudFormation deletes its queues in the one, with all messages "
        "in them, and makes them in the other; with Terraform nothing happens"
    )


_ALARMS: Final = (
    Rule(
        paths=("aws.alarms.age.threshold",),
        tell=_alarms,
        follows=(
            *("max_attempts", "backoff.*", "topic:retention_days"),
            *("aws.queue.visibility_timeout_seconds", "aws.queue.message_retention_seconds"),
        ),
    ),
    Rule(paths=("aws.alarms.time-outs.threshold",), tell=_alarms, follows=("aws.function.timeout_seconds",)),
    Rule(paths=("aws.alarms.*.name", "aws.alarms.*.dimensions.*"), tell=_alarms, follows=_REPLACED),
    Rule(paths=("aws.alarms", "aws.alarms.*"), tell=_alarms, follows=("host",)),
)

_REST: Final = (
    Rule(paths=("aws.stack_group", "aws.stack_name"), tell=_stack, follows=_RENAMED),
    Rule(paths=("aws.tags*",), tell=always(safe("its tags change")), follows=_RENAMED),
    Rule(paths=("*",), tell=anything_else),
)
