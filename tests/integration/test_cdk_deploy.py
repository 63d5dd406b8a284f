"""The CDK's command line deploys the quickstart to LocalStack; it is used, changed in place, and destroyed."""

import json
from pathlib import Path
from typing import Any

import pytest

from aws_transport.bindings import Bindings
from tests.conftest import left_out
from tests.servers.cdk import CdkUnavailable, installed
from tests.servers.cdk_quickstart import SUBSCRIPTION, Quickstart
from tests.servers.localstack import Aws

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


def test_the_quickstart_is_deployed_used_changed_in_place_and_destroyed(quickstart: Quickstart) -> None:
    manifest = quickstart.write_manifest()
    quickstart.bundle()
    quickstart.deploy()
    bindings = Bindings.load(quickstart.bindings_file)
    bindings.check(manifest, quickstart.aws.region)
    quickstart.publish()
    assert quickstart.handled()["document"] == "macbeth-act-1.md"

    before, url = physical(quickstart), bindings.subscriptions[SUBSCRIPTION].queue_url
    created = attributes(quickstart, url)["CreatedTimestamp"]
    changed = quickstart.write_manifest(documents__convert=CHANGED, documents__archive=ARCHIVE)
    quickstart.deploy()

    after = physical(quickstart)
    assert {key: after.get(key) for key in before} == before
    now = attributes(quickstart, url)
    assert now["CreatedTimestamp"] == created
    assert json.loads(now["RedrivePolicy"])["maxReceiveCount"] == 11
    again = Bindings.load(quickstart.bindings_file)
    again.check(changed, quickstart.aws.region)
    assert again.subscriptions.keys() == {SUBSCRIPTION, "documents.archive"}
    function_arn = again.subscriptions[SUBSCRIPTION].function_arn
    assert function_arn is not None
    assert mapping(quickstart, function_arn)["State"] in ("Disabling", "Disabled")
    alias = quickstart.aws.client("lambda").get_alias(FunctionName=function_arn.rpartition(":")[0], Name="live")
    assert alias["FunctionVersion"] == "2"
    two = {"FunctionName": alias["AliasArn"].rpartition(":")[0], "Qualifier": alias["FunctionVersion"]}
    settings = quickstart.aws.client("lambda").get_function_configuration(**two)
    assert json.loads(settings["Environment"]["Variables"]["TOWPATH_SUBSCRIPTION"])["policy"]["max_attempts"] == 6
    sns = quickstart.aws.client("sns")
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=again.topics["documents.process"].arn)["Subscriptions"]
    (ours,) = (one for one in subscriptions if one["Endpoint"] == again.subscriptions[SUBSCRIPTION].queue_arn)
    told = sns.get_subscription_attributes(SubscriptionArn=ours["SubscriptionArn"])["Attributes"]
    assert json.loads(told["FilterPolicy"]) == CHANGED["filter"]

    quickstart.cdk("destroy", "--force")
    assert quickstart.aws.client("sqs").list_queues(QueueNamePrefix="quickstart-dev-").get("QueueUrls", []) == []
    assert all("quickstart-dev-" not in one["TopicArn"] for one in sns.list_topics()["Topics"])


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
