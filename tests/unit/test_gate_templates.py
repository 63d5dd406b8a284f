"""What the gate makes of templates: those of the CDK app, edit by edit, and what a template leaves open."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gate.cases import CASES, Case
from tests.gate.make_templates import kept
from towpath.errors import InvalidPlan
from towpath.gate import Blocked, blocked
from towpath.gate.cloudformation import edits_of_templates
from towpath.gate.files import template_edits

TEMPLATES = kept()
JUDGED = [case for case in CASES if case.name in TEMPLATES]


@pytest.mark.parametrize("case", JUDGED, ids=lambda case: case.name)
def test_the_gate_blocks_what_a_deployment_by_the_cdk_would_lose_and_nothing_else(case: Case) -> None:
    old, new = TEMPLATES["base"], TEMPLATES[case.name]
    stacks = {*old, *new}
    edits = [edit for stack in stacks for edit in edits_of_templates(stack, old.get(stack), new.get(stack))]
    assert {(one.kind, one.impact) for one in blocked(edits)} == case.of_cdk()


def test_most_cases_are_the_cdks_too() -> None:
    assert len(JUDGED) > len(CASES) - 4


# --- What a template leaves open ---------------------------------------------------------------------------------


def template(properties: dict[str, Any], *, kind: str = "AWS::SQS::Queue", **more: Any) -> dict[str, Any]:
    resource = {"Type": kind, "Properties": properties} | {key: more.pop(key) for key in ("Condition",) if key in more}
    resource |= {"DeletionPolicy": more.pop("DeletionPolicy")} if "DeletionPolicy" in more else {}
    return {"Resources": {"Q": resource}, **more}


def judged(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[Blocked]:
    return list(blocked(edits_of_templates("stack", old, new)))


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Retention"},
        {"Fn::If": ["IsProd", 60, 120]},
        {"Fn::FindInMap": ["Times", "prod", "retention"]},
        "{{resolve:ssm:/retention}}",
        {"Fn::Sub": "{{resolve:ssm:/retention}}"},
        {"Fn::Select": [0, {"Ref": "Retention"}]},
        {"Fn::Select": [0, ["60", "120"]]},
        {"Fn::Sub": "${Retention}"},
        {"Fn::Sub": ["${Retention}${Rest}", {"Rest": "0"}]},
        {"Fn::ImportValue": "retention"},
        {"Fn::GetAtt": ["Settings", "Retention"]},
        "soon",
    ],
)
def test_a_guarded_value_that_the_template_does_not_tell_is_blocked_even_when_it_stays(value: Any) -> None:
    same = template({"MessageRetentionPeriod": value}, Parameters={"Retention": {"Type": "Number", "Default": 60}})
    (one,) = judged(same, same)
    assert (one.address, one.impact) == ("stack/Q", "lossy")
    assert "its retention is known only while it runs" in one.sentence


def test_a_value_that_is_no_value_is_what_cloudformation_takes_without_it() -> None:
    (one,) = judged(
        template({"MessageRetentionPeriod": 604_800}), template({"MessageRetentionPeriod": {"Ref": "AWS::NoValue"}})
    )
    assert "345,600 seconds instead of 604,800" in one.sentence


def test_an_alarm_whose_actions_are_no_value_tells_nobody() -> None:
    alarm = "AWS::CloudWatch::Alarm"
    old = template({"AlarmActions": [{"Ref": "Operators"}]}, kind=alarm)
    (one,) = judged(old, template({"AlarmActions": {"Ref": "AWS::NoValue"}}, kind=alarm))
    assert "no longer tells" in one.sentence


def test_a_name_that_a_text_takes_from_what_it_brings_along_or_from_a_resource_tells_enough() -> None:
    named = {"QueueName": {"Fn::Sub": ["${Name}-${AWS::Region}-${!Name}-${D.Arn}", {"Name": "orders"}]}}
    same = template(named, Parameters={"Unused": {"Type": "String"}, "Name": {"Type": "String"}})
    assert judged(same, same) == []


def test_a_reference_to_a_resource_tells_enough() -> None:
    same = template({"RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["D", "Arn"]}, "maxReceiveCount": 3}})
    assert judged(same, same) == []


@pytest.mark.parametrize("key", ["QueueName", "FifoQueue"])
def test_a_property_that_cannot_change_in_place_replaces(key: str) -> None:
    (one,) = judged(template({key: "a"}), template({key: "b"}))
    assert one.sentence.startswith("is deleted and made anew")


def test_a_name_that_a_parameter_gives_may_replace() -> None:
    parameters = {"Parameters": {"Name": {"Type": "String"}}}
    same = template({"QueueName": {"Ref": "Name"}}, **parameters)
    assert [one.sentence.split(",")[0] for one in judged(same, same)] == ["may be deleted and made anew"]


def test_another_condition_may_delete() -> None:
    (one,) = judged(template({}), template({}, Condition="IsProd"))
    assert one.sentence.startswith("may be deleted")


def test_a_condition_that_now_says_something_else_may_delete() -> None:
    old, new = (template({}, Condition="C", Conditions={"C": {"Fn::Equals": ["prod", it]}}) for it in ("prod", "test"))
    (one,) = judged(old, new)
    assert one.sentence.startswith("may be deleted")
    assert judged(old, old) == []


def test_a_role_that_loses_its_boundary_is_told() -> None:
    kind = "AWS::IAM::Role"
    (one,) = judged(template({"PermissionsBoundary": "arn:bound"}, kind=kind), template({}, kind=kind))
    assert (one.impact, one.sentence) == (
        "lossy",
        'its permissions boundary is null instead of "arn:bound": it may do more or less than before',
    )


@pytest.mark.parametrize(
    "statement",
    ["anything", {"Principal": ["a"]}, {"Condition": ["b"]}, {"Condition": {"Bool": "c"}}],
)
def test_a_statement_that_no_policy_has_is_told_as_it_is(statement: Any) -> None:
    kind = "AWS::SQS::QueuePolicy"
    old, new = (template({"PolicyDocument": {"Statement": some}}, kind=kind) for some in ([], [statement]))
    (one,) = judged(old, new)
    assert one.sentence.startswith("allows more: ")


def test_another_type_under_the_same_id_replaces() -> None:
    (one,) = judged(template({}), template({}, kind="AWS::SNS::Topic"))
    assert one.impact == "destructive"


@pytest.mark.parametrize(("policy", "told"), [("Retain", "is forgotten"), ("Delete", "is deleted")])
def test_what_leaves_the_template_is_deleted_or_forgotten(policy: str, told: str) -> None:
    (one,) = judged(template({}, DeletionPolicy=policy), {"Resources": {}})
    assert one.sentence.startswith(told)


def test_what_is_retained_no_longer_is_told() -> None:
    assert judged(template({}, DeletionPolicy="Retain"), template({})) != []


def test_a_property_that_goes_becomes_what_cloudformation_takes_without_it() -> None:
    (one,) = judged(template({"VisibilityTimeout": 360}), template({}))
    assert "30 seconds instead of 360" in one.sentence


def test_a_role_that_may_more_is_told() -> None:
    def role(*actions: str) -> dict[str, Any]:
        document = {"Statement": {"Effect": "Allow", "Action": list(actions), "Resource": "arn:q"}}
        return template({"Policies": [{"PolicyName": "p", "PolicyDocument": document}]}, kind="AWS::IAM::Role")

    (one,) = judged(role("sqs:ReceiveMessage"), role("sqs:ReceiveMessage", "sqs:PurgeQueue"))
    assert "allows more: sqs:purgequeue on arn:q" in one.sentence


# --- Files -------------------------------------------------------------------------------------------------------


def folder(path: Path, **templates: Any) -> Path:
    path.mkdir()
    for stack, document in templates.items():
        (path / f"{stack}.template.json").write_text(json.dumps(document))
    return path


def test_folders_are_compared_stack_by_stack(tmp_path: Path) -> None:
    queue = template({"VisibilityTimeout": 60})
    old = folder(tmp_path / "old", stays={"TemplateBody": queue}, goes={"TemplateBody": json.dumps(queue)})
    new = folder(tmp_path / "new", stays=template({"VisibilityTimeout": 30}), comes=queue)
    found = {(edit.address, edit.action) for edit in template_edits(old, new)}
    assert found == {("stays/Q", "update"), ("goes/Q", "delete"), ("comes/Q", "create")}


def test_one_file_is_compared_with_another(tmp_path: Path) -> None:
    old = folder(tmp_path / "old", one=template({"VisibilityTimeout": 60})) / "one.template.json"
    new = folder(tmp_path / "new", two=template({"VisibilityTimeout": 30})) / "two.template.json"
    assert [edit.address for edit in template_edits(old, new)] == ["two/Q"]


def test_a_file_of_a_pair_that_is_not_there_is_refused(tmp_path: Path) -> None:
    new = folder(tmp_path / "new", two=template({})) / "two.template.json"
    with pytest.raises(InvalidPlan, match="cannot be read: No such file"):
        template_edits(tmp_path / "mistyped.template.json", new)


def test_a_file_in_yaml_is_refused_and_never_leaves_its_stack_taken_for_new(tmp_path: Path) -> None:
    old, new = folder(tmp_path / "old"), folder(tmp_path / "new", one=template({}))
    (old / "one.template.yaml").write_text("Resources: {}")
    with pytest.raises(InvalidPlan, match=r"one\.template\.yaml is YAML"):
        template_edits(old, new)


@pytest.mark.parametrize(
    ("resources", "where"),
    [
        ({"Q": []}, "Resources.Q"),
        ({"Q": {"Properties": {}}}, "Resources.Q"),
        ({"Q": {"Type": "AWS::SQS::Queue", "Properties": None}}, "Resources.Q"),
        ({"Fn::ForEach::Queues": ["Name", ["a"], {}]}, "Resources"),
    ],
)
def test_what_is_no_resource_is_refused(tmp_path: Path, resources: Any, where: str) -> None:
    new = folder(tmp_path / "new", one={"Resources": resources})
    with pytest.raises(InvalidPlan) as caught:
        template_edits(folder(tmp_path / "old"), new)
    assert where in str(caught.value)


@pytest.mark.parametrize("text", ["[]", "{}", '{"Resources": []}', '{"TemplateBody": "{}"}', "no json"])
def test_what_is_no_template_is_refused(tmp_path: Path, text: str) -> None:
    old, new = folder(tmp_path / "old"), folder(tmp_path / "new")
    (new / "one.template.json").write_text(text)
    with pytest.raises(InvalidPlan, match="is no"):
        template_edits(old, new)


def test_a_folder_without_templates_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    old, new = folder(tmp_path / "old"), folder(tmp_path / "new")
    with pytest.raises(InvalidPlan, match=r"has no \*\.template\.json"):
        template_edits(old, new)
    with pytest.raises(InvalidPlan, match="is no folder"):
        template_edits(tmp_path / "gone", new)


# --- Templates in YAML, as CloudFormation keeps those that the CDK's command line hands over without assets --------


def answered(folder: Path, body: str) -> Path:
    """The file of what ``aws cloudformation get-template`` answers."""
    file = folder / "stack.template.json"
    file.write_text(json.dumps({"TemplateBody": body}), encoding="utf-8")
    return file


def test_a_deployed_template_in_yaml_is_read_and_its_dates_are_text(tmp_path: Path) -> None:
    policy = {"PolicyDocument": {"Version": "2012-10-17", "Statement": []}, "Queues": ["a"]}
    synthesised = tmp_path / "new.template.json"
    synthesised.write_text(json.dumps(template(policy, kind="AWS::SQS::QueuePolicy")), encoding="utf-8")
    body = """
Resources:
  Q:
    Type: AWS::SQS::QueuePolicy
    Properties:
      PolicyDocument:
        Version: 2012-10-17
        Statement: []
      Queues: [a]
"""
    assert template_edits(answered(tmp_path, body), synthesised) == ()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("Resources: {Q: {Type: AWS::SQS::Queue, Properties: {QueueName: !Ref Name}}}", "without tags"),
        ("Resources: [", "without tags"),
        ("just text", "no template"),
        ("", "no template"),
    ],
)
def test_yaml_that_is_no_plain_template_is_refused(tmp_path: Path, body: str, told: str) -> None:
    synthesised = tmp_path / "new.template.json"
    synthesised.write_text(json.dumps(template({})), encoding="utf-8")
    with pytest.raises(InvalidPlan, match=told):
        template_edits(answered(tmp_path, body), synthesised)
