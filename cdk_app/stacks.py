"""Whole stacks: one for the topics, and one for each of the manifest's groups of subscriptions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aws_cdk import Stack
from constructs import Construct

from cdk_app.inputs import Inputs
from cdk_app.parts import Part, stacks_of
from cdk_app.work_queue import WorkQueue
from towpath.manifest import Manifest


class TowpathStack(Stack):
    """A stack that holds a ``WorkQueue`` and nothing else; its outputs have no prefix. ``stack`` are ``Stack``'s own
    arguments, such as ``env`` and ``synthesizer``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        manifest: Manifest,
        inputs: Inputs | None = None,
        part: Part | None = None,
        **stack: Any,
    ) -> None:
        super().__init__(scope, construct_id, **stack)
        self.work_queue = WorkQueue(self, "Default", manifest=manifest, inputs=inputs, part=part)
        """What the stack holds."""


def towpath_stacks(scope: Construct, manifest: Manifest, inputs: Inputs, **stack: Any) -> list[TowpathStack]:
    """The stacks that ``manifest`` names, under these names: the topics' first, on which the others depend.

    Raises ``InvalidInputs`` when ``inputs`` do not go with ``manifest``, before any stack is made.
    """
    inputs.check(manifest)
    stacks: list[TowpathStack] = []
    for name, part in stacks_of(manifest):
        given = inputs if not stacks else _with_key_of(stacks[0], inputs)
        made = TowpathStack(scope, name, stack_name=name, manifest=manifest, inputs=given, part=part, **stack)
        if stacks:
            made.add_stack_dependency(stacks[0])
        stacks.append(made)
    return stacks


def _with_key_of(topics: TowpathStack, inputs: Inputs) -> Inputs:
    """The key that the stack of topics made, where it made one, is every stack's."""
    if not inputs.create_kms_key or topics.work_queue.key is None:
        return inputs
    arn = topics.work_queue.key.arn
    return replace(inputs, create_kms_key=False, kms_key_arn=arn, kms_key_policy_confirmed=True)
