"""The manifest's placeholders, replaced by what CloudFormation knows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from aws_cdk import Fn

from towpath.errors import InvalidManifest, Mistake
from towpath.manifest import ResourceStatement, Statement

_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)\}")
_PSEUDO: Final = {"partition": "AWS::Partition", "region": "AWS::Region", "account": "AWS::AccountId"}


def located(text: str, **known: str) -> str:
    """``text`` where it is deployed: ``${partition}``, ``${region}`` and ``${account}`` are the stack's, any other
    placeholder is one of ``known``. Raises ``InvalidManifest`` about one that is none of these.
    """
    names = set(_PLACEHOLDER.findall(text))
    unknown = names - _PSEUDO.keys() - known.keys()
    if unknown:
        problem = f"holds ${{{min(unknown)}}} in {text!r}, where nothing replaces it; render it again"
        raise InvalidManifest("the manifest", [Mistake(path="", problem=problem)])
    if not names:
        return text
    if len(names) == 1 and text == f"${{{(name := min(names))}}}" and name in known:
        return known[name]
    body = _PLACEHOLDER.sub(lambda found: f"${{{_PSEUDO.get(found[1], found[1])}}}", text)
    variables = {name: known[name] for name in sorted(names & known.keys())}
    return Fn.sub(body, variables or None)


def arn(service: str, resource: str) -> str:
    """The ARN of a resource of the stack's own account and region."""
    return located(f"arn:${{partition}}:{service}:${{region}}:${{account}}:{resource}")


def identity_policy(statements: Iterable[Statement], **known: str) -> dict[str, Any]:
    """The policy document of a role or of a person."""
    return _document(
        {
            "Sid": one.sid,
            "Effect": "Allow",
            "Action": list(one.actions),
            "Resource": [located(resource, **known) for resource in one.resources],
        }
        for one in statements
    )


def resource_policy(statements: Iterable[ResourceStatement], **known: str) -> dict[str, Any]:
    """The policy document of a topic, a queue or a key."""
    return _document(_resource_statement(one, known) for one in statements)


def _resource_statement(one: ResourceStatement, known: dict[str, str]) -> dict[str, Any]:
    conditions = {
        operator: {key: [located(value, **known) for value in values] for key, values in keys.items()}
        for operator, keys in one.conditions.items()
    }
    return {
        "Sid": one.sid,
        "Effect": one.effect,
        "Principal": {kind: [located(name, **known) for name in names] for kind, names in one.principals.items()},
        "Action": list(one.actions),
        "Resource": [located(resource, **known) for resource in one.resources],
        **({"Condition": conditions} if conditions else {}),
    }


def _document(statements: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}
