"""The files of a deployment that a worker follows."""

import os
from pathlib import Path

import pytest

from aws_transport.bindings import Bindings, TopicBinding
from aws_transport.files import Deployment, DeploymentFiles
from towpath.manifest import Manifest
from towpath.resolve import resolve
from towpath.topology import parse_topology

REGION = "eu-west-1"


def manifest(**subscription: object) -> Manifest:
    written = {"topic": "orders", "handler": "app:bill", "host": "worker"} | subscription
    topology = {"name": "shop", "topics": {"orders": {}}, "subscriptions": {"bill": written}}
    return resolve(parse_topology(topology), "test")


def bindings(region: str = REGION) -> Bindings:
    topic = TopicBinding(arn=f"arn:aws:sns:{region}:000000000000:orders", fifo=False)
    return Bindings(topics={"orders": topic}, subscriptions={})


class Deployed:
    """Files in a folder, and what looks at them. Each writing is of another time, however quick the test."""

    def __init__(self, folder: Path) -> None:
        self.manifest_file, self.bindings_file = folder / "manifest.json", folder / "bindings.json"
        self._time = 1_000_000_000
        self.write(manifest(), bindings())
        self.files = DeploymentFiles(
            manifest_file=self.manifest_file,
            bindings_file=self.bindings_file,
            region=REGION,
            current=Deployment(manifest=manifest(), bindings=bindings()),
        )

    def write(self, new: Manifest | str, with_: Bindings | None = None) -> None:
        self._put(self.manifest_file, new if isinstance(new, str) else new.to_json())
        if with_ is not None:
            self._put(self.bindings_file, with_.to_json())

    def _put(self, file: Path, text: str) -> None:
        file.write_text(text)
        self._time += 1
        os.utime(file, (self._time, self._time))

    def attempts(self) -> int:
        self.files.look()
        return self.files.policies["bill"].max_attempts


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    return Deployed(tmp_path)


def test_a_manifest_that_is_written_anew_is_read(deployed: Deployed) -> None:
    assert deployed.attempts() == 5
    deployed.write(manifest(max_attempts=7))
    assert deployed.attempts() == 7
    assert deployed.files.current.manifest.subscriptions["bill"].max_attempts == 7


def test_files_that_stay_as_they_are_are_not_read(deployed: Deployed) -> None:
    before = deployed.files.current
    deployed.files.look()
    assert deployed.files.current is before


@pytest.mark.parametrize("text", ["", "{}", '{"half": '])
def test_a_manifest_that_cannot_be_read_leaves_the_old_one_and_is_told_once(
    deployed: Deployed, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    deployed.write(text)
    assert [deployed.attempts(), deployed.attempts()] == [5, 5]
    (record,) = caplog.records
    assert record.getMessage().startswith("the manifest and the bindings stay as they were: ")
    deployed.write(manifest(max_attempts=7))
    assert deployed.attempts() == 7


def test_bindings_of_another_region_leave_all_as_it_was(deployed: Deployed) -> None:
    deployed.write(manifest(max_attempts=7), bindings("us-east-1"))
    assert deployed.attempts() == 5


def test_a_file_that_goes_away_leaves_all_as_it_was_until_it_is_back(deployed: Deployed) -> None:
    deployed.manifest_file.unlink()
    assert deployed.attempts() == 5
    deployed.write(manifest(max_attempts=7))
    assert deployed.attempts() == 7


def test_a_subscription_that_a_function_serves_from_now_on_is_for_no_worker(deployed: Deployed) -> None:
    deployed.write(manifest(host="lambda"))
    deployed.files.look()
    assert dict(deployed.files.policies) == {}
