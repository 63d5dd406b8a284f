"""What long use and a long transaction of somebody else do to claims, on PostgreSQL.

    python -m benchmarks.churn bloat [--deliveries 1000000] [--modes none ordered]
    python -m benchmarks.churn snapshot [--seconds 300] [--pace 0] [--modes none exclusive ordered]

A publisher in a process of its own keeps 20,000 deliveries of 1,000 keys waiting while this one claims and completes,
in batches of 100, as fast as it can or, with ``--pace``, so many a second. ``bloat`` tells how large the tables are
that are written all the time, and what a claim costs, after each tenth of the deliveries. ``snapshot`` tells what a
claim costs before and while a transaction of somebody else is open that could still read every row that was deleted
since, and how many times as much that is as in a database without one. Times are medians in milliseconds. ``--json``
is for programs.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.crowd import MODES, key, prepare
from local_transport.tables import delivery, delivery_detail, lane, tally, touched_lane
from tests.servers.postgres import fresh_database, private_cluster
from towpath import NewMessage, connect
from towpath.settlement import Completion

ROOT = Path(__file__).parent.parent
NOW = timedelta(0)
BATCH, CALL = 100, 1_000
WARM_SECONDS = 10.0
WINDOWS = 10
SWEEP_SECONDS = 30.0
HOT = (delivery, delivery_detail, lane, touched_lane, tally)


@dataclass(slots=True)
class Window:
    """What was measured in one part of a run."""

    claims: list = field(default_factory=list)
    settles: list = field(default_factory=list)
    count: int = 0
    began: float = field(default_factory=time.monotonic)

    def figures(self):
        """Medians, and deliveries a second."""
        return {
            "claim_ms": 1_000 * statistics.median(self.claims),
            "settle_ms": 1_000 * statistics.median(self.settles),
            "deliveries": self.count / (time.monotonic() - self.began),
            "load": os.getloadavg()[0],
        }


class Worker:
    """Claims and completes, and has the publisher add what it has completed."""

    def __init__(self, transport, mode, publisher, pace):
        self._transport = transport
        self._consumer = transport.consumer(mode)
        self._publisher, self._pace = publisher, pace
        self._owed = 0
        self._swept_at = time.monotonic()

    def work(self, count):
        """Handle so many; answers what was measured."""
        window = Window()
        while window.count < count:
            self.batch(window)
        return window

    def batch(self, window):
        """Handle a batch, and wait until it is time for the next."""
        if self._pace:
            time.sleep(max(0.0, window.began + window.count / self._pace - time.monotonic()))
        start = time.perf_counter()
        held = self._consumer.receive(BATCH, NOW)
        claimed = time.perf_counter()
        if not held:
            time.sleep(0.002)  # the publisher is slower
            return
        self._consumer.complete([Completion(delivery=one) for one in held])
        window.claims.append(claimed - start)
        window.settles.append(time.perf_counter() - claimed)
        window.count += len(held)
        self._owed += len(held)
        while self._owed >= CALL:
            self._owed -= CALL
            print("more", file=self._publisher.stdin, flush=True)
        if time.monotonic() - self._swept_at > SWEEP_SECONDS:  # as a worker does, only more often
            self._transport.sweep()
            self._swept_at = time.monotonic()


def publish(url, mode, options):
    """The process beside it: a call of 1,000 for every line of standard input."""
    with connect(url) as transport:
        numbers = iter(range(1_000_000_000))

        def call():
            new = [NewMessage(payload="x" * 80, partition_key=key(next(numbers) % options.keys)) for _ in range(CALL)]
            assert {result.status for result in transport.publish(mode, new)} == {"accepted"}

        for _ in range(options.waiting // CALL):
            call()
        print("ready", flush=True)
        for _line in sys.stdin:
            call()


@contextmanager
def working(server, mode, options):
    """A worker on a new database, and the database's URL."""
    with fresh_database(server) as url:
        prepare(url)
        command = [sys.executable, "-m", "benchmarks.churn", "publish", "--url", url, "--modes", mode]
        command += ["--waiting", str(options.waiting), "--keys", str(options.keys)]
        publisher = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert publisher.stdout.readline() == "ready\n"
            with connect(url) as transport:
                yield url, Worker(transport, mode, publisher, options.pace)
        finally:
            publisher.stdin.close()
            publisher.wait(timeout=60)
            publisher.stdout.close()


# --- Bloat -------------------------------------------------------------------------------------------------------


