"""The Terraform module by its plans, which the real AWS provider makes without AWS: each is what the manifest says."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.servers.terraform import MODULE, Terraform, TerraformFailed, planned, provider, root
from towpath.manifest import Manifest

pytestmark = [pytest.mark.usefixtures("terraform"), pytest.mark.timeout(900)]

SHOP = MODULE / "tests/manifests/shop.json"
ZIP = {"s3_bucket": "zips", "s3_key": "shop/1.zip", "sha256": "0" * 64}
KEY = "arn:aws:kms:eu-west-1:000000000000:key/1234"
BOUNDARY = "arn:aws:iam::000000000000:policy/bound"
LETTERS = {"partition": "aws", "region": "eu-west-1", "account": "000000000000", "key_arn": KEY}
CONSUME = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
LOGS = ["logs:CreateLogStream", "logs:PutLogEvents"]
USE_KEY = ["kms:Decrypt", "kms:GenerateDataKey*"]
LEDGER = ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
INTERFACES = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:UnassignPrivateIpAddresses",
]
NETWORK = ["ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"]


def artifacts(manifest: Manifest) -> dict[str, Any]:
    return {name: ZIP for name, s in manifest.subscriptions.items() if s.aws is not None and s.aws.function is not None}


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return Manifest.load(SHOP)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory, manifest: Manifest) -> dict[str, Any]:
    """The manifest ``shop`` planned twice without any AWS: ``plain``, and ``guarded`` with a KMS key, in a VPC, under a
    boundary, which allows the most.
    """
    plain = {"manifest_path": str(SHOP), "artifacts": artifacts(manifest)}
    guarded = {
        "kms_key_arn": KEY,
        "kms_key_policy_confirmed": True,
        "vpc": {"subnet_ids": ["subnet-1"], "security_group_ids": ["sg-1"]},
        "permissions_boundary": BOUNDARY,
    }
    folder = tmp_path_factory.mktemp("shop")
    return root(folder, {"plain": plain, "guarded": plain | guarded}, {}).initialise().plan()


def filled(document: object, **own: str) -> Any:
    """What the placeholders of a record of the manifest stand for, put in."""
    text = json.dumps(document)
    for name, value in (LETTERS | own).items():
        text = text.replace(f"${{{name}}}", value)
    return json.loads(text)


# --- What is planned is what the manifest says ------------------------------------------------------------------


def test_there_are_the_manifest_s_resources_and_no_others(plan: dict[str, Any]) -> None:
    on_aws = {name: s["aws"] for name, s in json.loads(SHOP.read_text())["subscriptions"].items() if s["aws"]}
    functions = {name for name, aws in on_aws.items() if aws["function"]}
    queues = ("queue", "dead_letter_queue", "delivery_failure_queue")
    of_functions = (
        "aws_cloudwatch_log_group.function",
        "aws_iam_role.function",
        "aws_iam_role_policy.function",
        "aws_lambda_alias.live",
        "aws_lambda_event_source_mapping.mapping",
        "aws_lambda_function.function",
    )
    wanted = {f'aws_sns_topic.topic["{name}"]' for name in ("documents", "orders")}
    wanted |= {'aws_dynamodb_table.deduplication["orders"]', "aws_cloudwatch_dashboard.dashboard[0]"}
    wanted |= {f'aws_sqs_queue.{role}["{name}"]' for name in on_aws for role in queues}
    wanted |= {f'aws_sns_topic_subscription.subscription["{name}"]' for name in on_aws}
    wanted |= {f'{kind}["{name}"]' for name in functions for kind in of_functions}
    wanted |= {
        f'aws_cloudwatch_metric_alarm.alarm["{name}/{watches}"]'
        for name, aws in on_aws.items()
        for watches in aws["alarms"]
    }
    assert set(planned(plan, "plain")) == wanted


def test_queues_have_the_manifest_s_numbers(plan: dict[str, Any], manifest: Manifest) -> None:
    made = planned(plan, "plain")
    for name, subscription in manifest.subscriptions.items():
        if subscription.aws is None:
            continue
        for role in ("queue", "dead_letter_queue", "delivery_failure_queue"):
            queue, values = getattr(subscription.aws, role), made[f'aws_sqs_queue.{role}["{name}"]']
            assert {
                "name": values["name"],
                "fifo": values["fifo_queue"],
                "visibility_timeout_seconds": values["visibility_timeout_seconds"],
                "message_retention_seconds": values["message_retention_seconds"],
                "maximum_message_size": values["max_message_size"],
                "receive_wait_time_seconds": values["receive_wait_time_seconds"],
                "sqs_managed_sse": values["sqs_managed_sse_enabled"],
            } == {
                "name": queue.name,
                "fifo": queue.fifo,
                "visibility_timeout_seconds": queue.visibility_timeout_seconds,
                "message_retention_seconds": queue.message_retention_seconds,
                "maximum_message_size": queue.maximum_message_size,
                "receive_wait_time_seconds": queue.receive_wait_time_seconds,
                "sqs_managed_sse": True,
            }
            if queue.fifo:
                assert values["content_based_deduplication"] is False
                assert values["deduplication_scope"] == queue.deduplication_scope
                assert values["fifo_throughput_limit"] == queue.fifo_throughput_limit
        redrive = json.loads(made[f'aws_sqs_queue.queue["{name}"]']["redrive_policy"])
        assert redrive["maxReceiveCount"] == subscription.aws.queue.max_receive_count


def test_functions_and_mappings_have_the_manifest_s_numbers(plan: dict[str, Any], manifest: Manifest) -> None:
    made = planned(plan, "plain")
    for name in artifacts(manifest):
        aws = manifest.subscriptions[name].aws
        function, values = aws.function, made[f'aws_lambda_function.function["{name}"]']
        assert (values["function_name"], values["handler"], values["runtime"]) == (
            function.name,
            function.handler,
            function.runtime,
        )
        assert (values["memory_size"], values["timeout"], values["architectures"]) == (
            function.memory_mb,
            function.timeout_seconds,
            [function.architecture],
        )
        mapping, values = aws.event_source_mapping, made[f'aws_lambda_event_source_mapping.mapping["{name}"]']
        assert (values["batch_size"], values["maximum_batching_window_in_seconds"], values["enabled"]) == (
            mapping.batch_size,
            mapping.batch_window_seconds,
            mapping.enabled,
        )
        assert values["function_response_types"] == ["ReportBatchItemFailures"]
        bound = [scaling["maximum_concurrency"] for scaling in values["scaling_config"]]
        assert bound == ([] if mapping.maximum_concurrency is None else [mapping.maximum_concurrency])


def test_alarms_have_the_manifest_s_numbers(plan: dict[str, Any], manifest: Manifest) -> None:
    made = planned(plan, "plain")
    for name, subscription in manifest.subscriptions.items():
        for watches, alarm in (subscription.aws.alarms if subscription.aws else {}).items():
            values = made[f'aws_cloudwatch_metric_alarm.alarm["{name}/{watches}"]']
            told = {
                "name": values["alarm_name"],
                "description": values["alarm_description"],
                "comparison": values["comparison_operator"],
                "period_seconds": values["period"],
            }
            told |= {key: values[key] for key in ("namespace", "metric_name", "dimensions", "statistic", "threshold")}
            told |= {key: values[key] for key in ("evaluation_periods", "treat_missing_data")}
            assert told == {key: getattr(alarm, key) for key in told}


def test_every_failure_that_bites_has_its_alarm(plan: dict[str, Any]) -> None:
    alarms = [values for address, values in planned(plan, "plain").items() if '["documents.convert/' in address]
    assert {(alarm["metric_name"], alarm["statistic"], *alarm["dimensions"].values()) for alarm in alarms} == {
        ("ApproximateNumberOfMessagesVisible", "Maximum", "shop-test-documents-convert-dlq"),
        ("ApproximateNumberOfMessagesVisible", "Maximum", "shop-test-documents-convert-failed"),
        ("ApproximateAgeOfOldestMessage", "Maximum", "shop-test-documents-convert"),
        ("ApproximateNumberOfMessagesNotVisible", "Maximum", "shop-test-documents-convert"),
        ("Errors", "Sum", "shop-test-documents-convert"),
        ("Throttles", "Sum", "shop-test-documents-convert"),
        ("Duration", "Maximum", "shop-test-documents-convert"),
    }


# --- Who may do what --------------------------------------------------------------------------------------------


def allowed(document: str) -> dict[str, list[str]]:
    return {statement["Sid"]: statement["Action"] for statement in json.loads(document)["Statement"]}


def role_policies(plan: dict[str, Any], module: str) -> dict[str, str]:
    kind = "aws_iam_role_policy.function"
    made = planned(plan, module).items()
    return {address[len(kind) + 2 : -2]: values["policy"] for address, values in made if address.startswith(kind)}


def outputs(plan: dict[str, Any], module: str, name: str) -> dict[str, str]:
    value: dict[str, str] = plan["planned_values"]["outputs"][f"{module}_{name}"]["value"]
    return value


def test_a_function_may_do_exactly_this(plan: dict[str, Any], manifest: Manifest) -> None:
    wanted = {"Consume": CONSUME, "SetAside": ["sqs:SendMessage"], "WriteLogs": LOGS}
    assert {name: allowed(policy) for name, policy in role_policies(plan, "plain").items()} == dict.fromkeys(
        artifacts(manifest), wanted
    )


def test_with_a_key_and_in_a_vpc_a_function_may_do_exactly_this_besides(
    plan: dict[str, Any], manifest: Manifest
) -> None:
    wanted = {
        "Consume": CONSUME,
        "SetAside": ["sqs:SendMessage"],
        "WriteLogs": LOGS,
        "UseKey": USE_KEY,
        "ManageNetworkInterfaces": INTERFACES,
        "DescribeNetwork": NETWORK,
    }
    assert {name: allowed(policy) for name, policy in role_policies(plan, "guarded").items()} == dict.fromkeys(
        artifacts(manifest), wanted
    )
    boundaries = {
        v["permissions_boundary"] for a, v in planned(plan, "guarded").items() if a.startswith("aws_iam_role.")
    }
    assert boundaries == {BOUNDARY}


def test_people_and_programs_outside_the_functions_may_do_exactly_this(plan: dict[str, Any]) -> None:
    said = {
        who: [allowed(document) for document in outputs(plan, "guarded", f"{who}_policy_json").values()]
        for who in ("publisher", "worker", "operator", "consumer")
    }
    key = {"UseKey": USE_KEY}
    set_aside = ["sqs:SendMessage"]
    operate = {"ManageDeadLetters": CONSUME, "InspectAndReplay": ["sqs:GetQueueAttributes", "sqs:SendMessage"]}
    assert said == {
        "publisher": [{"Publish": ["sns:Publish"], "Deduplicate": LEDGER} | key],
        "worker": [{"Consume": CONSUME, "SetAside": set_aside} | key],
        "operator": [operate | key],
        "consumer": [
            {"Consume": CONSUME, "SetAside": set_aside} | key,
            {"Consume": CONSUME, "UseKey": ["kms:Decrypt"]},
        ],
    }


def test_statements_are_the_manifest_s_with_the_placeholders_filled_in(
    plan: dict[str, Any], manifest: Manifest
) -> None:
    document = json.loads(SHOP.read_text())
    for name, policy in role_policies(plan, "guarded").items():
        record = document["subscriptions"][name]["aws"]["function"]["policy"]
        wanted = record["statements"] + record["key_statements"] + document["aws"]["vpc_statements"]
        made = json.loads(policy)["Statement"]
        assert [(s["Sid"], s["Action"], s["Resource"]) for s in made] == [
            (s["sid"], s["actions"], s["resources"]) for s in filled(wanted)
        ]
        assert {s["Effect"] for s in made} == {"Allow"}


def test_no_statement_names_every_resource_but_where_aws_takes_none(plan: dict[str, Any]) -> None:
    documents = [*role_policies(plan, "guarded").values()]
    for who in ("publisher", "worker", "operator", "consumer"):
        documents += outputs(plan, "guarded", f"{who}_policy_json").values()
    wide = {s["Sid"] for text in documents for s in json.loads(text)["Statement"] if "*" in s["Resource"]}
    assert wide == {"DescribeNetwork"}  # "Actions defined by Amazon EC2": the two take no resource
    assert not [text for text in documents if "${" in text]


def test_policies_of_topics_and_queues_ask_for_tls_and_name_whom_they_let_in(plan: dict[str, Any]) -> None:
    policies = [
        v["policy"]
        for v in planned(plan, "plain").values()
        if "policy" in v and "RefuseWithoutTls" in (v["policy"] or "")
    ]
    assert len(policies) == 2 + 3 * 7  # two topics; seven subscriptions with three queues each
    for text in policies:
        statements = {s["Sid"]: s for s in json.loads(text)["Statement"]}
        refused = statements.pop("RefuseWithoutTls")
        assert (refused["Effect"], refused["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": ["false"]}})
        for statement in statements.values():
            conditions = statement.get("Condition", {})
            by_service = "Service" in statement["Principal"]
            assert "*" not in statement["Resource"]
            assert by_service == ("aws:SourceArn" in conditions.get("ArnEquals", {}))
            assert by_service == ("aws:SourceAccount" in conditions.get("StringEquals", {}))
            assert by_service or statement["Principal"] == {"AWS": ["arn:aws:iam::000000000000:root"]}


# --- The module's own tests and examples ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module elsewhere, so that nothing is left beside it."""
    folder = tmp_path_factory.mktemp("copy") / "terraform"
    shutil.copytree(MODULE, folder, ignore=shutil.ignore_patterns(".terraform*"))
    return folder


