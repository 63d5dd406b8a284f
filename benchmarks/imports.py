"""What imports cost beyond bare Python: ``python benchmarks/imports.py`` prints a table, and with ``--json`` JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = "dataclasses, datetime, enum, json, re, typing"
STATEMENTS = {
    "bare Python": "pass",
    f"the standard library's {LIBRARY}": f"import {LIBRARY}",
    "`import towpath`": "import towpath",
    "`from towpath import Complete, Context, Message`": "from towpath import Complete, Context, Message",
    "`import towpath.dispatch`, as a worker does": "import towpath.dispatch",
}
ROUNDS = 41


def fresh_process(statement: str) -> tuple[float, float]:
    """Milliseconds that a new process takes for ``statement`` by the clock, and of a processor's time."""
    started = time.perf_counter()
    child = subprocess.Popen([sys.executable, "-c", statement], cwd=ROOT, env=environment())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{statement!r} failed")
    return 1000 * (time.perf_counter() - started), 1000 * (usage.ru_utime + usage.ru_stime)


def environment() -> dict[str, str]:
    """Bytecode is written in the first round and read in the others, as where a package is installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measured() -> dict[str, dict[str, float]]:
    """Medians beyond bare Python. The statements take turns, so that other work of the machine hits each alike."""
    for statement in STATEMENTS.values():
        fresh_process(statement)
    rounds = [{name: fresh_process(statement) for name, statement in STATEMENTS.items()} for _ in range(ROUNDS)]
    medians = {
        name: {
            "clock_ms": statistics.median(turn[name][0] for turn in rounds),
            "processor_ms": statistics.median(turn[name][1] for turn in rounds),
        }
        for name in STATEMENTS
    }
    bare = medians.pop("bare Python")
    return {name: {unit: round(ms - bare[unit], 1) for unit, ms in found.items()} for name, found in medians.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    as_json = parser.parse_args().json
    results = measured()
    if as_json:
        json.dump({"python": sys.version.split()[0], "machine": platform.machine(), "imports": results}, sys.stdout)
        print()
        return
    print("| beyond bare Python | clock, ms | processor, ms |\n|---|---|---|")
    for name, result in results.items():
        print(f"| {name} | {result['clock_ms']:.1f} | {result['processor_ms']:.1f} |")


if __name__ == "__main__":
    main()
