"""The bindings that CloudFormation stacks have among their outputs, as ``cdk_app`` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from aws_transport.bindings import Bindings
from aws_transport.faults import code_of, translated
from towpath.errors import InvalidBindings, Mistake

if TYPE_CHECKING:
    from mypy_boto3_cloudformation import CloudFormationClient

_ENDING: Final = "Bindings"  # of the output's key: alone in a stack of Towpath's, behind a prefix in a stack of yours


def bindings_of_stacks(client: CloudFormationClient, stacks: Sequence[str]) -> Bindings:
    """The bindings of a deployment whose stacks are ``stacks``, all of them together.

    Raises ``InvalidBindings`` with every stack that is not there, or has no bindings, and for a name in two of them;
    ``TransportUnavailable`` and ``TransportRejected`` as AWS answers.
    """
    parts: dict[str, Bindings] = {}
    mistakes: list[Mistake] = []
    for stack in dict.fromkeys(stacks):
        outputs = _outputs(client, stack)
        if outputs is None:
            mistakes.append(Mistake(path=stack, problem="there is no such stack; deploy it, or see the region"))
            continue
        found = [(f"{stack}.{key}", value) for key, value in outputs.items() if key.endswith(_ENDING)]
        if not found:
            problem = "has no output that ends in 'Bindings'; name a stack that cdk deploy made from a manifest"
            mistakes.append(Mistake(path=stack, problem=problem))
        for where, value in found:
            try:
                parts[where] = Bindings.from_json(value)
            except InvalidBindings as error:
                mistakes += [Mistake(path=f"{where}.{one.path}", problem=one.problem) for one in error.mistakes]
    if mistakes:
        raise InvalidBindings("the outputs of the stacks", mistakes)
    return Bindings.merged(parts)


def _outputs(client: CloudFormationClient, stack: str) -> Mapping[str, str] | None:
    """A stack's outputs; ``None`` when it is not there."""
    try:
        described = list(_described(client, stack))
    except ClientError as error:
        told = str(error.response.get("Error", {}).get("Message", ""))
        if code_of(error) == "ValidationError" and "does not exist" in told:
            return None
        raise translated(error, f"describe the stack {stack}") from error
    except BotoCoreError as error:
        raise translated(error, f"describe the stack {stack}") from error
    return {one["OutputKey"]: one["OutputValue"] for record in described for one in record.get("Outputs", ())}


def _described(client: CloudFormationClient, stack: str) -> Iterator[Mapping[str, Any]]:
    for page in client.get_paginator("describe_stacks").paginate(StackName=stack):
        yield from page["Stacks"]
