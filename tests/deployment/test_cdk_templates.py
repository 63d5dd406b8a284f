"""What the CDK app makes of manifests: names, numbers, rights, outputs, and each optional part, on and off."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aws_transport.bindings import Bindings
from tests.conftest import left_out
from tests.fakes.cloudformation import ACCOUNT, KEY, REGION, Deployed, place
from tests.servers.cdk import SHA256, CdkUnavailable, start, template, templates
from tests.unit.golden.__main__ import FOLDER, rendered
from tests.unit.resolving import EXCLUSIVE, resolved
from towpath.manifest import Manifest

EVERYTHING = Manifest.from_json(rendered(FOLDER / "everything.toml"))
ON_LAMBDA = "orders.invoice"
BOUNDARY = f"arn:aws:iam::{ACCOUNT}:policy/boundary"
OPERATORS = f"arn:aws:sns:{REGION}:{ACCOUNT}:operators"

Resources = Mapping[tuple[str, str], Mapping[str, Any]]


@pytest.fixture(scope="module", autouse=True)
def node() -> None:
    try:
        start()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))


def by_place(made: Mapping[str, Any]) -> Resources:
    """Every resource's properties by whose it is and what; versions without the hash in their names."""
    properties = Deployed(template=made).resources()
    places = {name: place(resource) for name, resource in made["Resources"].items()}
    return {
        (owner.partition("-")[2], "Version" if leaf.startswith("Version") else leaf): properties[name]
        for name, (owner, leaf) in places.items()
    }


@pytest.fixture(scope="module")
def plain() -> Mapping[str, Any]:
    """The template of everything, with nothing but artifacts."""
    return template(EVERYTHING)


@pytest.fixture(scope="module")
def full() -> Mapping[str, Any]:
    """The same with every optional part."""
    from cdk_app import AlarmOverride, Vpc

    return template(
        EVERYTHING,
        create_kms_key=True,
        alarm_actions=(OPERATORS,),
        ok_actions=(OPERATORS,),
        alarm_overrides={ON_LAMBDA: {"age": AlarmOverride(threshold=60, evaluation_periods=3, actions_enabled=False)}},
        tags={"team": "orders", "towpath:topology": "not this"},
        permissions_boundary=BOUNDARY,
        log_retention_days=7,
        vpc=Vpc(subnet_ids=("subnet-0aa11111",), security_group_ids=("sg-0cc33333",)),
        extra_policies={ON_LAMBDA: {"read": f"arn:aws:iam::{ACCOUNT}:policy/read"}},
        reserved_concurrency={ON_LAMBDA: 300},
        function_environment={ON_LAMBDA: {"LANGUAGE": "en"}},
        removal_policy="destroy",
    )


# --- Names and numbers -------------------------------------------------------------------------------------------


def test_every_physical_name_is_the_manifests(plain: Mapping[str, Any]) -> None:
    from towpath.manifest import resource_names

    names = ("TopicName", "QueueName", "TableName", "AlarmName", "FunctionName", "RoleName")
    made = {
        properties[name]
        for (_, leaf), properties in by_place(plain).items()
        for name in names
        if name in properties and leaf not in ("Alias", "Version", "EventSourceMapping")
    }
    assert made == {named.name for named in resource_names(EVERYTHING)}


def test_a_queue_has_every_attribute_of_the_manifest(plain: Mapping[str, Any]) -> None:
    aws = EVERYTHING.subscriptions["orders.changes.apply"].aws
    assert aws is not None
    made = dict(by_place(plain)["orders.changes.apply", "Queue"])
    del made["Tags"]
    dead_letters = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{aws.dead_letter_queue.name}"
    assert made == {
        "QueueName": aws.queue.name,
        "FifoQueue": True,
        "ContentBasedDeduplication": False,
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
        "VisibilityTimeout": aws.queue.visibility_timeout_seconds,
        "MessageRetentionPeriod": aws.queue.message_retention_seconds,
        "MaximumMessageSize": 262_144,
        "ReceiveMessageWaitTimeSeconds": 20,
        "SqsManagedSseEnabled": True,
        "RedrivePolicy": {"deadLetterTargetArn": dead_letters, "maxReceiveCount": aws.queue.max_receive_count},
    }


