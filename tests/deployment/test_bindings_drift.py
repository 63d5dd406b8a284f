"""One deployment on LocalStack, changed by hand in one place after another: each is found, and nothing else is."""

import io
import json
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aws_transport.bindings import Bindings
from aws_transport.checking.comparing import findings
from aws_transport.checking.deployed import first_place
from aws_transport.checking.pacing import Pacer
from aws_transport.checking.reading import Reader, Services
from aws_transport.commands import app
from tests.fakes.json_shapes import shaped
from tests.servers.localstack import Aws
from tests.servers.provision import Deployment, provisioned
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology

TOPOLOGY = {
    "name": "drift",
    "topics": {"orders": {}, "bills": {}},
    "subscriptions": {
        "orders.pack": {"topic": "orders", "handler": "app:pack", "filter": {"kind": ["parcel", "letter"]}},
        "orders.copy": {"topic": "orders", "handler": "app:copy", "host": "worker"},
        "bills.pay": {"topic": "bills", "handler": "app:pay", "host": "worker", "partition_mode": "exclusive"},
    },
}
QUICK = 1_000.0  # looks a second: LocalStack has no quotas


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    aws: Aws
    deployment: Deployment

    @property
    def manifest(self) -> Manifest:
        return self.deployment.manifest

    @property
    def bindings(self) -> Bindings:
        return self.deployment.bindings

    def client(self, service: str) -> Any:
        return self.aws.client(service)

    def found(self, bindings: Bindings | None = None) -> set[tuple[str, str, str]]:
        """Severity, subject and code of each finding."""
        return {(one.severity, one.subject, one.code) for one in self.look(bindings or self.bindings)}

    def look(self, bindings: Bindings) -> Any:
        services = Services(
            sns=self.client("sns"),
            sqs=self.client("sqs"),
            functions=self.client("lambda"),
            tables=self.client("dynamodb"),
            keys=self.client("kms"),
        )
        reader = Reader(services=services, pacer=Pacer(QUICK, time.monotonic, time.sleep))
        return findings(self.manifest, bindings, reader.read(self.manifest, bindings), first_place(bindings))

    # --- What drifts --------------------------------------------------------------------------------------------

    def url(self, subscription: str, which: str = "queue_url") -> str:
        return getattr(self.bindings.subscriptions[subscription], which)

    def arn(self, subscription: str) -> str:
        return self.bindings.subscriptions[subscription].queue_arn

    def sns_subscription(self, subscription: str) -> str:
        topic = self.bindings.topics[self.manifest.subscriptions[subscription].topic].arn
        listed = self.client("sns").list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
        return next(one["SubscriptionArn"] for one in listed if one["Endpoint"] == self.arn(subscription))

    def mapping(self) -> Any:
        listed = self.client("lambda").list_event_source_mappings(EventSourceArn=self.arn("orders.pack"))
        return listed["EventSourceMappings"][0]

    @property
    def function(self) -> str:
        return self.manifest.subscriptions["orders.pack"].aws.function.name


@pytest.fixture(scope="module")
def world(aws: Aws, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    manifest = resolve(parse_topology(TOPOLOGY), "test")
    with provisioned(aws, manifest) as deployment:
        deployment.deploy_function("orders.pack", _zip(tmp_path_factory.mktemp("zip") / "app.zip"))
        yield World(aws=aws, deployment=deployment)


def _zip(path: Path) -> Path:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("lambda_runtime/entry.py", "def handler(event, context):\n    return {}\n")
    path.write_bytes(content.getvalue())
    return path


def test_a_clean_deployment_has_no_finding(world: World) -> None:
    assert world.look(world.bindings) == ()


# --- Drifts ------------------------------------------------------------------------------------------------------


@contextmanager
def queue(world: World, subscription: str, which: str = "queue_url", **attributes: str) -> Iterator[None]:
    sqs, url = world.client("sqs"), world.url(subscription, which)
    was = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(attributes))["Attributes"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    try:
        yield
    finally:
        sqs.set_queue_attributes(QueueUrl=url, Attributes={name: was.get(name, "") for name in attributes})


@contextmanager
def delivery(world: World, subscription: str, name: str, value: str) -> Iterator[None]:
    sns, arn = world.client("sns"), world.sns_subscription(subscription)
    was = sns.get_subscription_attributes(SubscriptionArn=arn)["Attributes"].get(name, "")
    sns.set_subscription_attributes(SubscriptionArn=arn, AttributeName=name, AttributeValue=value)
    try:
        yield
    finally:
        sns.set_subscription_attributes(SubscriptionArn=arn, AttributeName=name, AttributeValue=was)


@contextmanager
def topic_policy(world: World, topic: str, change: Callable[[list[Any]], list[Any]]) -> Iterator[None]:
    sns, arn = world.client("sns"), world.bindings.topics[topic].arn
    was = sns.get_topic_attributes(TopicArn=arn)["Attributes"]["Policy"]
    document = json.loads(was)
    changed = json.dumps(document | {"Statement": change(document["Statement"])})
    sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=changed)
    try:
        yield
    finally:
        sns.set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=was)