def test_the_module_passes_its_own_tests(copied: Path) -> None:
    told = Terraform(folder=copied).initialise().run("test")
    assert ", 0 failed." in told


def test_the_examples_can_be_planned(copied: Path) -> None:
    for example in ("basic", "complete"):
        folder = copied / "examples" / example
        (folder / "offline_override.tf.json").write_text(json.dumps({"provider": {"aws": [provider({})]}}))
        told = Terraform(folder=folder).initialise().run("plan", "-input=false", "-var=account_id=000000000000")
        assert re.search(r"Plan: [1-9]\d* to add, 0 to change, 0 to destroy", told), told


def test_the_module_is_formatted_and_valid(copied: Path) -> None:
    Terraform(folder=MODULE).run("fmt", "-check", "-recursive")
    Terraform(folder=copied).initialise().run("validate")


# --- A manifest that was edited by hand -------------------------------------------------------------------------


def refusal(folder: Path, manifest_path: str) -> str:
    """What Terraform says instead of a plan, without its breaks within sentences."""
    inputs = {"manifest_path": manifest_path, "artifacts": {"documents.convert": ZIP}}
    workspace = root(folder, {"edited": inputs}, {}).initialise()
    with pytest.raises(TerraformFailed) as refused:
        workspace.plan()
    return " ".join(str(refused.value).replace("│", " ").split())


def test_a_plan_refuses_what_is_wrong_with_a_sentence_for_each(tmp_path: Path) -> None:
    edited = json.loads((MODULE / "tests/manifests/single.json").read_text())
    convert, index = edited["subscriptions"]["documents.convert"], edited["subscriptions"]["documents.index"]
    index["partition_mode"] = "ordered"
    index["aws"]["queue"]["name"] = convert["aws"]["queue"]["name"]
    (tmp_path / "edited.json").write_text(json.dumps(edited))
    told = refusal(tmp_path, "edited.json")
    assert told.count("Error: ") == 2
    assert "puts documents.index on AWS in partition mode ordered, which AWS cannot keep" in told
    assert "names the SQS queue single-test-documents-convert more than once" in told


def test_a_plan_says_nothing_else_of_a_manifest_of_another_version(tmp_path: Path) -> None:
    told = refusal(tmp_path, str(MODULE / "tests/manifests/of-version-2.json"))
    assert told.count("Error: ") == 1
    assert "is of version 2, and this module reads version 1; use the module that" in told
