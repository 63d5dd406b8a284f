"""Terraform and the CDK make the same of one manifest: every property of every resource, and every output."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import left_out
from tests.fakes.cloudformation import ACCOUNT, REGION
from tests.parity import cdk_facts, terraform_facts
from tests.parity.manifests import GENERATED, generated, instances
from tests.parity.planning import Instance, planned
from tests.servers.cdk import CdkUnavailable, start, template

pytestmark = pytest.mark.timeout(900)  # one plan of all takes half a minute on an idle machine
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/lines@sha256:{'ab' * 32}"
CHOSEN = instances(IMAGE)
NAMES = [*CHOSEN, *(f"generated_{number}" for number in range(GENERATED))]


@pytest.fixture(scope="session")
def compared() -> dict[str, Instance]:
    return {**CHOSEN, **generated()}


@pytest.fixture(scope="session")
def plan(terraform: str, compared: Mapping[str, Instance], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return planned(compared, tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="session")
def rendered(compared: Mapping[str, Instance]) -> Callable[[str], dict[str, Any]]:
    try:
        start()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))
    made: dict[str, dict[str, Any]] = {}

    def of(name: str) -> dict[str, Any]:
        if name not in made:
            made[name] = cdk_template(compared[name])
        return made[name]

    return of


def cdk_template(instance: Instance) -> dict[str, Any]:
    from cdk_app.artifacts import read_artifacts
    from cdk_app.context import read_options

    inputs = dict(instance.inputs)
    artifacts = read_artifacts(inputs.pop("artifacts"), Path(), instance.manifest, "the artifacts")
    return template(instance.manifest, **{**read_options(inputs), "artifacts": artifacts})


def test_there_are_enough_manifests_to_compare(compared: Mapping[str, Instance]) -> None:
    assert len(compared) == len(NAMES) == len(CHOSEN) + 20


@pytest.mark.parametrize("name", NAMES)
def test_terraform_and_the_cdk_set_the_same(name: str, plan: Mapping[str, Any], rendered: Callable[..., Any]) -> None:
    ours, theirs = cdk_facts.facts_of(rendered(name)), terraform_facts.facts_of(plan, name)
    assert ours.keys() == theirs.keys()
    for key, properties in theirs.items():
        assert ours[key] == properties, key


@pytest.mark.parametrize("name", NAMES)
def test_terraform_and_the_cdk_tell_the_same(name: str, plan: Mapping[str, Any], rendered: Callable[..., Any]) -> None:
    ours, theirs = cdk_facts.outputs_of(rendered(name)), terraform_facts.outputs_of(plan, name)
    assert dict(terraform_facts.leaves(ours)) == dict(terraform_facts.leaves(theirs))
