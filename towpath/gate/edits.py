"""What is about to happen to one resource, in the same words whichever tool is about to do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

Kind = Literal[
    "topic",
    "subscription",
    "queue",
    "policy",
    "redrive policy",
    "mapping",
    "function",
    "alias",
    "key",
    "key alias",
    "table",
    "role",
    "log group",
    "alarm",
]

Action = Literal["create", "update", "delete", "replace", "forget", "unclear"]
"""``forget``: it stays on AWS and nothing manages it any more. ``unclear``: only the tool's run decides whether it is
replaced.
"""


class Unknown:
    """What stands for a value that only the run itself will know."""

    def __repr__(self) -> str:
        return "known only while it runs"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One resource's change. ``address`` is what the tool calls it, unique in a plan, and ``names`` what policies call
    it: its name on AWS, or its id within a template.

    ``before`` and ``after`` have the guarded attributes under the names that ``towpath.gate.guards`` has for them, in
    plain JSON values, ``UNKNOWN`` for what is not known yet; each is empty where there is no before or after.
    """

    address: str
    kind: Kind
    action: Action
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    names: tuple[str, ...] = ()
