"""What the Lambda runtime costs beside plain Powertools: ``python -m benchmarks.lambda_runtime`` prints tables.

The quickstart is bundled, with and without compiled files, and every figure is taken in fresh processes that see the
unpacked bundle and nothing else, in turn with plain Powertools from the same bundle. ``--python 3.13`` bundles for and
measures another Python of this machine; ``--json`` is for programs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bundling.archive import unpack
from bundling.build import Bundle, BundleRequest, build
from bundling.bytecode import find_interpreter
from bundling.target import Target, host_target
from bundling.uv import find_uv
from towpath.resolve import resolve
from towpath.topology import load_topology

ROOT = Path(__file__).resolve().parents[1]
QUICKSTART = ROOT / "examples" / "quickstart"
SUBSCRIPTION = "documents.convert"
QUEUE = "https://sqs.eu-west-1.amazonaws.com/000000000000/documents-convert"
POWERTOOLS = "aws_lambda_powertools.utilities.batch"
IMPORTS = {
    "bare Python": "pass",
    "Powertools' batch utility": f"import {POWERTOOLS}",
    "a bundled handler": "from lambda_runtime.entry import handler",
}
IMPORTED = """
import time
clock, processor = time.perf_counter(), time.process_time()
{statement}
clock, processor = time.perf_counter() - clock, time.process_time() - processor
import json, pathlib
status = pathlib.Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
rss = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
print(json.dumps([1000 * clock, 1000 * processor, rss[0] / 1024 if rss else 0]))
"""
# One process measures both in turn, so that a busy moment of the machine hits both. Time is the process's own.
PER_RECORD = """
import json, os, statistics, sys, time
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from lambda_runtime import sqs_handler

def nothing(message, context):
    pass

def powertools(record):
    json.loads(record["body"])

class Context:
    aws_request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    def get_remaining_time_in_millis(self):
        return 29_000

processor = BatchProcessor(event_type=EventType.SQS)
calls = {
    "plain": lambda event, context: process_partial_response(event, powertools, processor),
    "towpath": sqs_handler(nothing),
}
cases, rounds = json.load(sys.stdin)
out, sys.stdout = sys.stdout, open(os.devnull, "w")
found = {}
for name, event in cases.items():
    taken = {who: [] for who in calls}
    number = max(1, 300 // len(event["Records"]))
    for _ in range(rounds):
        for who, call in calls.items():
            context = Context()
            call(event, context)
            started = time.process_time()
            for _ in range(number):
                call(event, context)
            taken[who].append(1e6 * (time.process_time() - started) / number / len(event["Records"]))
    found[name] = {who: statistics.median(times) for who, times in taken.items()}
print(json.dumps(found), file=out)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--python", help="minor version of another Python, such as 3.13")
    parser.add_argument("--rounds", type=int, default=21, help="fresh processes for each figure of an import")
    arguments = parser.parse_args()
    own = host_target()
    target = own if arguments.python is None else Target(python=arguments.python, architecture=own.architecture)
    with tempfile.TemporaryDirectory(prefix="towpath-benchmark-") as folder:
        results = measured(Path(folder), target, arguments.rounds)
    if arguments.json:
        print(json.dumps(results))
        return
    print("\n".join(tables(results)))


def measured(folder: Path, target: Target, rounds: int) -> dict[str, Any]:
    """All figures."""
    python = find_interpreter(find_uv(QUICKSTART), target, "install it, or leave --python away")
    bundles = {how: bundled(folder / how.replace(" ", "-"), target, how) for how in ("compiled", "left out")}
    trees = {}
    for how, bundle in bundles.items():
        trees[how] = folder / f"task-{how.replace(' ', '-')}"
        unpack(bundle.path, trees[how])
    return {
        "python": target.python,
        "machine": platform.machine(),
        "imports": {how: imports(python, tree, rounds) for how, tree in trees.items()},
        "per_record_us": per_record(python, trees["compiled"]),
        "zip_bytes": {how: bundle.zip_bytes for how, bundle in bundles.items()},
        "unzipped_bytes": {how: bundle.unzipped_bytes for how, bundle in bundles.items()},
    }


def bundled(output: Path, target: Target, bytecode: Any) -> Bundle:
    """The quickstart's handler as a zip."""
    request = BundleRequest(
        name=SUBSCRIPTION,
        handlers=("quickstart.documents:process",),
        entry_point="lambda_runtime.entry.handler",
        target=target,
        project=QUICKSTART,
        output=output,
        bytecode=bytecode,
    )
    return build(request)


def environment(tree: Path) -> dict[str, str]:
    """What a function has: its variables, its own packages, and a folder that nobody writes to."""
    function = resolve(load_topology(QUICKSTART / "topology.toml"), "bench").subscriptions[SUBSCRIPTION].aws.function
    queues = dict.fromkeys(("TOWPATH_QUEUE_URL", "TOWPATH_DEAD_LETTER_QUEUE_URL"), QUEUE)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return kept | function.environment | queues | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}


