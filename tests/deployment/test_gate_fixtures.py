"""The plans and templates that the gate's tests judge are what Terraform and the CDK make today."""

import shutil

import pytest

from tests.conftest import left_out
from tests.gate.make_plans import PLANS, TerraformFailed, plans
from tests.gate.make_templates import kept, made
from tests.servers.cdk import CdkUnavailable
from tests.servers.localstack import LocalStackUnavailable, private_localstack

pytestmark = pytest.mark.infrastructure


@pytest.mark.timeout(1_800)
def test_the_plans_are_what_terraform_makes() -> None:
    if shutil.which("terraform") is None:
        left_out("Terraform", "there is no terraform on the PATH; install Terraform 1.7 or newer")
    try:
        with private_localstack() as endpoint:
            fresh = plans(endpoint)
    except (LocalStackUnavailable, TerraformFailed) as error:
        left_out("Terraform on LocalStack", str(error))
    assert {path.stem: path.read_text(encoding="utf-8") for path in PLANS.glob("*.json")} == fresh


@pytest.mark.timeout(600)
def test_the_templates_are_what_the_cdk_makes() -> None:
    try:
        fresh = made()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))
    assert kept() == fresh
