"""``towpath bundle --upload`` on LocalStack, by the command."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from tests.servers.localstack import Aws
from towpath.cli.main import build_app
from towpath.resolve import resolve
from towpath.topology import load_topology

EXAMPLE = Path(__file__).parents[2] / "examples" / "standard-library"


def test_a_zip_comes_into_s3_once_and_the_same_key_is_told_again(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "TOWPATH_AWS_ENDPOINT": aws.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": aws.region,
    }.items():
        monkeypatch.setenv(name, value)
    s3 = aws.client("s3")
    bucket = f"zips-{uuid4().hex}"
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": aws.region})
    (tmp_path / "aws.json").write_text(resolve(load_topology(EXAMPLE / "topology.toml"), "test").to_json())
    words = [
        "bundle",
        "words.count",
        "--project",
        EXAMPLE,
        "--output",
        tmp_path / "dist",
        "--target",
        "host",
        "--no-pyc",
    ]
    words += ["--manifest", tmp_path / "aws.json", "--upload", f"s3://{bucket}/towpath", "--json"]
    told = []
    for _ in range(2):
        result = CliRunner().invoke(build_app(), [str(word) for word in words])
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout))
    first, again = told
    assert (first["upload"], again["upload"]) == ("done", "already there")
    assert first["s3_key"] == again["s3_key"] == f"towpath/words.count/{first['sha256']}.zip"
    assert first["s3_bucket"] == bucket
    (stored,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    body = s3.get_object(Bucket=bucket, Key=stored["Key"])["Body"].read()
    assert hashlib.sha256(body).hexdigest() == first["sha256"]