def run(python: Path, tree: Path, program: str, given: str = "") -> Any:
    """What a fresh process prints as JSON."""
    command = [str(python), "-P", "-s", "-S", "-c", program]  # -P: nothing of the working folder
    ran = subprocess.run(command, env=environment(tree), input=given, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"a process failed:\n{ran.stderr}")
    return json.loads(ran.stdout)


def imports(python: Path, tree: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Medians: milliseconds, and megabytes of memory (0 where there is no /proc). The statements take turns."""
    programs = {name: IMPORTED.format(statement=statement) for name, statement in IMPORTS.items()}
    taken: dict[str, list[list[float]]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            taken[name].append(run(python, tree, program))
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}
    units = ("clock_ms", "processor_ms", "memory_mb")
    return {name: dict(zip(units, row, strict=True)) for name, row in medians.items()}


def per_record(python: Path, tree: Path, processes: int = 5) -> dict[str, dict[str, float]]:
    """Microseconds of a processor's time for a record of a handler that does nothing: medians over processes."""
    cases = {
        f"{records} of {len(body):,} bytes": {"Records": [record(n, body) for n in range(records)]}
        for records in (1, 10, 1_000)
        for body in (envelope(1), envelope(9), envelope(110))
        if records == 10 or len(body) < 2_000
    }
    rounds = [run(python, tree, PER_RECORD, json.dumps([cases, 15])) for _ in range(processes)]
    return {
        name: {who: statistics.median(turn[name][who] for turn in rounds) for who in ("plain", "towpath")}
        for name in cases
    }


def envelope(documents: int) -> str:
    """A body as the publisher writes it."""
    listed = [{"name": f"report-{n:03}.pdf", "pages": n, "owner": "someone@example.com"} for n in range(documents)]
    message = {
        "schema": "towpath/1",
        "id": "019c1234-5678-7abc-8def-0123456789ab",
        "topic": "documents.process",
        "partition_key": "tenant-acme",
        "attributes": {"kind": "pdf"},
        "correlation_id": "019c1234-5678-7abc-8def-0123456789ab",
        "published_at": "2026-01-31T08:15:00.000Z",
        "payload": {"documents": listed},
    }
    return json.dumps(message, sort_keys=True, separators=(",", ":"))


def record(number: int, body: str) -> dict[str, Any]:
    """A record as Lambda hands it over."""
    return {
        "messageId": f"2e1424d4-f796-459a-8184-{number:012}",
        "receiptHandle": "AQEBzWwaftRI0KuVm4tP+/7q1rGgNqicHq" * 6,
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1545082650636",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1545082650649",
        },
        "messageAttributes": {
            "kind": {"stringValue": "pdf", "stringListValues": [], "binaryListValues": [], "dataType": "String"}
        },
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:documents-convert",
        "awsRegion": "eu-west-1",
    }


def tables(results: dict[str, Any]) -> Iterator[str]:
    """The figures in Markdown."""
    yield f"Python {results['python']} on {results['machine']}\n"
    yield "| cold import, beyond bare Python | clock, ms | processor, ms | memory, MB |\n|---|---|---|---|"
    for how, found in results["imports"].items():
        bare = found["bare Python"]
        files = "with .pyc" if how == "compiled" else "without .pyc"
        for name in list(found)[1:]:
            beyond = [found[name][unit] - bare[unit] for unit in bare]
            yield f"| {name}, {files} | {beyond[0]:.1f} | {beyond[1]:.1f} | {beyond[2]:.1f} |"
        plain, ours = (found[name]["processor_ms"] - bare["processor_ms"] for name in list(found)[1:])
        yield f"| times as much, {files} | | {ours / plain:.2f} | |"
    yield "\n| a record, no-op handler | Powertools + json.loads, µs | Towpath, µs | times |\n|---|---|---|---|"
    for name, found in results["per_record_us"].items():
        times = found["towpath"] / found["plain"]
        yield f"| batch of {name} | {found['plain']:.1f} | {found['towpath']:.1f} | {times:.1f} |"
    yield "\n| the quickstart's zip | MB | unzipped, MB |\n|---|---|---|"
    for how, size in results["zip_bytes"].items():
        files = "with .pyc" if how == "compiled" else "without .pyc"
        yield f"| {files} | {size / 1e6:.2f} | {results['unzipped_bytes'][how] / 1e6:.2f} |"


if __name__ == "__main__":
    main()
