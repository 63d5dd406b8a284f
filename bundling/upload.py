"""Puts a zip into S3 under a key that its content makes, once."""

from __future__ import annotations

import base64
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from bundling.errors import UploadFailed

ENDPOINT: Final = "TOWPATH_AWS_ENDPOINT"
# S3's rules for names of buckets (user guide, "General purpose buckets naming rules").
_PLACE: Final = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>.*))?")
_UNKNOWN_WHETHER: Final = frozenset(
    {"403", "404", "AccessDenied", "Forbidden", "NoSuchBucket", "NoSuchKey", "NotFound"}
)


class ObjectStore(Protocol):
    """The calls of boto3's S3 client that an upload makes."""

    def head_object(self, **request: Any) -> Any:
        """What S3 knows of an object."""

    def put_object(self, **request: Any) -> Any:
        """Write an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A bucket, and what its keys begin with: nothing, or a text that ends with a slash."""

    bucket: str
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """Where a zip is, and whether it was there before."""

    s3_bucket: str
    s3_key: str
    upload: Literal["done", "already there"]


def read_place(text: str) -> Place:
    """The place that ``s3://bucket/prefix`` names. Raises ``UploadFailed``."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise UploadFailed(f"{text!r} is no place to upload to; write s3://bucket or s3://bucket/prefix")
    prefix = (match["prefix"] or "").strip("/")
    return Place(bucket=match["bucket"], prefix=f"{prefix}/" if prefix else "")


def make_store() -> ObjectStore:
    """S3 by boto3's own settings, at ``TOWPATH_AWS_ENDPOINT`` where that is set. Raises ``UploadFailed``."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise UploadFailed("boto3, which uploads, is not installed; pip install 'towpath[aws]'") from error
    endpoint = os.environ.get(ENDPOINT) or None
    # An emulator answers at one name alone; a bucket's name in front of it would be another.
    style: Any = {"addressing_style": "path"} if endpoint else {}
    session: Any = boto3.Session
    try:
        client: ObjectStore = session().client(
            "s3", endpoint_url=endpoint, config=Config(retries={"mode": "standard"}, s3=style)
        )
    except (BotoCoreError, ValueError) as error:
        raise UploadFailed(f"no client of S3 can be made: {error}; look at AWS_PROFILE and {ENDPOINT}") from error
    return client


def upload(zip_path: Path, key: str, sha256: str, place: Place, store: ObjectStore) -> Uploaded:
    """Have the zip, whose SHA-256 is given, in ``place`` under ``key``. An object of this key and size is left alone,
    since the key names the content; S3 refuses an upload that arrives with another hash. Raises ``UploadFailed``.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    full_key = f"{place.prefix}{key}"
    where = {"Bucket": place.bucket, "Key": full_key}
    size = zip_path.stat().st_size
    try:
        if _size(store, where) == size:
            return Uploaded(s3_bucket=place.bucket, s3_key=full_key, upload="already there")
        with zip_path.open("rb") as body:
            checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
            store.put_object(**where, Body=body, ContentType="application/zip", ChecksumSHA256=checksum)
    except ClientError as error:
        raise _failed(zip_path, place, full_key, error) from error
    except BotoCoreError as error:
        repair = "boto3's usual settings give credentials, region and endpoint"
        raise UploadFailed(f"{zip_path} was not uploaded to s3://{place.bucket}: {error}; {repair}") from error
    return Uploaded(s3_bucket=place.bucket, s3_key=full_key, upload="done")


def _size(store: ObjectStore, where: dict[str, str]) -> int | None:
    """The object's size; None when there is none, or who asks may not know: S3 says 403 of a missing object to those
    without ``s3:ListBucket``.
    """
    from botocore.exceptions import ClientError

    try:
        return int(store.head_object(**where)["ContentLength"])
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _UNKNOWN_WHETHER:
            return None
        raise


def _failed(zip_path: Path, place: Place, key: str, error: Any) -> UploadFailed:
    code = error.response.get("Error", {}).get("Code")
    match code:
        case "NoSuchBucket":
            repair = f"there is no bucket {place.bucket!r}; make it in the function's region, or name another"
        case "AccessDenied" | "403":
            repair = f"these credentials may not write there; allow s3:PutObject on arn:aws:s3:::{place.bucket}/{key}"
        case _:
            repair = str(error)
    return UploadFailed(f"{zip_path} was not uploaded to s3://{place.bucket}/{key}: {repair}")
