"""The module applied to LocalStack by the real provider: deployed, used through its bindings, changed, and removed."""

import json
import os
import sys
import time
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from aws_transport.bindings import Bindings
from bundling.build import BundleRequest, build
from bundling.target import host_target
from tests.servers.localstack import Aws
from tests.servers.moto_services import moto_services
from tests.servers.pipeline import blocked, findings
from tests.servers.terraform import actions, on_localstack, root
from tests.terraform.demo import demonstrate
from towpath import connect
from towpath.manifest import Manifest
from towpath.message import NewMessage
from towpath.resolve import resolve
from towpath.topology import parse_topology

pytestmark = [pytest.mark.usefixtures("terraform"), pytest.mark.timeout(1_800)]

HANDLER = """
from towpath import Complete, Context, FatalError, Message

def process(message: Message, context: Context) -> Complete:
    if "bad" in message.payload:
        raise FatalError("as asked")
    context.log.info("handled %s as attempt %s", message.payload, context.attempt)
    return Complete()
"""
LAMBDA = {"timeout_seconds": 10, "memory_mb": 256, "runtime": f"python3.{sys.version_info.minor}"}
HANDLED_SECONDS = 120


PAUSED = {
    "topic": "letters",
    "handler": "letters:process",
    "filter": {"kind": ["a", "b"]},
    "max_attempts": 8,
    "status": "paused",
    "lambda": LAMBDA,
}
CHANGED = {"letters.read": PAUSED, "letters.audit": {"topic": "letters", "host": "external"}}
KEPT_NOT = {"aws_cloudwatch_metric_alarm": {"tags", "tags_all"}, "aws_sns_topic": {"fifo_throughput_scope"}}


def topology(*, without: str = "", **subscriptions: Any) -> Manifest:
    """Letters on a standard topic and orders on a FIFO one; ``subscriptions`` come besides, or instead."""
    written = {
        "letters.read": {"topic": "letters", "handler": "letters:process", "filter": {"kind": ["a"]}, "lambda": LAMBDA},
        "letters.keep": {"topic": "letters", "handler": "letters:process", "host": "worker"},
        "orders.apply": {
            "topic": "orders",
            "handler": "letters:process",
            "partition_mode": "exclusive",
            "lambda": LAMBDA,
        },
    }
    wanted = {name: one for name, one in (written | subscriptions).items() if name != without}
    document = {"name": "terraform", "topics": {"letters": {}, "orders": {}}, "subscriptions": wanted}
    return resolve(parse_topology(document), f"t{os.getpid()}")


