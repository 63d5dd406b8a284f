"""Two processes of eight threads work on 500 keys and one is killed: nothing is lost, no key is held twice."""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tests.servers.topologies import on_database
from towpath import NewMessage, connect

PROJECT = Path(__file__).parents[2]
KEYS, DELIVERIES, LEASE_SECONDS = 500, 1_500, 5
KILLED_AFTER = 200  # deliveries
PATIENCE = 240


@pytest.mark.parametrize("mode", ["exclusive", "ordered"])
def test_a_killed_process_loses_nothing_and_no_key_is_held_twice_under_live_leases(database_url, tmp_path, mode):
    rules = {"lease_seconds": LEASE_SECONDS, "max_attempts": 20, "backoff": {"base_seconds": 0}}
    with connect(database_url) as transport:
        transport.apply(
            on_database({"documents": {}}, {"convert": {"topic": "documents", "partition_mode": mode} | rules})
        )
        names = [f"{number % KEYS}-{number // KEYS}" for number in range(DELIVERIES)]
        new = [NewMessage(payload=name, partition_key=name.partition("-")[0]) for name in names]
        for start in range(0, DELIVERIES, 500):
            transport.publish("documents", new[start : start + 500])
        report = tmp_path / "report.jsonl"
        doomed, other = start_one(database_url, report), start_one(database_url, report)
        wait_for(report, doomed.pid, KILLED_AFTER // 2)
        doomed.kill()
        doomed.wait()
        assert other.wait(timeout=PATIENCE) == 0
        stats = transport.operator().stats()[0]
    seen = lines(report)
    assert (stats.completed, stats.pending, stats.leased, stats.dead) == (DELIVERIES, 0, 0, 0)
    accepted = Counter(line["name"] for line in seen if line["completed"])
    assert set(accepted.values()) == {1}
    assert len(accepted) >= DELIVERIES - 8 * 3  # the killed process could not report the last that it settled
    for own in by_key(seen).values():
        assert_not_held_twice(own)
        if mode == "ordered":
            places = [int(line["name"].partition("-")[2]) for line in own]
            assert places == sorted(places)


def start_one(url, report):
    command = [sys.executable, "-m", "tests.servers.keyed", url, "convert", "8", str(report)]
    return subprocess.Popen(command, cwd=PROJECT)


def lines(report):
    text = report.read_text() if report.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def wait_for(report, pid, count):
    deadline = time.monotonic() + PATIENCE
    while sum(line["pid"] == pid for line in lines(report)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def by_key(seen):
    keys = defaultdict(list)
    for line in sorted(seen, key=lambda line: line["received"]):
        keys[line["name"].partition("-")[0]].append(line)
    return keys


def assert_not_held_twice(own):
    """A lease lives from its claim until it is settled or its time is over, whichever is first; counted with care."""
    for earlier, later in pairwise(own):
        ended = min(earlier["settled"], earlier["asked"] + LEASE_SECONDS)
        assert not earlier["received"] < later["asked"] < later["received"] < min(earlier["settling"], ended)
