"""The database transport beside its peers and the physical limit, on one PostgreSQL and one SQLite, in one run.

    make bench
    python -m benchmarks.database --json figures.json [--only towpath bare] [--rounds 3]

Prints a table; every figure is the median of the rounds, each in a database of its own. Durability is on.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.servers.postgres import fresh_database, private_cluster

ROOT = Path(__file__).parent.parent
SYSTEMS = {
    "postgresql": {
        "bare": "bare_postgresql",
        "towpath": "towpath_database",
        "pgqueuer": "pgqueuer_postgresql",
        "procrastinate": "procrastinate_postgresql",
        "awa": "awa_postgresql",
    },
    "sqlite": {"bare": "bare_sqlite", "towpath": "towpath_database", "huey": "huey_sqlite"},
}
BACKLOG = 20_000
ONE_BY_ONE = 2_000
PACED = 150


def measured(system, url, *arguments):
    command = [sys.executable, "-m", "benchmarks.measure", system, url, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise RuntimeError(f"{system} {arguments}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def started(system, url, idle_seconds):
    command = [sys.executable, "-m", "benchmarks.measure", system, url, "work", str(idle_seconds)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    out, problem = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(problem.strip()[-2000:])
    return json.loads(out.strip().splitlines()[-1])


def publishing(system, url, calls, size):
    found = measured(system, url, "publish", calls, size)
    return found["count"] / found["seconds"]


def draining(system, url, processes):
    """Handled a second, from the first handler's start to the last's, over all processes; nothing may be left."""
    measured(system, url, "publish", BACKLOG // 1_000, 1_000)
    workers = [started(system, url, 1.5) for _ in range(processes)]
    found = [ended(worker) for worker in workers]
    busy = [one for one in found if one["count"]]
    count = sum(one["count"] for one in busy)
    if count < BACKLOG:
        raise RuntimeError(f"{count} of {BACKLOG} were handled")
    return count / (max(one["last"] for one in busy) - min(one["first"] for one in busy))


def waiting(system, url):
    """Milliseconds from the call that publishes to the handler of an idle worker: median and 99th percentile."""
    worker = started(system, url, 4)
    worker.stderr.readline()
    measured(system, url, "pace", PACED, 0.03)
    waits = sorted(ended(worker)["waits"])
    if len(waits) < PACED:
        raise RuntimeError(f"{len(waits)} of {PACED} were handled")
    return {"p50": 1000 * statistics.median(waits), "p99": 1000 * waits[int(len(waits) * 0.99)]}


FIGURES = {
    "publish, one a call": lambda s, u: publishing(s, u, ONE_BY_ONE, 1),
    "publish, calls of 100": lambda s, u: publishing(s, u, 200, 100),
    "publish, calls of 1,000": lambda s, u: publishing(s, u, 40, 1_000),
    "drain, 1 process": lambda s, u: draining(s, u, 1),
    "drain, 2 processes": lambda s, u: draining(s, u, 2),
    "to start, ms": waiting,
}


@contextmanager
def database(kind, server):
    if kind == "postgresql":
        with fresh_database(server) as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/bench.db"


def median(values):
    if isinstance(values[0], dict):
        return {key: statistics.median(value[key] for value in values) for key in values[0]}
    return statistics.median(values)


def run(kind, server, options, console):
    figures = {}
    for name, system in SYSTEMS[kind].items():
        if options.only and name not in options.only:
            continue
        for figure, take in FIGURES.items():
            values = []
            for _ in range(options.rounds):
                with database(kind, server) as url:
                    try:
                        measured(system, url, "prepare")
                        values.append(take(system, url))
                    except (RuntimeError, subprocess.TimeoutExpired, ZeroDivisionError) as error:
                        console.print(f"[red]{kind} {name}, {figure}: {str(error)[-400:]}")
                        break
            figures.setdefault(figure, {})[name] = median(values) if len(values) == options.rounds else None
            console.print(f"{kind} {name}, {figure}: {shown(figures[figure][name])}")
    return figures


def shown(value):
    if value is None:
        return "-"
    return f"{value['p50']:.1f} / {value['p99']:.1f}" if isinstance(value, dict) else f"{value:,.0f}"


def table(kind, figures):
    names = list(dict.fromkeys(name for by_name in figures.values() for name in by_name))
    drawn = Table("", *names, title=f"{kind}, a second")
    for figure, by_name in figures.items():
        drawn.add_row(figure, *(shown(by_name.get(name)) for name in names))
    return drawn


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="where to write the figures")
    options.add_argument("--only", nargs="*", help="systems to measure; all by default")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--databases", nargs="*", default=list(SYSTEMS), choices=list(SYSTEMS))
    chosen = options.parse_args()
    console = Console(stderr=True)
    found = {"cores": os.cpu_count()}
    with private_cluster(("-cmax_connections=100",)) as server:
        for kind in chosen.databases:
            found[kind] = run(kind, server, chosen, console)
    for kind in chosen.databases:
        Console().print(table(kind, found[kind]))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