def bloat(server, mode, options):
    """Figures after each tenth of the deliveries; ``growth`` compares the sizes after the second and the last."""
    steps = []
    size = options.deliveries // WINDOWS
    with working(server, mode, options) as (url, worker), psycopg.connect(url, autocommit=True) as connection:
        for _ in range(WINDOWS):
            window = worker.work(size)
            steps.append(window.figures() | {"bytes": _bytes(connection)})
            _tell(f"{mode}, {len(steps) * size:,} deliveries", steps[-1])
    growth = {name: steps[-1]["bytes"][name] / before for name, before in steps[1]["bytes"].items()}
    return {"steps": steps, "growth": growth}


def _bytes(connection):
    sizes = {}
    for table in HOT:
        (size,) = connection.execute("SELECT pg_total_relation_size(%s::regclass)", [table.name]).fetchone()
        sizes[table.name] = size
    return sizes | {"all": sum(sizes.values())}


# --- Somebody's open transaction ---------------------------------------------------------------------------------


def snapshot(server, mode, options):
    """Figures before, in ten windows while it is open, and after it.

    A second database, in which no transaction is open, is worked on in turn, batch for batch: what else runs on the
    machine slows both. ``factor`` is how many times as much a claim costs as there.
    """
    part = options.seconds / WINDOWS
    with working(server, mode, options) as (url, own), working(server, mode, options) as (_, control):
        windows = ["before", *[f"open, part {n + 1}" for n in range(WINDOWS)], "after"]
        steps = []
        together(own, control, min(WARM_SECONDS, part))
        with psycopg.connect(url) as other:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for when in windows:
                if when == windows[1]:
                    other.execute("SELECT count(*) FROM towpath_topic")
                if when == windows[-1]:
                    other.rollback()
                    together(own, control, min(WARM_SECONDS, part))
                steps.append(together(own, control, part))
                _tell(f"{mode}, {when}", steps[-1])
    factors = [figures["factor"] for figures in steps[1:-1]]
    return {"steps": steps, "slowest": max(factors), "at_the_end": statistics.median(factors[-3:])}


def together(own, control, seconds):
    """Figures of ``own``, with ``control`` beside it."""
    until = time.monotonic() + seconds
    window, beside = Window(), Window()
    while time.monotonic() < until:
        own.batch(window)
        control.batch(beside)
    found, least = window.figures(), beside.figures()
    return found | {"factor": found["claim_ms"] / least["claim_ms"], "control_ms": least["claim_ms"]}


# --- All ---------------------------------------------------------------------------------------------------------


def _tell(what, figures):
    more = f", {figures['bytes']['all'] / 1e6:.1f} MB" if "bytes" in figures else f" (x {figures['factor']:.2f})"
    Console(stderr=True, soft_wrap=True).print(
        f"{what}: claim {figures['claim_ms']:.2f} ms, settle {figures['settle_ms']:.2f} ms, "
        f"{figures['deliveries']:,.0f}/s{more}, load {figures['load']:.1f}"
    )


def table(found):
    """A row for each part."""
    drawn = Table("", "part", "claim ms", "settle ms", "deliveries/s", "MB or x", "load")
    for mode, figures in found.items():
        for number, step in enumerate(figures["steps"]):
            size = f"{step['bytes']['all'] / 1e6:.1f}" if "bytes" in step else f"{step['factor']:.2f}"
            times = (f"{step['claim_ms']:.2f}", f"{step['settle_ms']:.2f}", f"{step['deliveries']:,.0f}")
            drawn.add_row(mode, str(number), *times, size, f"{step['load']:.1f}")
    return drawn


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("bloat", "snapshot", "publish"))
    options.add_argument("--deliveries", type=int, default=1_000_000)
    options.add_argument("--waiting", type=int, default=20_000, help="deliveries that are there all the time")
    options.add_argument("--keys", type=int, default=1_000)
    options.add_argument("--seconds", type=float, default=300.0, help="how long the transaction stays open")
    options.add_argument("--pace", type=float, default=0.0, help="deliveries a second; 0 is as many as can be")
    options.add_argument("--modes", nargs="*", default=list(MODES), choices=list(MODES))
    options.add_argument("--json", type=Path)
    options.add_argument("--url", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.what == "publish":
        publish(chosen.url, chosen.modes[0], chosen)
        return
    measure = {"bloat": bloat, "snapshot": snapshot}[chosen.what]
    with private_cluster() as server:
        found = {mode: measure(server, mode, chosen) for mode in chosen.modes}
    Console().print(table(found))
    for mode, figures in found.items():
        rest = {name: value for name, value in figures.items() if name != "steps"}
        Console(soft_wrap=True).print(f"{mode}: {json.dumps(rest)}")
    if chosen.json:
        chosen.json.write_text(json.dumps({"cores": os.cpu_count(), chosen.what: found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
