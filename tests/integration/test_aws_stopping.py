"""Worker processes that are stopped while their long polls wait at LocalStack, and messages that arrive just then."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from tests.conformance.harness import PATIENCE
from tests.servers.localstack import Aws
from tests.servers.provision import provisioned
from tests.servers.working import observations, worker
from towpath import NewMessage, connect
from towpath.ports import Transport
from towpath.resolve import resolve
from towpath.topology import parse_topology
from towpath.worker import Worker, WorkerOptions

RULES = {"handler": "scripted:handle", "host": "worker", "lease_seconds": 3_600}
TOPOLOGY = {
    "name": "stopping",
    "topics": {"letters": {}, "steps": {}},
    "subscriptions": {
        "letters.read": RULES | {"topic": "letters"},
        "steps.take": RULES | {"topic": "steps", "partition_mode": "exclusive"},
    },
}
MESSAGES = 16  # to each topic
STOPS = {0: 0, 10: 1}  # before which of them which worker is stopped: an idle one, and one that has had some


@dataclass(frozen=True, kw_only=True)
class Deployed:
    url: str
    transport: Transport
    options: list[str]


@pytest.fixture
def deployed(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    """The topology, and what a worker process needs to serve it."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    for name, value in aws.variables.items():
        monkeypatch.setenv(name, value)
    manifest = resolve(parse_topology(TOPOLOGY), "test")
    with provisioned(aws, manifest) as deployment:
        files = {"--manifest": manifest.to_json(), "--bindings": deployment.bindings.to_json()}
        options = [part for name in files for part in (name, str(tmp_path / f"{name[2:]}.json"))]
        for name, text in files.items():
            (tmp_path / f"{name[2:]}.json").write_text(text)
        url = f"aws://{aws.region}"
        with connect(url, options[1], bindings=options[3]) as transport:
            yield Deployed(url=url, transport=transport, options=options)


def test_what_arrives_while_idle_workers_are_stopped_is_handled_soon_whatever_its_lease(
    deployed: Deployed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "conformance" / "function"))
    monkeypatch.setenv("CONFORMANCE_OBSERVER", f"file://{tmp_path / 'observations.jsonl'}")
    ids: set[str] = set()
    with (
        worker(deployed.url, tmp_path, *deployed.options) as one,
        worker(deployed.url, tmp_path, *deployed.options) as two,
    ):
        processes = (one, two)
        for process in processes:
            process.await_line("serving")
        time.sleep(1)  # their polls wait at LocalStack by now
        for number in range(MESSAGES):
            if number in STOPS:
                processes[STOPS[number]].send(signal.SIGTERM)
            for topic in ("letters", "steps"):
                message = NewMessage(payload={"script": ["complete"]}, partition_key=f"key-{number}")
                (result,) = deployed.transport.publish(topic, [message])
                ids.add(str(result.id))
        assert [process.end() for process in processes] == [0, 0], [process.log.read_text() for process in processes]
    assert len(ids) == 2 * MESSAGES
    deadline = time.monotonic() + PATIENCE
    while (handled := {observation["message_id"] for observation in observations(tmp_path)}) != ids:
        assert time.monotonic() < deadline, f"{len(ids - handled)} are lost, or hidden for the whole lease"
        Worker(deployed.transport, ["letters.read", "steps.take"], WorkerOptions(idle_exit=timedelta(seconds=3))).run()
    assert [(row.pending, row.leased, row.dead) for row in deployed.transport.operator().stats()] == [(0, 0, 0)] * 2