def test_only_its_own_queue_may_redrive_to_a_dead_letter_queue(plain: Mapping[str, Any]) -> None:
    made = by_place(plain)["orders.index", "DeadLetterQueue"]
    own = f"arn:aws:sqs:{REGION}:{ACCOUNT}:everything-prod-orders-index"
    assert made["RedriveAllowPolicy"] == {"redrivePermission": "byQueue", "sourceQueueArns": [own]}


def test_the_filter_is_the_manifests(plain: Mapping[str, Any]) -> None:
    aws = EVERYTHING.subscriptions[ON_LAMBDA].aws
    assert aws is not None
    made = by_place(plain)[ON_LAMBDA, "Subscription"]
    assert made["FilterPolicy"] == json.loads(aws.sns_subscription.filter_policy or "")
    assert made["FilterPolicyScope"] == "MessageAttributes"


def test_without_a_filter_no_scope_is_said(plain: Mapping[str, Any]) -> None:
    made = by_place(plain)["orders.index", "Subscription"]
    assert not {"FilterPolicy", "FilterPolicyScope"} & made.keys()


@pytest.mark.parametrize("status", ["active", "paused", "disabled"])
def test_lambda_polls_exactly_for_an_active_subscription(plain: Mapping[str, Any], status: str) -> None:
    name = ON_LAMBDA if status == "active" else f"orders.{status}"
    assert by_place(plain)[name, "EventSourceMapping"]["Enabled"] is (status == "active")


def test_the_mapping_invokes_the_alias(plain: Mapping[str, Any]) -> None:
    made = by_place(plain)
    alias = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:everything-prod-orders-invoice:live"
    assert made[ON_LAMBDA, "EventSourceMapping"]["FunctionName"] == alias
    assert made[ON_LAMBDA, "Alias"]["FunctionVersion"].startswith("the version ")


def test_a_function_gets_the_addresses_of_its_queues(plain: Mapping[str, Any]) -> None:
    variables = by_place(plain)[ON_LAMBDA, "Function"]["Environment"]["Variables"]
    url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/everything-prod-orders-invoice"
    assert variables["TOWPATH_QUEUE_URL"] == url
    assert variables["TOWPATH_DEAD_LETTER_QUEUE_URL"] == f"{url}-dlq"
    assert json.loads(variables["TOWPATH_SUBSCRIPTION"])["policy"]["subscription"] == ON_LAMBDA


def test_only_what_lambda_hosts_has_a_function(plain: Mapping[str, Any]) -> None:
    leaves = {leaf for owner, leaf in by_place(plain) if owner == "orders.index"}
    assert not leaves & {"Function", "Role", "LogGroup", "EventSourceMapping", "Alias", "Version"}


# --- What a change replaces --------------------------------------------------------------------------------------


def test_logical_ids_do_not_move_when_another_subscription_comes() -> None:
    one = template(resolved(a={}))["Resources"]
    two = template(resolved(a={}, b={}))["Resources"]
    assert one.keys() < two.keys()


def version_of(made: Mapping[str, Any]) -> str:
    (logical,) = (name for name, one in made["Resources"].items() if one["Type"] == "AWS::Lambda::Version")
    return str(logical)


def test_a_version_is_published_for_other_settings_and_for_no_others() -> None:
    before = version_of(template(resolved(a={})))
    assert version_of(template(resolved(a={"max_attempts": 7}))) != before
    assert version_of(template(resolved(a={"filter": {"kind": ["a"]}}))) == before