@pytest.fixture(scope="module")
def zip_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real handler, bundled for this machine."""
    project = tmp_path_factory.mktemp("letters")
    (project / "letters.py").write_text(HANDLER)
    here = Path(__file__).resolve().parents[2]
    standard = (here / "examples/standard-library/requirements.txt").read_text()
    (project / "requirements.txt").write_text(standard.replace("../..", str(here)))
    request = BundleRequest(
        name="letters",
        handlers=("letters:process",),
        entry_point="lambda_runtime.entry.handler",
        target=host_target(),
        project=project,
        output=project / "dist",
    )
    return build(request).path


class Deployed:
    """The module in a folder of its own, on LocalStack, with the manifest that it was applied with last."""

    def __init__(self, folder: Path, aws: Aws, zip_path: Path) -> None:
        self.folder, self.aws, self.zip_path = folder, aws, zip_path
        self.bindings_file = folder / "bindings.json"
        self.manifest: Manifest | None = None
        self.initialised, self.standing = False, False

    def plan(self, manifest: Manifest, moto: str | None = None, **inputs: Any) -> dict[str, Any]:
        (self.folder / "manifest.json").write_text(manifest.to_json())
        artifacts = {
            name: {"filename": str(self.zip_path)}
            for name, s in manifest.subscriptions.items()
            if s.aws is not None and s.aws.function is not None
        }
        modules = {"towpath": {"manifest_path": "manifest.json", "artifacts": artifacts} | inputs}
        self.terraform = root(self.folder, modules, on_localstack(self.aws.endpoint, moto))
        if not self.initialised:
            self.terraform.initialise()
            self.initialised = True
        self.manifest = manifest
        return self.terraform.plan()

    def apply(self) -> None:
        self.standing = True
        self.terraform.apply()
        self.bindings_file.write_text(json.dumps(self.outputs()["bindings"]))

    def blocked(self, plan: dict[str, Any], allowed: Collection[str] = ()) -> set[str]:
        """What the gate blocks of a plan."""
        (self.folder / "plan.json").write_text(json.dumps(plan))
        return blocked(
            self.folder, "terraform", "gate", "plan.json", environment=self.manifest.environment, allowed=allowed
        )

    def findings(self) -> list[tuple[str, str]]:
        """Code and subject of what is on AWS and should be otherwise."""
        told = findings(self.folder, self.aws.variables, self.folder / "manifest.json", self.bindings_file)
        return [(one["code"], one["subject"]) for one in told]

    def destroy(self) -> None:
        self.terraform.destroy()
        self.standing = False

    def outputs(self) -> dict[str, Any]:
        return self.terraform.outputs("towpath")

    def publish(self, topic: str, payload: object, key: str | None = None) -> None:
        """Publish through the bindings that the deployment wrote, as a program does."""
        message = NewMessage(payload=payload, attributes={"kind": "a"}, partition_key=key)
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self.aws.variables.items():
                environment.setenv(name, value)
            transport = connect(f"aws://{self.aws.region}", self.folder / "manifest.json", bindings=self.bindings_file)
            (answer,) = transport.publish(topic, [message])
            transport.close()
        assert answer.status == "accepted", answer

    def handled(self, subscription: str, text: str) -> bool:
        """Whether the subscription's function said so in its log."""
        group = self.manifest.subscriptions[subscription].aws.function.log_group_name
        pages = self.aws.client("logs").get_paginator("filter_log_events").paginate(logGroupName=group)
        return any(text in event["message"] for page in pages for event in page["events"])


@pytest.fixture
def deployed(aws: Aws, tmp_path: Path, zip_path: Path) -> Iterator[Deployed]:
    made = Deployed(tmp_path, aws, zip_path)
    yield made
    if made.standing:
        made.destroy()


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + HANDLED_SECONDS
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.3)


def test_a_topology_is_deployed_used_changed_without_replacing_anything_and_removed(
    deployed: Deployed, aws: Aws
) -> None:
    deploy(deployed)
    use(deployed, aws)
    change(deployed, aws)
    remove(deployed, aws)
    deployed.destroy()
    assert left(aws) == []


def deploy(deployed: Deployed) -> None:
    plan = deployed.plan(topology())
    assert {tuple(done) for done in actions(plan).values()} == {("create",)}
    assert deployed.blocked(plan) == set()
    deployed.apply()
    assert deployed.findings() == []


def use(deployed: Deployed, aws: Aws) -> None:
    """What is published through the bindings is handled by the functions, and what fails is set aside."""
    outputs = deployed.outputs()
    bindings = Bindings.from_json(json.dumps(outputs["bindings"]))
    bindings.check(deployed.manifest, aws.region)
    assert set(bindings.subscriptions) == {"letters.read", "letters.keep", "orders.apply"}
    assert bindings.subscriptions["letters.keep"].function_arn is None
    read = bindings.subscriptions["letters.read"]
    assert (
        read.function_arn == outputs["alias_arns"]["letters.read"] == f"{outputs['function_arns']['letters.read']}:live"
    )
    deployed.publish("letters", "one")
    deployed.publish("letters", "bad")
    deployed.publish("orders", "two", key="customer")
    eventually(lambda: deployed.handled("letters.read", "handled one as attempt 1"), "the function handles a message")
    eventually(lambda: deployed.handled("orders.apply", "handled two as attempt 1"), "so does that of the FIFO queue")
    eventually(lambda: waiting(aws, read.dead_letter_queue_url) == 1, "the message that fails is a dead letter")
    eventually(
        lambda: waiting(aws, bindings.subscriptions["letters.keep"].queue_url) == 2, "the worker's messages wait"
    )


