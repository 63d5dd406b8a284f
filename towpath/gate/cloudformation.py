"""What CloudFormation is about to do, from the template that is deployed and the one that was synthesised.

Templates are the surest: CloudFormation's change sets show values only as far as it knows them beforehand, list
resources that stay as they are among those that may be replaced, and the CDK's diff is for people. What a template
leaves to a parameter, a condition, a mapping or a dynamic reference is known only when it runs, and told so.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from towpath.gate.cloudformation_forms import FORMS, Resource
from towpath.gate.edits import UNKNOWN, Action, Edit
from towpath.gate.fields import attributes, names
from towpath.gate.policies import has_unknown

_KEPT: Final = ("Retain", "RetainExceptOnCreate")
_LATE: Final = ("Fn::If", "Fn::FindInMap", "Fn::Transform")  # functions whose answer does not stand in the template
_NO_VALUE: Final = {"Ref": "AWS::NoValue"}  # as if the property were not there
_IN_TEXT: Final = re.compile(r"\$\{([\w.:]+)\}")  # of Fn::Sub; ${!Name} stays as it is
_DYNAMIC: Final = "{{resolve:"  # AWS CloudFormation user guide, "Dynamic references"

Template = Mapping[str, Any]


def edits_of_templates(stack: str, old: Template | None, new: Template | None) -> tuple[Edit, ...]:
    """What changes of what Towpath makes in ``stack``; ``None`` where it is not deployed yet, or not any more."""
    before, after = (_resources(one) for one in (old, new))
    return tuple(
        edit
        for logical_id in sorted({*before, *after})
        for edit in _edits(f"{stack}/{logical_id}", logical_id, before.get(logical_id), after.get(logical_id))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """One resource of a template, with ``UNKNOWN`` for what its text does not say."""

    type: str
    properties: Mapping[str, Any]
    condition: object
    """Its condition's name, with what the template's conditions say; ``None`` where it has none."""
    deletion_policy: str

    @property
    def resource(self) -> Resource | None:
        return FORMS.get(self.type)

    def attributes(self) -> dict[str, Any]:
        resource = self.resource
        if resource is None:
            return {}
        return attributes(resource.form, self.properties) | {"deletion policy": self.deletion_policy}


def _resources(template: Template | None) -> dict[str, _Made]:
    if template is None:
        return {}
    parameters, conditions = frozenset(template.get("Parameters") or ()), template.get("Conditions")
    return {
        logical_id: _Made(
            type=str(one.get("Type")),
            properties=_told(one.get("Properties", {}), parameters),
            condition=(one["Condition"], conditions) if "Condition" in one else None,
            deletion_policy=str(one.get("DeletionPolicy", "Delete")),
        )
        for logical_id, one in template.get("Resources", {}).items()
    }


def _told(value: Any, parameters: Collection[str]) -> Any:
    """The value as far as the template says it. References to resources say enough: these are judged themselves."""
    if isinstance(value, str):
        return UNKNOWN if _DYNAMIC in value else value
    if isinstance(value, list):
        return [_told(one, parameters) for one in value if one != _NO_VALUE]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {"Ref"} and value["Ref"] in parameters:
        return UNKNOWN
    if len(value) == 1 and next(iter(value)) in _LATE:
        return UNKNOWN
    if value.keys() == {"Fn::Sub"} and _names_a_parameter(value["Fn::Sub"], parameters):
        return UNKNOWN
    inner = {key: _told(one, parameters) for key, one in value.items() if one != _NO_VALUE}
    return UNKNOWN if len(inner) == 1 and next(iter(inner)).startswith("Fn::") and has_unknown(inner) else inner


def _names_a_parameter(sub: Any, parameters: Collection[str]) -> bool:
    """Whether a text of ``Fn::Sub`` takes from a parameter what it does not bring along."""
    text, brought = (sub, {}) if isinstance(sub, str) else (sub[0], sub[1])
    return any(name in parameters and name not in brought for name in _IN_TEXT.findall(text))


def _edits(address: str, logical_id: str, old: _Made | None, new: _Made | None) -> Iterator[Edit]:
    versions = [made for made in (old, new) if made is not None]
    resource, action = next((made.resource for made in versions if made.resource is not None), None), _action(old, new)
    if resource is None or action is None:
        return
    own = names(resource.form, *(made.properties for made in versions))
    yield Edit(
        address=address,
        kind=resource.form.kind,
        action=action,
        before=old.attributes() if old is not None else {},
        after=new.attributes() if new is not None else {},
        names=own if action == "replace" else (logical_id, *own),
    )


def _action(old: _Made | None, new: _Made | None) -> Action | None:
    """What is done to a resource, ``None`` when nothing is."""
    if old is None:
        return "create"
    if new is None:
        return "forget" if old.deletion_policy in _KEPT else "delete"
    if old.type != new.type:
        return "replace"
    if old.condition != new.condition:
        return "unclear"
    resource = new.resource
    replacing = resource.replacing if resource is not None else ()
    pairs = [(old.properties.get(key), new.properties.get(key)) for key in replacing]
    if any(has_unknown(value) for _, value in pairs):
        return "unclear"
    if any(before != after for before, after in pairs):
        return "replace"
    changed = old != new or has_unknown(list(new.attributes().values()))
    return "update" if changed else None
