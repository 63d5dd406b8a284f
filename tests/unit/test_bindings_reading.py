"""How a check looks at AWS: every page, at a pace, whatever is refused; and bindings out of stacks' outputs."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws
from typer.testing import CliRunner

from aws_transport.bindings import Bindings
from aws_transport.checking import reading, rights
from aws_transport.checking.comparing import findings
from aws_transport.checking.deployed import first_place
from aws_transport.checking.facts import Missing, Seen, Unseen
from aws_transport.checking.pacing import Pacer
from aws_transport.checking.reading import Reader, Services
from aws_transport.commands import app
from aws_transport.stacks import bindings_of_stacks
from tests.servers.provision import provisioned
from towpath.errors import InvalidBindings, TransportRejected, TransportUnavailable
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology

MANIFEST = resolve(
    parse_topology(
        {
            "name": "shop",
            "topics": {"t": {"deduplication": True}},
            "subscriptions": {
                "w": {"topic": "t", "handler": "a:b", "host": "worker"},
                "f": {"topic": "t", "handler": "a:b"},
            },
        }
    ),
    "prod",
)


class Unpaced:
    def wait(self) -> None:
        pass


# --- The pace ----------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))


def test_calls_go_at_the_rate_and_not_faster_after_a_pause() -> None:
    clock = Clock()
    pacer = Pacer(10, clock.monotonic, clock.sleep)
    for _ in range(3):
        pacer.wait()
    clock.now = 5.0
    pacer.wait()
    pacer.wait()
    assert clock.slept == [0.1, 0.2, 0.1]


# --- Looking, on moto --------------------------------------------------------------------------------------------


class MotoClients:
    region = "eu-west-1"

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            region_name=self.region,
            aws_access_key_id="test",
            aws_secret_access_key="test",
        )


def services(**other: Any) -> Services:
    made = MotoClients()
    own = {"sns": "sns", "sqs": "sqs", "functions": "lambda", "tables": "dynamodb", "keys": "kms"}
    return Services(**{name: made.client(service) for name, service in own.items()} | other)


@pytest.fixture(scope="module")
def deployed() -> Iterator[Any]:
    with mock_aws(), provisioned(MotoClients(), MANIFEST) as deployment:
        yield deployment


def look(bindings: Bindings, manifest: Manifest = MANIFEST, **other: Any) -> Any:
    return Reader(services=services(**other), pacer=Unpaced()).read(manifest, bindings)


def test_a_deployment_without_its_function_lacks_only_that(deployed: Any) -> None:
    facts = look(deployed.bindings)
    found = findings(MANIFEST, deployed.bindings, facts, first_place(deployed.bindings))
    its_own_way = ("topic.policy", "dead-letter-queue.policy", "dead-letter-queue.redrive-allow")  # moto keeps these
    ours = {(one.subject, one.code) for one in found if one.code not in its_own_way}
    assert ours == {
        ("subscription f", "alias.missing"),
        ("subscription f", "mapping.missing"),
        ("subscription f", "bindings.bound-elsewhere"),
    }


def test_a_table_without_ttl_is_found(deployed: Any) -> None:
    table = MANIFEST.topics["t"].aws.deduplication_table
    dynamodb = MotoClients().client("dynamodb")
    off = {"Enabled": False, "AttributeName": table.ttl_attribute}
    dynamodb.update_time_to_live(TableName=table.name, TimeToLiveSpecification=off)
    facts = look(deployed.bindings)
    dynamodb.update_time_to_live(TableName=table.name, TimeToLiveSpecification=off | {"Enabled": True})
    found = findings(MANIFEST, deployed.bindings, facts, first_place(deployed.bindings))
    assert ("topic t", "table.ttl") in {(one.subject, one.code) for one in found}


class Refusing:
    """A client all of whose calls fail."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getattr__(self, _: str) -> Any:
        def refuse(*_: Any, **__: Any) -> Any:
            raise self.error

        return refuse


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Op")


def test_what_is_denied_leaves_every_other_look_as_it_is(deployed: Any) -> None:
    facts = look(deployed.bindings, sqs=Refusing(refusal("AccessDenied")))
    denied = facts.subscriptions["w"].queue
    assert isinstance(denied, Unseen)
    assert (denied.denied, denied.action) == (True, "sqs:GetQueueAttributes")
    assert isinstance(facts.topics["t"].attributes, Seen)
    assert isinstance(facts.subscriptions["w"].delivery, Seen)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("AWS.SimpleQueueService.NonExistentQueue"), Missing()),
        (refusal("Throttling"), Unseen(action="sqs:GetQueueAttributes", why="Throttling: no", denied=False)),
    ],
)
def test_an_answer_is_what_it_means(deployed: Any, error: Exception, expected: Any) -> None:
    assert look(deployed.bindings, sqs=Refusing(error)).subscriptions["w"].queue == expected


def test_aws_that_cannot_be_reached_is_unseen_and_raises_nothing(deployed: Any) -> None:
    gone = EndpointConnectionError(endpoint_url="http://127.0.0.1:9")
    facts = look(deployed.bindings, sns=Refusing(gone), functions=Refusing(gone))
    assert isinstance(facts.topics["t"].attributes, Unseen)
    assert isinstance(facts.subscriptions["w"].delivery, Unseen)
    assert isinstance(facts.subscriptions["f"].function.newest_version, Unseen)


# --- Rights ------------------------------------------------------------------------------------------------------


