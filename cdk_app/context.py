"""What ``cdk`` is told: after ``-c``, in ``cdk.json``, and where to deploy."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from cdk_app.artifacts import Artifact, ZipArtifact, load_artifacts, read_artifacts
from cdk_app.errors import InvalidInputs
from cdk_app.inputs import Inputs, Options
from towpath.errors import Mistake, did_you_mean
from towpath.manifest import Manifest
from towpath.records import key_path, read_record

Synthesis = Literal["default", "cli-credentials", "bootstrapless"]

SUBJECT: Final = "the context given to cdk"
_EXAMPLE: Final = "cdk synth -c manifest=manifest.json -c environment=prod -c artifacts=artifacts.json"
_ACCOUNT: Final = re.compile(r"\d{12}", re.ASCII)
_REGION: Final = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+", re.ASCII)
_READ: Final = (
    "manifest",
    "environment",
    "artifacts",
    "synthesis",
    "account",
    "region",
    *(f.name for f in fields(Options)),
)
_TEXTS: Final = ("kms_key_arn", "permissions_boundary", "removal_policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Everything that is to be deployed. ``account`` and ``region`` are None where the CLI's own hold."""

    manifest: Manifest
    inputs: Inputs
    synthesis: Synthesis
    account: str | None
    region: str | None


def read_context(context: Mapping[str, Any], environ: Mapping[str, str]) -> Wanted:
    """What ``context`` says; account and region, without it, ``environ``, where the CDK's CLI puts its own.

    Raises ``InvalidInputs`` or ``InvalidManifest`` with every mistake of the part that it read.
    """
    path = context.get("manifest")
    if not isinstance(path, str):
        raise _mistaken(f"names no manifest: {_EXAMPLE}")
    mistakes = [*_misspelt(context), *_elsewhere(context)]
    if mistakes:
        raise InvalidInputs(SUBJECT, mistakes)
    manifest = Manifest.load(path)
    environment = context.get("environment")
    if environment != manifest.environment:
        said = "names no environment" if environment is None else f"is for environment {environment!r}"
        raise _mistaken(f"{said}, and {path} is rendered for {manifest.environment!r}")
    synthesis = context.get("synthesis", "default")
    if synthesis not in get_args(Synthesis):
        raise _mistaken(f"has synthesis {synthesis!r}, which must be one of {', '.join(get_args(Synthesis))}")
    artifacts = _artifacts(context.get("artifacts"), manifest)
    if synthesis == "bootstrapless":
        _check_uploaded(artifacts)
    return Wanted(
        manifest=manifest,
        inputs=Inputs(**read_options(context), artifacts=artifacts),
        synthesis=synthesis,
        account=context.get("account") or environ.get("CDK_DEFAULT_ACCOUNT"),
        region=context.get("region") or environ.get("CDK_DEFAULT_REGION"),
    )


def read_options(context: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of ``Options`` that ``context`` speaks of, whatever else is in it. Raises ``InvalidInputs``."""
    names = [field.name for field in fields(Options)]
    written = {name: _value(name, context[name]) for name in names if name in context}
    options = read_record(Options, written, InvalidInputs, SUBJECT)
    return {name: getattr(options, name) for name in names}


def _misspelt(context: Mapping[str, Any]) -> Iterator[Mistake]:
    """Of keys that nothing reads, those that are nearly one that is. The CDK's own have a colon or a slash."""
    for key in context:
        hint = "" if key in _READ or ":" in key or "/" in key else did_you_mean(key, _READ)
        if hint:
            yield Mistake(path=key_path((key,)), problem=f"is not a known key{hint}")


def _elsewhere(context: Mapping[str, Any]) -> Iterator[Mistake]:
    account, region = context.get("account"), context.get("region")
    if account and not (isinstance(account, str) and _ACCOUNT.fullmatch(account)):
        yield Mistake(path="account", problem=f"must be 12 digits as text, not {account!r}")
    if region and not (isinstance(region, str) and _REGION.fullmatch(region)):
        yield Mistake(path="region", problem=f"must look like eu-west-1, not {region!r}")


def _artifacts(given: object, manifest: Manifest) -> Mapping[str, Artifact]:
    if given is None:
        return {}
    if isinstance(given, str):
        return load_artifacts(Path(given), manifest)
    return read_artifacts(given, Path(), manifest, "the value of artifacts in cdk.json")


def _check_uploaded(artifacts: Mapping[str, Artifact]) -> None:
    """Only a bootstrapped environment has a bucket into which the CDK can put a zip of this machine."""
    problem = "is a file, which bootstrapless synthesis cannot upload; have 'towpath bundle --upload' put it into S3"
    found = [name for name, one in artifacts.items() if isinstance(one, ZipArtifact)]
    if found:
        raise InvalidInputs(SUBJECT, [Mistake(path=key_path(("artifacts", name)), problem=problem) for name in found])


def _value(name: str, given: object) -> object:
    """What stands in ``cdk.json`` as it is; what came after ``-c``, where everything is text, as JSON."""
    if not isinstance(given, str) or name in _TEXTS:
        return given
    try:
        return json.loads(given)
    except ValueError as error:
        problem = f'must be JSON, as in -c \'tags={{"team": "orders"}}\', not {given!r}'
        raise InvalidInputs(SUBJECT, [Mistake(path=name, problem=problem)]) from error


def _mistaken(problem: str) -> InvalidInputs:
    return InvalidInputs(SUBJECT, [Mistake(path="", problem=problem)])
