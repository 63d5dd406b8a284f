"""What Terraform is about to do, from ``terraform show -json PLAN``.

Source: Terraform's documentation, "JSON Output Format", format version 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from towpath.errors import InvalidPlan, Mistake
from towpath.gate.edits import UNKNOWN, Action, Edit
from towpath.gate.fields import (
    Field,
    Form,
    as_document,
    as_number,
    as_switch,
    attributes,
    names,
    never_or_days,
    or_none,
    sorted_texts,
)

_POLICY: Final = Field(guarded="policy", path=("policy",), read=as_document)
_REDRIVE: Final = (
    Field(guarded="redrive count", path=("redrive_policy", "maxReceiveCount"), read=as_number),
    Field(guarded="redrive target", path=("redrive_policy", "deadLetterTargetArn"), read=or_none),
)
_ALLOW: Final = Field(guarded="redrive permission", path=("redrive_allow_policy",), read=as_document)

FORMS: Final[Mapping[str, Form]] = {
    "aws_sns_topic": Form(
        kind="topic",
        named=("name",),
        fields=(Field(guarded="key", path=("kms_master_key_id",), read=or_none), _POLICY),
    ),
    "aws_sns_topic_policy": Form(kind="policy", fields=(_POLICY,)),
    "aws_sns_topic_subscription": Form(
        kind="subscription",
        fields=(
            Field(guarded="filter policy", path=("filter_policy",), read=as_document),
            Field(guarded="filter scope", path=("filter_policy_scope",), read=or_none, default="MessageAttributes"),
            Field(guarded="raw delivery", path=("raw_message_delivery",), read=as_switch, default=False),
            Field(guarded="redrive target", path=("redrive_policy", "deadLetterTargetArn"), read=or_none),
        ),
    ),
    "aws_sqs_queue": Form(
        kind="queue",
        named=("name",),
        fields=(
            Field(guarded="visibility timeout", path=("visibility_timeout_seconds",), read=as_number, default=30),
            Field(guarded="retention", path=("message_retention_seconds",), read=as_number, default=345_600),
            Field(guarded="size limit", path=("max_message_size",), read=as_number, default=262_144),
            Field(guarded="key", path=("kms_master_key_id",), read=or_none),
            Field(guarded="encryption", path=("sqs_managed_sse_enabled",), read=as_switch, default=False),
            *_REDRIVE,
            _ALLOW,
            _POLICY,
        ),
    ),
    "aws_sqs_queue_policy": Form(kind="policy", fields=(_POLICY,)),
    "aws_sqs_queue_redrive_policy": Form(kind="redrive policy", fields=_REDRIVE),
    "aws_sqs_queue_redrive_allow_policy": Form(kind="policy", fields=(_ALLOW,)),
    "aws_lambda_event_source_mapping": Form(
        kind="mapping",
        fields=(
            Field(guarded="enabled", path=("enabled",), read=as_switch, default=True),
            Field(guarded="response types", path=("function_response_types",), read=sorted_texts, default=[]),
            Field(guarded="function", path=("function_name",)),
            Field(guarded="filter criteria", path=("filter_criteria",), read=or_none),
        ),
    ),
    "aws_lambda_function": Form(
        kind="function",
        named=("function_name",),
        fields=(
            Field(guarded="reserved concurrency", path=("reserved_concurrent_executions",), read=as_number, default=-1),
        ),
    ),
    "aws_lambda_alias": Form(kind="alias"),
    "aws_lambda_permission": Form(kind="policy"),
    "aws_iam_role": Form(
        kind="role",
        named=("name",),
        fields=(
            Field(guarded="trust", path=("assume_role_policy",), read=as_document),
            Field(guarded="permissions boundary", path=("permissions_boundary",), read=or_none),
        ),
    ),
    "aws_iam_role_policy": Form(kind="policy", fields=(_POLICY,)),
    "aws_iam_policy": Form(kind="policy", named=("name",), fields=(_POLICY,)),
    "aws_iam_role_policy_attachment": Form(kind="policy"),
    "aws_kms_key": Form(
        kind="key",
        fields=(
            Field(guarded="enabled", path=("is_enabled",), read=as_switch, default=True),
            Field(guarded="rotation", path=("enable_key_rotation",), read=as_switch, default=False),
            _POLICY,
        ),
    ),
    "aws_kms_key_policy": Form(kind="policy", fields=(_POLICY,)),
    "aws_kms_alias": Form(kind="key alias", named=("name",)),
    "aws_cloudwatch_metric_alarm": Form(
        kind="alarm",
        named=("alarm_name",),
        fields=(
            Field(guarded="actions enabled", path=("actions_enabled",), read=as_switch, default=True),
            Field(guarded="alarm actions", path=("alarm_actions",), read=sorted_texts, default=[]),
        ),
    ),
    "aws_cloudwatch_log_group": Form(
        kind="log group",
        named=("name",),
        fields=(Field(guarded="retention", path=("retention_in_days",), read=never_or_days),),
    ),
    "aws_dynamodb_table": Form(
        kind="table",
        named=("name",),
        fields=(Field(guarded="key", path=("server_side_encryption", 0, "kms_key_arn"), read=or_none),),
    ),
}

_ACTIONS: Final[Mapping[tuple[str, ...], Action]] = {
    ("create",): "create",
    ("update",): "update",
    ("delete",): "delete",
    ("delete", "create"): "replace",
    ("create", "delete"): "replace",
    ("forget",): "forget",
    ("create", "forget"): "forget",
}
_NOTHING: Final = frozenset({("no-op",), ("read",)})


def edits_of_plan(plan: object, subject: str) -> tuple[Edit, ...]:
    """What a plan changes of what Towpath makes; resources of other types are left to others.

    Raises ``InvalidPlan`` about ``subject`` for anything but a whole plan of format version 1.
    """
    mistakes = list(_mistakes(plan))
    if mistakes or not isinstance(plan, Mapping):
        raise InvalidPlan(subject, mistakes)
    return tuple(_edits(plan.get("resource_changes", ())))


def _mistakes(plan: object) -> Iterator[Mistake]:
    if not isinstance(plan, Mapping) or "format_version" not in plan or "planned_values" not in plan:
        problem = "is no plan of Terraform's; write it with: terraform show -json PLAN > plan.json"
        yield Mistake(path="", problem=problem)
        return
    if str(plan["format_version"]).partition(".")[0] != "1":
        problem = f"is {plan['format_version']}, and this version of Towpath reads 1; update Towpath"
        yield Mistake(path="format_version", problem=problem)
    if plan.get("errored"):
        yield Mistake(path="errored", problem="is true: the plan is not whole; repair what terraform plan says")
    if plan.get("deferred_changes"):
        problem = "are put off to a later plan, which is to be judged then; plan without -allow-deferral"
        yield Mistake(path="deferred_changes", problem=problem)
    changes = plan.get("resource_changes", [])
    if not isinstance(changes, list):
        yield Mistake(path="resource_changes", problem="must be a list; write the plan anew with terraform show -json")
        return
    for number, one in enumerate(changes):
        yield from _mistakes_of_change(one, f"resource_changes[{number}]")


def _mistakes_of_change(one: object, where: str) -> Iterator[Mistake]:
    match one:
        case {"address": str(), "type": str(kind), "change": {"actions": [*written], **values}} if _is_change(
            written, values
        ):
            actions = tuple(written)
        case _:
            yield Mistake(path=where, problem="is no change; write the plan anew with terraform show -json")
            return
    if kind in FORMS and actions not in _ACTIONS and actions not in _NOTHING:
        problem = f"are {', '.join(actions)}, which this version of Towpath does not know; update Towpath"
        yield Mistake(path=f"{where}.change.actions", problem=problem)


def _is_change(actions: Sequence[object], values: Mapping[object, object]) -> bool:
    """Whether actions have names, and what is there before and after has attributes."""
    resources = (values.get(key) for key in ("before", "after"))
    return all(isinstance(action, str) for action in actions) and all(
        one is None or isinstance(one, Mapping) for one in resources
    )


def _edits(changes: Sequence[Mapping[str, Any]]) -> Iterator[Edit]:
    for one in changes:
        form, change = FORMS.get(one["type"]), one["change"]
        actions = tuple(change["actions"])
        if form is None or one.get("mode", "managed") != "managed" or actions in _NOTHING:
            continue
        before, after = change.get("before"), _with_unknown(change.get("after"), change.get("after_unknown"))
        yield Edit(
            address=one["address"],
            kind=form.kind,
            action=_ACTIONS[actions],
            before=attributes(form, before),
            after=attributes(form, after),
            names=names(form, before, after),
        )


def _with_unknown(value: Any, unknown: Any) -> Any:
    """The values after the change, ``UNKNOWN`` where Terraform knows them only after the apply."""
    if unknown is True:
        return UNKNOWN
    if isinstance(unknown, Mapping) and (value is None or isinstance(value, Mapping)):
        known = value or {}
        merged = {key: _with_unknown(known.get(key), unknown.get(key)) for key in {*known, *unknown}}
        return merged if value is not None or UNKNOWN in merged.values() else None
    if isinstance(unknown, list) and isinstance(value, list):
        longer = [*unknown, *([False] * (len(value) - len(unknown)))]
        return [_with_unknown(value[i] if i < len(value) else None, one) for i, one in enumerate(longer)]
    return value
