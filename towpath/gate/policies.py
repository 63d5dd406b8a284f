"""What two versions of a policy allow and deny, permission by permission, whoever wrote them and however.

Sources: AWS IAM user guide, "Policy grammar": a list of one may be written without brackets, an action in any case,
everybody as ``*`` or as ``{"AWS": "*"}``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.gate.edits import UNKNOWN

_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """One action on one resource for one principal, under one set of conditions; allowed or denied."""

    effect: str
    principal: str
    action: str
    resource: str
    condition: str

    def __str__(self) -> str:
        who = f" for {self.principal}" if self.principal else ""
        when = f" if {self.condition}" if self.condition != "{}" else ""
        return f"{self.action} on {self.resource}{who}{when}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """What a policy allows more and less than before. A denial that goes is more, one that comes is less."""

    more: tuple[Permission, ...]
    less: tuple[Permission, ...]


def shift(before: Any, after: Any, elsewhere: Collection[str]) -> Shift:
    """From one policy document to another. What is about a resource that comes or goes itself is left out: its name, or
    the text that refers to it, is in ``elsewhere``.
    """
    old, new = set(_permissions(before)), set(_permissions(after))
    come, gone = (_about_what_stays(some, elsewhere) for some in (new - old, old - new))
    more = [one for one in come if one.effect == "Allow"] + [one for one in gone if one.effect != "Allow"]
    less = [one for one in gone if one.effect == "Allow"] + [one for one in come if one.effect != "Allow"]
    return Shift(more=tuple(more), less=tuple(less))


def listed(permissions: tuple[Permission, ...]) -> str:
    """The first few of them, and how many more."""
    more = len(permissions) - _SHOWN
    return "; ".join(map(str, permissions[:_SHOWN])) + (f"; and {more} more" if more > 0 else "")


def has_unknown(value: Any) -> bool:
    """Whether something within ``value`` is known only while the tool runs."""
    if value is UNKNOWN:
        return True
    if isinstance(value, Mapping):
        return any(map(has_unknown, value.values()))
    return isinstance(value, list | tuple) and any(map(has_unknown, value))


def _about_what_stays(permissions: Collection[Permission], elsewhere: Collection[str]) -> list[Permission]:
    kept = [one for one in permissions if not any(_is_about(one.resource, name) for name in elsewhere)]
    return sorted(kept, key=str)


def _is_about(resource: str, name: str) -> bool:
    """Whether an ARN ends in ``name``, or a reference of CloudFormation's is to it."""
    ends = resource.removesuffix(":*").replace("/", ":").endswith(f":{name}")
    return ends or resource == name or resource.startswith(f"{name}.")


def _permissions(document: Any) -> Iterator[Permission]:
    statements = document.get("Statement", []) if isinstance(document, Mapping) else []
    for one in _list(statements):
        if not isinstance(one, Mapping):  # nothing that AWS would take: told as it is
            yield Permission(effect="Allow", principal="", action=_text(one), resource="", condition="{}")
            continue
        for principal in _principals(one):
            for action in _marked(one, "Action"):
                for resource in _marked(one, "Resource"):
                    yield Permission(
                        effect=str(one.get("Effect", "Allow")),
                        principal=principal,
                        action=action.lower(),
                        resource=resource,
                        condition=_condition(one.get("Condition") or {}),
                    )


def _marked(statement: Mapping[str, Any], key: str) -> list[str]:
    """The values of ``key``, or of its negation, marked as such; one empty value where there is neither."""
    if f"Not{key}" in statement:
        return [f"all but {', '.join(sorted(map(_text, _list(statement[f'Not{key}']))))}"]
    return sorted(set(map(_text, _list(statement.get(key, ""))))) or [""]


def _principals(statement: Mapping[str, Any]) -> list[str]:
    negated = "NotPrincipal" in statement
    written = statement.get("NotPrincipal" if negated else "Principal", {})
    named = written if isinstance(written, Mapping) else {"AWS": written}
    found = sorted(f"{kind} {_text(name)}" for kind, names in named.items() for name in _list(names))
    return [f"all but {', '.join(found)}"] if negated else found or [""]


def _condition(tests: Any) -> str:
    if not isinstance(tests, Mapping) or not all(isinstance(inner, Mapping) for inner in tests.values()):
        return _text(tests)
    plain = {
        operator: {str(key).lower(): sorted(map(_text, _list(values))) for key, values in inner.items()}
        for operator, inner in tests.items()
    }
    return json.dumps(plain, sort_keys=True)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _text(value: Any) -> str:
    """A value short; references of CloudFormation's as ``Fn::Sub`` would write them."""
    match value:
        case bool():
            return str(value).lower()
        case {"Fn::Sub": str(text)} | {"Ref": str(text)} if len(value) == 1:
            return text
        case {"Fn::GetAtt": [str(logical_id), str(attribute)]} if len(value) == 1:
            return f"{logical_id}.{attribute}"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
