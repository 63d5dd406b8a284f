"""What keeps the conformance suite within its prefix in a real account, and what it removes there; on moto."""

import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests.servers.provision import Deployment, provisioned
from tests.servers.real_aws import (
    CONFIRMATION_VARIABLE,
    PREFIX_VARIABLE,
    Consent,
    RealAws,
    RealAwsRefused,
    confirmed,
    consent,
    main,
    real_account,
    remove_all,
    resource_name,
    resources,
)
from towpath.resolve import resolve
from towpath.topology import parse_topology

ACCOUNT, REGION, PREFIX = "123456789012", "eu-west-1", "tp-suite-anna"
ALLOWED = {
    "AWS_REGION": REGION,
    PREFIX_VARIABLE: PREFIX,
    CONFIRMATION_VARIABLE: f"{ACCOUNT}/{REGION}/{PREFIX}",
}
OURS = RealAws(consent=Consent(account=ACCOUNT, region=REGION, prefix=PREFIX))
NEIGHBOURS = RealAws(consent=Consent(account=ACCOUNT, region=REGION, prefix=f"{PREFIX}x"))
SUBSCRIPTION = {"topic": "orders", "handler": "some.module:handle", "partition_mode": "exclusive"}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """moto's account, and no other."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    with mock_aws():
        yield


def deployed(aws: RealAws, tmp_path: Path) -> Deployment:
    """A deployment of this prefix that nobody removes, as after a run that was killed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("module.py", "")
    (tmp_path / "function.zip").write_bytes(content.getvalue())
    runtime = {"runtime": f"python3.{sys.version_info.minor}"}
    topology = {
        "name": aws.topology,
        "topics": {"orders": {"deduplication": True}},
        "subscriptions": {"ship": SUBSCRIPTION | {"lambda": runtime}},
    }
    stack = ExitStack()
    deployment = stack.enter_context(provisioned(aws, resolve(parse_topology(topology), "c1")))
    deployment.deploy_function("ship", tmp_path / "function.zip")
    deployment._undo.pop_all()
    stack.pop_all()
    return deployment


# --- Whether it may run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({PREFIX_VARIABLE: ""}, "TOWPATH_REAL_AWS_PREFIX must be"),
        ({PREFIX_VARIABLE: "tp-x"}, "8 to 20 characters"),
        ({PREFIX_VARIABLE: "tp-" + "x" * 18}, "8 to 20 characters"),
        ({PREFIX_VARIABLE: "production"}, "begin with tp-"),
        ({PREFIX_VARIABLE: "tp-Suite-Anna"}, "a-z, 0-9"),
        ({PREFIX_VARIABLE: "tp-suite--anna"}, "single hyphens"),
        ({PREFIX_VARIABLE: "tp-suite-anna-"}, "single hyphens"),
        ({"AWS_REGION": ""}, "AWS_REGION must say"),
        ({CONFIRMATION_VARIABLE: ""}, "TOWPATH_REAL_AWS_CONFIRM must be ACCOUNT/eu-west-1/tp-suite-anna"),
        ({CONFIRMATION_VARIABLE: "yes"}, "TOWPATH_REAL_AWS_CONFIRM must be"),
        ({CONFIRMATION_VARIABLE: f"{ACCOUNT}/{REGION}/tp-suite-otto"}, "TOWPATH_REAL_AWS_CONFIRM must be"),
        ({CONFIRMATION_VARIABLE: f"{ACCOUNT}/us-east-1/{PREFIX}"}, "TOWPATH_REAL_AWS_CONFIRM must be"),
        ({CONFIRMATION_VARIABLE: f"12345/{REGION}/{PREFIX}"}, "TOWPATH_REAL_AWS_CONFIRM must be"),
        ({"TOWPATH_AWS_ENDPOINT": "http://127.0.0.1:1"}, "TOWPATH_AWS_ENDPOINT names an endpoint"),
        ({"AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:1"}, "AWS_ENDPOINT_URL_SQS names an endpoint"),
    ],
)
def test_the_suite_runs_on_no_account_without_a_prefix_and_a_confirmation_of_all_of_it(
    changed: dict[str, str], says: str
) -> None:
    with pytest.raises(RealAwsRefused, match=says):
        consent(ALLOWED | changed)


def test_account_region_and_prefix_are_what_was_confirmed() -> None:
    assert consent(ALLOWED) == OURS.consent
    without = {name: value for name, value in ALLOWED.items() if name != "AWS_REGION"}
    assert consent(without | {"AWS_DEFAULT_REGION": REGION}) == OURS.consent


def test_credentials_of_another_account_are_refused(account: None) -> None:
    other = ALLOWED | {CONFIRMATION_VARIABLE: f"999999999999/{REGION}/{PREFIX}"}
    with pytest.raises(RealAwsRefused, match="names 999999999999, and the credentials are 123456789012's"):
        confirmed(other)
    assert confirmed(ALLOWED) == OURS


def test_a_prefix_that_something_has_already_is_refused_and_left_alone(account: None) -> None:
    boto3.client("sqs", region_name=REGION).create_queue(QueueName=f"{PREFIX}-of-somebody")
    with pytest.raises(RealAwsRefused, match=f"something already: queue .*{PREFIX}-of-somebody"), real_account(ALLOWED):
        pytest.fail("it ran")
    assert [str(r).rpartition("/")[2] for r in resources(OURS)] == [f"{PREFIX}-of-somebody"]


