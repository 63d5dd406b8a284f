"""Claim checks: what is too large for a message lies in S3 or in a folder, and the message says where and which.

``SCANS`` names the one place that scans may lie in: ``s3://bucket/prefix``, or a folder. A message that points anywhere
else is refused, so that nobody has a handler read, and tell of, what only its rights can reach.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import towpath
from towpath import Complete, Context, FatalError, Message, NewMessage, Outcome, PayloadRef, TransientError

MOST_BYTES = 50_000_000  # of a scan, since it is read whole


# --- Storing: the producer's part --------------------------------------------------------------------------------


def store(name: str, content: bytes, place: str) -> PayloadRef:
    """Put ``content`` into ``place`` and answer its claim check. To be done before the message is published."""
    digest = hashlib.sha256(content).hexdigest()
    if place.startswith("s3://"):
        bucket, prefix = of_s3(place)
        key = f"{prefix}/{name}".lstrip("/")
        s3().put_object(Bucket=bucket, Key=key, Body=content)
        uri = f"s3://{bucket}/{quote(key)}"
    else:
        file = Path(place, name).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        uri = file.as_uri()
    return PayloadRef(uri=uri, content_type="application/octet-stream", size_bytes=len(content), sha256=digest)


# --- Fetching: the handler's part --------------------------------------------------------------------------------


def fetch(reference: PayloadRef, place: str) -> bytes:
    """The content, as it was when it was stored.

    Raises ``TransientError`` when it is not there (yet), and ``FatalError`` for what can never succeed: another place,
    too large, or something else than what was published.
    """
    if reference.size_bytes is not None and reference.size_bytes > MOST_BYTES:
        raise FatalError(f"the scan has {reference.size_bytes:,} bytes; {MOST_BYTES:,} are allowed")
    if urlsplit(reference.uri).scheme == "s3" and place.startswith("s3://"):
        content = from_s3(reference.uri, place)
    else:
        content = from_folder(reference.uri, place)
    if reference.size_bytes not in (None, len(content)):
        raise FatalError(f"the scan has {len(content):,} bytes, and {reference.size_bytes:,} were published")
    if reference.sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise FatalError("the scan is not the one that was published: its SHA-256 differs")
    return content


def from_s3(uri: str, place: str) -> bytes:
    """What lies in S3. A right that is missing, or S3 that does not answer, is boto3's own error: it comes again."""
    (bucket, key), (own_bucket, prefix) = of_s3(uri), of_s3(place)
    if bucket != own_bucket or not key.startswith(f"{prefix}/".lstrip("/")):
        raise FatalError("the scan lies in another bucket or folder than SCANS says")
    client = s3()
    try:
        body = client.get_object(Bucket=bucket, Key=key)["Body"]
    except client.exceptions.NoSuchKey as error:
        raise TransientError("the scan is not there (yet)") from error
    with body:
        return within_bounds(body.read(MOST_BYTES + 1))


def from_folder(uri: str, place: str) -> bytes:
    """What lies in the folder, and in none above it, whatever the address says."""
    parts = urlsplit(uri)
    file, own = Path(unquote(parts.path)).resolve(), Path(place).resolve()
    if parts.scheme != "file" or parts.netloc or not file.is_relative_to(own):
        raise FatalError("the scan lies in another place than SCANS says")
    try:
        with file.open("rb") as content:
            return within_bounds(content.read(MOST_BYTES + 1))
    except FileNotFoundError as error:
        raise TransientError("the scan is not there (yet)") from error


def within_bounds(content: bytes) -> bytes:
    """The content, unless it is too large for what its claim check left open."""
    if len(content) > MOST_BYTES:
        raise FatalError(f"the scan has more than {MOST_BYTES:,} bytes")
    return content


def of_s3(uri: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``."""
    parts = urlsplit(uri)
    return parts.netloc, unquote(parts.path).strip("/")


@functools.cache
def s3() -> Any:
    """The client, made once for each process; a process that reads folders only needs no boto3."""
    import boto3

    return boto3.client("s3")


# --- The handler -------------------------------------------------------------------------------------------------


def read(message: Message, context: Context) -> Outcome:
    """Count the scan's lines and write the result, under the message's id: a repeated delivery writes it again."""
    reference = message.payload_ref
    if reference is None:
        raise FatalError("the message has no payload_ref that says where the scan is")
    content = fetch(reference, os.environ["SCANS"])
    context.check()
    result = Path(os.environ.get("RESULTS", "results"), f"{message.id}.json")
    result.parent.mkdir(parents=True, exist_ok=True)
    draft = result.with_suffix(".draft")
    draft.write_text(json.dumps({"bytes": len(content), "lines": content.count(b"\n")}) + "\n")
    draft.replace(result)
    context.log.info("read %d bytes", len(content))
    return Complete()


def main(file: str) -> None:
    """Store a file and publish its claim check, in this order: a message that is there has its scan."""
    reference = store(Path(file).name, Path(file).read_bytes(), os.environ["SCANS"])
    with towpath.connect(os.environ["TOWPATH_TRANSPORT"]) as transport:
        (result,) = transport.publish("scan.stored", [NewMessage(payload_ref=reference)])
    sys.stdout.write(f"{result.status} {result.id}: {result.error.message if result.error else reference.uri}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