@contextmanager
def mapping(world: World, **changed: Any) -> Iterator[None]:
    lambda_, found = world.client("lambda"), world.mapping()
    was = {
        "FunctionName": found["FunctionArn"],
        "BatchSize": found["BatchSize"],
        "Enabled": True,
        "FunctionResponseTypes": found["FunctionResponseTypes"],
    }
    _updated(lambda_, found["UUID"], **changed)
    try:
        yield
    finally:
        _updated(lambda_, found["UUID"], **{name: was[name] for name in changed})


def _updated(lambda_: Any, uuid: str, **changed: Any) -> None:
    lambda_.update_event_source_mapping(UUID=uuid, **changed)
    deadline = time.monotonic() + 120
    while lambda_.get_event_source_mapping(UUID=uuid)["State"] not in ("Enabled", "Disabled"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def function(world: World, **changed: Any) -> Iterator[None]:
    """The function changed and published, and the alias with it, as an upload by hand does."""
    lambda_, name = world.client("lambda"), world.function
    alias = lambda_.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    was = lambda_.get_function_configuration(FunctionName=name)
    lambda_.update_function_configuration(FunctionName=name, **changed)
    _settle(lambda_, name)
    version = lambda_.publish_version(FunctionName=name)["Version"]
    lambda_.update_alias(FunctionName=name, Name="live", FunctionVersion=version)
    try:
        yield
    finally:
        lambda_.update_alias(FunctionName=name, Name="live", FunctionVersion=alias)
        lambda_.delete_function(FunctionName=name, Qualifier=version)
        back = {key: {"Variables": was[key]["Variables"]} if key == "Environment" else was[key] for key in changed}
        lambda_.update_function_configuration(FunctionName=name, **back)
        _settle(lambda_, name)


def _settle(lambda_: Any, name: str) -> None:
    deadline = time.monotonic() + 120
    while lambda_.get_function_configuration(FunctionName=name)["LastUpdateStatus"] != "Successful":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def alias_behind(world: World) -> Iterator[None]:
    """A version newer than the alias's, as after a rollback."""
    lambda_, name = world.client("lambda"), world.function
    lambda_.update_function_configuration(FunctionName=name, Description="newer")
    _settle(lambda_, name)
    version = lambda_.publish_version(FunctionName=name)["Version"]
    try:
        yield
    finally:
        lambda_.delete_function(FunctionName=name, Qualifier=version)
        lambda_.update_function_configuration(FunctionName=name, Description="")
        _settle(lambda_, name)


@contextmanager
def reserved(world: World, number: int) -> Iterator[None]:
    lambda_ = world.client("lambda")
    lambda_.put_function_concurrency(FunctionName=world.function, ReservedConcurrentExecutions=number)
    try:
        yield
    finally:
        lambda_.delete_function_concurrency(FunctionName=world.function)


def _redrive(world: World, subscription: str, **changed: Any) -> str:
    sqs = world.client("sqs")
    found = sqs.get_queue_attributes(QueueUrl=world.url(subscription), AttributeNames=["RedrivePolicy"])
    return json.dumps(json.loads(found["Attributes"]["RedrivePolicy"]) | changed)


PACK, COPY, PAY = "subscription orders.pack", "subscription orders.copy", "subscription bills.pay"
STRANGER = {"Sid": "Other", "Effect": "Allow", "Principal": "*", "Action": "SNS:Publish", "Resource": "*"}
DRIFTS: dict[str, tuple[Callable[[World], Any], set[tuple[str, str, str]]]] = {
    "a visibility timeout below the function's timeout": (
        lambda w: queue(w, "orders.pack", VisibilityTimeout="30"),
        {("error", PACK, "queue.visibility"), ("error", PACK, "queue.visibility-below-timeout")},
    ),
    "a longer visibility timeout": (
        lambda w: queue(w, "orders.copy", VisibilityTimeout="600"),
        {("warning", COPY, "queue.visibility")},
    ),
    "a shorter retention": (
        lambda w: queue(w, "orders.copy", MessageRetentionPeriod="3600"),
        {("error", COPY, "queue.retention")},
    ),
    "dead letters kept for less": (
        lambda w: queue(w, "bills.pay", "dead_letter_queue_url", MessageRetentionPeriod="3600"),
        {("error", PAY, "dead-letter-queue.retention")},
    ),
    "a smaller size limit": (
        lambda w: queue(w, "orders.copy", MaximumMessageSize="1024"),
        {("error", COPY, "queue.size")},
    ),
    "no redrive policy": (
        lambda w: queue(w, "orders.copy", RedrivePolicy=""),
        {("error", COPY, "queue.redrive")},
    ),
    "another redrive count": (
        lambda w: queue(w, "orders.pack", RedrivePolicy=_redrive(w, "orders.pack", maxReceiveCount=1)),
        {("error", PACK, "queue.redrive-count")},
    ),
    "another redrive target": (
        lambda w: queue(
            w, "orders.pack", RedrivePolicy=_redrive(w, "orders.pack", deadLetterTargetArn=w.arn("orders.copy"))
        ),
        {("error", PACK, "queue.redrive-target")},
    ),
    "dead letters from everywhere": (
        lambda w: queue(
            w, "orders.copy", "dead_letter_queue_url", RedriveAllowPolicy='{"redrivePermission":"allowAll"}'
        ),
        {("warning", COPY, "dead-letter-queue.redrive-allow")},
    ),
    "no encryption": (
        lambda w: queue(w, "orders.copy", SqsManagedSseEnabled="false"),
        {("error", COPY, "queue.encryption")},
    ),
    "no queue policy": (
        lambda w: queue(w, "orders.copy", Policy=""),
        {("error", COPY, "queue.policy")},
    ),
    "a delay": (
        lambda w: queue(w, "orders.copy", DelaySeconds="5"),
        {("warning", COPY, "queue.delay")},
    ),
    "content-based deduplication": (
        lambda w: queue(w, "bills.pay", ContentBasedDeduplication="true"),
        {("error", PAY, "queue.content-deduplication")},
    ),
    "raw delivery off": (
        lambda w: delivery(w, "orders.copy", "RawMessageDelivery", "false"),
        {("error", COPY, "delivery.raw")},
    ),
    "an edited filter": (
        lambda w: delivery(w, "orders.pack", "FilterPolicy", '{"kind":["parcel"]}'),
        {("error", PACK, "delivery.filter")},
    ),
    "a filter by the body": (
        lambda w: delivery(w, "orders.pack", "FilterPolicyScope", "MessageBody"),
        {("error", PACK, "delivery.filter-scope")},
    ),
    "failed deliveries elsewhere": (
        lambda w: delivery(
            w, "orders.pack", "RedrivePolicy", json.dumps({"deadLetterTargetArn": w.arn("orders.copy")})
        ),
        {("error", PACK, "delivery.redrive")},
    ),
    "a topic that anybody may publish to": (
        lambda w: topic_policy(w, "orders", lambda statements: [*statements, STRANGER]),
        {("error", "topic orders", "topic.policy")},
    ),
    "a topic without the rule on TLS": (
        lambda w: topic_policy(w, "orders", lambda s: [one for one in s if one["Effect"] == "Allow"]),
        {("error", "topic orders", "topic.policy")},
    ),
    "a mapping without the partial-batch switch": (
        lambda w: mapping(w, FunctionResponseTypes=[]),
        {("error", PACK, "mapping.responses")},
    ),
    "a disabled mapping": (
        lambda w: mapping(w, Enabled=False),
        {("error", PACK, "mapping.state")},
    ),
    "another batch size": (
        lambda w: mapping(w, BatchSize=3),
        {("warning", PACK, "mapping.batch-size")},
    ),
    "a mapping on the function instead of its alias": (
        lambda w: mapping(w, FunctionName=w.function),
        {("error", PACK, "mapping.competes"), ("error", PACK, "mapping.missing")},
    ),
    "a longer timeout of the function": (
        lambda w: function(w, Timeout=600),
        {("warning", PACK, "function.timeout"), ("error", PACK, "queue.visibility-below-timeout")},
    ),
    "less memory": (lambda w: function(w, MemorySize=128), {("error", PACK, "function.memory")}),
    "another handler": (lambda w: function(w, Handler="other.handler"), {("error", PACK, "function.handler")}),
    "variables gone": (
        lambda w: function(w, Environment={"Variables": {}}),
        {("error", PACK, "function.environment")},
    ),
    "an alias that is behind": (alias_behind, {("warning", PACK, "alias.moved")}),
    "a function that may not run": (lambda w: reserved(w, 0), {("error", PACK, "reserved.zero")}),
}


@pytest.mark.parametrize("drift", DRIFTS)
def test_a_drift_is_found_and_nothing_else(world: World, drift: str) -> None:
    make, expected = DRIFTS[drift]
    with make(world):
        assert world.found() == expected


def test_what_drifted_was_put_back(world: World) -> None:
    assert world.look(world.bindings) == ()


# --- What is missing ---------------------------------------------------------------------------------------------


def test_missing_resources_are_found_and_the_rest_is_checked_all_the_same(world: World) -> None:
    bound = world.bindings.subscriptions
    gone = bound["orders.copy"].queue_url.replace("orders-copy", "orders-gone")
    elsewhere = replace(bound["orders.copy"], queue_url=gone)
    bindings = replace(
        world.bindings,
        topics=world.bindings.topics
        | {"orders": replace(world.bindings.topics["orders"], arn=f"{world.bindings.topics['orders'].arn}-gone")},
        subscriptions={name: one for name, one in bound.items() if name != "bills.pay"} | {"orders.copy": elsewhere},
    )
    with queue(world, "orders.pack", VisibilityTimeout="600"):
        found = world.found(bindings)
    assert found >= {
        ("error", "topic orders", "topic.missing"),
        ("error", "topic orders", "topic.bound-elsewhere"),
        ("error", COPY, "queue.missing"),
        ("error", COPY, "bindings.bound-elsewhere"),
        ("error", PACK, "delivery.missing"),
        ("error", PAY, "bindings.unbound"),
        ("warning", PACK, "queue.visibility"),
    }


def test_the_command_prints_findings_and_exits_by_the_worst(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in world.aws.variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "manifest.json").write_text(world.manifest.to_json())
    (tmp_path / "bindings.json").write_text(json.dumps(asdict(world.bindings)))
    command = ["check", "--bindings", str(tmp_path / "bindings.json"), str(tmp_path / "manifest.json")]
    clean = CliRunner().invoke(app, command)
    assert (clean.exit_code, clean.stdout) == (0, "Looked at 2 topics, 3 subscriptions: no findings.\n")
    with queue(world, "orders.copy", VisibilityTimeout="600"):
        assert CliRunner().invoke(app, command).exit_code == 0
    with queue(world, "orders.copy", VisibilityTimeout="5"):
        found = CliRunner().invoke(app, [*command, "--json"])
    told = shaped("bindings check", found.stdout)
    assert found.exit_code == 1
    assert told["counts"] == {"error": 1, "warning": 0}
    assert told["looked_at"] == {"topics": 2, "subscriptions": 3}
    assert told["findings"] == [
        {
            "severity": "error",
            "subject": COPY,
            "code": "queue.visibility",
            "what_is": "the queue drift-test-orders-copy has a visibility timeout (s) of 5",
            "what_should_be": "60",
            "what_to_do": "deploy the manifest again, which sets it; see who changed it",
        }
    ]
