"""What a template of the CDK says, as facts."""

import json
from collections.abc import Mapping
from typing import Any

from tests.fakes.cloudformation import Deployed, place
from tests.parity.properties import CLOUDFORMATION, Facts, add, read

_QUEUES = {"Queue": "queue", "DeadLetterQueue": "dead letter queue", "DeliveryFailureQueue": "delivery failure queue"}
_POLICIES = {"AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy"}
READERS = {
    "tags": lambda tags: {tag["Key"]: tag["Value"] for tag in tags},
    "dimensions": lambda found: {one["Name"]: one["Value"] for one in found},
    "hash key": lambda keys: next(key["AttributeName"] for key in keys if key["KeyType"] == "HASH"),
    "attributes": lambda found: [[one["AttributeName"], one["AttributeType"]] for one in found],
    "ttl": lambda ttl: [ttl["AttributeName"], ttl["Enabled"]],
    "recovery": lambda recovery: recovery["PointInTimeRecoveryEnabled"],
    "policies": lambda found: {one["PolicyName"]: one["PolicyDocument"] for one in found},
    "environment": lambda environment: environment["Variables"],
    "logging": lambda logging: [logging["LogFormat"], logging["LogGroup"]],
    "command": lambda image: image["Command"],
    "vpc": lambda vpc: [vpc["SubnetIds"], vpc["SecurityGroupIds"]],
    "maximum concurrency": lambda scaling: scaling["MaximumConcurrency"],
}


def facts_of(template: Mapping[str, Any]) -> Facts:
    """The facts of a template that holds everything."""
    facts: Facts = {}
    resolved = Deployed(template=template).resources()
    for logical, resource in template["Resources"].items():
        owner, leaf = place(resource)
        name, properties = owner.partition("-")[2], resolved[logical]
        kind = resource["Type"]
        if kind in _POLICIES:
            of = "topic" if leaf == "TopicPolicy" else _QUEUES[leaf.removesuffix("Policy")]
            add(facts, (of, name), "policy", properties["PolicyDocument"])
        elif kind == "AWS::Lambda::Version":
            add(facts, ("function", name), "code hash", properties.get("CodeSha256"))
        else:
            _add(facts, kind, (name, leaf), properties)
    return facts


def _add(facts: Facts, cloudformation: str, place: tuple[str, str], properties: Mapping[str, Any]) -> None:
    kind, (name, leaf) = CLOUDFORMATION[cloudformation], place
    called = _QUEUES.get(leaf, kind.name)
    key = (called, f"{name}/{leaf.removeprefix('Alarm-')}" if called == "alarm" else name)
    unknown = properties.keys() - kind.properties.keys()
    assert not unknown, f"{cloudformation} sets {sorted(unknown)}, which no table names"
    for attribute, value in properties.items():
        named = kind.properties[attribute]
        if named == "code":
            for part, of in (("ImageUri", "image"), ("S3Bucket", "bucket"), ("S3Key", "object")):
                add(facts, key, of, value.get(part))
        elif named is not None:
            add(facts, key, named, read(value, READERS.get(named)))


def outputs_of(template: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs under the names that the Terraform module gives them."""
    told = {name: _parsed(value) for name, value in Deployed(template=template).outputs().items()}
    snake = {
        "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)[1:]: name for name in told
    }
    return {name: told[written] for name, written in snake.items()}


def _parsed(value: str) -> Any:
    return json.loads(value) if value.startswith("{") else value