def test_the_rights_are_exactly_what_is_looked_at(deployed: Any) -> None:
    asked = set(re.findall(r'"((?:sns|sqs|lambda|dynamodb|kms):\w+)"', inspect.getsource(reading)))
    documents = rights.documents(MANIFEST, first_place(deployed.bindings), "arn:aws:kms:eu-west-1:1:key/k")
    statements = [statement for document in documents.values() for statement in document["Statement"]]
    assert {action for statement in statements for action in statement["Action"]} == asked
    everywhere = {action for s in statements if s["Resource"] == ["*"] for action in s["Action"]}
    assert everywhere == {"lambda:ListEventSourceMappings", "sns:GetSubscriptionAttributes"}  # they take no resource


def test_the_rights_name_each_resource_where_it_is(deployed: Any) -> None:
    (document,) = rights.documents(MANIFEST, first_place(deployed.bindings), None).values()
    resources = {one["Sid"]: one["Resource"] for one in document["Statement"]}
    assert resources["LookQueues"][0] == "arn:aws:sqs:eu-west-1:123456789012:shop-prod-f"
    assert len(resources["LookQueues"]) == 6
    assert resources["LookFunctions"] == [
        "arn:aws:lambda:eu-west-1:123456789012:function:shop-prod-f",
        "arn:aws:lambda:eu-west-1:123456789012:function:shop-prod-f:*",
    ]
    assert "LookKey" not in resources


# --- Stacks ------------------------------------------------------------------------------------------------------


class Stacks:
    """CloudFormation with these stacks' outputs, a stack to a page."""

    def __init__(self, stacks: dict[str, dict[str, str]], error: Exception | None = None) -> None:
        self.stacks, self.error = stacks, error

    def get_paginator(self, name: str) -> "Stacks":
        assert name == "describe_stacks"
        return self

    def paginate(self, *, StackName: str) -> Iterator[Any]:  # noqa: N803 - boto3's name
        if self.error is not None:
            raise self.error
        if StackName not in self.stacks:
            told = {"Code": "ValidationError", "Message": f"Stack with id {StackName} does not exist"}
            raise ClientError({"Error": told, "ResponseMetadata": {"HTTPStatusCode": 400}}, "DescribeStacks")
        yield {"Stacks": []}
        outputs = [{"OutputKey": key, "OutputValue": value} for key, value in self.stacks[StackName].items()]
        yield {"Stacks": [{"StackName": StackName, "Outputs": outputs}]}


TOPIC = {"t": {"arn": "arn:aws:sns:eu-west-1:1:t", "fifo": False}}
QUEUES = dict.fromkeys(("queue_url", "queue_arn", "dead_letter_queue_url", "delivery_failure_queue_url"), "x")


def output(topics: Any = None, subscriptions: Any = None) -> str:
    return json.dumps({"topics": topics or {}, "subscriptions": subscriptions or {}})


def test_bindings_of_several_stacks_are_one() -> None:
    stacks = Stacks(
        {
            "topics": {"Bindings": output(TOPIC), "DashboardUrl": "https://..."},
            "mine": {"OrdersBindings": output(None, {"s": QUEUES}), "CopiesBindings": output(None, {"c": QUEUES})},
        }
    )
    found = bindings_of_stacks(stacks, ["topics", "mine", "topics"])
    assert (set(found.topics), set(found.subscriptions)) == ({"t"}, {"s", "c"})


def test_everything_that_is_wrong_with_the_stacks_is_told_at_once() -> None:
    stacks = Stacks({"empty": {"Other": "1"}, "broken": {"Bindings": '{"topics": {}}'}})
    with pytest.raises(InvalidBindings) as caught:
        bindings_of_stacks(stacks, ["gone", "empty", "broken"])
    told = str(caught.value)
    assert "gone: there is no such stack" in told
    assert "empty: has no output that ends in 'Bindings'" in told
    assert "broken.Bindings.subscriptions: is missing" in told


def test_a_name_in_two_stacks_is_refused() -> None:
    stacks = Stacks({"one": {"Bindings": output(TOPIC)}, "two": {"Bindings": output(TOPIC)}})
    with pytest.raises(InvalidBindings, match=r"topics\.t: is in the outputs of the stack two"):
        bindings_of_stacks(stacks, ["one", "two"])


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (refusal("AccessDenied"), TransportRejected),
        (refusal("Throttling"), TransportUnavailable),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:9"), TransportUnavailable),
    ],
)
def test_what_cloudformation_refuses_is_told(error: Exception, expected: type[Exception]) -> None:
    with pytest.raises(expected, match="describe the stack topics"):
        bindings_of_stacks(Stacks({}, error), ["topics"])


# --- The command -------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(deployed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TOWPATH_TRANSPORT", "TOWPATH_MANIFEST", "TOWPATH_BINDINGS", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "manifest.json").write_text(MANIFEST.to_json())
    (tmp_path / "bindings.json").write_text(deployed.bindings.to_json())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_rights_are_printed_as_documents(folder: Path) -> None:
    ran = CliRunner().invoke(app, ["rights"])
    assert list(json.loads(ran.stdout)) == ["shop-prod-bindings-1"]


def test_a_url_of_another_region_is_refused(folder: Path) -> None:
    ran = CliRunner().invoke(app, ["check", "--transport", "aws://us-east-1"])
    assert isinstance(ran.exception, InvalidBindings)
    assert "are in eu-west-1, and the transport's URL names us-east-1" in str(ran.exception)


def test_bindings_without_an_arn_are_refused(folder: Path) -> None:
    (folder / "bindings.json").write_text(output())
    assert isinstance(CliRunner().invoke(app, ["check"]).exception, InvalidBindings)


def test_from_stack_needs_names_and_a_region(folder: Path) -> None:
    assert CliRunner().invoke(app, ["from-stack"]).exit_code == 2
    assert CliRunner().invoke(app, ["from-stack", "one"]).exit_code == 2