def change(deployed: Deployed, aws: Aws) -> None:
    """Add a subscription, change a filter, the attempts, and pause one: each in place, and nothing else."""
    plan = deployed.plan(topology(**CHANGED))
    changed = actions(plan)
    assert {tuple(done) for done in changed.values()} == {("create",), ("update",)}
    assert {address for address, done in changed.items() if done == ["create"] and "alarm" not in address} == {
        'aws_sqs_queue.queue["letters.audit"]',
        'aws_sqs_queue.dead_letter_queue["letters.audit"]',
        'aws_sqs_queue.delivery_failure_queue["letters.audit"]',
        'aws_sns_topic_subscription.subscription["letters.audit"]',
    }
    assert {address for address in changed if changed[address] == ["update"]} & set(drifted(plan)) == {
        'aws_sqs_queue.queue["letters.read"]',
        'aws_sns_topic_subscription.subscription["letters.read"]',
        'aws_lambda_function.function["letters.read"]',
        'aws_lambda_alias.live["letters.read"]',
        'aws_lambda_event_source_mapping.mapping["letters.read"]',
        "aws_cloudwatch_dashboard.dashboard[0]",
    }
    switched_off = 'module.towpath.aws_lambda_event_source_mapping.mapping["letters.read"]'
    assert deployed.blocked(plan) == {switched_off}
    assert deployed.blocked(plan, allowed={switched_off}) == set()
    deployed.apply()
    assert deployed.findings() == []
    read = deployed.outputs()["bindings"]["subscriptions"]["letters.read"]
    sqs, lambda_ = aws.client("sqs"), aws.client("lambda")
    redrive = sqs.get_queue_attributes(QueueUrl=read["queue_url"], AttributeNames=["RedrivePolicy"])["Attributes"]
    assert int(json.loads(redrive["RedrivePolicy"])["maxReceiveCount"]) == 13
    (mapping,) = lambda_.list_event_source_mappings(EventSourceArn=read["queue_arn"])["EventSourceMappings"]
    assert mapping["State"] == "Disabled"
    assert (
        lambda_.get_alias(FunctionName=read["function_arn"].removesuffix(":live"), Name="live")["FunctionVersion"]
        == "2"
    )
    deployed.publish("letters", "three")
    eventually(lambda: waiting(aws, read["queue_url"]) == 1, "a paused subscription gets messages and hands none out")
    audit = deployed.outputs()["external_subscriptions"]["letters.audit"]["queue_url"]
    eventually(lambda: waiting(aws, audit) == 1, "the new subscription gets messages")
    assert not deployed.handled("letters.read", "handled three")


def remove(deployed: Deployed, aws: Aws) -> None:
    """A subscription that goes is stopped by the gate, resource by resource, until a file under review allows each."""
    keep = deployed.outputs()["bindings"]["subscriptions"]["letters.keep"]
    plan = deployed.plan(topology(without="letters.keep", **CHANGED))
    gone = {f"module.towpath.{address}" for address, done in actions(plan).items() if done == ["delete"]}
    assert {address.split(".")[2] for address in gone} == {
        "aws_sqs_queue",
        "aws_sns_topic_subscription",
        "aws_cloudwatch_metric_alarm",
    }
    assert deployed.blocked(plan) == gone
    assert deployed.blocked(plan, allowed=gone) == set()
    deployed.apply()
    assert deployed.findings() == []
    assert keep["queue_url"] not in aws.client("sqs").list_queues()["QueueUrls"]


def waiting(aws: Aws, queue_url: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(aws.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=[name])["Attributes"][name])


def drifted(plan: dict[str, Any]) -> dict[str, set[str]]:
    """The attributes that a plan would change, by addresses within the module. LocalStack keeps neither the tags that
    alarms are made with nor the throughput scope of a FIFO topic, which the next apply would set.
    """
    found = {}
    for one in plan["resource_changes"]:
        before, after = one["change"]["before"] or {}, one["change"]["after"] or {}
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        found[one["address"].split(".", 2)[2]] = changed - KEPT_NOT.get(one["type"], set())
    return {address: changed for address, changed in found.items() if changed}


