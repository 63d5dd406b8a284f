"""What is refused before anything is synthesised, each time with a sentence; and how inputs are read."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import left_out
from tests.servers.cdk import QUIET, SHA256, UNVALIDATED, CdkUnavailable, artifacts, start
from tests.unit.resolving import EXCLUSIVE, resolved
from towpath.errors import InvalidManifest, TowpathError
from towpath.manifest import Manifest

PROJECT = Path(__file__).resolve().parents[2]
KEY = "arn:aws:kms:eu-west-1:123456789012:key/given"
S3 = {"s3_bucket": "bundles", "s3_key": "a.zip", "sha256": SHA256}


@pytest.fixture(scope="module", autouse=True)
def node() -> None:
    try:
        start()
    except CdkUnavailable as error:
        left_out("the CDK", str(error))


def refused(manifest: Manifest, **inputs: Any) -> str:
    from cdk_app import Inputs, InvalidInputs

    with pytest.raises(InvalidInputs) as caught:
        Inputs(**{"artifacts": artifacts(manifest), **inputs}).check(manifest)
    return str(caught.value)


# --- Inputs that do not go with the manifest ---------------------------------------------------------------------


def test_a_function_without_code_is_refused() -> None:
    told = refused(resolved(a={}, b={}), artifacts={})
    assert "artifacts.a: is missing" in told
    assert "'towpath bundle b'" in told


def test_code_for_no_function_is_refused_with_the_nearest() -> None:
    from cdk_app import ImageArtifact

    manifest = resolved(convert={}, index={"host": "worker"})
    told = refused(manifest, artifacts={**artifacts(manifest), "convrt": ImageArtifact(image_uri="x")})
    assert "artifacts.convrt: names no subscription that Lambda hosts; did you mean 'convert'?" in told


def test_a_key_of_ones_own_must_be_confirmed() -> None:
    told = refused(resolved(a={}), kms_key_arn=KEY)
    assert "kms_key_policy_confirmed: must be true" in told


def test_a_key_is_given_or_made_but_not_both() -> None:
    assert "create_kms_key: must not be true" in refused(resolved(a={}), kms_key_arn=KEY, create_kms_key=True)


def test_an_override_of_no_alarm_is_refused() -> None:
    from cdk_app import AlarmOverride

    told = refused(resolved(a={}), alarm_overrides={"a": {"ages": AlarmOverride()}})
    assert "alarm_overrides.a.ages: names no alarm of the manifest; did you mean 'age'?" in told


def test_concurrency_below_the_mappings_is_refused() -> None:
    told = refused(resolved(a={"lambda": {"maximum_concurrency": 50}}), reserved_concurrency={"a": 10})
    assert "reserved_concurrency.a: must be at least 50" in told


def test_a_variable_of_the_manifest_is_not_the_deployments_to_set() -> None:
    told = refused(resolved(a={}), function_environment={"a": {"TOWPATH_QUEUE_URL": "x"}})
    assert "function_environment.a.TOWPATH_QUEUE_URL: is set by the manifest" in told


def test_all_mistakes_are_told_at_once() -> None:
    told = refused(resolved(a={}), artifacts={}, kms_key_arn=KEY, reserved_concurrency={"b": 1})
    assert "has 3 mistakes" in told


def test_nothing_on_aws_is_nothing_to_deploy() -> None:
    from aws_cdk import App, Stack

    from cdk_app import InvalidInputs, WorkQueue

    with pytest.raises(InvalidInputs, match="every topic of 'shop' is on a database"):
        WorkQueue(Stack(App(), "mine"), "Shop", manifest=resolved({"transport": "database"}, a={}))


def test_a_placeholder_that_nothing_replaces_is_refused() -> None:
    from cdk_app.placeholders import located

    with pytest.raises(InvalidManifest, match=r"holds \$\{bucket\} in 'arn:\$\{bucket\}'"):
        located("arn:${bucket}")


# --- Artifacts ---------------------------------------------------------------------------------------------------


def read(document: object, folder: Path, manifest: Manifest | None = None) -> Any:
    from cdk_app.artifacts import load_artifacts

    file = folder / "artifacts.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    return load_artifacts(file, manifest or resolved(a={}, b={}))


def test_an_artifact_is_in_s3_an_image_or_a_file(tmp_path: Path) -> None:
    from cdk_app import ImageArtifact, S3Artifact, ZipArtifact

    (tmp_path / "a.zip").write_bytes(b"zip")
    found = read({"a": S3, "b": {"image_uri": "x@sha256:1"}, "c": {"filename": "a.zip"}}, tmp_path)
    assert found == {
        "a": S3Artifact(**S3),
        "b": ImageArtifact(image_uri="x@sha256:1"),
        "c": ZipArtifact(filename=tmp_path / "a.zip", sha256=hashlib.sha256(b"zip").hexdigest()),
    }


def bundle(**more: Any) -> dict[str, Any]:
    return {"path": "dist/a.zip", "name": "a", "sha256": SHA256, "s3_key": f"a/{SHA256}.zip", "tree_hash": "t", **more}


def test_what_bundle_printed_is_an_artifact(tmp_path: Path) -> None:
    from cdk_app import S3Artifact

    uploaded = S3Artifact(s3_bucket="bundles", s3_key=f"a/{SHA256}.zip", sha256=SHA256)
    assert read(bundle(s3_bucket="bundles", upload="done"), tmp_path) == {"a": uploaded}
    assert read({"b": bundle(s3_bucket="bundles")}, tmp_path) == {"b": uploaded}


def test_one_zip_of_the_topology_is_every_functions(tmp_path: Path) -> None:
    manifest = resolved(a={}, b={}, c={"host": "worker"})
    assert read(bundle(name="shop", s3_bucket="bundles"), tmp_path, manifest).keys() == {"a", "b"}


def test_a_zip_that_was_built_anew_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist/a.zip").write_bytes(b"another")
    with pytest.raises(TowpathError, match="which has another sha256 now"):
        read(bundle(), tmp_path)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ([], "must hold an object"),
        ({"a": 1}, "a: must be one of"),
        ({"a": {"s3_bucket": "b"}}, "a: must be one of"),
        ({"a": {**S3, "image_uri": "x"}}, "a: must be one of"),
        ({"a": {**S3, "s3_key": 1}}, "a: must hold texts"),
        ({"a": {**S3, "sha256": "ab"}}, "needs 64 hexadecimal digits"),
        ({"a": {"filename": "none.zip"}}, "cannot be read: No such file"),
    ],
)
def test_an_artifact_that_is_none_is_refused(document: object, told: str, tmp_path: Path) -> None:
    with pytest.raises(TowpathError, match=told):
        read(document, tmp_path)


# --- The context -------------------------------------------------------------------------------------------------


def context(folder: Path, **given: Any) -> Any:
    from cdk_app.context import read_context

    manifest = folder / "manifest.json"
    manifest.write_text(resolved(a={}).to_json(), encoding="utf-8")
    base = {"manifest": str(manifest), "environment": "prod", "artifacts": {"a": S3}}
    return read_context({**base, **given}, {"CDK_DEFAULT_ACCOUNT": "123456789012", "CDK_DEFAULT_REGION": "eu-west-1"})


def test_what_follows_c_is_text_and_read_as_json(tmp_path: Path) -> None:
    wanted = context(
        tmp_path, create_kms_key="true", alarm_actions='["arn:x"]', tags={"team": "a"}, removal_policy="destroy"
    )
    assert wanted.inputs.create_kms_key is True
    assert wanted.inputs.alarm_actions == ("arn:x",)
    assert wanted.inputs.tags == {"team": "a"}
    assert wanted.inputs.removal_policy == "destroy"


def test_account_and_region_are_the_command_lines_unless_they_are_given(tmp_path: Path) -> None:
    assert (context(tmp_path).account, context(tmp_path).region) == ("123456789012", "eu-west-1")
    assert context(tmp_path, region="eu-north-1").region == "eu-north-1"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"manifest": None}, "names no manifest: cdk synth -c manifest=manifest.json"),
        ({"environment": None}, "names no environment"),
        ({"environment": "dev"}, "is for environment 'dev'"),
        ({"synthesis": "none"}, "must be one of default, cli-credentials, bootstrapless"),
        ({"tags": "team=a"}, "tags: must be JSON"),
        ({"create_kms_key": "maybe"}, "create_kms_key: must be JSON"),
        ({"removal_policy": "keep"}, "removal_policy: must be"),
        ({"vpc": {"subnets": []}}, "vpc.subnets: is not a known key"),
        ({"account": "prod"}, "account: must be 12 digits as text, not 'prod'"),
        ({"account": 123456789012}, "account: must be 12 digits as text, not 123456789012"),
        ({"region": "Ireland"}, "region: must look like eu-west-1, not 'Ireland'"),
        ({"kms_key": KEY}, "kms_key: is not a known key; did you mean 'kms_key_arn'?"),
        ({"artifacts": {"tree_hash": "1"}}, "tree_hash: must be one of"),
    ],
)
def test_a_context_that_cannot_be_read_is_refused(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    from cdk_app import InvalidInputs

    with pytest.raises(InvalidInputs, match=told.replace(".", r"\.")):
        context(tmp_path, **given)


def test_the_cdks_own_context_and_ones_own_are_left_alone(tmp_path: Path) -> None:
    others = {"@aws-cdk/core:target-partitions": ["aws"], "aws:cdk:bundling-stacks": ["**"], "owner": "us"}
    assert context(tmp_path, **others).inputs.tags == {}


def test_bootstrapless_synthesis_takes_no_files(tmp_path: Path) -> None:
    from cdk_app import InvalidInputs

    (tmp_path / "a.zip").write_bytes(b"zip")
    file = {"a": {"filename": str(tmp_path / "a.zip")}}
    with pytest.raises(InvalidInputs, match=r"artifacts\.a: is a file, which bootstrapless synthesis cannot upload"):
        context(tmp_path, artifacts=file, synthesis="bootstrapless")
    assert context(tmp_path, artifacts=file).synthesis == "default"


# --- A manifest edited by hand, in the app as cdk runs it ---------------------------------------------------------

Edit = Callable[[dict[str, Any]], None]


def ordered(document: dict[str, Any]) -> None:
    document["subscriptions"]["a"]["partition_mode"] = "ordered"


def exclusive_on_standard(document: dict[str, Any]) -> None:
    document["topics"]["t"]["aws"] |= {"fifo": False, "topic_name": "shop-prod-t"}


def of_another_version(document: dict[str, Any]) -> None:
    document["manifest_version"] = 2


def named_twice(document: dict[str, Any]) -> None:
    document["subscriptions"]["b"]["aws"]["queue"]["name"] = document["subscriptions"]["a"]["aws"]["queue"]["name"]


def untouched(document: dict[str, Any]) -> None:
    pass


@pytest.mark.parametrize(
    ("edit", "artifact", "told"),
    [
        (ordered, S3, 'subscriptions.a.partition_mode: must not be "ordered" on aws'),
        (exclusive_on_standard, S3, "SNS delivers to a FIFO queue from a FIFO topic only"),
        (of_another_version, S3, "manifest_version: is 2, and this version of Towpath reads 1"),
        (named_twice, S3, "is the SQS queue 'shop-prod-a.fifo', as is subscriptions.a.aws.queue.name"),
        (untouched, None, "artifacts.b: is missing: Lambda hosts it"),
    ],
)
def test_the_app_refuses_it_with_a_sentence(edit: Edit, artifact: Any, told: str, tmp_path: Path) -> None:
    document = json.loads(resolved(a=EXCLUSIVE, b=EXCLUSIVE).to_json())
    edit(document)
    (tmp_path / "manifest.json").write_text(json.dumps(document), encoding="utf-8")
    given: dict[str, Any] = {"manifest": str(tmp_path / "manifest.json"), "environment": "prod"}
    given["artifacts"] = {"a": artifact, "b": artifact} if artifact else {"a": S3}
    done = subprocess.run(
        [sys.executable, "-m", "cdk_app"],
        cwd=PROJECT,
        env={
            **QUIET,
            **UNVALIDATED,
            "CDK_CONTEXT_JSON": json.dumps(given),
            "PYTHONPATH": str(PROJECT),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert done.stderr.startswith("towpath: ")
    assert "Traceback" not in done.stderr