# --- What it may change --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "name"),
    [
        ("a-name", "a-name"),
        ("https://sqs.eu-west-1.amazonaws.com/123456789012/a-name.fifo", "a-name.fifo"),
        ("arn:aws:sns:eu-west-1:123456789012:a-name", "a-name"),
        ("arn:aws:sns:eu-west-1:123456789012:a-name:5be8f5b1-6d0c-4b9c-8a55-2f0d5d8c0001", "a-name"),
        ("arn:aws:lambda:eu-west-1:123456789012:function:a-name", "a-name"),
        ("arn:aws:lambda:eu-west-1:123456789012:function:a-name:live", "a-name"),
        ("/aws/lambda/a-name", "a-name"),
    ],
)
def test_a_resource_is_known_by_its_name_however_a_call_names_it(named: str, name: str) -> None:
    assert resource_name(named) == name


def test_clients_change_nothing_outside_the_prefix(account: None, tmp_path: Path) -> None:
    deployed(NEIGHBOURS, tmp_path)
    sqs, sns, lambda_, iam = (OURS.client(service) for service in ("sqs", "sns", "lambda", "iam"))
    (queue, *_), (topic, *_), (mapping, *_), (table,) = (
        [r.id for r in resources(NEIGHBOURS) if r.kind == kind]
        for kind in ("queue", "topic", "event source mapping", "table")
    )
    name = f"{PREFIX}x-c1-ship"
    before = list(resources(NEIGHBOURS))
    for refused in (
        lambda: sqs.create_queue(QueueName="tp-suite"),
        lambda: sqs.delete_queue(QueueUrl=queue),
        lambda: sqs.receive_message(QueueUrl=queue),
        lambda: sns.create_topic(Name="orders"),
        lambda: sns.delete_topic(TopicArn=topic),
        lambda: lambda_.delete_function(FunctionName=name),
        lambda: lambda_.delete_event_source_mapping(UUID=mapping),
        lambda: iam.delete_role(RoleName=name),
        lambda: OURS.client("dynamodb").delete_table(TableName=table),
        lambda: OURS.client("events").delete_rule(Name=f"{PREFIX}-rule"),
    ):
        with pytest.raises(RealAwsRefused, match=f"is not under {PREFIX}-"):
            refused()
    assert list(resources(NEIGHBOURS)) == before
    assert sqs.create_queue(QueueName=f"{PREFIX}-observer")["QueueUrl"].endswith(f"{PREFIX}-observer")


# --- What it removes -----------------------------------------------------------------------------------------------


def test_all_under_the_prefix_is_removed_and_nothing_else(account: None, tmp_path: Path) -> None:
    deployed(NEIGHBOURS, tmp_path)
    others = list(resources(NEIGHBOURS))
    boto3.client("sqs", region_name=REGION).create_queue(QueueName="production")
    deployed(OURS, tmp_path)
    kinds = {resource.kind for resource in resources(OURS)}
    assert kinds == {"event source mapping", "function", "topic", "queue", "table", "role", "log group"}
    assert remove_all(OURS, sleep=lambda seconds: None) == []
    assert list(resources(OURS)) == []
    assert list(resources(NEIGHBOURS)) == others
    assert "production" in str(boto3.client("sqs", region_name=REGION).list_queues()["QueueUrls"])
    subscriptions = boto3.client("sns", region_name=REGION).list_subscriptions()["Subscriptions"]
    assert [resource_name(s["TopicArn"]) for s in subscriptions] == [f"{PREFIX}x-c1-orders.fifo"]


def test_a_run_removes_what_is_left_however_it_ends(account: None, tmp_path: Path) -> None:
    def run() -> None:
        with real_account(ALLOWED) as aws:
            deployed(aws, tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()
    assert list(resources(OURS)) == []


def test_what_cannot_be_removed_is_named_when_the_time_is_over(account: None) -> None:
    """A role that somebody gave a policy of theirs cannot be deleted, and their policy is not ours to detach."""
    iam = boto3.client("iam", region_name=REGION)
    iam.create_role(RoleName=f"{PREFIX}-role", AssumeRolePolicyDocument="{}")
    statement = {"Effect": "Allow", "Action": "sqs:ListQueues", "Resource": "*"}
    theirs = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    policy = iam.create_policy(PolicyName="theirs", PolicyDocument=theirs)["Policy"]
    iam.attach_role_policy(RoleName=f"{PREFIX}-role", PolicyArn=policy["Arn"])
    waited: list[float] = []
    left = remove_all(OURS, patience_seconds=20, sleep=waited.append)
    assert [str(resource) for resource in left] == [f"role {PREFIX}-role"]
    assert sum(waited) == 20


def test_the_command_checks_lists_and_removes(account: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"], {}) == 2
    assert "TOWPATH_REAL_AWS_PREFIX must be" in capsys.readouterr().err
    assert main(["check"], ALLOWED) == 0
    OURS.client("sqs").create_queue(QueueName=f"{PREFIX}-left")
    assert main(["check"], ALLOWED) == 2
    assert main(["list"], ALLOWED) == 0
    assert f"{PREFIX}-left" in capsys.readouterr().out
    assert main(["remove"], {}) == 2
    assert len(list(resources(OURS))) == 1
