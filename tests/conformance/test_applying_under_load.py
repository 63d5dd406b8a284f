"""The promise of applying while work goes on: C40."""

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.conformance.harness import PATIENCE, manifest_of
from tests.conformance.needs import on_databases

# Each message is of kind a or b in turn. What was published stands in a line of the report, with the times around it.
PUBLISHER = """
import json, select, sys, time
from towpath import NewMessage, connect
kinds = ("a", "b")
new = [NewMessage(payload={"script": ["complete"]}, attributes={"kind": kind}) for kind in kinds]
with connect(sys.argv[1]) as transport:
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        began = time.time()
        results = transport.publish("orders", new)
        for kind, result in zip(kinds, results):
            print(json.dumps([began, time.time(), kind, result.id, result.status]), flush=True)
"""


@dataclass(frozen=True, kw_only=True)
class Published:
    """One message, and when its publish began and ended."""

    began: float
    ended: float
    kind: str
    id: str
    status: str


@contextmanager
def publishing(url, folder, count):
    """Publishers in processes of their own, which go on until the end; then what they published."""
    published, reports = [], [folder / f"published-{number}.jsonl" for number in range(count)]
    processes = [start_publisher(url, report) for report in reports]
    try:
        yield published
    finally:
        for process in processes:
            process.stdin.close()
        ended = [process.wait(timeout=PATIENCE) for process in processes]
    assert ended == [0] * count
    lines = [line for report in reports for line in report.read_text().splitlines()]
    fields = ("began", "ended", "kind", "id", "status")
    published += [Published(**dict(zip(fields, json.loads(line), strict=True))) for line in lines]


def start_publisher(url, report):
    with report.open("w") as out:
        return subprocess.Popen([sys.executable, "-c", PUBLISHER, url], stdin=subprocess.PIPE, stdout=out)


def stats(running, name="ship"):
    return next(row for row in running.transport.operator().stats() if row.subscription == name)


def eventually(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.1)


@pytest.mark.timeout(600)  # four processes have to start, and then work, also on a busy machine
@on_databases("is deployed anew, not applied to")
@pytest.mark.case("C40", "the topology is re-applied under load: added, changed and paused subscriptions, nothing lost")
def test_a_topology_that_is_applied_under_load_loses_nothing(harness):
    """Publisher and worker processes go on while subscriptions are added, changed, paused and made active again.

    What was published before an apply began, or after it had ended, goes by the topology of its time.
    """
    ship = bill = {"topic": "orders", "lease_seconds": 60}

    def topology(**subscriptions):
        return {"topics": {"orders": {}}, "subscriptions": subscriptions}

    with harness.transport(topology(ship=ship)) as running:

        def apply(**subscriptions):
            began = time.time()
            running.transport.apply(manifest_of(topology(**subscriptions), on_database=True))
            return began, time.time()

        workers = [running._start_worker("ship", "--concurrency", "4")]
        with publishing(running.url, harness.folder, count=2) as published:
            eventually(lambda: stats(running).completed > 10)
            added = apply(ship=ship, bill=bill)
            workers.append(running._start_worker("bill", "--concurrency", "4"))
            apply(ship=ship | {"max_attempts": 7, "lease_seconds": 90}, bill=bill)
            apply(ship=ship | {"status": "paused"}, bill=bill)
            paused = stats(running)
            eventually(lambda: stats(running, "bill").completed > 10 and stats(running).pending > 20)
            assert stats(running).completed <= paused.completed + paused.leased  # what was in workers' hands, no more
            filtered = apply(ship=ship, bill=bill | {"filter": {"kind": ["a"]}})
            eventually(lambda: stats(running).completed > paused.completed + paused.leased + 20)
        eventually(lambda: all(row.pending == row.leased == 0 for row in running.transport.operator().stats()))
        for worker in workers:
            worker.terminate()
        assert [worker.wait(timeout=PATIENCE) for worker in workers] == [0] * 2

        assert {one.status for one in published} == {"accepted"}
        assert {o["message_id"] for o in running.observations("ship")} == {one.id for one in published}
        billed = {o["message_id"] for o in running.observations("bill")}
        wanted = {one.id for one in published if one.began > added[1] and (one.kind == "a" or one.ended < filtered[0])}
        unwanted = {
            one.id for one in published if one.ended < added[0] or (one.kind == "b" and one.began > filtered[1])
        }
        assert wanted <= billed
        assert not unwanted & billed
        assert wanted
        assert unwanted
        assert running.dead_letters("ship") == running.dead_letters("bill") == []
