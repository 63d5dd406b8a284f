"""What others say of the templates: cdk-nag, each of whose findings is explained, and cfn-lint, which has none."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import left_out
from tests.servers.cdk import PATHS, CdkUnavailable, artifacts, start, template
from tests.unit.golden.__main__ import FOLDER, rendered
from towpath.manifest import Manifest

EVERYTHING = Manifest.from_json(rendered(FOLDER / "everything.toml"))
EXPLAINED = {
    "AwsSolutions-DDB3": "a deduplication table restored from a back-up would suppress what it should let through",
    "AwsSolutions-IAM5": "a log group's streams are named by Lambda, so the ARN of one's own log group ends in :*",
    "AwsSolutions-L1": "the runtime is the topology's, for which the zip was compiled",
    "AwsSolutions-SNS3": "TLS is required: the rule does not read conditions whose values are lists",
    "AwsSolutions-SQS3": "failed deliveries end up in that queue, by an SNS subscription, which the rule does not know",
    "AwsSolutions-SQS4": "TLS is required: see AwsSolutions-SNS3",
}


@pytest.fixture(scope="module", autouse=True)
def node() -> None:
    try:
        start()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))


@pytest.fixture(scope="module")
def violations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The constructs that violate each of cdk-nag's rules, by their paths."""
    from aws_cdk import App, Validations
    from cdk_nag import AwsSolutionsChecks

    from cdk_app import Inputs, TowpathStack

    folder = tmp_path_factory.mktemp("nag")
    app = App(context=PATHS, outdir=str(folder))
    TowpathStack(app, "all", manifest=EVERYTHING, inputs=Inputs(artifacts=artifacts(EVERYTHING)))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()
    (report,) = json.loads((folder / "validation-report.json").read_text())["pluginReports"]
    found: dict[str, list[str]] = {}
    for violation in report["violations"]:
        paths = [one["constructPath"] for one in violation["violatingConstructs"]]
        found.setdefault(violation["ruleName"].partition("[")[0], []).extend(paths)
    return found


def test_cdk_nag_finds_what_is_explained_and_nothing_else(violations: dict[str, list[str]]) -> None:
    assert violations.keys() == EXPLAINED.keys()


def test_only_queues_of_failed_deliveries_have_no_dead_letter_queue(violations: dict[str, list[str]]) -> None:
    assert {path.rpartition("/")[2] for path in violations["AwsSolutions-SQS3"]} == {"DeliveryFailureQueue"}


def test_wildcards_are_those_of_log_streams_alone(violations: dict[str, list[str]]) -> None:
    functions = [name for name, one in EVERYTHING.subscriptions.items() if one.aws is not None and one.aws.function]
    assert len(violations["AwsSolutions-IAM5"]) == len(functions)


def test_cfn_lint_finds_nothing(tmp_path: Path) -> None:
    files = [tmp_path / "plain.template.json", tmp_path / "key.template.json"]
    for file, inputs in zip(files, ({}, {"create_kms_key": True, "removal_policy": "destroy"}), strict=True):
        file.write_text(json.dumps(template(EVERYTHING, **inputs)), encoding="utf-8")
    lint = [str(Path(sys.executable).with_name("cfn-lint")), "--regions", "eu-west-1", "--", *map(str, files)]
    done = subprocess.run(lint, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
