"""Policies within the size that IAM allows, however many resources they speak of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from towpath import limits
from towpath.manifest import Policy, Statement

# As long as what stands in their place can get: "aws-us-gov", "us-isof-south-1", and a key's ARN with these.
_LONGEST: Final = {"partition": 10 * "p", "region": 16 * "r", "account": 12 * "0", "key_arn": 100 * "k"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A statement before it is known whether one policy has room for all its resources."""

    sid: str
    actions: tuple[str, ...]
    resources: Sequence[str]


def divided(name: str, grants: Iterable[Grant], key_statements: tuple[Statement, ...]) -> tuple[Policy, ...]:
    """Policies ``name-1``, ``name-2`` and so on that allow the ``grants`` together, each within the size of a managed
    policy; none where there is no resource, since IAM takes no statement without.
    """
    grants = tuple(grants)
    frame = Policy(name=name, statements=_statements(grants, ()), key_statements=key_statements)
    room = limits.IAM_MANAGED_POLICY_CHARACTERS - policy_size(frame)
    pairs = sorted((resource, position) for position, grant in enumerate(grants) for resource in grant.resources)
    return tuple(
        Policy(name=f"{name}-{number}", statements=_held(grants, part), key_statements=key_statements)
        for number, part in enumerate(_packed(pairs, room), start=1)
    )


def policy_size(policy: Policy) -> int:
    """Characters of the policy as IAM counts them, wherever it is deployed, with a KMS key."""
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": s.sid, "Effect": "Allow", "Action": s.actions, "Resource": s.resources}
            for s in (*policy.statements, *policy.key_statements)
        ],
    }
    return len(_expanded(json.dumps(document, separators=(",", ":"))))


def _packed(pairs: Iterable[tuple[str, int]], room: int) -> Iterator[list[tuple[str, int]]]:
    part: list[tuple[str, int]] = []
    taken = 0
    for pair in pairs:
        size = len(_expanded(pair[0])) + len('"",')
        if taken + size > room:
            yield part
            part, taken = [], 0
        part.append(pair)
        taken += size
    if part:
        yield part


def _held(grants: Sequence[Grant], pairs: Sequence[tuple[str, int]]) -> tuple[Statement, ...]:
    return tuple(one for one in _statements(grants, pairs) if one.resources)


def _statements(grants: Sequence[Grant], pairs: Sequence[tuple[str, int]]) -> tuple[Statement, ...]:
    return tuple(
        Statement(
            sid=grant.sid,
            actions=grant.actions,
            resources=tuple(resource for resource, of in pairs if of == position),
        )
        for position, grant in enumerate(grants)
    )


def _expanded(text: str) -> str:
    return Template(text).substitute(_LONGEST)
