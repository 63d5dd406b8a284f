"""100,000 messages published from JSON Lines and drained by two worker processes: time, and memory beside 10,000.

    python -m benchmarks.drain [--databases sqlite postgresql] [--messages 10000 100000] [--json figures.json]

Each case has a database of its own, with durability on. The publisher and the two workers are processes of the command
line; their memory is the most that was resident, which the kernel tells when a process has ended. All messages must be
completed, or it fails. What the last column divides is the memory with the most messages and with the fewest.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.servers.postgres import fresh_database, private_cluster
from tests.servers.topologies import on_database
from towpath import connect

ROOT = Path(__file__).resolve().parents[1]
WORKERS = 2
HANDLER = "def handle(message, context):\n    return None\n"
ROLES = ("publisher", "worker")


def measured(url, folder, count):
    """Seconds and the most kilobytes that were resident, of the publisher and of the larger worker."""
    with connect(url) as transport:
        transport.apply(on_database({"numbers": {}}, {"sum": {"topic": "numbers", "handler": "drained:handle"}}))
    (folder / "drained.py").write_text(HANDLER)
    file = folder / f"{count}.jsonl"
    with file.open("w") as lines:
        lines.writelines(json.dumps({"number": number, "text": "x" * 80}) + "\n" for number in range(count))
    position = folder / f"{count}.position"
    publishing = ended([started(url, folder, "publish", "numbers", "--file", str(file), "--resume", str(position))])
    began = time.monotonic()
    workers = ended([started(url, folder, "work", "sum", "--idle-exit", "2") for _ in range(WORKERS)])
    with connect(url) as transport:
        (row,) = transport.operator().stats()
    assert (row.completed, row.pending, row.leased, row.dead) == (count, 0, 0, 0), row
    return {
        "publish_seconds": publishing["seconds"],
        "drain_seconds": time.monotonic() - began - 2.0,
        "publisher_kb": publishing["kilobytes"],
        "worker_kb": workers["kilobytes"],
    }


def started(url, folder, *arguments):
    """The command line in ``folder``, which says nothing."""
    environment = os.environ | {"TOWPATH_TRANSPORT": url, "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "towpath", *arguments]
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def ended(processes):
    """Once all have ended well: seconds that it took from here, and the most memory that one of them had."""
    began, most = time.monotonic(), 0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, process.args
        most = max(most, usage.ru_maxrss)
    return {"seconds": time.monotonic() - began, "kilobytes": most}


def run(options, console):
    """The figures by database and number of messages."""
    found = {}
    for kind in options.databases:
        for count in options.messages:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                url = f"sqlite:///{folder}/drain.db"
                if kind == "postgresql":
                    url = stack.enter_context(fresh_database(stack.enter_context(private_cluster())))
                    subprocess.run([sys.executable, "-m", "towpath", "db", "upgrade", "--database", url], check=True)
                found.setdefault(kind, {})[str(count)] = measured(url, folder, count)
            console.print(f"{kind}, {count:,}: {found[kind][str(count)]}")
    return found


def table(found):
    """All figures."""
    drawn = Table("", "messages", "publish, /s", "drain, /s", *(f"{role}, MB" for role in ROLES), "times the memory")
    for kind, cases in found.items():
        least = cases[min(cases, key=int)]
        for count, case in cases.items():
            memory = [f"{case[f'{role}_kb'] / 1024:.1f}" for role in ROLES]
            times = " / ".join(f"{case[f'{role}_kb'] / least[f'{role}_kb']:.2f}" for role in ROLES)
            rates = [f"{int(count) / case[f'{part}_seconds']:,.0f}" for part in ("publish", "drain")]
            drawn.add_row(kind, f"{int(count):,}", *rates, *memory, times)
    return drawn


def arguments():
    """What can be asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--json", type=Path, help="where to write the figures")
    options.add_argument("--messages", nargs="*", type=int, default=[10_000, 100_000])
    options.add_argument("--databases", nargs="*", default=["postgresql", "sqlite"], choices=["postgresql", "sqlite"])
    return options


def main():
    chosen = arguments().parse_args()
    found = run(chosen, Console(stderr=True))
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    Console(width=140).print(table(found))


if __name__ == "__main__":
    main()
