"""Which part of a manifest one stack holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from towpath.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The topics with what all have in common (key, dashboard, policies of people), or not; and some subscriptions."""

    topics: Literal["here", "elsewhere"]
    subscriptions: tuple[str, ...]

    @staticmethod
    def everything(manifest: Manifest) -> Part:
        """All that is on AWS."""
        names = (name for name, one in manifest.subscriptions.items() if one.aws is not None)
        return Part(topics="here", subscriptions=tuple(names))


def stacks_of(manifest: Manifest) -> Iterator[tuple[str, Part]]:
    """The stacks that the manifest names, each with its part, the stack of topics first. None without AWS."""
    if manifest.aws is None:
        return
    yield manifest.aws.topics_stack_name, Part(topics="here", subscriptions=())
    stacks: dict[str, tuple[str, ...]] = {}
    for name, one in manifest.subscriptions.items():
        if one.aws is not None:
            stacks[one.aws.stack_name] = (*stacks.get(one.aws.stack_name, ()), name)
    for stack_name, names in sorted(stacks.items()):
        yield stack_name, Part(topics="elsewhere", subscriptions=names)
