"""What the gate makes of plans of Terraform's, real ones, edit by edit; and which plans it refuses."""

from pathlib import Path
from typing import Any

import pytest

from tests.gate.cases import CASES, Case
from tests.gate.make_plans import PLANS
from towpath.errors import InvalidPlan
from towpath.gate import blocked
from towpath.gate.files import plan_edits
from towpath.gate.terraform import edits_of_plan


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_gate_blocks_what_a_plan_would_lose_and_nothing_else(case: Case) -> None:
    found = blocked(plan_edits(PLANS / f"{case.name}.json"))
    assert {(one.kind, one.impact) for one in found} == case.blocks


def test_a_safe_plan_is_one_that_does_something() -> None:
    safe = [case.name for case in CASES if not case.blocks]
    assert [name for name in safe if not plan_edits(PLANS / f"{name}.json")] == ["nothing-changes"]


# --- What a plan may hold besides ------------------------------------------------------------------------------


def plan(*changes: Any, **more: Any) -> dict[str, Any]:
    return {"format_version": "1.2", "planned_values": {}, "resource_changes": list(changes), **more}


def change(kind: str, actions: list[str], before: Any = None, after: Any = None, unknown: Any = None) -> dict[str, Any]:
    inner = {"actions": actions, "before": before, "after": after, "after_unknown": unknown or {}}
    return {"address": f"{kind}.x", "mode": "managed", "type": kind, "change": inner}


def told(*changes: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one.impact, one.sentence) for one in blocked(edits_of_plan(plan(*changes), "the plan"))]


@pytest.mark.parametrize(
    ("actions", "begins"),
    [
        (["delete"], "is deleted: "),
        (["delete", "create"], "is deleted and made anew"),
        (["create", "delete"], "is deleted and made anew"),
        (["forget"], "is forgotten"),
        (["create", "forget"], "is forgotten"),
    ],
)
def test_each_action_that_lets_go_of_something_is_blocked(actions: list[str], begins: str) -> None:
    ((impact, sentence),) = told(change("aws_sqs_queue", actions, {"name": "q"}))
    assert impact == "destructive"
    assert sentence.startswith(begins)


@pytest.mark.parametrize("actions", [["no-op"], ["read"], ["create"]])
def test_what_takes_nothing_away_passes(actions: list[str]) -> None:
    assert told(change("aws_sqs_queue", actions, None, {"name": "q"})) == []


def test_resources_of_other_types_are_left_to_others() -> None:
    assert told(change("aws_s3_bucket", ["delete"], {"bucket": "b"})) == []


def test_a_value_that_is_known_after_the_apply_is_blocked_where_it_is_guarded() -> None:
    before = {"message_retention_seconds": 60, "tags": {"a": "b"}}
    unknown = change("aws_sqs_queue", ["update"], before, {}, {"message_retention_seconds": True, "tags": True})
    ((impact, sentence),) = told(unknown)
    assert (impact, sentence.startswith("its retention is known only while it runs")) == ("lossy", True)


def test_a_value_within_a_list_or_a_document_may_be_unknown_too() -> None:
    before = {"server_side_encryption": [{"kms_key_arn": "arn:old"}]}
    after, unknown = {"server_side_encryption": [{}]}, {"server_side_encryption": [{"kms_key_arn": True}]}
    ((_, sentence),) = told(change("aws_dynamodb_table", ["update"], before, after, unknown))
    assert sentence.startswith("its key is known only while it runs")


def test_a_number_that_is_written_otherwise_is_not_taken_for_one_that_is_the_same() -> None:
    before = {"message_retention_seconds": 600}
    ((_, shorter),) = told(change("aws_sqs_queue", ["update"], before, {"message_retention_seconds": "60"}))
    ((_, unread),) = told(change("aws_sqs_queue", ["update"], before, {"message_retention_seconds": {}}))
    assert "60 seconds instead of 600" in shorter
    assert unread.startswith("its retention is known only")


def test_a_role_that_gets_another_boundary_is_told() -> None:
    before, after = ({"name": "r", "permissions_boundary": arn} for arn in ("arn:old", "arn:new"))
    ((impact, sentence),) = told(change("aws_iam_role", ["update"], before, after))
    assert (impact, sentence.split(":")[0]) == ("lossy", 'its permissions boundary is "arn')


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "is no plan of Terraform's"),
        ({"format_version": "1.0", "values": {}}, "is no plan of Terraform's"),  # a state
        (plan() | {"format_version": "2.0"}, "format_version: is 2.0"),
        (plan(errored=True), "the plan is not whole"),
        (plan(deferred_changes=[{}]), "are put off to a later plan"),
        (plan() | {"resource_changes": None}, "resource_changes: must be a list"),
        (plan("x"), "resource_changes[0]: "),
        (plan({"address": "a", "type": "aws_sqs_queue"}), "resource_changes[0]: "),
        (plan({"address": "a", "type": "aws_sqs_queue", "change": {"actions": "delete"}}), "resource_changes[0]: "),
        (plan({"address": "a", "type": "aws_sqs_queue", "change": {"actions": [["delete"]]}}), "resource_changes[0]: "),
        (plan({"address": "a", "change": {"actions": ["delete"]}}), "resource_changes[0]: "),
        (plan({"type": "aws_sqs_queue", "change": {"actions": ["delete"]}}), "resource_changes[0]: "),
        (plan(change("aws_sqs_queue", ["update"], "before", {})), "resource_changes[0]: "),
        (plan(change("aws_sqs_queue", ["invent"])), "are invent, which this version of Towpath does not know"),
    ],
)
def test_what_cannot_be_judged_is_refused(document: Any, problem: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        edits_of_plan(document, "the plan")
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["no json", "{", '{"a": 1, "a": 2}'])
def test_a_file_that_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InvalidPlan, match="is not JSON"):
        plan_edits(tmp_path / "plan.json")


def test_a_plan_as_terraform_saves_it_is_refused_with_what_writes_it_out(tmp_path: Path) -> None:
    (tmp_path / "plan.tfplan").write_bytes(b"PK\x03\x04\xff\xfe")
    with pytest.raises(InvalidPlan, match="terraform show -json"):
        plan_edits(tmp_path / "plan.tfplan")


def test_plans_name_no_place_of_the_machine_that_made_them() -> None:
    texts = [path.read_text() for path in PLANS.glob("*.json")]
    assert len(texts) == len(CASES)
    assert [text for text in texts if "127.0.0.1" in text or "/tmp" in text or str(Path.home()) in text] == []
