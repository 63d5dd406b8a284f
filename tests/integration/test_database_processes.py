"""Several processes on one database: none claims what another holds, and a killed one loses nothing."""

import json
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path

from tests.servers.clock import advance
from towpath import NewMessage

NOW = timedelta(0)
PROJECT = Path(__file__).parents[2]


def start(url, threads, how):
    command = [sys.executable, "-m", "tests.servers.claiming", url, "convert", str(threads), how]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT)


def published(transport, count):
    results = transport.publish("documents", [NewMessage(payload=i) for i in range(count)])
    assert {result.status for result in results} == {"accepted"}


def test_two_processes_of_eight_threads_claim_2000_deliveries_and_none_twice(transport, database_url):
    published(transport, 2_000)
    processes = [start(database_url, 8, "complete") for _ in range(2)]
    outputs = [process.communicate(timeout=240)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    claims = [json.loads(line) for output in outputs for line in output.splitlines()]
    assert len(claims) == len({claim["id"] for claim in claims}) == 2_000
    assert {(claim["attempt"], claim["token"], claim["settled"]) for claim in claims} == {(1, "1", "completed")}
    (convert,) = [row for row in transport.operator().stats() if row.subscription == "convert"]
    assert (convert.completed, convert.pending, convert.leased) == (2_000, 0, 0)


def test_deliveries_of_a_killed_process_come_again_after_their_leases(transport, database_url):
    published(transport, 20)
    process = start(database_url, 1, "hold")
    held = [json.loads(process.stdout.readline())["id"] for _ in range(7)]
    process.kill()
    process.communicate()
    consumer = transport.consumer("convert")
    others = consumer.receive(100, NOW)
    assert len(others) == 13
    advance(database_url, 59)
    assert consumer.receive(100, NOW) == []
    advance(database_url, 12)
    again = consumer.receive(100, NOW)
    assert {d.id for d in again if d.id in held} == set(held)
    assert {d.attempt for d in again} == {2}


def test_publishing_and_claiming_at_the_same_time_loses_and_doubles_nothing(transport, database_url):
    done = threading.Event()

    def publish():
        for _ in range(20):
            published(transport, 20)
        done.set()

    publisher = threading.Thread(target=publish)
    claims, lock = [], threading.Lock()

    def claim():
        consumer = transport.consumer("convert")
        while True:
            finished = done.is_set()
            deliveries = consumer.receive(5, NOW)
            with lock:
                claims.extend(delivery.id for delivery in deliveries)
            if finished and not deliveries:
                return

    claimers = [threading.Thread(target=claim) for _ in range(4)]
    for thread in (publisher, *claimers):
        thread.start()
    for thread in (publisher, *claimers):
        thread.join()
    assert len(claims) == len(set(claims)) == 400
