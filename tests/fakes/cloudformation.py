"""CloudFormation's functions evaluated without CloudFormation: what a template says where it is deployed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ACCOUNT, REGION, PARTITION = "123456789012", "eu-west-1", "aws"
URL = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/made-here"


def arn(service: str, resource: str) -> str:
    """The ARN of a resource, as AWS makes it of its name."""
    region = "" if service == "iam" else REGION
    return f"arn:{PARTITION}:{service}:{region}:{ACCOUNT}:{resource}"


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """A template, and those it imports from, as they are once deployed with the names that it gives."""

    template: Mapping[str, Any]
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def resources(self) -> dict[str, dict[str, Any]]:
        """Every resource's properties without functions, by its logical id."""
        found = self.template["Resources"].items()
        return {name: self.value(resource.get("Properties", {})) for name, resource in found}

    def outputs(self) -> dict[str, str]:
        """Every output's value."""
        return {name: self.value(output["Value"]) for name, output in self.template.get("Outputs", {}).items()}

    def value(self, written: Any) -> Any:
        """``written`` without functions."""
        if isinstance(written, list):
            return [self.value(item) for item in written]
        if not isinstance(written, dict):
            return written
        if len(written) == 1:
            ((name, argument),) = written.items()
            if name == "Ref" or name.startswith("Fn::"):
                return self._function(name, argument)
        return {key: self.value(item) for key, item in written.items()}

    def _function(self, name: str, argument: Any) -> Any:
        match name:
            case "Ref":
                return self._reference(argument)
            case "Fn::GetAtt":
                return self._attribute(*argument)
            case "Fn::Join":
                separator, parts = argument
                return separator.join(self.value(part) for part in parts)
            case "Fn::Sub":
                text, variables = argument if isinstance(argument, list) else (argument, {})
                return re.sub(
                    r"\$\{([^}]+)\}",
                    lambda found: self.value(variables.get(found[1], {"Ref": found[1]})),
                    text,
                )
            case "Fn::ImportValue":
                return self._imported(self.value(argument))
        raise AssertionError(f"no template of ours has {name}")

    def _imported(self, export: str) -> Any:
        for other in self.others.values():
            for output in other.get("Outputs", {}).values():
                if output.get("Export", {}).get("Name") == export:
                    return Deployed(template=other, others=self.others).value(output["Value"])
        raise AssertionError(f"nothing exports {export}")

    def _reference(self, logical: str) -> str:
        pseudo = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": PARTITION}
        if logical in pseudo:
            return pseudo[logical]
        kind, properties = self._resource(logical)
        match kind:
            case "AWS::SNS::Topic":
                return arn("sns", properties["TopicName"])
            case "AWS::SQS::Queue":
                return URL + properties["QueueName"]
            case "AWS::Lambda::Function":
                return str(properties["FunctionName"])
            case "AWS::Lambda::Alias":
                return arn("lambda", f"function:{self.value(properties['FunctionName'])}:{properties['Name']}")
            case "AWS::KMS::Key":
                return KEY.rpartition("/")[2]
        raise AssertionError(f"no template of ours refers to a {kind}")

    def _attribute(self, logical: str, attribute: str) -> str:
        kind, properties = self._resource(logical)
        match kind, attribute:
            case "AWS::SQS::Queue", "Arn":
                return arn("sqs", properties["QueueName"])
            case "AWS::Lambda::Function", "Arn":
                return arn("lambda", f"function:{properties['FunctionName']}")
            case "AWS::IAM::Role", "Arn":
                return arn("iam", f"role/{properties['RoleName']}")
            case "AWS::KMS::Key", "Arn":
                return KEY
            case "AWS::Lambda::Version", "Version":
                return f"the version {logical}"
        raise AssertionError(f"no template of ours asks for {attribute} of a {kind}")

    def _resource(self, logical: str) -> tuple[str, dict[str, Any]]:
        resource = self.template["Resources"][logical]
        return resource["Type"], resource["Properties"]


def place(resource: Mapping[str, Any]) -> tuple[str, str]:
    """Whose a resource is, ``Subscription-orders.index`` for instance or nothing, and what it is there (``Queue``)."""
    path = resource["Metadata"]["aws:cdk:path"].split("/")
    inner = [part for part in path[1:] if part not in ("Default", "Resource")]
    return ("", inner[0]) if len(inner) == 1 else (inner[0], "/".join(inner[1:]))
