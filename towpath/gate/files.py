"""The files that the gate is given: a plan of Terraform's, templates of CloudFormation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from towpath.errors import InvalidPlan, Mistake
from towpath.gate.cloudformation import edits_of_templates
from towpath.gate.edits import Edit
from towpath.gate.terraform import edits_of_plan
from towpath.gate.yaml_templates import read_yaml
from towpath.records import key_path, read_json

_TEMPLATE: Final = ".template.json"


def plan_edits(path: Path) -> tuple[Edit, ...]:
    """What the plan in the file ``path`` changes. Raises ``InvalidPlan``."""
    return edits_of_plan(_document(path), str(path))


def template_edits(deployed: Path, synthesised: Path) -> tuple[Edit, ...]:
    """What changes from the templates in the folder ``deployed`` to those in ``synthesised``, both called
    ``STACK.template.json``; or from one such file to another. A stack that is in one folder alone is new, or goes.

    A deployed template may be the answer of ``aws cloudformation get-template`` as it is. Raises ``InvalidPlan``.
    """
    if synthesised.is_file():
        _document(deployed)  # as it must be there: a stack that is new has no file, and its folder is given
        pairs = {synthesised.name.removesuffix(_TEMPLATE): (deployed, synthesised)}
    else:
        pairs = dict(_pairs(deployed, synthesised))
    if not pairs:
        raise _wrong(synthesised, "has no *.template.json; give the folder that cdk synth writes, cdk.out")
    return tuple(
        edit
        for stack, (old, new) in pairs.items()
        for edit in edits_of_templates(stack, _template(old), _template(new))
    )


def _pairs(deployed: Path, synthesised: Path) -> Iterator[tuple[str, tuple[Path, Path]]]:
    for folder in (deployed, synthesised):
        if not folder.is_dir():
            raise _wrong(folder, "is no folder; make it, with the templates of the stacks in it")
    for path in sorted(path for ending in ("yaml", "yml") for path in deployed.glob(f"*.{ending}")):
        problem = "is YAML; keep the whole answer of aws cloudformation get-template, as STACK.template.json"
        raise _wrong(path, problem)
    files = {path.name for folder in (deployed, synthesised) for path in folder.glob(f"*{_TEMPLATE}")}
    for name in sorted(files):
        yield name.removesuffix(_TEMPLATE), (deployed / name, synthesised / name)


def _template(path: Path) -> Mapping[str, Any] | None:
    """The template in a file; ``None`` when there is no such file, which is no such stack."""
    if not path.exists():
        return None
    document = _document(path)
    if isinstance(document, Mapping) and "TemplateBody" in document:
        document = document["TemplateBody"]
        if isinstance(document, str):
            document = _body(document, str(path))
    if not isinstance(document, Mapping) or not isinstance(document.get("Resources"), Mapping):
        raise _wrong(path, "is no template in JSON; write it with: aws cloudformation get-template --stack-name STACK")
    mistakes = list(_mistakes(document["Resources"]))
    if mistakes:
        raise InvalidPlan(str(path), mistakes)
    return document


def _mistakes(resources: Mapping[str, Any]) -> Iterator[Mistake]:
    for logical_id, one in resources.items():
        match one:
            case {"Type": str(), **rest} if isinstance(rest.get("Properties", {}), Mapping):
                continue
        problem = "is no resource with type and properties; compare templates without transforms such as Fn::ForEach"
        yield Mistake(path=key_path(("Resources", logical_id)), problem=problem)


def _body(text: str, subject: str) -> object:
    """JSON, or the YAML that the CDK's command line makes of a template without assets before it hands it over."""
    return read_json(text, InvalidPlan, subject) if text.lstrip().startswith("{") else read_yaml(text, subject)


def _document(path: Path) -> object:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        problem = "is not UTF-8 text; a plan as Terraform saves it is written out with: terraform show -json PLAN"
        raise _wrong(path, problem) from error
    return read_json(text, InvalidPlan, str(path))


def _wrong(path: Path, problem: str) -> InvalidPlan:
    return InvalidPlan(str(path), [Mistake(path="", problem=problem)])