def left(aws: Aws) -> list[str]:
    """The names of what there still is of this test's topology."""
    found = [one["TopicArn"] for one in aws.client("sns").list_topics()["Topics"]]
    found += aws.client("sqs").list_queues().get("QueueUrls", [])
    found += [one["FunctionName"] for one in aws.client("lambda").list_functions()["Functions"]]
    found += [one["RoleName"] for one in aws.client("iam").list_roles()["Roles"]]
    found += [one["AlarmName"] for one in aws.client("cloudwatch").describe_alarms()["MetricAlarms"]]
    found += [one["logGroupName"] for one in aws.client("logs").describe_log_groups()["logGroups"]]
    return [name for name in found if f"terraform-t{os.getpid()}" in name]


@pytest.mark.infrastructure
def test_a_key_and_a_ledger_are_made_and_used(deployed: Deployed, aws: Aws) -> None:
    """KMS and DynamoDB are moto's here: that they answer is what this shows, not that they encrypt."""
    document = {
        "name": "terraform",
        "topics": {"letters": {"deduplication": True}},
        "subscriptions": {"letters.read": {"topic": "letters", "handler": "letters:process", "lambda": LAMBDA}},
    }
    manifest = resolve(parse_topology(document), f"t{os.getpid()}")
    with moto_services() as moto:
        deployed.plan(manifest, moto, create_kms_key=True, function_environment={"letters.read": {"GREETING": "hello"}})
        deployed.apply()
        key = deployed.outputs()["kms_key_arn"]
        bindings = deployed.outputs()["bindings"]
        topic = aws.client("sns").get_topic_attributes(TopicArn=bindings["topics"]["letters"]["arn"])["Attributes"]
        assert topic["KmsMasterKeyId"] == key
        queue = aws.client("sqs").get_queue_attributes(
            QueueUrl=bindings["subscriptions"]["letters.read"]["queue_url"], AttributeNames=["All"]
        )["Attributes"]
        assert (queue["KmsMasterKeyId"], queue["KmsDataKeyReusePeriodSeconds"]) == (key, "300")
        name = manifest.subscriptions["letters.read"].aws.function.name
        configuration = aws.client("lambda").get_function_configuration(FunctionName=name)
        assert configuration["Environment"]["Variables"]["GREETING"] == "hello"
        assert drifted(deployed.terraform.plan()) == {}
        deployed.destroy()
    assert left(aws) == []


@pytest.mark.infrastructure
def test_a_new_zip_is_a_new_version_behind_the_same_alias(
    deployed: Deployed, aws: Aws, tmp_path_factory: pytest.TempPathFactory
) -> None:
    manifest = topology()
    deployed.plan(manifest)
    deployed.apply()
    newer = tmp_path_factory.mktemp("newer") / "letters.zip"
    newer.write_bytes(deployed.zip_path.read_bytes())
    with zipfile.ZipFile(newer, "a") as archive:
        archive.writestr("note.txt", "newer")
    deployed.zip_path = newer
    plan = deployed.plan(manifest)
    assert set(map(tuple, actions(plan).values())) == {("update",)}
    assert {address.partition(".")[0] for address in drifted(plan)} == {"aws_lambda_function", "aws_lambda_alias"}
    deployed.apply()
    alias = deployed.outputs()["alias_arns"]["letters.read"]
    found = aws.client("lambda").get_alias(FunctionName=alias.removesuffix(":live"), Name="live")
    assert found["FunctionVersion"] == "2"
    deployed.publish("letters", "one")
    eventually(
        lambda: deployed.handled("letters.read", "handled one as attempt 1"), "the new version handles a message"
    )


@pytest.mark.infrastructure
def test_the_quickstart_is_deployed_and_handles_a_document(aws: Aws, tmp_path: Path, capsys: Any) -> None:
    demonstrate(aws, tmp_path)
    assert '"document": "macbeth-act-1.md"' in capsys.readouterr().out
