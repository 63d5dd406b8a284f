"""Scans that lie in S3 (moto's, in this process) and in a folder: the same handler, the same checks."""

import json
from dataclasses import replace

import boto3
import pytest
import scans
from moto import mock_aws
from scans import store

from towpath import NewMessage, PayloadRef

CONTENT = b"one\ntwo\n" * 50_000  # too large for a message


@pytest.fixture(params=["s3", "folder"])
def place(request, tmp_path, monkeypatch):
    """Where scans lie: made anew for each test."""
    monkeypatch.setenv("RESULTS", str(tmp_path / "results"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    place = {"s3": "s3://shop-scans/incoming", "folder": str(tmp_path / "scans")}[request.param]
    monkeypatch.setenv("SCANS", place)
    scans.s3.cache_clear()
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket="shop-scans")
        yield place
    scans.s3.cache_clear()


def test_a_scan_takes_its_way_beside_the_message(towpath_transport, towpath_work, place, tmp_path):
    reference = store("märz 1.txt", CONTENT, place)
    (result,) = towpath_transport.publish("scan.stored", [NewMessage(payload_ref=reference)])
    assert towpath_work().states == {"completed": 1}
    assert json.loads((tmp_path / f"results/{result.id}.json").read_text()) == {"bytes": 400_000, "lines": 100_000}


def test_one_that_is_not_there_may_come_yet(towpath_deliver, place):
    reference = store("one.txt", CONTENT, place)
    missing = replace(reference, uri=reference.uri.replace("one.txt", "two.txt"))
    delivered = towpath_deliver("scan.read", NewMessage(payload_ref=missing))
    assert (delivered.state, delivered.reason) == ("retried", "TransientError: the scan is not there (yet)")


@pytest.mark.parametrize(
    ("content", "problem"),
    [(CONTENT + b"!", "400,001 bytes, and 400,000 were published"), (CONTENT[::-1], "its SHA-256 differs")],
)
def test_one_that_was_changed_is_set_aside(towpath_deliver, place, content, problem):
    reference = store("one.txt", CONTENT, place)
    store("one.txt", content, place)
    delivered = towpath_deliver("scan.read", NewMessage(payload_ref=reference))
    assert delivered.state == "dead"
    assert problem in delivered.reason


@pytest.mark.parametrize(
    "uri",
    [
        "s3://other-scans/incoming/one.txt",
        "s3://shop-scans/private/one.txt",
        "s3://shop-scans/incoming-too/one.txt",
        "file:///etc/hostname",
        "https://example.org/one.txt",
    ],
)
def test_one_that_lies_elsewhere_is_not_read(towpath_deliver, place, uri):
    delivered = towpath_deliver("scan.read", NewMessage(payload_ref=PayloadRef(uri=uri)))
    assert delivered.state == "dead"
    assert "than SCANS says" in delivered.reason


def test_a_way_out_of_the_folder_is_none(towpath_deliver, place):
    reference = store("one.txt", CONTENT, place)
    (out, _, _) = reference.uri.rpartition("/")
    delivered = towpath_deliver("scan.read", NewMessage(payload_ref=replace(reference, uri=f"{out}/../one.txt")))
    assert delivered.state in ("dead", "retried")  # S3 knows no folders: it is just another key there
    assert delivered.reason != ""


def test_one_that_is_too_large_is_not_read_to_its_end(towpath_deliver, place, monkeypatch):
    reference = store("one.txt", CONTENT, place)
    monkeypatch.setattr(scans, "MOST_BYTES", 1_000)
    for unsaid in (reference, replace(reference, size_bytes=None)):
        assert towpath_deliver("scan.read", NewMessage(payload_ref=unsaid)).state == "dead"


def test_a_message_without_a_claim_check_is_set_aside(towpath_deliver):
    assert towpath_deliver("scan.read", NewMessage(payload={"no": "scan"})).state == "dead"