def test_a_version_is_published_for_other_code() -> None:
    from cdk_app import S3Artifact

    def code(sha256: str, bucket: str) -> str:
        artifact = S3Artifact(s3_bucket=bucket, s3_key="a.zip", sha256=sha256)
        return version_of(template(resolved(a={}), artifacts={"a": artifact}))

    assert code(SHA256, "bundles") == code(SHA256, "others")
    assert code(SHA256, "bundles") != code("0" * 64, "bundles")


def test_old_versions_stay_for_a_roll_back(full: Mapping[str, Any]) -> None:
    policies = {one["DeletionPolicy"] for one in full["Resources"].values() if one["Type"] == "AWS::Lambda::Version"}
    assert policies == {"Retain"}


KEPT = {"AWS::SNS::Topic", "AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::Logs::LogGroup", "AWS::KMS::Key"}


def test_what_holds_messages_outlives_the_stack(plain: Mapping[str, Any]) -> None:
    kept = {one["Type"] for one in plain["Resources"].values() if one.get("DeletionPolicy") == "Retain"}
    replaced = {one["Type"] for one in plain["Resources"].values() if one.get("UpdateReplacePolicy") == "Retain"}
    assert kept == replaced == (KEPT - {"AWS::KMS::Key"}) | {"AWS::Lambda::Version"}


def test_or_goes_with_it_where_that_is_said(full: Mapping[str, Any]) -> None:
    gone = {one["Type"] for one in full["Resources"].values() if one.get("DeletionPolicy") == "Delete"}
    assert gone == KEPT


# --- Rights ------------------------------------------------------------------------------------------------------

CONSUME = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
LOGS = ["logs:CreateLogStream", "logs:PutLogEvents"]
KEYED = ["kms:Decrypt", "kms:GenerateDataKey*"]
NETWORK = [
    "ec2:AssignPrivateIpAddresses",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:UnassignPrivateIpAddresses",
]
DESCRIBE = ["ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"]


def rights(policy: Mapping[str, Any]) -> list[tuple[list[str], list[str]]]:
    return [(one["Action"], one["Resource"]) for one in policy["Statement"]]


def inline(made: Mapping[str, Any], subscription: str) -> Mapping[str, Any]:
    (policy,) = by_place(made)[subscription, "Role"]["Policies"]
    document: Mapping[str, Any] = policy["PolicyDocument"]
    return document


def functions() -> list[str]:
    return [
        name for name, one in EVERYTHING.subscriptions.items() if one.aws is not None and one.aws.function is not None
    ]


@pytest.mark.parametrize("name", functions())
def test_a_role_may_use_its_own_queues_and_log_and_nothing_else(plain: Mapping[str, Any], name: str) -> None:
    aws = EVERYTHING.subscriptions[name].aws
    assert aws is not None
    assert aws.function is not None
    sqs = f"arn:aws:sqs:{REGION}:{ACCOUNT}:"
    log_group = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{aws.function.log_group_name}:*"
    assert rights(inline(plain, name)) == [
        (CONSUME, [f"{sqs}{aws.queue.name}"]),
        (["sqs:SendMessage"], [f"{sqs}{aws.dead_letter_queue.name}"]),
        (LOGS, [log_group]),
    ]


def test_a_role_may_use_the_key_and_the_network_where_there_are_such(full: Mapping[str, Any]) -> None:
    assert rights(inline(full, ON_LAMBDA))[3:] == [
        (KEYED, [KEY]),
        (NETWORK, [f"arn:aws:ec2:{REGION}:*:*/*"]),
        (DESCRIBE, ["*"]),
    ]


def test_only_lambda_may_take_a_role(plain: Mapping[str, Any]) -> None:
    trust = by_place(plain)[ON_LAMBDA, "Role"]["AssumeRolePolicyDocument"]["Statement"]
    assert trust == [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}]


