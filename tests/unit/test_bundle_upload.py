"""Uploading a zip, on moto in this process and with a stand-in that refuses."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from bundling.errors import UploadFailed
from bundling.upload import Place, make_store, read_place, upload

PLACE = Place(bucket="zips", prefix="towpath/")
KEY = "words.count/1.zip"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in [name for name in os.environ if name.startswith(("AWS_", "TOWPATH_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket="zips")
        yield client


@pytest.fixture
def zip_path(tmp_path: Path) -> Path:
    path = tmp_path / "words.count.zip"
    path.write_bytes(b"a zip")
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Refusing:
    """An S3 that has nothing, and answers writes with an error."""

    def __init__(self, asked: str, error: Exception) -> None:
        self._asked = asked
        self._error = error

    def head_object(self, **request: Any) -> Any:
        raise refusal(self._asked)

    def put_object(self, **request: Any) -> Any:
        raise self._error


def refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "PutObject")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("s3://zips", Place(bucket="zips", prefix="")),
        ("s3://zips/", Place(bucket="zips", prefix="")),
        ("s3://zips/a/b/", Place(bucket="zips", prefix="a/b/")),
    ],
)
def test_a_place_is_a_bucket_and_perhaps_a_prefix(text: str, place: Place) -> None:
    assert read_place(text) == place


@pytest.mark.parametrize("text", ["zips", "s3://", "s3:///x", "https://zips/x", "s3://Zips", "s3://zi"])
def test_what_is_no_place_is_told_how_to_write_one(text: str) -> None:
    with pytest.raises(UploadFailed, match=r"is no place to upload to; write s3://bucket or s3://bucket/prefix"):
        read_place(text)


def test_a_zip_is_uploaded_once(s3: Any, zip_path: Path) -> None:
    first = upload(zip_path, KEY, digest(zip_path), PLACE, make_store())
    assert (first.s3_bucket, first.s3_key, first.upload) == ("zips", "towpath/words.count/1.zip", "done")
    stored = s3.get_object(Bucket="zips", Key=first.s3_key)
    assert stored["Body"].read() == b"a zip"
    assert stored["ContentType"] == "application/zip"
    again = upload(zip_path, KEY, digest(zip_path), PLACE, make_store())
    assert again.upload == "already there"
    assert s3.get_object(Bucket="zips", Key=first.s3_key)["LastModified"] == stored["LastModified"]


def test_an_object_that_something_else_left_there_is_replaced(s3: Any, zip_path: Path) -> None:
    s3.put_object(Bucket="zips", Key=f"towpath/{KEY}", Body=b"half a")
    assert upload(zip_path, KEY, digest(zip_path), PLACE, make_store()).upload == "done"
    assert s3.get_object(Bucket="zips", Key=f"towpath/{KEY}")["Body"].read() == b"a zip"


def test_a_bucket_that_is_not_there_is_told(s3: Any, zip_path: Path) -> None:
    with pytest.raises(UploadFailed, match=r"there is no bucket 'none'; make it in the function's region"):
        upload(zip_path, KEY, digest(zip_path), Place(bucket="none", prefix=""), make_store())


@pytest.mark.parametrize("asked", ["403", "404"])
def test_who_may_not_look_may_still_write_and_who_may_not_write_is_told_the_right(asked: str, zip_path: Path) -> None:
    with pytest.raises(UploadFailed, match=r"allow s3:PutObject on arn:aws:s3:::zips/towpath/words\.count/1\.zip"):
        upload(zip_path, KEY, digest(zip_path), PLACE, Refusing(asked, refusal("AccessDenied")))


def test_any_other_answer_is_passed_on(zip_path: Path) -> None:
    with pytest.raises(UploadFailed, match="SlowDown"):
        upload(zip_path, KEY, digest(zip_path), PLACE, Refusing("404", refusal("SlowDown")))
    with pytest.raises(UploadFailed, match="InternalError"):
        upload(zip_path, KEY, digest(zip_path), PLACE, Refusing("InternalError", refusal("AccessDenied")))
    unreachable = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
    with pytest.raises(UploadFailed, match="Could not connect"):
        upload(zip_path, KEY, digest(zip_path), PLACE, Refusing("404", unreachable))


def test_a_profile_that_is_not_there_is_told(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(UploadFailed, match=r"no client of S3 can be made: .*nobody"):
        make_store()
