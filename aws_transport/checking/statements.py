"""Policies of resources, made comparable: what is said once, in one way, whoever wrote it.

Sources: AWS IAM user guide, "Policy grammar": a list of one may be written without brackets, an action in any case, an
account's principal as its number or as the ARN of its root user, everybody as ``*`` or as ``{"AWS": "*"}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import Template
from typing import Any

from aws_transport.checking.findings import Finding
from aws_transport.checking.looks import Told
from towpath.manifest import ResourceStatement

_ACCOUNT = re.compile(r"\d{12}")
_SHOWN_LENGTH = 200


def rendered(statements: Iterable[ResourceStatement], names: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    """The statements as AWS takes them, with ``names`` for their placeholders."""
    return tuple(
        {
            "Sid": one.sid,
            "Effect": one.effect,
            "Principal": {kind: _filled(names_of, names) for kind, names_of in one.principals.items()},
            "Action": list(one.actions),
            "Resource": _filled(one.resources, names),
            "Condition": {
                operator: {key: _filled(values, names) for key, values in tests.items()}
                for operator, tests in one.conditions.items()
            },
        }
        for one in statements
    )


def policy_findings(told: Told, text: str | None, wanted: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """How a resource's policy ``text`` differs from the statements ``wanted``, which are all that it should have."""
    partition = next((part for part in _partitions(wanted)), "aws")
    found = {_canonical(one, partition): one for one in _statements(text)}
    meant = {_canonical(one, partition): one for one in wanted}
    for form in meant.keys() - found.keys():
        sid = str(meant[form].get("Sid", ""))
        like = next((one for one in found.values() if one.get("Sid") == sid), None)
        what_is = f"{told.of} has {'no statement ' + sid if like is None else _shown(like)}"
        yield told.finding("policy", what_is, _shown(meant[form]))
    sids = {one.get("Sid") for one in wanted}
    for form in found.keys() - meant.keys():
        if found[form].get("Sid") in sids:
            continue  # told above, as what stands in a wanted one's place
        yield told.finding(
            "policy",
            f"{told.of} has {_shown(found[form])}",
            "no such statement",
            "take it out, or deploy the manifest again, which replaces the policy",
            severity="error" if found[form].get("Effect") == "Allow" else "warning",
        )


def _filled(values: Iterable[str], names: Mapping[str, str]) -> list[str]:
    return [Template(value).substitute(names) for value in values]


def _partitions(wanted: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for one in wanted:
        yield from (str(resource).split(":")[1] for resource in one["Resource"] if str(resource).startswith("arn:"))


def _statements(text: str | None) -> Iterator[Mapping[str, Any]]:
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return
    statements = document.get("Statement", []) if isinstance(document, Mapping) else []
    yield from ([statements] if isinstance(statements, Mapping) else statements)


def _canonical(statement: Mapping[str, Any], partition: str) -> str:
    """The statement's meaning as text: equal for all ways to write it, without its name."""
    meaning = {key: value for key, value in statement.items() if key != "Sid" and value != {}}
    for key in ("Action", "NotAction"):
        if key in meaning:
            meaning[key] = sorted({str(action).lower() for action in _listed(meaning[key])})
    for key in ("Resource", "NotResource"):
        if key in meaning:
            meaning[key] = sorted(set(_listed(meaning[key])))
    for key in ("Principal", "NotPrincipal"):
        if key in meaning:
            meaning[key] = _principals(meaning[key], partition)
    if "Condition" in meaning:
        meaning["Condition"] = {
            operator: {
                key.lower(): sorted({_plain(value) for value in _listed(values)}) for key, values in tests.items()
            }
            for operator, tests in meaning["Condition"].items()
        }
    return json.dumps(meaning, sort_keys=True)


def _principals(written: Any, partition: str) -> dict[str, list[str]]:
    named = {"AWS": written} if isinstance(written, str) else written
    return {kind: sorted({_principal(str(name), partition) for name in _listed(named[kind])}) for kind in sorted(named)}


def _principal(name: str, partition: str) -> str:
    return f"arn:{partition}:iam::{name}:root" if _ACCOUNT.fullmatch(name) else name


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _shown(statement: Mapping[str, Any]) -> str:
    text = json.dumps({key: value for key, value in statement.items() if value != {}}, sort_keys=True)
    return text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}..."
