"""The CDK's command line deploys the quickstart to LocalStack; it is used, changed in place, and destroyed."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from aws_transport.bindings import Bindings
from tests.conftest import left_out
from tests.servers.cdk import CdkUnavailable, installed
from tests.servers.cdk_quickstart import SUBSCRIPTION, Quickstart
from tests.servers.localstack import Aws
from tests.servers.pipeline import blocked, findings

pytestmark = pytest.mark.timeout(900)  # a minute on an idle machine
STACKS = ("towpath-quickstart-dev-topics", "towpath-quickstart-dev-subscriptions-6")
CHANGED = {"max_attempts": 6, "filter": {"kind": ["text", "prose"]}, "status": "paused"}
ARCHIVE = {"topic": "documents.process", "handler": "quickstart.documents:process", "host": "worker"}


@pytest.fixture
def quickstart(aws: Aws, tmp_path: Path) -> Quickstart:
    try:
        installed()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))
    return Quickstart(aws=aws, folder=tmp_path)


def physical(quickstart: Quickstart) -> dict[tuple[str, str], str]:
    """The physical id of every resource of the stacks that were there first, by stack and logical id."""
    client = quickstart.aws.client("cloudformation")
    return {
        (stack, one["LogicalResourceId"]): one.get("PhysicalResourceId", "")
        for stack in STACKS
        for one in client.describe_stack_resources(StackName=stack)["StackResources"]
        if one["ResourceType"] != "AWS::Lambda::Version"
    }


def attributes(quickstart: Quickstart, url: str) -> dict[str, str]:
    found: dict[str, str] = quickstart.aws.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["All"])[
        "Attributes"
    ]
    return found


def mapping(quickstart: Quickstart, function: str) -> dict[str, Any]:
    (found,) = quickstart.aws.client("lambda").list_event_source_mappings(FunctionName=function)["EventSourceMappings"]
    made: dict[str, Any] = found
    return made


def stopped(quickstart: Quickstart, allowed: Collection[str] = ()) -> set[str]:
    """What the gate blocks between the stacks as they are deployed and as the CDK makes them now."""
    client, deployed = quickstart.aws.client("cloudformation"), quickstart.folder / "deployed"
    deployed.mkdir(exist_ok=True)
    for stack in client.get_paginator("list_stacks").paginate().search("StackSummaries[]"):
        if stack["StackName"].startswith("towpath-quickstart-dev-") and stack["StackStatus"] != "DELETE_COMPLETE":
            template = client.get_template(StackName=stack["StackName"])
            file = deployed / f"{stack['StackName']}.template.json"
            file.write_text(json.dumps({"TemplateBody": template["TemplateBody"]}), encoding="utf-8")
    quickstart.cdk("synth", "--quiet")
    return blocked(quickstart.folder, "cdk", "gate", "deployed", "cdk.out", environment="dev", allowed=allowed)


def found(quickstart: Quickstart) -> list[dict[str, Any]]:
    """What is on AWS and should be otherwise."""
    return findings(quickstart.folder, quickstart.variables, quickstart.manifest_file, quickstart.bindings_file)


def test_the_quickstart_is_deployed_used_changed_in_place_and_destroyed(quickstart: Quickstart) -> None:
    bindings = deploy(quickstart)
    before, url = physical(quickstart), bindings.subscriptions[SUBSCRIPTION].queue_url
    created = attributes(quickstart, url)["CreatedTimestamp"]
    changed = change(quickstart)
    after = physical(quickstart)
    assert {key: after.get(key) for key in before} == before
    assert attributes(quickstart, url)["CreatedTimestamp"] == created
    holds_what_changed(quickstart, changed)
    remove_one(quickstart, changed.subscriptions["documents.archive"].queue_url)
    quickstart.cdk("destroy", "--force")
    assert quickstart.aws.client("sqs").list_queues(QueueNamePrefix="quickstart-dev-").get("QueueUrls", []) == []
    topics = quickstart.aws.client("sns").list_topics()["Topics"]
    assert all("quickstart-dev-" not in one["TopicArn"] for one in topics)


def deploy(quickstart: Quickstart) -> Bindings:
    manifest = quickstart.write_manifest()
    quickstart.bundle()
    quickstart.deploy()
    bindings = Bindings.load(quickstart.bindings_file)
    bindings.check(manifest, quickstart.aws.region)
    assert found(quickstart) == []
    quickstart.publish()
    assert quickstart.handled()["document"] == "macbeth-act-1.md"
    return bindings


def change(quickstart: Quickstart) -> Bindings:
    """A narrower filter and a pause, which the gate stops until they are allowed; attempts; a subscription more."""
    changed = quickstart.write_manifest(documents__convert=CHANGED, documents__archive=ARCHIVE)
    lossy = stopped(quickstart)
    ours = f"{STACKS[1]}/Subscriptiondocumentsconvert"
    assert {address.removeprefix(ours)[:-8] for address in lossy} == {"EventSourceMapping", "Subscription"}
    assert stopped(quickstart, allowed=lossy) == set()
    quickstart.deploy()
    assert found(quickstart) == []
    again = Bindings.load(quickstart.bindings_file)
    again.check(changed, quickstart.aws.region)
    assert again.subscriptions.keys() == {SUBSCRIPTION, "documents.archive"}
    return again


def holds_what_changed(quickstart: Quickstart, bindings: Bindings) -> None:
    bound = bindings.subscriptions[SUBSCRIPTION]
    assert json.loads(attributes(quickstart, bound.queue_url)["RedrivePolicy"])["maxReceiveCount"] == 11
    function_arn = bound.function_arn
    assert function_arn is not None
    assert mapping(quickstart, function_arn)["State"] in ("Disabling", "Disabled")
    lambda_ = quickstart.aws.client("lambda")
    alias = lambda_.get_alias(FunctionName=function_arn.rpartition(":")[0], Name="live")
    assert alias["FunctionVersion"] == "2"
    two = {"FunctionName": alias["AliasArn"].rpartition(":")[0], "Qualifier": alias["FunctionVersion"]}
    variables = lambda_.get_function_configuration(**two)["Environment"]["Variables"]
    assert json.loads(variables["TOWPATH_SUBSCRIPTION"])["policy"]["max_attempts"] == 6
    sns, topic = quickstart.aws.client("sns"), bindings.topics["documents.process"]
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=topic.arn)["Subscriptions"]
    (ours,) = (one for one in subscriptions if one["Endpoint"] == bound.queue_arn)
    told = sns.get_subscription_attributes(SubscriptionArn=ours["SubscriptionArn"])["Attributes"]
    assert json.loads(told["FilterPolicy"]) == CHANGED["filter"]


def remove_one(quickstart: Quickstart, queue_url: str) -> None:
    """The worker's subscription goes: the gate stops that until each of its resources is allowed."""
    quickstart.write_manifest(documents__convert=CHANGED)
    gone = stopped(quickstart)
    assert gone
    assert stopped(quickstart, allowed=gone) == set()
    quickstart.deploy()
    assert queue_url not in quickstart.aws.client("sqs").list_queues()["QueueUrls"]
    assert found(quickstart) == []


@pytest.mark.infrastructure
def test_a_bootstrapped_environment_takes_a_zip_of_this_machine(aws: Aws, tmp_path: Path) -> None:
    quickstart = Quickstart(aws=aws, folder=tmp_path, context={"synthesis": "default"})
    quickstart.write_manifest()
    quickstart.bundle()
    quickstart.bootstrap()
    quickstart.deploy()
    quickstart.publish()
    assert quickstart.handled()["words"] > 0
    quickstart.cdk("destroy", "--force")