def test_a_role_has_no_other_policies(plain: Mapping[str, Any]) -> None:
    roles = {kind: made for (_, kind), made in by_place(plain).items() if kind == "Role"}
    assert all(made.keys() == {"AssumeRolePolicyDocument", "Policies", "RoleName", "Tags"} for made in roles.values())
    types = {one["Type"] for one in plain["Resources"].values()}
    assert not {one for one in types if one.startswith("AWS::IAM::")} - {"AWS::IAM::Role"}
    assert not {one for one in types if "Custom" in one or one == "AWS::Lambda::Permission"}


def statements(made: Mapping[str, Any], place: tuple[str, str]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = by_place(made)[place]["PolicyDocument"]["Statement"]
    return found


@pytest.mark.parametrize("leaf", ["QueuePolicy", "DeliveryFailureQueuePolicy"])
def test_a_queue_takes_messages_from_its_own_topic_of_its_own_account(plain: Mapping[str, Any], leaf: str) -> None:
    allow, _ = statements(plain, (ON_LAMBDA, leaf))
    assert allow["Principal"] == {"Service": ["sns.amazonaws.com"]}
    assert allow["Action"] == ["sqs:SendMessage"]
    assert allow["Condition"] == {
        "ArnEquals": {"aws:SourceArn": [f"arn:aws:sns:{REGION}:{ACCOUNT}:everything-prod-orders"]},
        "StringEquals": {"aws:SourceAccount": [ACCOUNT]},
    }


@pytest.mark.parametrize(
    "place",
    [
        ("orders", "TopicPolicy"),
        (ON_LAMBDA, "QueuePolicy"),
        (ON_LAMBDA, "DeadLetterQueuePolicy"),
        (ON_LAMBDA, "DeliveryFailureQueuePolicy"),
    ],
)
def test_nobody_gets_in_without_tls(plain: Mapping[str, Any], place: tuple[str, str]) -> None:
    deny = statements(plain, place)[-1]
    assert (deny["Effect"], deny["Principal"]) == ("Deny", {"AWS": ["*"]})
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": ["false"]}}


def test_resources_are_named_wherever_aws_allows(full: Mapping[str, Any]) -> None:
    documents = [
        policy["PolicyDocument"]
        for (_, leaf), made in by_place(full).items()
        if leaf == "Role"
        for policy in made["Policies"]
    ]
    documents += [made["PolicyDocument"] for (_, leaf), made in by_place(full).items() if leaf.endswith("Policy")]
    unnamed = {
        tuple(one["Action"]) for document in documents for one in document["Statement"] if "*" in one["Resource"]
    }
    assert unnamed == {tuple(DESCRIBE)}


def test_the_key_lets_sns_in_for_topics_of_the_account_alone(full: Mapping[str, Any]) -> None:
    key = by_place(full)["", "Key"]
    administer, deliver = key["KeyPolicy"]["Statement"]
    assert administer["Principal"] == {"AWS": [f"arn:aws:iam::{ACCOUNT}:root"]}
    assert deliver["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert deliver["Condition"] == {
        "ArnLike": {"aws:SourceArn": [f"arn:aws:sns:{REGION}:{ACCOUNT}:everything-prod-*"]},
        "StringEquals": {"aws:SourceAccount": [ACCOUNT]},
    }
    assert key["EnableKeyRotation"] is True


# --- Optional parts ----------------------------------------------------------------------------------------------


def test_without_options_there_are_none_of_their_parts(plain: Mapping[str, Any]) -> None:
    made = by_place(plain)
    assert ("", "Key") not in made
    assert not {"VpcConfig", "ReservedConcurrentExecutions"} & made[ON_LAMBDA, "Function"].keys()
    assert made[ON_LAMBDA, "Alarm-age"]["AlarmActions"] == made[ON_LAMBDA, "Alarm-age"]["OKActions"] == []
    assert made[ON_LAMBDA, "LogGroup"]["RetentionInDays"] == 30


def test_a_key_encrypts_topics_and_queues_instead_of_sqs(full: Mapping[str, Any]) -> None:
    made = by_place(full)
    queue = made[ON_LAMBDA, "Queue"]
    assert (queue["KmsMasterKeyId"], queue["KmsDataKeyReusePeriodSeconds"]) == (KEY, 300)
    assert "SqsManagedSseEnabled" not in queue
    assert made["orders", "Topic"]["KmsMasterKeyId"] == KEY


def test_alarms_tell_whom_they_should(full: Mapping[str, Any]) -> None:
    made = by_place(full)
    assert made["orders.index", "Alarm-age"]["AlarmActions"] == [OPERATORS]
    assert made["orders.index", "Alarm-age"]["OKActions"] == [OPERATORS]


def test_an_alarm_is_overridden_and_no_other(full: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
    changed, before = by_place(full), by_place(plain)
    age = changed[ON_LAMBDA, "Alarm-age"]
    assert (age["Threshold"], age["EvaluationPeriods"], age["ActionsEnabled"]) == (60, 3, False)
    assert age["Period"] == before[ON_LAMBDA, "Alarm-age"]["Period"]
    assert changed["orders.index", "Alarm-age"]["Threshold"] == before["orders.index", "Alarm-age"]["Threshold"]


def test_tags_are_added_and_the_manifests_win(full: Mapping[str, Any]) -> None:
    tags = {tag["Key"]: tag["Value"] for tag in by_place(full)[ON_LAMBDA, "Queue"]["Tags"]}
    assert (tags["team"], tags["towpath:topology"], tags["towpath:subscription"]) == ("orders", "everything", ON_LAMBDA)


def test_a_function_gets_what_the_deployment_says(full: Mapping[str, Any]) -> None:
    made = by_place(full)
    function, role = made[ON_LAMBDA, "Function"], made[ON_LAMBDA, "Role"]
    assert function["VpcConfig"] == {"SubnetIds": ["subnet-0aa11111"], "SecurityGroupIds": ["sg-0cc33333"]}
    assert function["ReservedConcurrentExecutions"] == 300
    assert function["Environment"]["Variables"]["LANGUAGE"] == "en"
    assert made[ON_LAMBDA, "LogGroup"]["RetentionInDays"] == 7
    assert role["PermissionsBoundary"] == BOUNDARY
    assert role["ManagedPolicyArns"] == [f"arn:aws:iam::{ACCOUNT}:policy/read"]
    assert "ManagedPolicyArns" not in made["orders.paused", "Role"]


def test_an_image_needs_neither_runtime_nor_handler() -> None:
    from cdk_app import ImageArtifact

    uri = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/lines@sha256:{SHA256}"
    made = by_place(template(resolved(a={}), artifacts={"a": ImageArtifact(image_uri=uri)}))["a", "Function"]
    assert (made["PackageType"], made["Code"]) == ("Image", {"ImageUri": uri})
    assert made["ImageConfig"] == {"Command": ["lambda_runtime.entry.handler"]}
    assert not {"Runtime", "Handler"} & made.keys()


def test_a_zip_of_this_machine_goes_into_the_bootstrapped_bucket(tmp_path: Path) -> None:
    from cdk_app import ZipArtifact

    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + 18 * b"\0")
    made = template(resolved(a={}), artifacts={"a": ZipArtifact.of(tmp_path / "a.zip")})
    code = by_place(made)["a", "Function"]["Code"]
    assert code["S3Bucket"] == f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    assert code["S3Key"].endswith(".zip")


# --- Stacks and outputs ------------------------------------------------------------------------------------------


def test_stacks_are_the_manifests_and_the_topics_first() -> None:
    made = templates(EVERYTHING, create_kms_key=True)
    assert EVERYTHING.aws is not None
    groups = {one.aws.stack_name for one in EVERYTHING.subscriptions.values() if one.aws is not None}
    assert set(made) == {EVERYTHING.aws.topics_stack_name, *groups}
    bindings = [Bindings.from_json(Deployed(template=one, others=made).outputs()["Bindings"]) for one in made.values()]
    together = {name for part in bindings for name in part.subscriptions}
    assert together == {name for name, one in EVERYTHING.subscriptions.items() if one.aws is not None}
    resources = [by_place_in(one, made) for one in made.values()]
    queue = next(found[ON_LAMBDA, "Queue"] for found in resources if (ON_LAMBDA, "Queue") in found)
    assert queue["KmsMasterKeyId"] == KEY


def by_place_in(made: Mapping[str, Any], others: Mapping[str, Mapping[str, Any]]) -> Resources:
    properties = Deployed(template=made, others=others).resources()
    places = {name: place(resource) for name, resource in made["Resources"].items()}
    return {(owner.partition("-")[2], leaf): properties[name] for name, (owner, leaf) in places.items()}


def test_the_bindings_are_what_the_transport_reads(plain: Mapping[str, Any]) -> None:
    read = Bindings.from_json(Deployed(template=plain).outputs()["Bindings"])
    read.check(EVERYTHING, REGION)
    assert read.topics.keys() == {"orders", "orders.changes", "orders.imports"}
    alias = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:everything-prod-orders-invoice:live"
    assert read.subscriptions[ON_LAMBDA].function_arn == alias
    assert read.subscriptions["orders.index"].function_arn is None


def test_other_outputs_are_policies_functions_externals_and_the_dashboard(full: Mapping[str, Any]) -> None:
    told = Deployed(template=full).outputs()
    assert told.keys() == {
        "Bindings",
        "PublisherPolicyJson",
        "WorkerPolicyJson",
        "OperatorPolicyJson",
        "ConsumerPolicyJson",
        "ExternalSubscriptions",
        "FunctionArns",
        "AliasArns",
        "DashboardUrl",
        "KmsKeyArn",
    }
    partner = json.loads(told["ExternalSubscriptions"])["orders.partner"]
    assert rights(partner["policy_json"]) == [(CONSUME, [partner["queue_arn"]]), (["kms:Decrypt"], [KEY])]


@pytest.mark.parametrize(
    ("region", "console"),
    [
        ("eu-west-1", "console.aws.amazon.com"),
        ("cn-north-1", "console.amazonaws.cn"),
        ("us-gov-west-1", "console.amazonaws-us-gov.com"),
    ],
)
def test_the_dashboard_is_in_the_regions_own_console(region: str, console: str) -> None:
    from aws_cdk import App, Environment, assertions

    from cdk_app import TowpathStack

    stack = TowpathStack(App(), "all", manifest=resolved(a={"host": "worker"}), env=Environment(region=region))
    made = assertions.Template.from_stack(stack).to_json()
    assert f".{console}/cloudwatch/" in Deployed(template=made).outputs()["DashboardUrl"]


def test_a_work_queue_is_part_of_a_stack_of_ones_own() -> None:
    from aws_cdk import App, Stack, assertions

    from cdk_app import Inputs, WorkQueue

    stack = Stack(App(), "mine")
    work = WorkQueue(
        stack, "Orders", manifest=resolved({"fifo": True}, a={"host": "worker", **EXCLUSIVE}), inputs=Inputs()
    )
    made = assertions.Template.from_stack(stack).to_json()
    assert "OrdersBindings" in made["Outputs"]
    assert list(work.queues) == ["a"]
    assert all(name.startswith("Orders") for name in made["Resources"])


def test_outputs_and_rights_are_at_hand_for_the_rest_of_the_stack() -> None:
    from aws_cdk import App, Stack, aws_iam

    from cdk_app import WorkQueue

    manifest = resolved(a={"host": "worker"})
    stack = Stack(App(), "mine")
    work = WorkQueue(stack, "Shop", manifest=manifest)
    assert manifest.aws is not None
    for document in work.policies(manifest.aws.access.publisher).values():
        assert aws_iam.PolicyDocument.from_json(document).is_empty is False
